//! Saves rows out of a damaged recording.

mod pages;
mod record;
mod scan;

use crate::error::{At, Error};
use crate::file::{self, HEADER, Part, beside, length};
use crate::schema::{APPLICATION_ID, FORMAT, Role, TABLES, TableSpec};
use crate::writer::{end, make_tables};
use pages::Pages;
use rusqlite::{Connection, OptionalExtension};
use scan::Layout;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

/// What a writer that was killed leaves beside the file.
const LOGS: [&str; 2] = ["-wal", "-journal"];

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
/// not at all, but for a manifest or an event's detail, which is left empty if its own part of the file is missing or
/// damaged. Rows whose tick is lost are lost, as nothing tells their time.
///
/// What is out of place is not saved: a row whose number does not lie between its neighbours', whose length, number of
/// values or kinds of values are not its table's. A number that was changed within a row cannot be told: a recording has
/// no checksums. Nor can whole pages of `set_root_point` and `cost_tracker_point` that took each other's place: their
/// rows are alike.
///
/// Every page is looked at once per table at most and gives its rows once, so that the work and the result are bounded by
/// the file's size whatever is in it.
///
/// # Errors
///
/// [`Error::NotARecording`], [`Error::Newer`], [`Error::Empty`]; [`Error::Lost`] if not even the list of tables or the
/// session can be read; [`Error::Full`] if there is not as much room beside `to` as `from` takes, twice that if its
/// writer left a log.
pub fn salvage(from: &Path, to: &Path) -> Result<Salvaged, Error> {
    let header = file::header(from).at(from)?;
    check_is_database(from, &header)?;
    let part = Part::new(to)?;
    check_room(from, to)?;
    // Where a log lies beside it, the log is taken in: by a copy.
    let merged = if has_log(from) {
        Some(merged(from, to)?)
    } else {
        None
    };
    let source = merged.as_ref().map_or(from, Part::path);
    check_format(from, &file::header(source).at(from)?)?;
    let mut pages = Pages::open(source)?;

    File::create_new(part.path()).at(part.path())?;
    let saved = file::open_to_write(part.path(), &file::RECORDING)?;
    make_tables(&saved, &BTreeMap::new()).at(to)?;
    let layout = Layout::read(&mut pages, &saved).at(to)?;
    saved
        .execute_batch("PRAGMA synchronous = OFF; BEGIN")
        .at(to)?;
    for table in TABLES.iter() {
        scan::table(&mut pages, &layout, &saved, table, to)?;
    }
    let counted = counted(&saved);
    drop_orphans(&saved).at(to)?;
    saved.execute_batch("COMMIT").at(to)?;
    if rows(&saved, "session").at(to)? == 0 {
        return Err(no_beginning(from));
    }
    let tables = TABLES.iter().map(|table| {
        let kept = rows(&saved, table.name).at(to)?;
        let lost = counted
            .as_ref()
            .and_then(|counted| counted.get(table.name))
            .map(|had| had.saturating_sub(kept));
        Ok(SalvagedTable {
            name: table.name,
            kept,
            lost,
        })
    });
    let salvaged = Salvaged {
        tables: tables.collect::<Result<_, Error>>()?,
    };
    let name = from.file_name().unwrap_or_default().to_string_lossy();
    end(&saved, &[("salvaged_from", &name)]).at(to)?;
    saved
        .close()
        .map_err(|(_, error)| Error::sqlite(to, error))?;
    part.publish()?;
    Ok(salvaged)
}

fn no_beginning(from: &Path) -> Error {
    let what =
        "the beginning of the file is missing, and the rest cannot be interpreted without it"
            .to_owned();
    Error::Lost {
        path: from.to_owned(),
        what,
    }
}

fn check_is_database(from: &Path, header: &[u8; HEADER]) -> Result<(), Error> {
    let path = || from.to_owned();
    if !from.is_file() {
        return Err(Error::NotARecording {
            path: path(),
            found: "a folder or a device".into(),
        });
    }
    if length(from) == 0 {
        return Err(Error::Empty { path: path() });
    }
    let magic = b"SQLite format 3\0";
    if length(from) < HEADER as u64
        && length(from) >= magic.len() as u64
        && header.starts_with(magic)
    {
        return Err(no_beginning(from));
    }
    if !header.starts_with(magic) {
        return Err(Error::NotARecording {
            path: path(),
            found: "no SQLite database".into(),
        });
    }
    Ok(())
}

