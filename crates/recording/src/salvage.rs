//! Saves rows out of a damaged recording.

mod scan;

use crate::error::{At, Error};
use crate::file::{self, HEADER, Part, beside, length};
use crate::schema::{APPLICATION_ID, FORMAT, Role, TABLES, TableSpec};
use crate::writer::{end, make_tables};
use rusqlite::{Connection, OptionalExtension};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

/// What a salvage saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Salvaged {
    /// Every table.
    pub tables: Vec<SalvagedTable>,
}

/// What a salvage saved of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SalvagedTable {
    /// Its name.
    pub name: &'static str,
    /// Rows saved.
    pub kept: u64,
    /// Rows lost, of those the writer had counted at its last checkpoint or at its end. `None` if that count is lost too,
    /// or if it never came to one.
    pub lost: Option<u64>,
}

/// Writes what can still be read of `from` into a new, finished recording; `from` stays as it is. A row is saved whole or
/// not at all, but for a manifest or an event's detail, which is left empty if its own part of the file is missing. Rows
/// whose tick is lost are lost, as nothing tells their time.
///
/// # Errors
///
/// [`Error::NotARecording`], [`Error::Newer`], [`Error::Empty`]; [`Error::Damaged`] if not even the list of tables or the
/// session can be read. Needs room for two copies beside `to` while it works.
pub fn salvage(from: &Path, to: &Path) -> Result<Salvaged, Error> {
    check(from)?;
    let part = Part::new(to)?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let scratch = tempfile::Builder::new().prefix(".faultline-salvage-").tempdir_in(folder).at(folder)?;
    let copy = scratch.path().join("damaged");
    copy_whole(from, &copy)?;
    let damaged = file::open_to_write(&copy).map_err(|_| no_beginning(from))?;
    damaged.pragma_update(None, "cell_size_check", true).at(from)?;
    let counted = counted(&damaged);

    File::create_new(part.path()).at(part.path())?;
    let saved = file::open_to_write(part.path())?;
    make_tables(&saved, &BTreeMap::new()).at(to)?;
    saved.execute_batch("PRAGMA synchronous = OFF; BEGIN").at(to)?;
    for table in TABLES.iter() {
        scan::table(&damaged, &saved, table, &Naming { from, to })?;
    }
    drop_orphans(&saved).at(to)?;
    saved.execute_batch("COMMIT").at(to)?;
    if rows(&saved, "session").at(to)? == 0 {
        return Err(no_beginning(from));
    }
    let tables = TABLES.iter().map(|table| {
        let kept = rows(&saved, table.name).at(to)?;
        let lost = counted.as_ref().and_then(|counted| counted.get(table.name)).map(|had| had.saturating_sub(kept));
        Ok(SalvagedTable { name: table.name, kept, lost })
    });
    let salvaged = Salvaged { tables: tables.collect::<Result<_, Error>>()? };
    let name = from.file_name().unwrap_or_default().to_string_lossy();
    end(&saved, &[("salvaged_from", &name)]).at(to)?;
    saved.close().map_err(|(_, error)| Error::sqlite(to, error))?;
    part.publish()?;
    Ok(salvaged)
}

fn no_beginning(from: &Path) -> Error {
    let what = "the beginning of the file is missing, and without it nothing tells what the rest means".to_owned();
    Error::Damaged { path: from.to_owned(), what }
}

/// Which file an error is about.
struct Naming<'a> {
    from: &'a Path,
    to: &'a Path,
}

fn check(from: &Path) -> Result<(), Error> {
    let path = || from.to_owned();
    let header: [u8; HEADER] = file::header(from).at(from)?;
    let number = |at: usize| i32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    if length(from) == 0 {
        return Err(Error::Empty { path: path() });
    }
    if !header.starts_with(b"SQLite format 3\0") {
        return Err(Error::NotARecording { path: path(), found: "no SQLite database".into() });
    }
    if number(68) != APPLICATION_ID {
        return Err(Error::NotARecording { path: path(), found: "another program's SQLite database".into() });
    }
    if number(60) > FORMAT {
        return Err(Error::Newer { path: path(), found: number(60), known: FORMAT });
    }
    Ok(())
}

/// Copies the file with its log, and fills up with zeros what is missing at its end: SQLite refuses a file that is shorter
/// than it says, and calls a page of zeros damaged when it comes to it.
fn copy_whole(from: &Path, to: &Path) -> Result<(), Error> {
    let copy = |from: &Path, to: &Path| -> Result<File, Error> {
        let mut target = File::create_new(to).at(to)?;
        std::io::copy(&mut File::open(from).at(from)?, &mut target).at(to)?;
        Ok(target)
    };
    let header = file::header(from).at(from)?;
    let database = copy(from, to)?;
    let (have, size) = (length(from), file::page_size(&header));
    let want = file::pages(&header) * size;
    if have < want && size > 0 {
        // Not a part of a page either: what is missing of it would be read as zeros.
        database.set_len(have / size * size).at(to)?;
        database.set_len(want).at(to)?;
    }
    for suffix in ["-wal", "-journal"] {
        let (from, to) = (beside(from, suffix), beside(to, suffix));
        if length(&from) > 0 {
            copy(&from, &to)?;
        }
    }
    Ok(())
}

/// How many rows the writer had counted.
fn counted(conn: &Connection) -> Option<BTreeMap<String, u64>> {
    let sql = "SELECT value FROM meta NOT INDEXED WHERE key = 'rows'";
    let text: String = conn.query_row(sql, [], |row| row.get(0)).optional().ok()??;
    serde_json::from_str(&text).ok()
}

fn rows(conn: &Connection, table: &str) -> rusqlite::Result<u64> {
    let rows: i64 = conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))?;
    Ok(u64::try_from(rows).unwrap_or(0))
}

/// Removes rows that point at a tick which is lost.
fn drop_orphans(conn: &Connection) -> rusqlite::Result<()> {
    let of_tick = |table: &&TableSpec| table.name != "tick" && table.columns.iter().any(|c| c.role == Role::Tick);
    for table in TABLES.iter().filter(of_tick) {
        let sql = format!("DELETE FROM {} WHERE tick NOT NULL AND tick NOT IN (SELECT id FROM tick)", table.name);
        conn.execute(&sql, [])?;
    }
    Ok(())
}
