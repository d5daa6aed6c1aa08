//! Removes old rows, to bound the flight recorder's file.

use super::{Writer, keyed_samples::RowCounts, samples::KEYED_TABLES};
use crate::{
    error::Result,
    file::nanos,
    schema::{TABLES, TableSpec},
};
use rusqlite::{Connection, OptionalExtension, params};
use std::time::Duration;

impl Writer {
    /// Removes everything older than `before_unix`: ticks with their rows, points, events, and
    /// unreferenced sessions, processes and names. Free space is reused, so the file stops growing.
    ///
    /// The last earlier row of each pool, device and series moves to the first tick that stays, as do
    /// all rows of a problem source's newest earlier tick. In the newest session, age is relative to the newest tick by the monotonic
    /// clock, so a changed wall clock has no effect. Commits before and after.
    pub fn prune(&mut self, before_unix: Duration) -> Result<()> {
        self.commit()?;
        let mut removed = RowCounts::new();
        self.write(|writer| {
            if let Some(retained) = first_retained(&writer.conn, nanos(before_unix))? {
                prune(&writer.conn, &retained, writer.process_id(), &mut removed)?;
            }
            Ok(())
        })?;
        for (table, rows) in removed {
            let count = self.current.counts.entry(table).or_default();
            *count = count.saturating_sub(rows);
        }
        self.samples.forget_key_ids();
        self.commit().map(drop)
    }
}

struct FirstRetained {
    tick: i64,
    session: i64,
    process: Option<i64>,
    uptime: i64,
}

/// The first tick that is young enough; `None` if it is the oldest. The wall clock decides about
/// earlier sessions, which have another monotonic clock: their ticks must not be in the future.
fn first_retained(conn: &Connection, before_unix: i64) -> rusqlite::Result<Option<FirstRetained>> {
    let newest = "SELECT id, session, unix_ns, uptime_ns FROM tick ORDER BY id DESC LIMIT 1";
    let newest = conn.query_row(newest, [], |row| <(i64, i64, i64, i64)>::try_from(row));
    let Some((newest_tick, session, unix, uptime)) = newest.optional()? else {
        return Ok(None);
    };
    let from_uptime = uptime.saturating_sub(unix.saturating_sub(before_unix).max(0));
    // The newest tick always stays, because carried rows move to it.
    let sql = "SELECT id, session, process, uptime_ns FROM tick
               WHERE (session = ?1 AND uptime_ns >= ?2) OR (session < ?1 AND unix_ns BETWEEN ?3 AND ?4) OR id = ?5
               ORDER BY id LIMIT 1";
    let retained = conn.query_row(
        sql,
        params![session, from_uptime, before_unix, unix, newest_tick],
        |row| {
            Ok(FirstRetained {
                tick: row.get(0)?,
                session: row.get(1)?,
                process: row.get(2)?,
                uptime: row.get(3)?,
            })
        },
    )?;
    let oldest_tick: Option<i64> =
        conn.query_row("SELECT min(id) FROM tick", [], |row| row.get(0))?;
    Ok((oldest_tick != Some(retained.tick)).then_some(retained))
}

fn prune(
    conn: &Connection,
    retained: &FirstRetained,
    current_process: Option<i64>,
    removed: &mut RowCounts,
) -> rusqlite::Result<()> {
    for tables in KEYED_TABLES {
        carry_forward(conn, tables, retained)?;
    }
    carry_problems(conn, retained)?;
    let mut delete =
        |table: &'static str, condition: &str, parameters: &[i64]| -> rusqlite::Result<()> {
            let sql = format!("DELETE FROM {table} WHERE {condition}");
            let rows = conn
                .prepare_cached(&sql)?
                .execute(rusqlite::params_from_iter(parameters))?;
            *removed.entry(table).or_default() += rows as u64;
            Ok(())
        };
    delete_before(retained, &mut delete)?;
    delete_unreferenced(retained, current_process.unwrap_or(0), &mut delete)
}

type Delete<'d> = dyn FnMut(&'static str, &str, &[i64]) -> rusqlite::Result<()> + 'd;

/// Also deletes carried rows without values.
fn delete_before(retained: &FirstRetained, delete: &mut Delete<'_>) -> rusqlite::Result<()> {
    for table in TABLES.iter() {
        if let Some(column) = tick_column(table) {
            // A point from before the first tick has no tick.
            let condition = format!("{column} < ?1 OR {column} IS NULL");
            delete(table.name, &condition, &[retained.tick])?;
        }
    }
    for (table, columns) in [
        ("pool_sample", crate::schema::POOL_COLUMNS),
        ("device_sample", crate::schema::DEVICE_COLUMNS),
    ] {
        let all_null: Vec<String> = columns
            .iter()
            .map(|column| format!("{} IS NULL", column.name))
            .collect();
        let condition = format!("tick = ?1 AND {}", all_null.join(" AND "));
        delete(table, &condition, &[retained.tick])?;
    }
    delete(
        "series_sample",
        "tick = ?1 AND value IS NULL",
        &[retained.tick],
    )?;
    delete("problem", "tick = ?1 AND status IS NULL", &[retained.tick])?;
    delete(
        "event",
        "session < ?1 OR (session = ?1 AND uptime_ns < ?2)",
        &[retained.session, retained.uptime],
    )
}

fn delete_unreferenced(
    retained: &FirstRetained,
    current_process: i64,
    delete: &mut Delete<'_>,
) -> rusqlite::Result<()> {
    let unused = "id <> ?1 AND id NOT IN (SELECT process FROM tick WHERE process NOT NULL)
                  AND id NOT IN (SELECT process FROM event WHERE process NOT NULL)";
    delete("process", unused, &[current_process])?;
    delete("session", "id < ?1", &[retained.session])?;
    for [key_table, sample_table] in KEYED_TABLES {
        let condition = format!("id NOT IN (SELECT {key_table} FROM {sample_table})");
        delete(key_table, &condition, &[])?;
    }
    Ok(())
}

fn tick_column(table: &TableSpec) -> Option<&'static str> {
    table
        .columns
        .iter()
        .find(|column| column.references == Some("tick"))
        .map(|column| column.name)
}

/// Moves the last earlier row of each key to the first retained tick, unless that tick has one.
/// Moves only rows of the tick's session and process, because readers carry no others forward.
fn carry_forward(
    conn: &Connection,
    [key, table]: [&str; 2],
    retained: &FirstRetained,
) -> rusqlite::Result<()> {
    let sql = format!(
        "UPDATE {table} SET tick = ?1 WHERE rowid IN (
             SELECT max(s.rowid) FROM {table} s JOIN tick t ON t.id = s.tick
             WHERE s.tick < ?1 AND t.session = ?2 AND t.process IS ?3 GROUP BY s.{key})
         AND {key} NOT IN (SELECT {key} FROM {table} WHERE tick = ?1)"
    );
    conn.prepare_cached(&sql)?
        .execute(params![retained.tick, retained.session, retained.process])
        .map(drop)
}

fn carry_problems(conn: &Connection, retained: &FirstRetained) -> rusqlite::Result<()> {
    let sql = "UPDATE problem SET tick = ?1 WHERE (source, tick) IN (
                   SELECT p.source, max(p.tick) FROM problem p JOIN tick t ON t.id = p.tick
                   WHERE p.tick < ?1 AND t.session = ?2 GROUP BY p.source)
               AND source NOT IN (SELECT source FROM problem WHERE tick = ?1)";
    conn.prepare_cached(sql)?
        .execute(params![retained.tick, retained.session])
        .map(drop)
}
