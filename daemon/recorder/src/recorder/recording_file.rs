//! Writes one recording, with a transaction per second, and recovers from disk errors.

mod retained;

use super::{FollowedProcess, PROBLEM_SHOWN_FOR, RecorderStatus, RecordingEntry, RecordingSink};
use faultline_metrics::{Problem, ProblemKind, Stamp};
use faultline_recording::{Error, EventKind, NewProcess, NewRecording, Writer, with_suffix};
use retained::RetainedEntries;
use serde_json::json;
use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    os::{fd::AsRawFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Checkpoint interval, and the maximum loss in a power cut.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(60);

pub const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);

pub const MAX_RETRY_DELAY: Duration = Duration::from_secs(10);

/// A recording being written. During a failure it drops and counts ticks and points, retains
/// events, and retries after growing delays. After recovery it writes the retained events, and a
/// gap event with the loss. A removed or replaced file is created again.
pub struct RecordingFile {
    path: PathBuf,
    new_recording: NewRecording,
    /// `None` after the file was removed or replaced, until there is a new one.
    writer: Option<Writer>,
    file_identity: FileIdentity,
    status: Arc<RecorderStatus>,
    process: Option<Arc<FollowedProcess>>,
    retained: RetainedEntries,
    lost_entries: u64,
    failure: Option<WriteFailure>,
    /// Uptime until which the removed file is reported as a problem.
    problem_shown_until: Option<Duration>,
    last_write: Stamp,
    last_checkpoint: Stamp,
}

struct WriteFailure {
    since: Stamp,
    retry_delay: Duration,
    next_attempt: Duration,
    reason: String,
}

impl RecordingFile {
    /// Creates the file, or continues a recording of the same labels, and records the daemon's
    /// start. A full disk is no error, because later writes retry.
    ///
    /// # Errors
    /// The file cannot be created or written, or cannot be continued.
    pub fn open(
        path: &Path,
        new_recording: &NewRecording,
        status: Arc<RecorderStatus>,
    ) -> Result<Self, Error> {
        let started = new_recording.session.started;
        let detail = json!({ "version": new_recording.session.version, "pid": std::process::id() });
        let first = RecordingEntry::event(started, EventKind::DaemonStart, detail);
        let first_write = Writer::append(path, new_recording).and_then(|mut writer| {
            write_entry(&mut writer, &first)?;
            let rows = writer.commit()?;
            Ok((writer, rows))
        });
        let mut file = Self {
            path: path.to_owned(),
            new_recording: new_recording.clone(),
            writer: None,
            file_identity: FileIdentity::read(path),
            status,
            process: None,
            retained: RetainedEntries::default(),
            lost_entries: 0,
            failure: None,
            problem_shown_until: None,
            last_write: started,
            last_checkpoint: started,
        };
        match first_write {
            Ok((writer, rows)) => {
                file.status.add_rows(rows);
                file.writer = Some(writer);
            }
            Err(error) if error.is_full() => {
                file.retain_or_count_lost(&[first]);
                file.record_failure(&error, started);
            }
            Err(error) => return Err(error),
        }
        Ok(file)
    }

    /// The writer, for deletions between two transactions. `None` without a file.
    pub fn writer(&mut self) -> Option<&mut Writer> {
        self.writer.as_mut()
    }

    /// Writes to the file of `opened` from now on, first what could not be written.
    pub fn continue_in(&mut self, opened: Self) {
        (self.writer, self.file_identity) = (opened.writer, opened.file_identity);
        if self.writer.is_some() {
            // `open` has written it.
            self.retained.entries.retain(|entry| {
                !matches!(entry, RecordingEntry::Event(event) if event.kind == EventKind::DaemonStart)
            });
        }
        if let Some(failure) = &mut self.failure {
            failure.next_attempt = Duration::ZERO;
        }
    }

    /// Closes a file that is not at its path any more. The next attempt creates a new file.
    fn close_moved_file(&mut self, now: Stamp) {
        let Some(what) = self.file_identity.change() else {
            return;
        };
        let Some(mut writer) = self.writer.take() else {
            return;
        };
        let why = format!(
            "{} was {what} while it was written; a new one is begun",
            self.path.display()
        );
        tracing::error!(
            recorder = self.status.name,
            why,
            "the recording is not at its path any more"
        );
        let moved_file = writer.locked_file().try_clone();
        // Completes the moved file, so that it stays usable at its new path.
        let closed = if self.file_identity.wal_belongs_to_replacement() {
            writer.checkpoint()
        } else {
            writer.finish(now)
        };
        if let Err(error) = closed {
            let end = moved_file
                .and_then(|file| self.file_identity.preserve_wal(&file, now))
                .map_or_else(
                    |why| format!("lost, unless its -wal file was moved with it: {why}"),
                    |wal| {
                        format!(
                            "in {}: it belongs next to the recording, named RECORDING-wal",
                            wal.display()
                        )
                    },
                );
            tracing::warn!(%error, "the end of the old recording is {end}");
        }
        self.file_identity.remove_wal();
        self.retained.prepend_process(self.process.as_ref());
        self.status
            .set_problem(Some(Problem::new(ProblemKind::Gone, why.clone())));
        self.problem_shown_until = Some(now.uptime + PROBLEM_SHOWN_FOR);
        let failure = WriteFailure {
            since: self.last_write,
            // `record_failure` doubles this before it waits.
            retry_delay: MIN_RETRY_DELAY / 2,
            next_attempt: now.uptime,
            reason: why,
        };
        self.failure.get_or_insert(failure).next_attempt = now.uptime;
    }

