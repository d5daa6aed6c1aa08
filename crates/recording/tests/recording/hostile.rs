//! Malicious files are refused with the reason, or read at a cost that their size bounds.

use crate::made_up::{arm, finished, folder, synthetic_run::SyntheticRun};
use faultline_recording::{Error, EventKind, PerTickTable, Recording, Writer, backup, merge};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::mpsc,
    time::Duration,
};
use tempfile::TempDir;

const PAGE: usize = 4096;

/// The variable with the file that a child reads in [`measure_reader_memory`].
const ORDER: &str = "FAULTLINE_HOSTILE_FILE";

/// An endless table.
const ENDLESS: &str = "ALTER TABLE event RENAME TO elsewhere;
    CREATE VIEW event(id, session, unix_ns, uptime_ns, kind, process, detail) AS
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, 1, i, i, 'mark', NULL, 'x' FROM n";

/// A finished recording of some seconds, changed by SQL.
fn changed(sql: &str) -> (TempDir, PathBuf) {
    let folder = folder();
    let path = folder.path().join("run.db");
    finished(&path, arm(60));
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute_batch("PRAGMA journal_mode = DELETE; PRAGMA foreign_keys = OFF")
        .unwrap();
    conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false)
        .unwrap();
    conn.execute_batch(sql)
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    (folder, path)
}

/// Calls all methods of a reader; returns the first error.
fn read_all(path: &Path) -> Result<(), Error> {
    let recording = Recording::open(path)?;
    let mut first = Ok(());
    let mut note = |result: Result<(), Error>| {
        if first.is_ok() {
            first = result;
        }
    };
    note(recording.info().map(drop));
    note(recording.progress().map(drop));
    note(recording.ticks().map(drop));
    note(recording.events().map(drop));
    note(recording.problems().map(drop));
    note(recording.problems_at_end().map(drop));
    note(recording.pools().map(drop));
    note(recording.series().map(drop));
    note(recording.replay_slot_points().map(drop));
    for table in PerTickTable::ALL {
        let names: Vec<&str> = table.columns().iter().map(|column| column.name).collect();
        note(recording.columns(table, &names).map(drop));
        note(recording.rows_of_ticks(table, 0, i64::MAX).map(drop));
    }
    for table in faultline_recording::schema::TABLES.iter() {
        note(recording.rows(table.name, 100, |_| Ok::<(), Error>(())));
    }
    first
}

/// Runs `work` with a deadline for endless files. Usually it takes a fraction of a second.
fn with_deadline<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let worker = std::thread::spawn(move || sender.send(work()));
    let message = receiver
        .recv_timeout(Duration::from_secs(120))
        .expect("it does not end");
    worker.join().unwrap().unwrap();
    message
}

fn read_in_time(path: &Path) -> Result<(), Error> {
    let path = path.to_owned();
    with_deadline(move || read_all(&path))
}

#[test]
fn views_and_triggers_in_a_recording_are_refused_by_name() {
    for (sql, says) in NO_PLAIN_TABLES {
        let (folder, path) = changed(sql);
        let bytes = fs::read(&path).unwrap();
        let error_text = |result: Result<(), Error>| match result {
            Err(error @ Error::Refused { .. }) => error.to_string(),
            other => panic!("{sql}: {other:?}"),
        };
        let to = |name: &str| folder.path().join(name);
        assert!(
            error_text(read_in_time(&path)).contains(says),
            "{sql}: {}",
            error_text(read_all(&path))
        );
        error_text(backup(&path, &to("copy.db"), &[], |_, _| ()));
        error_text(merge(&[path.clone(), path.clone()], &to("joined.db")).map(drop));
        error_text(Writer::append(&path, &SyntheticRun::new(arm(1)).header()).map(drop));
        assert!(fs::read(&path).unwrap() == bytes, "{sql}: it was changed");
    }
}

