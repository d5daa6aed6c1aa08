//! Follows a log file over rotation.
//!
//! The caller polls every [`POLL_INTERVAL`]. inotify would not avoid the polls: it misses changes
//! on network file systems and behind symbolic links.
//!
//! **Start**: reading starts at the end of the file. A file that appears later is read from its
//! beginning. If it is older than the daemon (renamed, or now readable), it is read from its end.
//!
//! **Rename**: the validator writes to the old file until it has handled SIGUSR1, which Agave 4.2
//! and later do only after the start-up. So the old file is read until the new one has data and the
//! old one was quiet for [`CLOSE_QUIET_FILE_AFTER`].
//!
//! **Truncation** (`copytruncate`): detected by the size or, if the file has grown beyond the
//! offset again, by the last KiB before the offset. Each read first compares that KiB.
//!
//! **Copies**: a new file with the same KiB at the same offset (`sed -i`, an undone rotation) is
//! read from that offset on.
//!
//! Lines are lost in four cases: they were written between the last poll and a truncation; their
//! file had the name only between two polls; their file was deleted and then quiet for a minute; a
//! truncated file has the same KiB at the same offset again. A copy whose KiB before the offset
//! differs is read from its beginning.

mod followed;

use crate::records::{RecordWriter, StatusHandle};
use faultline_metrics::{Problem, ProblemKind, Stamp};
use followed::{FileId, FilePosition, FollowedFile};
use rustix::fs::OFlags;
use std::{
    collections::VecDeque,
    fs::{self, File, Metadata, OpenOptions},
    io::{self, ErrorKind},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

pub const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// An old file is closed once it has not grown for this long and the new file has data.
pub const CLOSE_QUIET_FILE_AFTER: Duration = Duration::from_secs(5);

/// A deleted file that has not grown for this long is closed, to free its space.
const CLOSE_DELETED_FILE_AFTER: Duration = Duration::from_secs(60);

/// A missing log file is a problem after this long. During a rotation it is missing for a moment.
const MISSING_GRACE: Duration = Duration::from_secs(10);

/// Tolerance when comparing a file's age with the daemon's: file systems have coarse timestamps.
const BIRTH_MARGIN: Duration = Duration::from_secs(1);

const CHUNK_BYTES: usize = 64 * 1024;

/// Maximum number of open files, and of remembered closed files.
pub const MAX_FILES: usize = 16;

/// Needs its own thread, because [`Follower::poll`] blocks.
pub struct Follower {
    path: Arc<Path>,
    writer: RecordWriter,
    started_at: Stamp,
    open_files: Vec<FollowedFile>,
    /// The file at `path` now. `None`: there is no file, or it cannot be read.
    current_id: Option<FileId>,
    closed_positions: VecDeque<FilePosition>,
    /// The file at `path` when the daemon started, readable or not.
    initial_id: Option<FileId>,
    missing_since: Option<Duration>,
    buffer: Vec<u8>,
}

impl Follower {
    /// Starts at the end of `path`. The status reports a file that cannot be read yet. Blocks while
    /// the file system does.
    pub fn open(path: &Path, writer: RecordWriter, now: Stamp) -> Self {
        let path: Arc<Path> = path.into();
        writer.status.begin_poll(&path, now);
        let mut follower = Self {
            path: Arc::clone(&path),
            writer,
            started_at: now,
            open_files: Vec::new(),
            current_id: None,
            closed_positions: VecDeque::new(),
            initial_id: fs::metadata(&path)
                .ok()
                .map(|metadata| FileId::of(&metadata)),
            missing_since: None,
            buffer: vec![0; CHUNK_BYTES],
        };
        let problem = follower.update_current(now, true);
        follower.writer.status.set_problem(problem);
        follower
    }

    pub fn status(&self) -> StatusHandle {
        self.writer.status.clone()
    }

    pub fn open_file_count(&self) -> usize {
        self.open_files.len()
    }

    /// Finds the file at the path, reads a limited amount of new data, and closes finished files.
    /// True if there is more data: the caller then polls again at once, else after
    /// [`POLL_INTERVAL`].
    pub fn poll(&mut self, now: Stamp) -> bool {
        self.writer.status.begin_poll(&self.path, now);
        let mut problem = self.update_current(now, false);
        let mut has_more = false;
        let mut failed = Vec::new();
        for file in &mut self.open_files {
            match file.read(&mut self.buffer, &mut self.writer, now) {
                Ok(file_has_more) => has_more |= file_has_more,
                Err(error) => {
                    problem.get_or_insert_with(|| self::problem(&self.path, &error));
                    failed.push(file.position.id);
                }
            }
        }
        // The next poll reopens a failed file and continues at its saved offset.
        failed.into_iter().for_each(|id| self.close(id, now));
        self.close_finished_files(now);
        self.writer.status.set_problem(problem);
        has_more
    }

    fn update_current(&mut self, now: Stamp, starts_at_end: bool) -> Option<Problem> {
        match self.open_current(now, starts_at_end) {
            Ok(id) => {
                if self.current_id != Some(id) {
                    self.mark_active(self.current_id, now);
                    self.mark_active(Some(id), now);
                }
                (self.current_id, self.missing_since) = (Some(id), None);
                None
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.current_id = None;
                let missing_since = *self.missing_since.get_or_insert(now.uptime);
                let (kind, state) =
                    if self.open_files.is_empty() && self.closed_positions.is_empty() {
                        (ProblemKind::Absent, "does not exist yet")
                    } else if now.uptime.saturating_sub(missing_since) >= MISSING_GRACE {
                        (ProblemKind::Gone, "no longer exists")
                    } else {
                        return None;
                    };
                let path = faultline_text::path(&self.path);
                Some(Problem::new(kind, format!("{path} {state}")))
            }
            Err(error) => {
                (self.current_id, self.missing_since) = (None, None);
                Some(problem(&self.path, &error))
            }
        }
    }

    fn open_current(&mut self, now: Stamp, starts_at_end: bool) -> io::Result<FileId> {
        let id = FileId::of(&require_regular_file(fs::metadata(&self.path)?)?);
        if self.open_files.iter().any(|file| file.position.id == id) {
            return Ok(id);
        }
        // The path may be a pipe by now. Without O_NONBLOCK, the open would wait for a writer.
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(&self.path)?;
        let metadata = require_regular_file(file.metadata()?)?;
        let id = FileId::of(&metadata);
        if self.open_files.iter().any(|file| file.position.id == id) {
            return Ok(id);
        }
        let offset = if starts_at_end {
            metadata.len()
        } else {
            self.start_offset(&file, &metadata, now)
        };
        self.open_files
            .push(FollowedFile::new(file, id, offset, now.uptime)?);
        Ok(id)
    }

    fn start_offset(&self, file: &File, metadata: &Metadata, now: Stamp) -> u64 {
        let id = FileId::of(metadata);
        let open_positions = self.open_files.iter().map(|file| &file.position);
        let matching = self
            .closed_positions
            .iter()
            .chain(open_positions)
            .filter(|position| position.is_in(id, file));
        if let Some(offset) = matching.map(|position| position.offset).max() {
            return offset;
        }
        if self.predates_daemon(metadata, now) {
            metadata.len()
        } else {
            0
        }
    }

    /// True if both the time and the age of the file say that it is older than the daemon. A clock
    /// that was set back makes the time of a new file wrong, one that was set forward its age. Two
    /// kinds of old files seem new: those created before the start by less than a step back, and
    /// those that appear after a step forward.
    fn predates_daemon(&self, metadata: &Metadata, now: Stamp) -> bool {
        match metadata
            .created()
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
        {
            Some(birth) => {
                let age = now.unix.saturating_sub(birth);
                birth + BIRTH_MARGIN < self.started_at.unix
                    && age > now.since(self.started_at) + BIRTH_MARGIN
            }
            None => {
                let id = FileId::of(metadata);
                let mut closed = self.closed_positions.iter();
                self.initial_id == Some(id) && closed.all(|position| position.id != id)
            }
        }
    }

    fn mark_active(&mut self, id: Option<FileId>, now: Stamp) {
        for file in self
            .open_files
            .iter_mut()
            .filter(|file| Some(file.position.id) == id)
        {
            file.last_active = now.uptime;
        }
    }

    fn close_finished_files(&mut self, now: Stamp) {
        let current_has_data = self
            .open_files
            .iter()
            .any(|file| Some(file.position.id) == self.current_id && file.position.offset > 0);
        let mut old: Vec<&FollowedFile> = self
            .open_files
            .iter()
            .filter(|file| Some(file.position.id) != self.current_id)
            .collect();
        // Above the limit, the files that were quiet longest are closed: the validator writes to
        // at most one.
        old.sort_by_key(|file| file.last_active);
        let surplus = self.open_files.len().saturating_sub(MAX_FILES);
        let finished = old.into_iter().enumerate().filter(|(index, file)| {
            let quiet = now.uptime.saturating_sub(file.last_active);
            *index < surplus
                || (current_has_data && quiet >= CLOSE_QUIET_FILE_AFTER)
                || (quiet >= CLOSE_DELETED_FILE_AFTER && file.is_unlinked())
        });
        let finished: Vec<FileId> = finished.map(|(_, file)| file.position.id).collect();
        finished.into_iter().for_each(|id| self.close(id, now));
    }

    fn close(&mut self, id: FileId, now: Stamp) {
        let Some(index) = self
            .open_files
            .iter()
            .position(|file| file.position.id == id)
        else {
            return;
        };
        let mut file = self.open_files.remove(index);
        let mut batch = self.writer.begin(now);
        batch.end_text(&mut file.splitter);
        batch.commit();
        self.closed_positions.push_back(file.position);
        if self.closed_positions.len() > MAX_FILES {
            self.closed_positions.pop_front();
        }
    }
}

fn require_regular_file(metadata: Metadata) -> io::Result<Metadata> {
    if metadata.is_file() {
        return Ok(metadata);
    }
    let kind = if metadata.is_dir() {
        "a directory"
    } else {
        "a pipe, socket or device"
    };
    Err(io::Error::other(format!("{kind}, not a file")))
}

fn problem(path: &Path, error: &io::Error) -> Problem {
    let kind = match error.kind() {
        ErrorKind::PermissionDenied => ProblemKind::Forbidden,
        ErrorKind::StaleNetworkFileHandle => ProblemKind::Gone,
        _ => ProblemKind::Broken,
    };
    Problem::new(kind, format!("{}: {error}", faultline_text::path(path)))
}
