use super::Recording;
use crate::{
    error::{Error, Result},
    file::{self, UntrustedDatabase, duration},
    rows::{Columns, EventRow, PoolRow, ProblemRow, ProcessRow, SeriesRow, SessionRow, TickRow},
    schema::{
        CacheTimesPoint, CostTrackerPoint, POOL_COLUMNS, PerTickTable, PointTable,
        ProgramCachePoint, ReplaySlotPoint, SetRootPoint,
    },
};
use faultline_metrics::Metric;
use rusqlite::types::ValueRef;
use serde_json::Value;
use std::{collections::HashMap, sync::Arc};

/// Limit in bytes for an event's detail and a problem. The daemon writes some hundred.
const MAX_TEXT_BYTES: usize = 64 << 10;
const MAX_KIND_BYTES: usize = 64;

impl Recording {
    pub fn sessions(&self) -> Result<Vec<SessionRow>> {
        let sql = "SELECT id, started_unix_ns, ended_unix_ns, interval_ns, version, manifest FROM session ORDER BY id";
        self.query_rows(sql, |row| {
            Ok(SessionRow {
                id: row.get(0)?,
                started: duration(row.get(1)?),
                ended: row.get::<_, Option<i64>>(2)?.map(duration),
                interval: duration(row.get(3)?),
                version: row.get(4)?,
                manifest: json(row.get(5)?),
            })
        })
    }

    pub fn processes(&self) -> Result<Vec<ProcessRow>> {
        let sql = "SELECT id, session, pid, started_unix_ns, seen_unix_ns, manifest FROM process ORDER BY id";
        self.query_rows(sql, |row| {
            Ok(ProcessRow {
                id: row.get(0)?,
                session: row.get(1)?,
                pid: row.get(2)?,
                started: row.get::<_, Option<i64>>(3)?.map(duration),
                seen: duration(row.get(4)?),
                manifest: json(row.get(5)?),
            })
        })
    }

    pub fn events(&self) -> Result<Vec<EventRow>> {
        let sql =
            "SELECT id, session, unix_ns, uptime_ns, kind, process, detail FROM event ORDER BY id";
        let mut rows = self.query_rows(sql, |row| {
            Ok(EventRow {
                id: row.get(0)?,
                session: row.get(1)?,
                unix: duration(row.get(2)?),
                uptime: duration(row.get(3)?),
                kind: truncate(row.get_ref(4)?.as_str()?, MAX_KIND_BYTES).to_owned(),
                process: row.get(5)?,
                detail: json(truncate(row.get_ref(6)?.as_str()?, MAX_TEXT_BYTES).to_owned()),
            })
        })?;
        rows.sort_by_key(|row| (row.session, row.uptime));
        Ok(rows)
    }

    pub fn ticks(&self) -> Result<Vec<TickRow>> {
        self.ticks_with("ORDER BY id")
    }

    pub(super) fn last_tick(&self) -> Result<Option<TickRow>> {
        Ok(self.ticks_with("ORDER BY id DESC LIMIT 1")?.pop())
    }

    pub(super) fn ticks_with(&self, clause: &str) -> Result<Vec<TickRow>> {
        let sql = format!(
            "SELECT id, session, number, unix_ns, uptime_ns, process, phase FROM tick {clause}"
        );
        let mut last_phase = None;
        self.query_rows(&sql, |row| {
            let phase = row.get_ref(6)?.as_str_or_null()?;
            if last_phase.as_deref() != phase {
                last_phase = phase.map(Arc::from);
            }
            Ok(TickRow {
                id: row.get(0)?,
                session: row.get(1)?,
                number: unsigned(row, 2)?.unwrap_or_default(),
                unix_ns: row.get(3)?,
                uptime_ns: row.get(4)?,
                process: row.get(5)?,
                phase: last_phase.clone(),
            })
        })
    }