/// SQL that changes a recording, and a part of the error.
const NO_PLAIN_TABLES: [(&str, &str); 18] = [
    (
        ENDLESS,
        "`event` is a view; a recording has only tables and indexes",
    ),
    (
        "CREATE VIEW mine AS SELECT 1",
        "`mine` is a view; a recording has only tables and indexes",
    ),
    (
        "CREATE TRIGGER twice AFTER INSERT ON session BEGIN DELETE FROM tick; END",
        "`twice` is a trigger; a recording has only tables and indexes",
    ),
    (
        "CREATE VIRTUAL TABLE notes USING fts5(x)",
        "`notes` is a virtual table; a recording has only plain ones",
    ),
    (
        "DROP TABLE problem; CREATE VIRTUAL TABLE problem USING fts5(tick, source, status, what)",
        "`problem` is a virtual table",
    ),
    (
        "ALTER TABLE tick ADD COLUMN twice TEXT AS (phase || phase)",
        "the column `twice` of `tick` is declared as `TEXT AS (phase || phase)`, otherwise than in a recording",
    ),
    (
        "ALTER TABLE event ADD COLUMN more TEXT DEFAULT 'x'",
        "declared as `TEXT DEFAULT \\'x\\'`",
    ),
    (
        "DROP TABLE label; CREATE TABLE label(key TEXT PRIMARY KEY, value TEXT NOT NULL CHECK (value > 1))",
        "the column `value` of `label` is declared as `TEXT NOT NULL CHECK (value > 1)`",
    ),
    (
        "DROP TABLE event; CREATE TABLE event AS SELECT 1 AS id",
        "`event`",
    ),
    (
        "DROP TABLE event; CREATE TABLE Event(id INTEGER PRIMARY KEY)",
        "`event` is declared otherwise than in a recording",
    ),
    (
        "CREATE INDEX lengths ON event(length(detail))",
        "`lengths` is an index of an expression",
    ),
    (
        "CREATE INDEX some ON event(kind) WHERE kind > 'a'",
        "`some` is an index of an expression or of some rows",
    ),
    (
        "ALTER TABLE event DROP COLUMN unix_ns",
        "`event` has no column `unix_ns`",
    ),
    (
        "ALTER TABLE event DROP COLUMN process",
        "`event` has no column `process`",
    ),
    (
        "ALTER TABLE tick DROP COLUMN phase",
        "`tick` has no column `phase`",
    ),
    (
        "ALTER TABLE session DROP COLUMN ended_unix_ns",
        "`session` has no column `ended_unix_ns`",
    ),
    ("DROP TABLE event", "its table `event` is missing"),
    (
        "CREATE VIEW \"a\u{1b}[2J\u{202e}b\" AS SELECT 1",
        "`a\\u{1b}[2J\\u{202e}b` is a view",
    ),
];

#[test]
fn tables_added_by_an_operator_or_later_version_are_ignored() {
    let (_folder, path) = changed(
        "CREATE TABLE notes(text ANY DEFAULT 'x', twice AS (text || text)); INSERT INTO notes VALUES('seen');
         CREATE INDEX by_phase ON tick(phase); CREATE UNIQUE INDEX \"by unix\" ON tick (unix_ns, id);
         ALTER TABLE tick ADD COLUMN later INTEGER; ALTER TABLE series ADD COLUMN help TEXT;
         CREATE TABLE later(id INTEGER PRIMARY KEY); ANALYZE",
    );
    read_all(&path).unwrap();
    assert_eq!(Recording::open(&path).unwrap().ticks().unwrap().len(), 60);
    let mut synthetic = SyntheticRun::new(arm(60));
    let writer = Writer::append(&path, &synthetic.header()).unwrap();
    while synthetic.next().is_some() {}
    writer.finish(synthetic.ended()).unwrap();
    read_all(&path).unwrap();
}

#[test]
fn an_sql_statement_in_the_table_list_is_not_executed() {
    let elsewhere = folder();
    let made = elsewhere.path().join("made");
    for statement in [
        format!("VACUUM INTO '{}'", made.display()),
        format!("ATTACH '{}' AS x", made.display()),
    ] {
        let (_folder, path) = changed(&format!(
            "PRAGMA writable_schema = ON;
             UPDATE sqlite_schema SET sql = '{}' WHERE name = 'tick'",
            statement.replace('\'', "''")
        ));
        assert!(read_all(&path).is_err());
        assert!(!made.exists(), "{statement} was run");
    }
}

#[test]
fn an_overlong_recording_value_is_refused() {
    let (_folder, path) = changed(&format!(
        "UPDATE event SET detail = zeroblob({}) WHERE id = 2",
        17 << 20
    ));
    let error = read_in_time(&path).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("one of its values is longer than any that faultline writes"),
        "{error}"
    );
    // The maximum length of a manifest.
    let text = format!(
        "UPDATE process SET manifest = '\"' || replace(hex(zeroblob({})), '00', 'xx') || '\"'",
        7 << 20
    );
    read_all(&changed(&text).1).unwrap();
}

#[test]
fn an_overlong_database_schema_is_refused() {
    let (_folder, path) = changed(&format!(
        "CREATE TABLE wide(x TEXT DEFAULT '{}')",
        "x".repeat(100_000)
    ));
    let error = read_in_time(&path).unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
}

