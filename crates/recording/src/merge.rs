use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{
    Connection,
    backup::{Backup, StepResult},
    params,
};

use crate::{
    error::{AttachPath, Error, Result},
    file::{TempFile, duration, nanos},
    reader::{Cell, Recording},
    rows::EventKind,
    schema::{TABLES, TableSpec},
    writer::{finish_recording, id_of_key, label_list, make_tables},
};

const CHUNK_ROWS: usize = 1000;

#[derive(Debug)]
pub struct MergeSummary {
    pub sessions: u64,
    pub ticks: u64,
    /// Times without a recording between successive recordings.
    pub gaps: Vec<Duration>,
}

struct Piece {
    recording: Recording,
    /// Pruning removes earlier sessions, so it need not be 1.
    first_session: i64,
    began: Duration,
    ended: Duration,
}

/// Joins recordings of one run, given in any order, into a new file. Sessions are in the order of
/// time and ids are renumbered. The first session of each later recording begins with an event
/// `gap`.
///
/// # Errors
/// [`Error::Unmergeable`] if there are fewer than two recordings, if any has no session, or if two
/// are the same, overlap or have different labels.
pub fn merge(from: &[PathBuf], to: &Path) -> Result<MergeSummary> {
    let mut pieces = from
        .iter()
        .map(|path| open_piece(path))
        .collect::<Result<Vec<_>>>()?;
    pieces.sort_by_key(|piece| piece.began);
    check_pieces(&pieces, to)?;
    let (output, conn) = TempFile::create(to)?;
    let labels = pieces.first().map(|piece| piece.recording.labels());
    make_tables(&conn, labels.unwrap_or_default()).at(to)?;
    conn.execute_batch("PRAGMA synchronous = OFF; BEGIN")
        .at(to)?;
    let mut gaps = Vec::new();
    let mut last_end = None;
    for piece in &pieces {
        let offsets = highest_ids(&conn).at(to)?;
        append_piece(&conn, piece, &offsets, to)?;
        if let Some(ended) = last_end {
            gaps.push(piece.began.saturating_sub(ended));
            insert_gap_event(
                &conn,
                offsets["session"].saturating_add(piece.first_session),
                ended,
                piece.began,
            )
            .at(to)?;
        }
        last_end = Some(piece.ended);
    }
    conn.execute_batch("COMMIT").at(to)?;
    let names: Vec<String> = pieces
        .iter()
        .map(|piece| file_name(&piece.recording))
        .collect();
    let counts = finish_recording(
        &conn,
        &[("merged_from", &serde_json::Value::from(names).to_string())],
    )
    .at(to)?;
    output.publish(conn)?;
    Ok(MergeSummary {
        sessions: counts["session"],
        ticks: counts["tick"],
        gaps,
    })
}