    pub fn columns(&self, table: PerTickTable, names: &[&str]) -> Result<Columns> {
        let is_unknown = |name: &&&str| table.column(name).is_none();
        if let Some(name) = names.iter().find(is_unknown) {
            return Err(Error::NoSuchTableOrColumn {
                what: format!("{}.{name}", table.name()),
            });
        }
        let mut columns = Columns {
            ticks: Vec::new(),
            values: vec![Vec::new(); names.len()],
        };
        if !self.has(table.name()) {
            return Ok(columns);
        }
        let column_names = std::iter::once("tick").chain(names.iter().copied());
        let column_list = file::column_list(&self.present_tables, table.name(), column_names);
        let sql = format!("SELECT {column_list} FROM {} ORDER BY tick", table.name());
        columns.ticks = self.conn.collect_numbers(&sql, |row| {
            for (i, values) in columns.values.iter_mut().enumerate() {
                values.push(row.get(i + 1)?);
            }
            row.get(0)
        })?;
        Ok(columns)
    }

    /// Ordered by time, then name.
    pub fn pools(&self) -> Result<Vec<PoolRow>> {
        let names = self.names("pool")?;
        let column_names = POOL_COLUMNS.iter().map(|column| column.name);
        let columns = file::column_list(&self.present_tables, "pool_sample", column_names);
        let mut rows = self.query_numbers_if_present(
            "pool_sample",
            &format!("SELECT tick, pool, {columns} FROM pool_sample ORDER BY rowid"),
            |row| {
                Ok(PoolRow {
                    tick: row.get(0)?,
                    pool: name_or_id(&names, row.get(1)?),
                    threads: unsigned(row, 2)?,
                    major_faults: unsigned(row, 3)?,
                    minor_faults: unsigned(row, 4)?,
                    cpu_user: row.get(5)?,
                    cpu_system: row.get(6)?,
                    run_queue: row.get(7)?,
                    block_io_delay: row.get(8)?,
                })
            },
        )?;
        rows.sort_by_key(|row| row.tick);
        Ok(rows)
    }

    pub fn series(&self) -> Result<Vec<SeriesRow>> {
        self.series_where("")
    }

    pub fn series_of(&self, metric: &Metric) -> Result<Vec<SeriesRow>> {
        let ids = format!("SELECT id FROM series WHERE metric = '{}'", metric.name);
        self.series_where(&format!("WHERE series IN ({ids})"))
    }

    fn series_where(&self, clause: &str) -> Result<Vec<SeriesRow>> {
        let names = self.query_rows("SELECT id, metric, labels FROM series", |row| {
            Ok((row.get(0)?, (row.get(1)?, row.get(2)?)))
        })?;
        let names: HashMap<i64, (Arc<str>, Arc<str>)> = names.into_iter().collect();
        let mut rows = self.conn.collect_numbers(
            &format!("SELECT tick, series, value FROM series_sample {clause} ORDER BY rowid"),
            |row| {
                let (metric, labels) = names
                    .get(&row.get(1)?)
                    .cloned()
                    .unwrap_or_else(|| ("".into(), "{}".into()));
                Ok(SeriesRow {
                    tick: row.get(0)?,
                    metric,
                    labels,
                    value: row.get(2)?,
                })
            },
        )?;
        rows.sort_by_key(|row| row.tick);
        Ok(rows)
    }

    pub fn problems(&self) -> Result<Vec<ProblemRow>> {
        let mut rows = self.query_rows(
            "SELECT tick, source, status, what FROM problem ORDER BY rowid",
            |row| {
                Ok(ProblemRow {
                    tick: row.get(0)?,
                    source: row.get(1)?,
                    status: row.get(2)?,
                    what: row
                        .get_ref(3)?
                        .as_str_or_null()?
                        .map(|text| truncate(text, MAX_TEXT_BYTES).to_owned()),
                })
            },
        )?;
        rows.sort_by_key(|row| row.tick);
        Ok(rows)
    }

