//! A true recording whose list of tables says something else, and any bytes written over its pages after that: opened and read
//! whole without a panic, without an end that does not come, and with no more rows than the file could hold.
#![no_main]

use faultline_recording::schema::TABLES;
use faultline_recording::{Error, Recording};
use libfuzzer_sys::fuzz_target;
use rusqlite::{Connection, params};
use std::fs;
use std::path::Path;

/// Bytes that a row takes at least.
const SMALLEST_ROW: u64 = 6;

/// A recording as the first version of the format wrote it.
const TRUE: &[u8] = include_bytes!("../../crates/recording/tests/fixtures/format-1.db");

/// Changes one row of the list: its statement, its kind, its name, its page, or all of it into a view.
fn change(conn: &Connection, how: u8, row: u8, text: &str) -> rusqlite::Result<usize> {
    let page = text
        .bytes()
        .fold(0_i64, |page, byte| (page * 7 + i64::from(byte)) % 200);
    let at = "WHERE rowid = ?1 + (SELECT min(rowid) FROM sqlite_schema)";
    match how % 5 {
        0 => conn.execute(
            &format!("UPDATE sqlite_schema SET sql = ?2 {at}"),
            params![row % 40, text],
        ),
        1 => conn.execute(
            &format!("UPDATE sqlite_schema SET type = ?2 {at}"),
            params![row % 40, text],
        ),
        2 => conn.execute(
            &format!("UPDATE sqlite_schema SET name = ?2, tbl_name = ?2 {at}"),
            params![row % 40, text],
        ),
        3 => conn.execute(
            &format!("UPDATE sqlite_schema SET rootpage = ?2 {at}"),
            params![row % 40, page],
        ),
        _ => {
            let sql = format!(
                "UPDATE sqlite_schema SET type = 'view', rootpage = 0, sql = 'CREATE VIEW ' || name || ' AS ' || ?2 {at}"
            );
            conn.execute(&sql, params![row % 40, text])
        }
    }
}

/// Fails if a recording that is opened gives more than it can hold.
fn read(path: &Path) {
    let most = fs::metadata(path).expect("the recording").len() / SMALLEST_ROW;
    let Ok(recording) = Recording::open(path) else {
        return;
    };
    let _ = (
        recording.info(),
        recording.progress(),
        recording.sessions(),
        recording.processes(),
    );
    let _ = (recording.problems(), recording.program_cache_points());
    let counts = [
        recording.ticks().map(|rows| rows.len()),
        recording.events().map(|rows| rows.len()),
        recording.pools().map(|rows| rows.len()),
        recording.series().map(|rows| rows.len()),
    ];
    assert!(
        counts.into_iter().flatten().all(|rows| rows as u64 <= most),
        "more rows than fit"
    );
    for table in TABLES.iter() {
        let mut found = 0;
        let _ = recording.rows(table.name, 100, |rows| {
            found += rows.len() as u64;
            Ok::<(), Error>(())
        });
        assert!(found <= most, "{found} rows of {}", table.name);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a folder");
    let path = folder.path().join("run.db");
    fs::write(&path, TRUE).expect("a recording");
    // Behind the last zero, pieces of four bytes: three of a place, one to be there. Before it, changes.
    let (changes, damage) = match bytes.iter().rposition(|byte| *byte == 0) {
        Some(zero) => (&bytes[..zero], &bytes[zero + 1..]),
        None => (bytes, &[][..]),
    };
    {
        let conn = Connection::open(&path).expect("a connection");
        conn.execute_batch("PRAGMA synchronous = OFF; PRAGMA writable_schema = ON")
            .expect("a list that can be written");
        for piece in changes.split(|byte| *byte == 0) {
            let [how, row, text @ ..] = piece else {
                continue;
            };
            // What SQLite itself refuses stays as it was.
            let _ = change(&conn, *how, *row, &String::from_utf8_lossy(text));
        }
    }
    let damaged = faultline_fuzz::damaged(&fs::read(&path).expect("a recording"), damage);
    fs::write(&path, &damaged).expect("a recording");
    read(&path);
});
