//! Writes a recording. Rows collect in an open transaction. Only opening, [`Writer::commit`],
//! [`Writer::checkpoint`], [`Writer::prune`] and [`Writer::finish`] write to the disk. After an
//! error, [`Writer::rollback`] discards uncommitted rows, and the writer can continue.

mod keyed_samples;
mod open;
mod prune;
mod samples;

pub use keyed_samples::id_of_key;
pub use open::{finish_recording, label_list, make_tables};

use crate::{
    error::{AttachPath, Error, Result},
    file::{self, nanos},
    rows::{Event, NewProcess},
    schema::{Point, PointRow},
    side_files,
};
use faultline_metrics::{Problem, Source, Stamp, Tick, metrics::process::START_TIME};
use keyed_samples::{RowCounts, SampledSources, insert_into};
use rusqlite::{Connection, params};
use samples::{Samples, validator_phase};
use std::{
    mem,
    path::{Path, PathBuf},
    time::Duration,
};

/// Bytes: a longer WAL (write-ahead log) is truncated unless a reader prevents it.
const LONG_WAL_BYTES: u64 = 4 << 20;

/// Bytes: for a longer WAL the writer waits for readers.
const VERY_LONG_WAL_BYTES: u64 = 16 << 20;

/// How long the writer waits for readers. New readers may begin meanwhile.
const WAIT_FOR_READERS: Duration = Duration::from_millis(500);

#[derive(Debug)]
struct FollowedProcess {
    process: NewProcess,
    /// Row id; `None` until the row is written.
    id: Option<i64>,
    /// A rollback may have restored an earlier start time in the row.
    must_rewrite_start: bool,
}

#[derive(Debug, Default)]
struct SourceProblems {
    problems: Vec<Problem>,
    must_rewrite: bool,
}

/// State that a rollback returns to.
#[derive(Debug, Clone, Default)]
struct TransactionState {
    next_tick: i64,
    /// Row id of the process followed last; `None` after its end.
    last_process_id: Option<i64>,
    counts: RowCounts,
}

/// Owns its connection; used by one thread at a time.
#[derive(Debug)]
pub struct Writer {
    // `conn` is first, so it closes before `lock`. Except on NFS, `lock` has a descriptor of the
    // recording. Closing any descriptor of a file drops all POSIX locks of the process on that
    // file, so also SQLite's.
    conn: Connection,
    lock: open::WriterLock,
    path: PathBuf,
    session: i64,
    followed_process: Option<FollowedProcess>,
    samples: Samples,
    written_problems: [SourceProblems; Source::ALL.len()],
    current: TransactionState,
    committed: TransactionState,
    uncommitted_rows: u64,
    has_failed: bool,
}

impl Writer {
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn begin_process(&mut self, process: &NewProcess) -> Result<()> {
        self.samples.forget_keys();
        self.followed_process = Some(FollowedProcess {
            process: process.clone(),
            id: None,
            must_rewrite_start: false,
        });
        self.write(|_| Ok(()))
    }

    pub fn replace_manifest(&mut self, manifest: &serde_json::Value) -> Result<()> {
        if let Some(followed) = &mut self.followed_process {
            followed.process.manifest = manifest.clone();
        }
        self.write(|writer| {
            if let Some(id) = writer.process_id() {
                let sql = "UPDATE process SET manifest = ?2 WHERE id = ?1";
                writer
                    .conn
                    .execute(sql, params![id, manifest.to_string()])?;
            }
            Ok(())
        })
    }

    pub fn end_process(&mut self) {
        self.samples.forget_keys();
        self.followed_process = None;
        // A prune may free this row id for the next process. `rollback` would then take that
        // process's row for a committed one.
        self.current.last_process_id = None;
        self.committed.last_process_id = None;
    }

    pub fn tick(&mut self, tick: &Tick) -> Result<()> {
        self.write(|writer| writer.write_tick(tick))
    }

    pub fn point(&mut self, point: &Point) -> Result<()> {
        self.write(|writer| writer.write_point(&point.row()))
    }

    pub fn event(&mut self, event: &Event) -> Result<()> {
        self.write(|writer| {
            let sql = "INSERT INTO event(session, unix_ns, uptime_ns, kind, process, detail) VALUES(?,?,?,?,?,?)";
            let (unix, uptime) = (nanos(event.at.unix), nanos(event.at.uptime));
            writer.conn.prepare_cached(sql)?.execute(params![
                writer.session, unix, uptime, event.kind.name(), writer.process_id(), event.detail
            ])?;
            writer.add_to_count("event", 1);
            Ok(())
        })
    }