    fn write_with_retained(
        &mut self,
        entries: &[RecordingEntry],
        now: Stamp,
    ) -> Result<u64, Error> {
        if self.writer.is_none() {
            let mut new_recording = self.new_recording.clone();
            let session = &mut new_recording.session;
            session.manifest["clock"]["daemon_started_unix_ns"] =
                json!(session.started.unix.as_nanos());
            session.started = now;
            let opened = Writer::append(&self.path, &new_recording);
            self.writer = Some(opened.inspect_err(|_| self.retain_or_count_lost(entries))?);
            self.file_identity = FileIdentity::read(&self.path);
        }
        let Some(failure) = &self.failure else {
            return self.write(entries, entries.len());
        };
        let seconds = now.since(failure.since).as_secs_f64();
        let detail =
            json!({ "why": failure.reason, "entries": self.lost_entries, "seconds": seconds });
        let mut all = self.retained.take(self.process.as_ref());
        all.extend_from_slice(entries);
        let without_gap = all.len();
        all.push(RecordingEntry::event(now, EventKind::Gap, detail));
        self.write(&all, without_gap)
    }

    /// Writes one transaction, plus one for each change of process. After a failure, retains or
    /// counts as lost the first `count` entries, except those of finished transactions. The writer
    /// keeps its process, so retained events stay with the right one.
    fn write(&mut self, entries: &[RecordingEntry], count: usize) -> Result<u64, Error> {
        let Some(writer) = &mut self.writer else {
            return Ok(0);
        };
        let (mut rows, mut done) = (0, 0);
        for part in entries.chunk_by(|_, next| !matches!(next, RecordingEntry::ProcessChange(_))) {
            match part
                .iter()
                .try_for_each(|entry| write_entry(writer, entry))
                .and_then(|()| writer.commit())
            {
                Ok(part_rows) => (rows, done) = (rows + part_rows, done + part.len()),
                Err(error) => {
                    writer.rollback();
                    self.status.add_rows(rows);
                    self.retain_or_count_lost(entries.get(done..count).unwrap_or_default());
                    return Err(error);
                }
            }
        }
        Ok(rows)
    }

    fn retain_or_count_lost(&mut self, entries: &[RecordingEntry]) {
        let lost = self.retained.keep(entries);
        self.status.count_dropped(lost);
        self.lost_entries += lost;
    }

    fn record_failure(&mut self, error: &Error, now: Stamp) {
        let (path, why) = (self.path.display(), error.to_string());
        let delay = match &self.failure {
            None => {
                tracing::error!(
                    recorder = self.status.name,
                    %path,
                    why,
                    "cannot write the recording; exporting continues"
                );
                MIN_RETRY_DELAY
            }
            Some(failure) => (failure.retry_delay * 2).min(MAX_RETRY_DELAY),
        };
        self.status.set_problem(Some(Problem::broken(format!(
            "the recorder cannot write and will retry: {why}"
        ))));
        let failure = self.failure.get_or_insert(WriteFailure {
            since: now,
            retry_delay: delay,
            next_attempt: now.uptime,
            reason: why,
        });
        (failure.retry_delay, failure.next_attempt) = (delay, now.uptime + delay);
        self.problem_shown_until = None;
    }

    fn record_success(&mut self, rows: u64, now: Stamp) {
        self.status.add_rows(rows);
        self.last_write = now;
        let lost = std::mem::take(&mut self.lost_entries);
        if let Some(failure) = self.failure.take() {
            let seconds = now.since(failure.since).as_secs();
            tracing::info!(
                recorder = self.status.name,
                seconds,
                lost,
                "writing the recording again"
            );
        }
        if self
            .problem_shown_until
            .is_none_or(|until| until <= now.uptime)
        {
            self.problem_shown_until = None;
            self.status.set_problem(None);
        }
    }

    fn checkpoint(&mut self, now: Stamp) {
        if now.since(self.last_checkpoint) < CHECKPOINT_INTERVAL || self.failure.is_some() {
            return;
        }
        self.last_checkpoint = now;
        if let Some(writer) = &mut self.writer
            && let Err(error) = writer.checkpoint()
        {
            // The write-ahead log keeps the data. The next commit shows whether it accepts more.
            writer.rollback();
            tracing::warn!(recorder = self.status.name, %error, "cannot checkpoint the recording");
        }
    }
}