    /// The last problems of each source in the session of the last tick. A row without a status
    /// says that the problems of its source are over.
    pub fn problems_at_end(&self) -> Result<Vec<ProblemRow>> {
        let Some(tick) = self.last_tick()? else {
            return Ok(Vec::new());
        };
        let sql = format!("SELECT min(id) FROM tick WHERE session = {}", tick.session);
        let first_tick = self.query_integer(&sql)?;
        let mut rows = self.problems()?;
        rows.retain(|row| Some(row.tick) >= first_tick);
        let last_ticks: HashMap<String, i64> = rows
            .iter()
            .map(|row| (row.source.clone(), row.tick))
            .collect();
        rows.retain(|row| row.status.is_some() && last_ticks.get(&row.source) == Some(&row.tick));
        rows.sort_by(|a, b| a.source.cmp(&b.source));
        Ok(rows)
    }

    pub fn program_cache_points(&self) -> Result<Vec<ProgramCachePoint>> {
        self.points()
    }

    pub fn replay_slot_points(&self) -> Result<Vec<ReplaySlotPoint>> {
        self.points()
    }

    pub fn set_root_points(&self) -> Result<Vec<SetRootPoint>> {
        self.points()
    }

    pub fn cache_times_points(&self) -> Result<Vec<CacheTimesPoint>> {
        self.points()
    }

    pub fn cost_tracker_points(&self) -> Result<Vec<CostTrackerPoint>> {
        self.points()
    }

    /// Ordered by the validator's time.
    fn points<P: PointTable>(&self) -> Result<Vec<P>> {
        let fields = file::column_list(
            &self.present_tables,
            P::SPEC.name,
            P::SPEC.fields.iter().map(|(name, _)| *name),
        );
        let sql = format!(
            "SELECT unix_ns, received_unix_ns, {fields} FROM {}",
            P::SPEC.name
        );
        let mut points = self.query_numbers_if_present(P::SPEC.name, &sql, |row| {
            let mut index = 1;
            P::restore(row.get(0)?, duration(row.get(1)?), &mut || {
                index += 1;
                row.get(index)
            })
        })?;
        // Fast, because points arrive nearly in order.
        points.sort_by_key(P::time_unix_ns);
        Ok(points)
    }

    fn names(&self, table: &str) -> Result<HashMap<i64, Arc<str>>> {
        if !self.has(table) {
            return Ok(HashMap::new());
        }
        let sql = format!("SELECT id, name FROM {table}");
        let names = self.query_rows(&sql, |row| row.try_into())?;
        Ok(names.into_iter().collect())
    }

    /// Like [`UntrustedDatabase::collect_numbers`]; no rows if an older version did not write the
    /// table.
    pub(super) fn query_numbers_if_present<T>(
        &self,
        table: &str,
        sql: &str,
        read_row: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        if self.has(table) {
            self.conn.collect_numbers(sql, read_row)
        } else {
            Ok(Vec::new())
        }
    }

    pub(super) fn query_rows<T>(
        &self,
        sql: &str,
        read_row: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        self.conn.collect(sql, [], read_row)
    }
}

fn name_or_id(names: &HashMap<i64, Arc<str>>, id: i64) -> Arc<str> {
    names
        .get(&id)
        .cloned()
        .unwrap_or_else(|| format!("{id}").into())
}

/// Also accepts a float: a count beyond SQLite's integers is stored as one.
fn unsigned(row: &rusqlite::Row<'_>, index: usize) -> rusqlite::Result<Option<u64>> {
    if let ValueRef::Integer(n) = row.get_ref(index)? {
        return Ok(u64::try_from(n).ok());
    }
    let float: Option<f64> = row.get(index)?;
    Ok(float.map(|float| float as u64))
}

/// At most `bytes`, cut at a character boundary.
fn truncate(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}

fn json(text: String) -> Value {
    match text.as_str() {
        "" => Value::Null,
        _ => serde_json::from_str(&text).unwrap_or(Value::String(text)),
    }
}

pub fn read_labels(conn: &UntrustedDatabase) -> Result<Vec<(String, String)>> {
    let sql = "SELECT key, value FROM label ORDER BY key";
    conn.collect(sql, [], |row| row.try_into())
}
