//! Reads a damaged table around its holes.

use super::Naming;
use crate::error::{At, Error};
use crate::file;
use crate::reader::cells;
use crate::schema::{Kind, Role, TableSpec};
use rusqlite::{CachedStatement, Connection, ErrorCode};

/// No table has rows beyond: a point every microsecond for a century.
const LAST_ROW: i64 = 1 << 52;

/// Copies every row that can be read.
pub(super) fn table(from: &Connection, to: &Connection, table: &TableSpec, naming: &Naming<'_>) -> Result<(), Error> {
    // Without a list of columns, those of this version are tried.
    let present = file::present(from).ok().filter(|present| present.contains_key(table.name));
    let names = table.columns.iter().map(|column| column.name);
    let names = present.map_or_else(|| table.names(), |present| file::list(&present, table.name, names));
    let insert = table.insert().replacen("INSERT", "INSERT OR IGNORE", 1);
    copy(from, to, &(&names, &insert, table), naming)?;
    // The text at a row's end may lie on pages of its own: the rest of the row is worth more than nothing.
    if let Some(last) = table.columns.last().filter(|last| last.kind == Kind::Text && is_few(table)) {
        let short = names.strip_suffix(last.name).unwrap_or(&names).to_owned() + "'{}'";
        copy(from, to, &(&short, &insert, table), naming)?;
    }
    Ok(())
}

/// Tables with an id of their own and a JSON text at the end.
fn is_few(table: &TableSpec) -> bool {
    let roles = [Role::Session, Role::Process, Role::Event];
    table.columns.first().is_some_and(|first| roles.contains(&first.role))
}

fn copy(
    from: &Connection,
    to: &Connection,
    (names, insert, table): &(&String, &String, &TableSpec),
    naming: &Naming<'_>,
) -> Result<(), Error> {
    let select = format!("SELECT rowid, {names} FROM {0} NOT INDEXED WHERE rowid >= ?1 ORDER BY rowid", table.name);
    let probe = format!("SELECT rowid FROM {0} NOT INDEXED WHERE rowid >= ?1 ORDER BY rowid LIMIT 1", table.name);
    let (Ok(mut select), Ok(mut probe)) = (from.prepare(&select), from.prepare(&probe)) else {
        // The list of tables does not have it.
        return Ok(());
    };
    let mut insert = to.prepare_cached(insert).at(naming.to)?;
    let mut next = i64::MIN;
    loop {
        let last = match run(&mut select, next, table.columns.len(), &mut insert) {
            Ok(()) => return Ok(()),
            Err(Stopped::Damage(last)) => last,
            Err(Stopped::From(error)) => return Err(Error::sqlite(naming.from, error)),
            Err(Stopped::To(error)) => return Err(Error::sqlite(naming.to, error)),
        };
        let after = last.map_or(next, |last| last + 1).max(0);
        match beyond(&mut probe, after) {
            Some(found) => next = found,
            None => return Ok(()),
        }
    }
}

enum Stopped {
    /// By a page that is missing or damaged, after this row.
    Damage(Option<i64>),
    From(rusqlite::Error),
    To(rusqlite::Error),
}

/// Copies rows from `next` on until the end or a damaged page.
fn run(
    select: &mut rusqlite::Statement<'_>,
    next: i64,
    columns: usize,
    insert: &mut CachedStatement<'_>,
) -> Result<(), Stopped> {
    let mut last = None;
    let stopped = |last, error| if is_damage(&error) { Stopped::Damage(last) } else { Stopped::From(error) };
    let mut rows = select.query([next]).map_err(|error| stopped(None, error))?;
    loop {
        let row = match rows.next() {
            Ok(Some(row)) => row,
            Ok(None) => return Ok(()),
            Err(error) => return Err(stopped(last, error)),
        };
        let id: i64 = row.get(0).map_err(|error| stopped(last, error))?;
        let mut values = cells(row, columns + 1).map_err(|error| stopped(last, error))?;
        values.remove(0);
        insert.execute(rusqlite::params_from_iter(&values)).map_err(Stopped::To)?;
        last = Some(id);
    }
}

/// The first row from which reading works again, from `after` on; `None` if none does. Within one hole every start fails
/// and behind it one succeeds, so the end of the hole is found by doubling the step, then halving.
fn beyond(probe: &mut rusqlite::Statement<'_>, after: i64) -> Option<i64> {
    let mut works = |row: i64| probe.query_row([row], |_| Ok(())).map_or_else(|error| !is_damage(&error), |()| true);
    let (mut bad, mut step) = (after, 1i64);
    let mut good = loop {
        let row = after.saturating_add(step);
        if row > LAST_ROW {
            return None;
        }
        if works(row) {
            break row;
        }
        bad = row;
        step *= 2;
    };
    while good - bad > 1 {
        let middle = bad + (good - bad) / 2;
        if works(middle) { good = middle } else { bad = middle }
    }
    Some(good)
}

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}