    /// Returns the number of committed rows.
    pub fn commit(&mut self) -> Result<u64> {
        self.check_not_failed()?;
        if self.conn.is_autocommit() {
            return Ok(0);
        }
        if let Err(error) = self.conn.execute_batch("COMMIT") {
            self.has_failed = true;
            return Err(Error::sqlite(&self.path, error));
        }
        self.committed = self.current.clone();
        self.samples.forget_gone_keys();
        Ok(mem::take(&mut self.uncommitted_rows))
    }

    /// Discards uncommitted rows and makes the writer usable again; returns their number.
    pub fn rollback(&mut self) -> u64 {
        if !self.conn.is_autocommit() {
            // A rollback needs no space and waits for no reader. The next write reports a failure.
            let _ = self.conn.execute_batch("ROLLBACK");
        }
        self.has_failed = false;
        self.current = self.committed.clone();
        if let Some(followed) = &mut self.followed_process {
            followed.must_rewrite_start = true;
            if followed.id != self.committed.last_process_id {
                followed.id = None;
            }
        }
        self.samples.invalidate();
        self.written_problems
            .iter_mut()
            .for_each(|written| written.must_rewrite = true);
        mem::take(&mut self.uncommitted_rows)
    }

    /// Sets the file size above which writes fail with [`Error::Full`] until something is pruned.
    pub fn set_max_bytes(&mut self, bytes: u64) -> Result<()> {
        let size: i64 = self
            .conn
            .pragma_query_value(None, "page_size", |row| row.get(0))
            .at(&self.path)?;
        let pages = i64::try_from(bytes).unwrap_or(i64::MAX) / size.max(1);
        self.conn
            .pragma_update(None, "max_page_count", pages)
            .at(&self.path)
    }

    /// Commits, then moves the WAL into the file as far as readers allow. If no reader prevents the
    /// move, a later power cut loses no earlier data, and the WAL stays bounded. If the WAL is
    /// longer than 16 MiB, waits up to half a second for readers.
    pub fn checkpoint(&mut self) -> Result<()> {
        self.store_row_counts()?;
        self.commit()?;
        self.checkpoint_wal("PASSIVE")?;
        let wal_bytes = side_files::length(&side_files::with_suffix(&self.path, "-wal"));
        if wal_bytes > LONG_WAL_BYTES {
            let lock_timeout = if wal_bytes > VERY_LONG_WAL_BYTES {
                WAIT_FOR_READERS
            } else {
                Duration::ZERO
            };
            self.conn.busy_timeout(lock_timeout).at(&self.path)?;
            let result = self.checkpoint_wal("TRUNCATE");
            self.conn.busy_timeout(file::LOCK_TIMEOUT).at(&self.path)?;
            result?;
        }
        Ok(())
    }

    /// Commits, ends the session and makes the recording a single complete file.
    ///
    /// # Errors
    /// [`Error::BeingRead`] if a reader keeps the WAL from being removed; no data is lost.
    pub fn finish(mut self, ended: Stamp) -> Result<()> {
        self.write(|writer| {
            let sql = "UPDATE session SET ended_unix_ns = ?2 WHERE id = ?1";
            writer
                .conn
                .execute(sql, params![writer.session, nanos(ended.unix)])
                .map(drop)
        })?;
        self.store_row_counts()?;
        self.commit()?;
        open::remove_wal(&self.conn, &self.path)
    }

    /// Runs `operation` in a transaction; an error requires a rollback.
    fn write(&mut self, operation: impl FnOnce(&mut Self) -> rusqlite::Result<()>) -> Result<()> {
        self.check_not_failed()?;
        let result = self.begin().and_then(|()| operation(self));
        result.map_err(|error| {
            self.has_failed = true;
            Error::sqlite(&self.path, error)
        })
    }

    fn check_not_failed(&self) -> Result<()> {
        if self.has_failed {
            Err(Error::RollBackFirst {
                path: self.path.clone(),
            })
        } else {
            Ok(())
        }
    }

    /// Begins a transaction if none is open, and writes the row of a new process.
    fn begin(&mut self) -> rusqlite::Result<()> {
        if self.conn.is_autocommit() {
            self.conn.execute_batch("BEGIN IMMEDIATE")?;
        }
        let Some(FollowedProcess {
            process,
            id: id @ None,
            ..
        }) = &mut self.followed_process
        else {
            return Ok(());
        };
        let sql = "INSERT INTO process(session, pid, started_unix_ns, seen_unix_ns, manifest) VALUES(?,?,?,?,?)";
        let started = process.started_unix.map(nanos);
        let manifest = process.manifest.to_string();
        self.conn.execute(
            sql,
            params![
                self.session,
                process.pid,
                started,
                nanos(process.seen.unix),
                manifest
            ],
        )?;
        let row_id = self.conn.last_insert_rowid();
        *id = Some(row_id);
        self.current.last_process_id = Some(row_id);
        self.add_to_count("process", 1);
        Ok(())
    }

