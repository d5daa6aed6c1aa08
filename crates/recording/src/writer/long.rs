//! Rows by name (pools, devices, other series), written when they changed.

use super::cell::Number;
use faultline_catalog::Source;
use rusqlite::{CachedStatement, Connection};
use std::collections::BTreeMap;

/// Which sources looked anew at this tick.
pub(super) type Fresh = [bool; Source::ALL.len()];

#[derive(Debug)]
struct Entry<const N: usize> {
    /// In the table of names; `None` until a row needs it.
    id: Option<i64>,
    /// Who reads it: it is gone only when this source looked and did not see it.
    source: Source,
    /// What a reader of the file would take for its values; `None` if that is not known.
    written: Option<[Number; N]>,
    now: [Number; N],
}

/// The statements of one such table.
#[derive(Debug)]
pub(super) struct Statements {
    /// `?1..` are the parts of the name; gives the id.
    pub(super) find: String,
    /// `?1..` are the parts of the name.
    pub(super) name: String,
    /// tick, id, values.
    pub(super) row: String,
}

/// What was written last, by name. Parts of a name are separated by [`SEPARATOR`].
#[derive(Debug)]
pub(super) struct Long<const N: usize> {
    statements: Statements,
    entries: BTreeMap<Box<str>, Entry<N>>,
}

/// Between the parts of a name; in no label that a validator or a kernel gives.
pub(super) const SEPARATOR: char = '\u{1f}';

/// Rows written: of samples, and of names.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Wrote {
    pub(super) rows: u64,
    pub(super) names: u64,
}

impl<const N: usize> Long<N> {
    pub(super) fn new(statements: Statements) -> Self {
        Long {
            statements,
            entries: BTreeMap::new(),
        }
    }

    /// Takes a value of this tick.
    pub(super) fn put(&mut self, name: &str, source: Source, column: usize, number: Number) {
        if !self.entries.contains_key(name) {
            let entry = Entry {
                id: None,
                source,
                written: Some([Number::None; N]),
                now: [Number::None; N],
            };
            self.entries.insert(name.into(), entry);
        }
        if let Some(index) = self
            .entries
            .get_mut(name)
            .and_then(|entry| entry.now.get_mut(column))
        {
            *index = number;
        }
    }

    /// Writes a row for each name whose values differ from those written before; all NULL for one that is gone.
    pub(super) fn write(
        &mut self,
        conn: &Connection,
        tick: i64,
        fresh: &Fresh,
    ) -> rusqlite::Result<Wrote> {
        let mut wrote = Wrote::default();
        let mut row = conn.prepare_cached(&self.statements.row)?;
        for (name, entry) in &mut self.entries {
            if !fresh
                .get(entry.source as usize)
                .copied()
                .unwrap_or_default()
            {
                continue;
            }
            let now = std::mem::replace(&mut entry.now, [Number::None; N]);
            if entry.written == Some(now) {
                continue;
            }
            let id = match entry.id {
                Some(id) => id,
                None => identify(conn, &self.statements, name, &mut wrote.names)?,
            };
            entry.id = Some(id);
            insert(&mut row, tick, id, &now)?;
            entry.written = Some(now);
            wrote.rows += 1;
        }
        Ok(wrote)
    }

    /// Another process or session begins: nothing carries over.
    pub(super) fn restart(&mut self) {
        self.entries.clear();
    }

    /// What was written last may not be in the file: the next tick writes everything.
    pub(super) fn doubt(&mut self) {
        for entry in self.entries.values_mut() {
            entry.id = None;
            entry.written = None;
            entry.now = [Number::None; N];
        }
    }

    /// Everything written is in the file. What is gone may never come back: its name must not stay in memory.
    pub(super) fn settle(&mut self) {
        self.entries
            .retain(|_, entry| entry.written != Some([Number::None; N]));
    }

    /// Names may have been removed: they are looked up again.
    pub(super) fn forget_ids(&mut self) {
        self.entries.values_mut().for_each(|entry| entry.id = None);
    }
}

fn insert<const N: usize>(
    row: &mut CachedStatement<'_>,
    tick: i64,
    id: i64,
    values: &[Number; N],
) -> rusqlite::Result<()> {
    row.raw_bind_parameter(1, tick)?;
    row.raw_bind_parameter(2, id)?;
    for (i, value) in values.iter().enumerate() {
        row.raw_bind_parameter(i + 3, value)?;
    }
    row.raw_execute().map(|_| ())
}

/// The id of a name, which gets one if it has none.
fn identify(
    conn: &Connection,
    statements: &Statements,
    name: &str,
    names: &mut u64,
) -> rusqlite::Result<i64> {
    use rusqlite::OptionalExtension;
    let parts: Vec<&str> = name.split(SEPARATOR).collect();
    let parameters = || rusqlite::params_from_iter(&parts);
    let found = conn
        .prepare_cached(&statements.find)?
        .query_row(parameters(), |row| row.get(0))
        .optional()?;
    if let Some(id) = found {
        return Ok(id);
    }
    conn.prepare_cached(&statements.name)?
        .execute(parameters())?;
    *names += 1;
    Ok(conn.last_insert_rowid())
}