/// A page of a table that has nothing but `count` references to one page below.
fn interior(below: u32, count: u16) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    page[0] = 5;
    page[3..5].copy_from_slice(&count.to_be_bytes());
    page[8..12].copy_from_slice(&below.to_be_bytes());
    let begin = PAGE - usize::from(count) * 6;
    page[5..7].copy_from_slice(&(begin as u16).to_be_bytes());
    for cell in 0..usize::from(count) {
        let at = begin + 6 * cell;
        page[12 + 2 * cell..14 + 2 * cell].copy_from_slice(&(at as u16).to_be_bytes());
        page[at..at + 4].copy_from_slice(&below.to_be_bytes());
        // The key, in two bytes.
        page[at + 4..at + 6].copy_from_slice(&[0x80 | (cell >> 7) as u8, (cell & 0x7f) as u8]);
    }
    page
}

/// The recording with additional pages: a scan of `table` reaches the page that began the table 400 to the power of four
/// times.
fn endless(table: &str) -> (TempDir, PathBuf) {
    let (folder, path) = changed("SELECT 1");
    let conn = rusqlite::Connection::open(&path).unwrap();
    let sql = format!("SELECT rootpage FROM sqlite_schema WHERE name = '{table}'");
    let root = conn
        .query_row(&sql, [], |row| row.get::<_, u32>(0))
        .unwrap() as usize;
    drop(conn);
    let mut bytes = fs::read(&path).unwrap();
    let pages = (bytes.len() / PAGE) as u32;
    let old = bytes[(root - 1) * PAGE..root * PAGE].to_vec();
    bytes.extend(old);
    for level in 1..4 {
        bytes.extend(interior(pages + level, 400));
    }
    bytes[(root - 1) * PAGE..root * PAGE].copy_from_slice(&interior(pages + 4, 400));
    bytes[28..32].copy_from_slice(&(pages + 4).to_be_bytes());
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

#[test]
fn cyclic_database_pages_do_not_yield_an_endless_table() {
    for table in [
        "tick",
        "event",
        "process_sample",
        "pool_sample",
        "problem",
        "series_sample",
        "replay_slot_point",
    ] {
        let (folder, path) = endless(table);
        let error = read_in_time(&path).unwrap_err();
        assert!(
            matches!(error, Error::Refused { .. } | Error::Damaged { .. }),
            "{table}: {error}"
        );
        let (from, joined) = (path.clone(), folder.path().join("joined.db"));
        with_deadline(move || merge(&[from.clone(), from], &joined)).unwrap_err();
        let (from, header) = (path.clone(), SyntheticRun::new(arm(60)).header());
        with_deadline(move || Writer::append(&from, &header).map(drop)).unwrap_err();
    }
}

#[test]
fn merging_extreme_numbers_never_panics() {
    let (folder, path) = changed(
        "UPDATE tick SET id = 9223372036854775807 WHERE id = 60; UPDATE event SET id = -9223372036854775808 WHERE id = 2;
         UPDATE session SET started_unix_ns = 9223372036854775807, ended_unix_ns = 9223372036854775807",
    );
    read_all(&path).unwrap();
    let other = folder.path().join("other.db");
    finished(&other, arm(60));
    let _ = merge(&[path, other], &folder.path().join("joined.db"));
}

/// No test, but the child process of [`a_hostile_recording_uses_bounded_memory`].
#[test]
fn measure_reader_memory() {
    let Ok(path) = env::var(ORDER) else {
        return;
    };
    let path = Path::new(&path);
    let read = read_all(path);
    let kinds = Recording::open(path).and_then(|recording| recording.events());
    let marks = kinds.map(|events| {
        events
            .iter()
            .filter(|event| event.kind == EventKind::Mark)
            .count()
    });
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    println!(
        "\nread {} marks {} peak {}",
        read.is_ok(),
        marks.is_ok(),
        peak.trim()
    );
}

/// Peak memory of a reader in KiB.
fn peak(path: &Path) -> u64 {
    let output = Command::new(env::current_exe().unwrap())
        .args(["hostile::measure_reader_memory", "--exact", "--nocapture"])
        .env(ORDER, path)
        .output()
        .unwrap();
    let output_text = String::from_utf8(output.stdout).unwrap();
    let line = output_text
        .lines()
        .find(|line| line.starts_with("read "))
        .unwrap_or_else(|| panic!("{output_text}"));
    println!("{}: {line}", path.display());
    line.split_whitespace()
        .rev()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn a_hostile_recording_uses_bounded_memory() {
    let (_folder, sound) = changed("SELECT 1");
    let usual = peak(&sound);
    let blob = format!(
        "UPDATE event SET detail = zeroblob({}) WHERE id = 2",
        200 << 20
    );
    for (_folder, path) in [
        changed(&blob),
        changed(ENDLESS),
        endless("event"),
        endless("tick"),
    ] {
        let more = peak(&path).saturating_sub(usual);
        assert!(
            more < 64 << 10,
            "{more} KiB more than for a sound recording"
        );
    }
}

/// With the numbers of SECURITY-FILES.
#[test]
fn many_short_rows_and_json_objects_use_memory_in_proportion_to_the_file() {
    let (_folder, sound) = changed("SELECT 1");
    let usual = peak(&sound);
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 300000)";
    let event = "INSERT INTO event(session, unix_ns, uptime_ns, kind, process, detail)";
    let objects = "'[' || replace(hex(zeroblob(8000)), '00', '{\"\":0},') || '0]'";
    for (times, rows) in [
        (
            20,
            format!("INSERT INTO problem {numbers} SELECT 1, printf('%x', i), 'x', '' FROM n"),
        ),
        (
            20,
            format!("INSERT INTO problem {numbers} SELECT i % 60, 's', 'x', '' FROM n"),
        ),
        (
            20,
            format!("{event} {numbers} SELECT 1, 1, 1, 'x', 1, '' FROM n"),
        ),
        (
            100,
            format!("{event} {numbers} SELECT 1, 1, 1, 'x', 1, '{{\"\":0}}' FROM n"),
        ),
        (
            100,
            format!("{event} {numbers} SELECT 1, 1, 1, 'x', 1, {objects} FROM n LIMIT 100"),
        ),
    ] {
        let (_folder, path) = changed(&rows);
        let more = 1024 * peak(&path).saturating_sub(usual);
        let bytes = path.metadata().unwrap().len();
        assert!(more < times * bytes, "{more} for {bytes} of: {rows}");
    }
}

/// Text in columns of numbers is not counted against the file's size, so it must end the read.
#[test]
fn text_in_a_column_of_numbers_is_an_error() {
    for (column, kind) in [
        ("pool_sample.pool", "Text"),
        ("pool_sample.threads", "Text"),
        ("pool_sample.cpu_user_seconds", "Blob"),
        ("process_sample.threads", "Text"),
        ("replay_slot_point.unix_ns", "Text"),
        ("replay_slot_point.slot", "Blob"),
        ("series_sample.series", "Text"),
        ("series_sample.value", "Text"),
        ("tick.number", "Text"),
    ] {
        let (table, name) = column.split_once('.').unwrap();
        let value = if kind == "Text" { "'many'" } else { "x'00'" };
        let (_folder, path) = changed(&format!("UPDATE {table} SET {name} = {value}"));
        let error = read_all(&path).expect_err(column).to_string();
        assert!(
            error.contains("run.db")
                && error.contains(&format!("is of type {kind}, which no version")),
            "{column}: {error}"
        );
    }
}

#[test]
fn event_texts_are_read_up_to_64_kib_and_unknown_kinds_shortened() {
    let long =
        "UPDATE event SET detail = 'a' || replace(hex(zeroblob(100000)), '0', 'ä') WHERE id = 2";
    let (_folder, path) = changed(long);
    let events = Recording::open(&path).unwrap().events().unwrap();
    let detail = |event: &faultline_recording::EventRow| event.detail.as_str().map(str::to_owned);
    let lengths: Vec<usize> = events
        .iter()
        .filter_map(detail)
        .map(|text| text.len())
        .collect();
    assert_eq!(lengths, [(64 << 10) - 1]);
    let long = "INSERT INTO problem SELECT 1, 'target', 'absent', hex(zeroblob(100000))";
    let (_folder, path) = changed(long);
    let problems = Recording::open(&path).unwrap().problems().unwrap();
    let longest = problems
        .iter()
        .filter_map(|row| row.what.as_ref().map(String::len))
        .max();
    assert_eq!(longest, Some(64 << 10));
    let (_folder, path) = changed("UPDATE event SET kind = hex(zeroblob(100000)) WHERE id = 2");
    let events = Recording::open(&path).unwrap().events().unwrap();
    let lengths = events.iter().map(|event| event.kind.len());
    assert_eq!(lengths.max(), Some(64));
}