    fn process_id(&self) -> Option<i64> {
        self.followed_process
            .as_ref()
            .and_then(|followed| followed.id)
    }

    fn add_to_count(&mut self, table: &'static str, rows: u64) {
        *self.current.counts.entry(table).or_default() += rows;
        self.uncommitted_rows += rows;
    }

    /// Corrects the start time of the process. It depends on the wall clock, which may have been
    /// set since the row was written.
    fn correct_start(&mut self, tick: &Tick) -> rusqlite::Result<()> {
        let started = tick.value_of(&START_TIME, &[]);
        let started = started.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let (Some(followed), Some(_)) = (&mut self.followed_process, started) else {
            return Ok(());
        };
        let last_start = &mut followed.process.started_unix;
        if mem::replace(last_start, started) != started || followed.must_rewrite_start {
            let sql = "UPDATE process SET started_unix_ns = ?2 WHERE id = ?1";
            self.conn
                .execute(sql, params![followed.id, started.map(nanos)])?;
            followed.must_rewrite_start = false;
        }
        Ok(())
    }

    fn write_tick(&mut self, tick: &Tick) -> rusqlite::Result<()> {
        self.correct_start(tick)?;
        let id = self.current.next_tick;
        let sql = "INSERT INTO tick(id, session, number, unix_ns, uptime_ns, process, phase) VALUES(?,?,?,?,?,?,?)";
        let (unix, uptime) = (nanos(tick.at.unix), nanos(tick.at.uptime));
        let number = i64::try_from(tick.number).unwrap_or(i64::MAX);
        self.conn.prepare_cached(sql)?.execute(params![
            id,
            self.session,
            number,
            unix,
            uptime,
            self.process_id(),
            validator_phase(tick)
        ])?;
        self.current.next_tick += 1;
        let before: u64 = self.current.counts.values().sum();
        *self.current.counts.entry("tick").or_default() += 1;
        let sampled = self.samples.update_sampled(tick);
        self.samples
            .write(&self.conn, id, tick, &sampled, &mut self.current.counts)?;
        self.uncommitted_rows += self.current.counts.values().sum::<u64>() - before;
        self.write_problems(id, tick, &sampled)
    }

    /// Writes a source's problems if they changed, or a row without status if they are over. A
    /// source may have several batches in a tick.
    fn write_problems(
        &mut self,
        id: i64,
        tick: &Tick,
        sampled: &SampledSources,
    ) -> rusqlite::Result<()> {
        let mut rows = 0;
        for source in Source::ALL
            .into_iter()
            .filter(|source| sampled[*source as usize])
        {
            let source_batches = tick.batches.iter().filter(|batch| batch.source == source);
            let problems: Vec<&Problem> =
                source_batches.flat_map(|batch| &batch.problems).collect();
            let written = &mut self.written_problems[source as usize];
            if written.problems.iter().eq(problems.iter().copied()) && !written.must_rewrite {
                continue;
            }
            let sql = "INSERT INTO problem(tick, source, status, what) VALUES(?,?,?,?)";
            let mut insert = self.conn.prepare_cached(sql)?;
            for problem in &problems {
                insert.execute(params![
                    id,
                    source.name(),
                    problem.kind.name(),
                    problem.what
                ])?;
                rows += 1;
            }
            if problems.is_empty() {
                insert.execute(params![id, source.name(), None::<&str>, None::<&str>])?;
                rows += 1;
            }
            written.problems = problems.into_iter().cloned().collect();
            written.must_rewrite = false;
        }
        self.add_to_count("problem", rows);
        Ok(())
    }

    fn write_point(&mut self, point: &PointRow) -> rusqlite::Result<()> {
        let last_tick = Some(self.current.next_tick - 1).filter(|tick| *tick > 0);
        let mut insert = self.conn.prepare_cached(insert_into(point.table))?;
        insert.raw_bind_parameter(1, self.session)?;
        insert.raw_bind_parameter(2, last_tick)?;
        insert.raw_bind_parameter(3, point.time_unix_ns)?;
        insert.raw_bind_parameter(4, nanos(point.received))?;
        for (index, value) in point.fields.iter().enumerate() {
            insert.raw_bind_parameter(index + 5, value)?;
        }
        insert.raw_execute()?;
        drop(insert);
        self.add_to_count(point.table, 1);
        Ok(())
    }

    fn checkpoint_wal(&self, mode: &str) -> Result<()> {
        self.conn
            .pragma_update(None, "wal_checkpoint", mode)
            .at(&self.path)
    }

    /// Stores the row counts of all tables, to report what a damaged file has lost.
    fn store_row_counts(&mut self) -> Result<()> {
        let counts = serde_json::to_string(&self.current.counts).unwrap_or_default();
        self.write(|writer| open::put_meta(&writer.conn, "rows", &counts))
    }
}