fn check_format(from: &Path, header: &[u8; HEADER]) -> Result<(), Error> {
    let path = || from.to_owned();
    let number = |at: usize| {
        i32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    if number(68) != APPLICATION_ID {
        return Err(Error::NotARecording {
            path: path(),
            found: "another program's SQLite database".into(),
        });
    }
    if number(60) > FORMAT {
        return Err(Error::Newer {
            path: path(),
            found: number(60),
            known: FORMAT,
        });
    }
    Ok(())
}

fn has_log(from: &Path) -> bool {
    LOGS.iter().any(|suffix| length(&beside(from, suffix)) > 0)
}

/// Fails if the result could find no room.
fn check_room(from: &Path, to: &Path) -> Result<(), Error> {
    let folder = to
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let room = rustix::fs::statvfs(folder)
        .map_err(std::io::Error::from)
        .at(folder)?;
    let logs: u64 = LOGS
        .iter()
        .map(|suffix| length(&beside(from, suffix)))
        .sum();
    let whole = length(from) + logs;
    let wanted = if logs > 0 { 2 * whole + logs } else { whole };
    if room.f_bavail.saturating_mul(room.f_frsize) < wanted {
        return Err(Error::Full {
            path: to.to_owned(),
        });
    }
    Ok(())
}

/// A copy of the file that has taken in its log, as far as the log is whole. Removed with the value.
fn merged(from: &Path, to: &Path) -> Result<Part, Error> {
    let part = Part::new(&beside(to, ".damaged"))?;
    let copy = |from: &Path, to: &Path| -> Result<File, Error> {
        let mut target = File::create_new(to).at(to)?;
        std::io::copy(&mut File::open(from).at(from)?, &mut target).at(to)?;
        Ok(target)
    };
    let header = file::header(from).at(from)?;
    let database = copy(from, part.path())?;
    let (have, size) = (length(from), file::page_size(&header));
    let want = file::pages(&header).saturating_mul(size);
    // SQLite refuses a file that is shorter than it says. A hole takes no room.
    if have < want && size > 0 {
        // Not a part of a page either: what is missing of it would be read as zeros.
        database.set_len(have / size * size).at(to)?;
        database.set_len(want).at(to)?;
    }
    for suffix in LOGS {
        let (from, to) = (beside(from, suffix), beside(part.path(), suffix));
        if length(&from) > 0 {
            copy(&from, &to)?;
        }
    }
    // What cannot be taken in is lost: the rest is not.
    if let Ok(guarded) = file::open_to_recover(part.path(), from, &file::RECORDING) {
        let _ = guarded
            .connection()
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    }
    Ok(part)
}

/// How many rows the writer had counted.
fn counted(conn: &Connection) -> Option<BTreeMap<String, u64>> {
    let sql = "SELECT value FROM meta WHERE key = 'rows'";
    let text: String = conn
        .query_row(sql, [], |row| row.get(0))
        .optional()
        .ok()??;
    serde_json::from_str(&text).ok()
}

fn rows(conn: &Connection, table: &str) -> rusqlite::Result<u64> {
    let rows: i64 = conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
        row.get(0)
    })?;
    Ok(u64::try_from(rows).unwrap_or(0))
}

/// Removes rows that point at a tick which is lost.
fn drop_orphans(conn: &Connection) -> rusqlite::Result<()> {
    let of_tick = |table: &&TableSpec| {
        table.name != "tick" && table.columns.iter().any(|c| c.role == Role::Tick)
    };
    for table in TABLES.iter().filter(of_tick) {
        let sql = format!(
            "DELETE FROM {} WHERE tick NOT NULL AND tick NOT IN (SELECT id FROM tick)",
            table.name
        );
        conn.execute(&sql, [])?;
    }
    Ok(())
}
