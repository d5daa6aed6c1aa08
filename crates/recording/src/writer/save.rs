use super::open;
use rusqlite::{Connection, params};

/// Ends the last session with its last tick, and stores `meta` and the row counts.
pub(crate) fn end_last_session(conn: &Connection, meta: &[(&str, &str)]) -> rusqlite::Result<()> {
    conn.execute_batch(
        "BEGIN;
         UPDATE session SET ended_unix_ns =
             coalesce((SELECT max(unix_ns) FROM tick WHERE tick.session = session.id), started_unix_ns)
         WHERE ended_unix_ns IS NULL AND id = (SELECT max(id) FROM session)",
    )?;
    let put = "INSERT INTO meta(key, value) VALUES(?1, ?2) ON CONFLICT(key) DO UPDATE SET value = excluded.value";
    let rows = serde_json::to_string(&open::counts(conn)?).unwrap_or_default();
    conn.execute(put, params!["rows", rows])?;
    for (key, value) in meta {
        conn.execute(put, params![key, value])?;
    }
    conn.execute_batch("COMMIT")
}
