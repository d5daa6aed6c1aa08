//! Copies what is left of a table.

use super::pages::Pages;
use super::record::{Row, of_kind, values};
use crate::error::{At, Error};
use crate::file::declared;
use crate::reader::Cell;
use crate::rows::EventKind;
use crate::schema::{Kind, Role, TABLES, TableSpec};
use rusqlite::Connection;
use std::collections::HashMap;
use std::path::Path;

/// Where the tables of a file begin and what their rows hold.
pub(super) struct Layout(HashMap<String, Found>);

/// The first page of a table and the names of its columns, in the order of the file.
struct Found {
    root: u32,
    columns: Vec<String>,
}

impl Layout {
    /// By the file's own list of tables. One that it has lost is looked for where this version puts it in a new file,
    /// `fresh`, if the others are there too.
    pub(super) fn read(pages: &mut Pages, fresh: &Connection) -> rusqlite::Result<Layout> {
        let mut tables = HashMap::new();
        pages.rows(1, |row| {
            let Some(
                [
                    Cell::Text(kind),
                    Cell::Text(name),
                    _,
                    Cell::Integer(root),
                    Cell::Text(sql),
                ],
            ) = values(&row, false).and_then(|values| <[Cell; 5]>::try_from(values).ok())
            else {
                return Ok(());
            };
            if let (true, Ok(root), Some(spec)) = (
                kind == "table",
                u32::try_from(root),
                TABLES.iter().find(|table| table.name == name),
            ) {
                tables.insert(
                    name,
                    Found {
                        root,
                        columns: columns(&sql, spec),
                    },
                );
            }
            Ok::<(), rusqlite::Error>(())
        })?;
        let mut statement =
            fresh.prepare("SELECT name, rootpage FROM sqlite_schema WHERE type = 'table'")?;
        let usual: HashMap<String, u32> = statement
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        let as_usual = tables
            .iter()
            .all(|(name, found)| usual.get(name) == Some(&found.root));
        if as_usual && !tables.is_empty() {
            for (spec, root) in TABLES
                .iter()
                .filter_map(|spec| Some((spec, *usual.get(spec.name)?)))
            {
                tables.entry(spec.name.to_owned()).or_insert_with(|| Found {
                    root,
                    columns: own(spec),
                });
            }
        }
        Ok(Layout(tables))
    }
}

fn own(spec: &TableSpec) -> Vec<String> {
    spec.columns
        .iter()
        .map(|column| column.name.to_owned())
        .collect()
}

/// The columns that a statement makes; those of this version if it is damaged.
fn columns(sql: &str, spec: &TableSpec) -> Vec<String> {
    let own = own(spec);
    let named = declared(sql, spec)
        .map(|columns| columns.iter().map(|(name, _)| (*name).to_owned()).collect());
    // Other versions have more columns or fewer. Some that are unknown in place of some that are missing are damage.
    let known = |columns: &Vec<String>| {
        columns.iter().all(|name| own.contains(name))
            || own.iter().all(|name| columns.contains(name))
    };
    named.filter(known).unwrap_or(own)
}

/// Copies every row that can be read and is one of this table by its number of values and their kinds.
pub(super) fn table(
    pages: &mut Pages,
    layout: &Layout,
    to: &Connection,
    spec: &TableSpec,
    path: &Path,
) -> Result<(), Error> {
    let Some(found) = layout.0.get(spec.name) else {
        return Ok(());
    };
    let own_id = spec
        .columns
        .first()
        .is_some_and(|first| is_id(first.kind, first.constraint));
    let insert = if own_id {
        spec.insert().replacen("INSERT", "INSERT OR IGNORE", 1)
    } else {
        // With its number, for the order.
        let places = vec!["?"; spec.columns.len() + 1].join(",");
        format!(
            "INSERT OR IGNORE INTO {}(rowid,{}) VALUES({places})",
            spec.name,
            spec.names()
        )
    };
    let mut insert = to.prepare(&insert).at(path)?;
    let own = own(spec);
    // Rows from before a later version added columns are shorter: as many values as the first one has.
    let grown = versions(to).at(path)? > 1;
    let mut width = None;
    pages.rows(found.root, |row| {
        let Some(stored) = values(&row, is_few(spec)) else {
            return Ok(());
        };
        let first = *width.get_or_insert(stored.len());
        let names = match stored.len() {
            n if n == found.columns.len() => &found.columns,
            n if n == own.len() => &own,
            n if grown && n == first && n < found.columns.len() => &found.columns,
            _ => return Ok(()),
        };
        let Some(mut cells) = arrange(&row, &stored, names, spec) else {
            return Ok(());
        };
        if !own_id {
            cells.insert(0, Cell::Integer(row.id));
        }
        insert
            .execute(rusqlite::params_from_iter(&cells))
            .map(|_| ())
            .at(path)
    })
}

/// Samples of pools and points have as many values: a time is more than there are threads.
fn is_plausible(column: &str, value: i64) -> bool {
    const MOST_THREADS: i64 = 1 << 32;
    match column {
        "threads" => value < MOST_THREADS,
        "unix_ns" | "received_unix_ns" => value >= MOST_THREADS,
        _ => true,
    }
}

/// How many versions of the daemon wrote the sessions saved so far.
fn versions(to: &Connection) -> rusqlite::Result<i64> {
    to.query_row("SELECT count(DISTINCT version) FROM session", [], |row| {
        row.get(0)
    })
}

fn is_id(kind: Kind, constraint: &str) -> bool {
    kind == Kind::Integer && constraint == "PRIMARY KEY"
}

/// The values in the order of this version's columns; `None` if one of them cannot be of its column.
fn arrange(row: &Row, stored: &[Cell], names: &[String], spec: &TableSpec) -> Option<Vec<Cell>> {
    let mut cells = Vec::new();
    for column in &spec.columns {
        let place = names.iter().position(|name| name == column.name);
        let value = place
            .and_then(|place| stored.get(place))
            .unwrap_or(&Cell::Null);
        cells.push(match value {
            Cell::Integer(n) if !is_plausible(column.name, *n) => return None,
            Cell::Null if is_id(column.kind, column.constraint) => Cell::Integer(row.id),
            _ if is_id(column.kind, column.constraint) => return None,
            Cell::Null if column.constraint.contains("NOT NULL") => return None,
            Cell::Text(kind) if spec.name == "event" && column.name == "kind" => {
                EventKind::parse(kind)?;
                value.clone()
            }
            value => of_kind(
                value,
                column.kind,
                column.role == Role::Plain && spec.name.ends_with("_sample"),
            )?,
        });
    }
    // The rest of the row is worth more than nothing.
    if let Some(Cell::Text(json)) = cells.last_mut().filter(|_| is_few(spec))
        && serde_json::from_str::<serde::de::IgnoredAny>(json).is_err()
        && (row.record.len() < row.size || !json.is_empty())
    {
        "{}".clone_into(json);
    }
    Some(cells)
}

/// Tables with an id of their own and a JSON text at the end.
fn is_few(table: &TableSpec) -> bool {
    let roles = [Role::Session, Role::Process, Role::Event];
    table
        .columns
        .first()
        .is_some_and(|first| roles.contains(&first.role))
}