fn file_name(recording: &Recording) -> String {
    recording
        .path()
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn open_piece(path: &Path) -> Result<Piece> {
    let recording = Recording::open(path)?;
    let sessions = recording.sessions()?;
    let last_tick = recording.query_integer("SELECT unix_ns FROM tick ORDER BY id DESC LIMIT 1")?;
    let (Some(first), Some(last)) = (sessions.first(), sessions.last()) else {
        return unmergeable(path, "it has no session");
    };
    let ended = last
        .ended
        .unwrap_or(last.started)
        .max(last_tick.map_or(Duration::ZERO, duration));
    Ok(Piece {
        first_session: first.id,
        began: first.started,
        ended,
        recording,
    })
}

fn unmergeable<T>(path: &Path, why: impl Into<String>) -> Result<T> {
    Err(Error::Unmergeable {
        path: path.to_owned(),
        why: why.into(),
    })
}

fn check_pieces(pieces: &[Piece], to: &Path) -> Result<()> {
    if pieces.len() < 2 {
        return unmergeable(to, "it takes two recordings or more");
    }
    for pair in pieces.windows(2) {
        let [earlier, later] = pair else { continue };
        let canonical_path = |piece: &Piece| std::fs::canonicalize(piece.recording.path()).ok();
        if canonical_path(earlier).is_some() && canonical_path(earlier) == canonical_path(later) {
            return unmergeable(later.recording.path(), "it is given twice");
        }
        let (earlier_labels, labels) = (earlier.recording.labels(), later.recording.labels());
        if labels != earlier_labels {
            let why = format!(
                "its labels are {}, and those of {} are {}; give recordings of one run, with equal labels",
                label_list(labels),
                file_name(&earlier.recording),
                label_list(earlier_labels)
            );
            return unmergeable(later.recording.path(), why);
        }
        if later.began < earlier.ended {
            let why = format!(
                "its sessions overlap in time with those of {}; give successive recordings of one run, and at most one save of each session of the flight recorder",
                file_name(&earlier.recording)
            );
            return unmergeable(later.recording.path(), why);
        }
    }
    Ok(())
}

/// Offsets to add to the ids of each table: the highest ids that are already in the file.
type Offsets = HashMap<&'static str, i64>;

fn highest_ids(conn: &Connection) -> rusqlite::Result<Offsets> {
    let highest = |table| {
        let sql = format!("SELECT coalesce(max(id), 0) FROM {table}");
        Ok((table, conn.query_row(&sql, [], |row| row.get(0))?))
    };
    ["session", "process", "tick", "event"]
        .into_iter()
        .map(highest)
        .collect()
}

/// Other tables refer to rows of `pool`, `device` and `series` by id; the rest of such a row is its
/// key. Maps (table, id in the piece) to the id of the same key in the merged file.
type KeyIds = HashMap<(&'static str, i64), i64>;

fn append_piece(conn: &Connection, piece: &Piece, offsets: &Offsets, to: &Path) -> Result<()> {
    let mut key_ids = KeyIds::new();
    for table in TABLES.iter().filter(|table| table.name != "label") {
        // Of rows of `meta` with one key, that of the first piece stays.
        let mut insert = conn
            .prepare(&table.insert_sql().replacen("INSERT", "INSERT OR IGNORE", 1))
            .at(to)?;
        piece.recording.rows(table.name, CHUNK_ROWS, |rows| {
            for row in rows {
                if matches!(table.name, "pool" | "device" | "series") {
                    add_key(conn, table, row, &mut key_ids).at(to)?;
                    continue;
                }
                let values = row.iter().zip(&table.columns).map(|(cell, column)| {
                    match (cell, column.references) {
                        (Cell::Integer(id), Some(referenced_table)) => {
                            Cell::Integer(renumber(referenced_table, *id, offsets, &key_ids))
                        }
                        _ => cell.clone(),
                    }
                });
                insert.execute(rusqlite::params_from_iter(values)).at(to)?;
            }
            Ok::<(), Error>(())
        })?;
    }
    Ok(())
}

fn renumber(table: &'static str, id: i64, offsets: &Offsets, key_ids: &KeyIds) -> i64 {
    match offsets.get(table) {
        Some(offset) => id.saturating_add(*offset),
        None => key_ids.get(&(table, id)).copied().unwrap_or(id),
    }
}

/// Reuses or assigns the key's id in the merged file.
fn add_key(
    conn: &Connection,
    table: &TableSpec,
    row: &[Cell],
    key_ids: &mut KeyIds,
) -> rusqlite::Result<()> {
    let (Some(Cell::Integer(old)), Some(parts)) = (row.first(), row.get(1..)) else {
        return Ok(());
    };
    let (id, _) = id_of_key(conn, &table.key_statements(), parts.iter())?;
    key_ids.insert((table.name, *old), id);
    Ok(())
}

fn insert_gap_event(
    conn: &Connection,
    session: i64,
    from: Duration,
    to: Duration,
) -> rusqlite::Result<()> {
    let detail = serde_json::json!({
        "from_unix_ns": nanos(from), "to_unix_ns": nanos(to), "seconds": to.saturating_sub(from).as_secs_f64(), "reason": "merge",
    });
    let sql = "INSERT INTO event(session, unix_ns, uptime_ns, kind, process, detail) VALUES(?,?,0,?,NULL,?)";
    conn.execute(
        sql,
        params![
            session,
            nanos(to),
            EventKind::Gap.name(),
            detail.to_string()
        ],
    )
    .map(drop)
}

/// 256 KiB per step, so that others can use the disk in between.
const STEP_PAGES: i32 = 64;

/// Copies `from`, as it is at the time of the call, into a new file, in small steps of SQLite's
/// backup API. The copy's last session ends with its last tick, even if `from` is still being
/// written.
///
/// After each step, `progress` gets the number of copied pages and of all pages. It may sleep, to
/// slow the copy. During the whole copy the WAL of a live recording is not truncated and grows by
/// about 50 KB a second. `meta`: further entries for the copy's table `meta`.
pub fn backup(
    from: &Path,
    to: &Path,
    meta: &[(&str, &str)],
    mut progress: impl FnMut(u64, u64),
) -> Result<()> {
    let source = Recording::open_own(from)?;
    let (output, mut copy) = TempFile::create(to)?;
    {
        // `open` began a read transaction, so that writes do not restart the copy.
        let backup = Backup::new(source.connection(), &mut copy).at(from)?;
        loop {
            let result = backup.step(STEP_PAGES).at(to)?;
            let pages = backup.progress();
            let count = |n: i32| u64::try_from(n).unwrap_or(0);
            progress(
                count(pages.pagecount - pages.remaining),
                count(pages.pagecount),
            );
            match result {
                StepResult::Done => break,
                StepResult::Busy | StepResult::Locked => {
                    return Err(Error::InUse {
                        path: to.to_owned(),
                    });
                }
                _ => {}
            }
        }
    }
    drop(source);
    copy.pragma_update(None, "journal_mode", "DELETE").at(to)?;
    finish_recording(&copy, meta).at(to)?;
    output.publish(copy)
}