fn write_entry(writer: &mut Writer, entry: &RecordingEntry) -> Result<(), Error> {
    match entry {
        RecordingEntry::Tick(tick) => writer.tick(tick),
        RecordingEntry::Point(point) => writer.point(point),
        RecordingEntry::Event(event) => writer.event(event),
        RecordingEntry::ProcessChange(None) => {
            writer.end_process();
            Ok(())
        }
        RecordingEntry::ProcessChange(Some(followed)) => writer.begin_process(&NewProcess {
            pid: followed.target.process.pid,
            started_unix: followed.started_unix,
            seen: followed.first_seen,
            manifest: followed.manifest.clone(),
        }),
        RecordingEntry::Manifest(new) => writer.replace_manifest(&new.manifest),
    }
}

impl RecordingSink for RecordingFile {
    fn write_entries(&mut self, entries: &[RecordingEntry], now: Stamp) {
        self.close_moved_file(now);
        if self
            .failure
            .as_ref()
            .is_some_and(|failure| now.uptime < failure.next_attempt)
        {
            self.retain_or_count_lost(entries);
        } else if !entries.is_empty() || self.failure.is_some() {
            match self.write_with_retained(entries, now) {
                Ok(rows) => self.record_success(rows, now),
                Err(error) => self.record_failure(&error, now),
            }
        }
        for entry in entries {
            entry.update_process(&mut self.process);
        }
        self.checkpoint(now);
    }

    fn finish(mut self: Box<Self>, now: Stamp) {
        // The last attempt ignores the delay.
        if let Some(failure) = &mut self.failure {
            failure.next_attempt = now.uptime;
        }
        self.write_entries(
            &[RecordingEntry::event(now, EventKind::DaemonStop, json!({}))],
            now,
        );
        let path = self.path.display();
        let why = self.failure.map(|failure| failure.reason);
        match self.writer.map(|writer| writer.finish(now)) {
            Some(Ok(())) => tracing::info!(%path, "the recording is finished"),
            Some(Err(error)) => {
                tracing::warn!(%path, %error, "the recording can be read, but is not finished")
            }
            None => {
                tracing::warn!(
                    %path,
                    why,
                    "the end is not recorded: the recording could not be opened"
                )
            }
        }
    }
}

/// Device and inode number.
type Inode = (u64, u64);

struct FileIdentity {
    path: PathBuf,
    file: Option<Inode>,
    wal: Option<Inode>,
}

impl FileIdentity {
    fn read(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            file: inode(path).ok(),
            wal: inode(&with_suffix(path, "-wal")).ok(),
        }
    }

    /// What happened to the file, as part of a sentence. `None` while it is at its path, or if it
    /// cannot be inspected.
    fn change(&self) -> Option<&'static str> {
        match inode(&self.path) {
            Ok(now) if Some(now) != self.file => Some("replaced"),
            Err(error) if error.kind() == ErrorKind::NotFound => Some("removed or moved"),
            _ => None,
        }
    }

    /// True if the write-ahead log at the path belongs to another file and must stay.
    fn wal_belongs_to_replacement(&self) -> bool {
        inode(&with_suffix(&self.path, "-wal")).is_ok_and(|now| Some(now) != self.wal)
    }

    /// Keeps our write-ahead log for the moved file: next to it, or under another name in its own
    /// folder if it cannot be linked there, as from the daemon's mount namespace. Returns its path.
    fn preserve_wal(&self, moved_file: &File, now: Stamp) -> io::Result<PathBuf> {
        let wal = with_suffix(&self.path, "-wal");
        if moved_file.metadata()?.nlink() == 0 || self.wal_belongs_to_replacement() {
            return Err(ErrorKind::NotFound.into());
        }
        let moved_to = fs::read_link(format!("/proc/self/fd/{}", moved_file.as_raw_fd()))?;
        let next_to_it = with_suffix(&moved_to, "-wal");
        let has_inode = |path, wanted| inode(path).is_ok_and(|now| Some(now) == wanted);
        if has_inode(&moved_to, self.file)
            && (has_inode(&next_to_it, self.wal) || fs::hard_link(&wal, &next_to_it).is_ok())
        {
            return Ok(next_to_it);
        }
        let renamed = with_suffix(&wal, &format!(".{}", now.unix.as_secs()));
        fs::hard_link(&wal, &renamed).map(|()| renamed)
    }

    /// Removes the rest of our write-ahead log, because SQLite would apply it to the file that
    /// replaced ours. Close the writer first. Keeps it if our file is at its path again.
    fn remove_wal(&self) {
        if self.change().is_some() && !self.wal_belongs_to_replacement() {
            for suffix in ["-wal", "-shm"] {
                // Usually SQLite has removed them.
                let _ = fs::remove_file(with_suffix(&self.path, suffix));
            }
        }
    }
}

fn inode(path: &Path) -> io::Result<Inode> {
    fs::metadata(path).map(|meta| (meta.dev(), meta.ino()))
}

#[cfg(test)]
mod tests;
