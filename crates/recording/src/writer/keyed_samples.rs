//! Samples by key (thread pool, block device, labels of a series), written if they changed.

use std::{collections::BTreeMap, sync::LazyLock};

use faultline_metrics::{Source, Value};
use rusqlite::{
    CachedStatement, Connection, OptionalExtension, ToSql, params_from_iter,
    types::{Null, ToSqlOutput},
};

use crate::schema::{ColumnKind, TABLES, TableSpec, table_named};

pub type RowCounts = BTreeMap<&'static str, u64>;

/// By source, whether the tick has a new sample.
pub type SampledSources = [bool; Source::ALL.len()];

#[derive(Debug)]
struct Entry {
    /// In the key table; `None` until a row needs it.
    id: Option<i64>,
    /// Reports this key. If the source samples without reporting it, the key is gone.
    source: Source,
    /// The values in the file; `None` if unknown.
    written: Option<Vec<Number>>,
    current: Vec<Number>,
}

/// Last written values by key. [`SEPARATOR`] separates the parts of a key.
#[derive(Debug)]
pub struct KeyedSamples {
    /// The table of the keys, and that of their values.
    tables: [&'static str; 2],
    /// SQL that finds a key's id, and SQL that adds a key.
    key_statements: [String; 2],
    empty_values: Vec<Number>,
    entries: BTreeMap<Box<str>, Entry>,
}

/// No label of a validator or kernel contains it.
pub const SEPARATOR: char = '\u{1f}';

impl KeyedSamples {
    pub fn new(tables: [&'static str; 2], value_count: usize) -> Self {
        let key_table = table_named(tables[0]);
        Self {
            tables,
            key_statements: key_table.map_or_else(Default::default, TableSpec::key_statements),
            empty_values: vec![Number::None; value_count],
            entries: BTreeMap::new(),
        }
    }

    pub fn put(&mut self, key: &str, source: Source, column: usize, number: Number) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.current[column] = number;
            return;
        }
        let mut entry = Entry {
            id: None,
            source,
            written: Some(self.empty_values.clone()),
            current: self.empty_values.clone(),
        };
        entry.current[column] = number;
        self.entries.insert(key.into(), entry);
    }

    /// Writes a row for each key whose values changed; all NULL for one that is gone.
    pub fn write(
        &mut self,
        conn: &Connection,
        tick: i64,
        sampled: &SampledSources,
        counts: &mut RowCounts,
    ) -> rusqlite::Result<()> {
        for table in self.tables {
            counts.entry(table).or_default();
        }
        let [key_table, sample_table] = self.tables;
        let mut insert = conn.prepare_cached(insert_into(sample_table))?;
        for (key, entry) in &mut self.entries {
            if !sampled[entry.source as usize] {
                continue;
            }
            if entry.written.as_ref() != Some(&entry.current) {
                let id = match entry.id {
                    Some(id) => id,
                    None => {
                        let parts = key.split(SEPARATOR);
                        let (id, is_new) = id_of_key(conn, &self.key_statements, parts)?;
                        *counts.entry(key_table).or_default() += u64::from(is_new);
                        id
                    }
                };
                entry.id = Some(id);
                insert_row(&mut insert, tick, id, &entry.current)?;
                let written = entry.written.get_or_insert_default();
                written.clone_from(&entry.current);
                *counts.entry(sample_table).or_default() += 1;
            }
            entry.current.clone_from(&self.empty_values);
        }
        Ok(())
    }

    /// At the start and the end of a process: nothing carries over.
    pub fn forget_keys(&mut self) {
        self.entries.clear();
    }

    /// After a rollback or a failed write: the next tick writes all values again.
    pub fn invalidate(&mut self) {
        for entry in self.entries.values_mut() {
            entry.id = None;
            entry.written = None;
            entry.current.clone_from(&self.empty_values);
        }
    }

    /// Removes the entries of gone keys, which may never return. Call it after a commit: after a
    /// rollback, their NULL rows must be written again.
    pub fn forget_gone_keys(&mut self) {
        self.entries
            .retain(|_, entry| entry.written.as_ref() != Some(&self.empty_values));
    }

    /// Keys may have been removed from the file: the next write finds their ids again.
    pub fn forget_key_ids(&mut self) {
        self.entries.values_mut().for_each(|entry| entry.id = None);
    }
}

fn insert_row(
    insert: &mut CachedStatement<'_>,
    tick: i64,
    id: i64,
    values: &[Number],
) -> rusqlite::Result<()> {
    insert.raw_bind_parameter(1, tick)?;
    insert.raw_bind_parameter(2, id)?;
    for (i, value) in values.iter().enumerate() {
        insert.raw_bind_parameter(i + 3, value)?;
    }
    insert.raw_execute().map(drop)
}

/// Adds the key if it is new. Returns its id, and whether it is new.
pub fn id_of_key<P: ToSql>(
    conn: &Connection,
    [find, insert]: &[String; 2],
    parts: impl Iterator<Item = P> + Clone,
) -> rusqlite::Result<(i64, bool)> {
    let parameters = || params_from_iter(parts.clone());
    let known_id = conn
        .prepare_cached(find)?
        .query_row(parameters(), |row| row.get(0))
        .optional()?;
    if let Some(id) = known_id {
        return Ok((id, false));
    }
    conn.prepare_cached(insert)?.execute(parameters())?;
    Ok((conn.last_insert_rowid(), true))
}

pub fn insert_into(table: &str) -> &'static str {
    static INSERTS: LazyLock<BTreeMap<&'static str, String>> = LazyLock::new(|| {
        TABLES
            .iter()
            .map(|spec| (spec.name, spec.insert_sql()))
            .collect()
    });
    INSERTS.get(table).map_or("", String::as_str)
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Number {
    #[default]
    None,
    Integer(i64),
    Real(f64),
}

/// Below this, every integer is exact as a float.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

impl Number {
    /// Converts to the column's kind, but a fraction stays real. `None` for a histogram or NaN.
    pub fn of(value: &Value, kind: ColumnKind) -> Self {
        match *value {
            Value::Integer(n) if kind == ColumnKind::Real => Self::real_or_none(n as f64),
            Value::Integer(n) => i64::try_from(n).map_or(Self::Real(n as f64), Number::Integer),
            Value::Real(x)
                if kind == ColumnKind::Integer
                    && x.fract() == 0.0
                    && x.abs() < MAX_EXACT_INTEGER =>
            {
                Self::Integer(x as i64)
            }
            Value::Real(x) => Self::real_or_none(x),
            Value::Histogram(_) => Self::None,
        }
    }

    pub fn real_or_none(x: f64) -> Self {
        if x.is_nan() {
            Self::None
        } else {
            Self::Real(x)
        }
    }
}

impl ToSql for Number {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match *self {
            Self::None => Ok(ToSqlOutput::from(Null)),
            Self::Integer(n) => Ok(ToSqlOutput::from(n)),
            Self::Real(x) => Ok(ToSqlOutput::from(x)),
        }
    }
}
