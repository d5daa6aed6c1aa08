//! Follows a log file over rotation.
//!
//! The caller polls every [`POLL`]. inotify would not avoid the polls: it misses changes on network
//! file systems and behind symbolic links.
//!
//! **Start**: at the end of the file. A file that appears later is read from its beginning. If it
//! is older than the daemon and only now got the name or became readable, it is read from its end.
//!
//! **Rename**: the validator writes to the old file until it has handled SIGUSR1, which Agave 4.2
//! and later do only after the start-up. So the old file is read until the new one has data and the
//! old one was quiet for [`QUIET`].
//!
//! **Truncation** (`copytruncate`): detected by the size or, if the file has grown beyond the
//! offset again, by the last KiB before the offset. Every read compares it first.
//!
//! **Copies**: a new file with the same KiB at the same offset (`sed -i`, an undone rotation) is
//! read on from there.
//!
//! Lost: lines written between the last poll and a truncation; a file that got and lost the name
//! between two polls; a truncated file that grew again to the same KiB at the same offset. A copy
//! with changed earlier lines is read from its beginning.

mod followed;

use crate::records::RecordWriter;
use crate::status::StatusHandle;
use faultline_metrics::{Problem, Stamp, Status};
use followed::{FileId, Followed, Found, Mark};
use rustix::fs::OFlags;
use std::collections::VecDeque;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

pub const POLL: Duration = Duration::from_millis(250);

/// An old file is closed when its successor has data and it has not grown for this long.
pub const QUIET: Duration = Duration::from_secs(5);

/// A deleted file without writers is closed after this long, to free its space.
const UNLINKED_QUIET: Duration = Duration::from_secs(60);

/// How long the name may be missing, as in the middle of a rotation, before that is a problem.
const NAMELESS: Duration = Duration::from_secs(10);

/// A file is older than the daemon if it is by more than this, because file systems have coarse
/// timestamps.
const BIRTH_MARGIN: Duration = Duration::from_secs(1);

const CHUNK_BYTES: usize = 64 * 1024;

/// Chunks read from one file before the others, the name and the stop signal are checked again.
const CHUNKS_PER_POLL: usize = 16;

/// Files followed at once, and closed files that are remembered.
pub const MOST_FILES: usize = 16;

/// It blocks while it [polls](Follower::poll), so it needs a thread.
#[derive(Debug)]
pub struct Follower {
    path: Arc<Path>,
    writer: RecordWriter,
    began: Stamp,
    open_files: Vec<Followed>,
    /// The file with the name; `None` if there is none or it cannot be read.
    named: Option<FileId>,
    marks: VecDeque<Mark>,
    /// The file with the name at the start, readable or not.
    first: Option<FileId>,
    missing_since: Option<Duration>,
    buffer: Vec<u8>,
}

impl Follower {
    /// Starts at the end of `path`. A file that cannot be read yet is a problem in the status. Like
    /// every poll it takes as long as the file system does.
    pub fn open(path: &Path, writer: RecordWriter, now: Stamp) -> Self {
        let path: Arc<Path> = path.into();
        writer.status().begin(&path, now);
        let mut tail = Follower {
            path: Arc::clone(&path),
            writer,
            began: now,
            open_files: Vec::new(),
            named: None,
            marks: VecDeque::new(),
            first: fs::metadata(&path)
                .ok()
                .map(|metadata| FileId::of(&metadata)),
            missing_since: None,
            buffer: vec![0; CHUNK_BYTES],
        };
        let problem = tail.find(now, true);
        tail.writer.status().settle(problem);
        tail
    }

    pub fn status(&self) -> StatusHandle {
        self.writer.status().clone()
    }

    pub fn files(&self) -> usize {
        self.open_files.len()
    }

    /// Finds the file with the name, reads a bounded part of new data, and closes finished files.
    /// True if data is left: then poll again at once, else after [`POLL`].
    pub fn poll(&mut self, now: Stamp) -> bool {
        self.writer.status().begin(&self.path, now);
        let mut problem = self.find(now, false);
        let mut has_more = false;
        let mut lost = Vec::new();
        for file in &mut self.open_files {
            match read(file, &mut self.buffer, &mut self.writer, now) {
                Ok(file_has_more) => has_more |= file_has_more,
                Err(error) => {
                    problem.get_or_insert_with(|| self::problem(&self.path, &error));
                    lost.push(file.id);
                }
            }
        }
        // Opened again at the next poll, and continued from its mark.
        lost.into_iter().for_each(|id| self.close(id, now));
        self.let_go_of_old(now);
        self.writer.status().settle(problem);
        has_more
    }

    fn find(&mut self, now: Stamp, at_start: bool) -> Option<Problem> {
        match self.adopt(now, at_start) {
            Ok(id) => {
                if self.named != Some(id) {
                    self.stir(self.named, now);
                    self.stir(Some(id), now);
                }
                (self.named, self.missing_since) = (Some(id), None);
                None
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.named = None;
                let since = *self.missing_since.get_or_insert(now.uptime);
                let path = faultline_text::path(&self.path);
                if self.open_files.is_empty() && self.marks.is_empty() {
                    Some(Problem::new(
                        Status::Absent,
                        format!("{path} does not exist yet"),
                    ))
                } else if now.uptime.saturating_sub(since) >= NAMELESS {
                    Some(Problem::new(
                        Status::Gone,
                        format!("{path} was there and is no more"),
                    ))
                } else {
                    None
                }
            }
            Err(error) => {
                self.named = None;
                Some(problem(&self.path, &error))
            }
        }
    }

    fn adopt(&mut self, now: Stamp, at_start: bool) -> io::Result<FileId> {
        let id = FileId::of(&regular(fs::metadata(&self.path)?)?);
        if self.open_files.iter().any(|file| file.id == id) {
            return Ok(id);
        }
        // Without O_NONBLOCK, opening a pipe put there since would block until somebody writes to
        // it.
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(&self.path)?;
        let metadata = regular(file.metadata()?)?;
        let id = FileId::of(&metadata);
        if self.open_files.iter().any(|file| file.id == id) {
            return Ok(id);
        }
        let offset = if at_start {
            metadata.len()
        } else {
            self.beginning(&file, &metadata, now)
        };
        self.open_files
            .push(Followed::from(file, id, offset, now.uptime)?);
        Ok(id)
    }

    fn beginning(&self, file: &File, metadata: &Metadata, now: Stamp) -> u64 {
        let id = FileId::of(metadata);
        let current = self.open_files.iter().map(Followed::mark);
        let known = self
            .marks
            .iter()
            .cloned()
            .chain(current)
            .filter(|mark| mark.fits(id, file));
        if let Some(offset) = known.map(|mark| mark.offset).max() {
            return offset;
        }
        if self.is_history(metadata, now) {
            metadata.len()
        } else {
            0
        }
    }

    /// Whether the file is older than the daemon. It compares ages, so that a wall clock set back
    /// makes no file old.
    fn is_history(&self, metadata: &Metadata, now: Stamp) -> bool {
        match metadata
            .created()
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
        {
            Some(birth) => now.unix.saturating_sub(birth) > now.since(self.began) + BIRTH_MARGIN,
            None => {
                self.first == Some(FileId::of(metadata))
                    && self.marks.iter().all(|mark| !mark.is_of(metadata))
            }
        }
    }

    fn stir(&mut self, id: Option<FileId>, now: Stamp) {
        for file in self
            .open_files
            .iter_mut()
            .filter(|file| Some(file.id) == id)
        {
            file.last_active = now.uptime;
        }
    }

    fn let_go_of_old(&mut self, now: Stamp) {
        let successor = self
            .open_files
            .iter()
            .any(|file| Some(file.id) == self.named && file.has_data());
        let mut old: Vec<&Followed> = self
            .open_files
            .iter()
            .filter(|file| Some(file.id) != self.named)
            .collect();
        // If there are too many, those that were quiet longest go: the validator writes to at most
        // one.
        old.sort_by_key(|file| file.last_active);
        let surplus = self.open_files.len().saturating_sub(MOST_FILES);
        let done = old.into_iter().enumerate().filter(|(index, file)| {
            let quiet = now.uptime.saturating_sub(file.last_active);
            *index < surplus
                || (successor && quiet >= QUIET)
                || (quiet >= UNLINKED_QUIET && file.is_unlinked())
        });
        let done: Vec<FileId> = done.map(|(_, file)| file.id).collect();
        done.into_iter().for_each(|id| self.close(id, now));
    }

    fn close(&mut self, id: FileId, now: Stamp) {
        let Some(at) = self.open_files.iter().position(|file| file.id == id) else {
            return;
        };
        let mut file = self.open_files.remove(at);
        let mut batch = self.writer.begin(now);
        file.end(&mut batch);
        batch.commit();
        self.marks.push_back(file.mark());
        if self.marks.len() > MOST_FILES {
            self.marks.pop_front();
        }
    }
}

/// Reads up to the end of the file, or [`CHUNKS_PER_POLL`]. True if there is more.
fn read(
    file: &mut Followed,
    buffer: &mut [u8],
    writer: &mut RecordWriter,
    now: Stamp,
) -> io::Result<bool> {
    for _ in 0..CHUNKS_PER_POLL {
        match file.read(buffer)? {
            Found::End => return Ok(false),
            Found::Truncated => {
                let mut batch = writer.begin(now);
                file.restart(&mut batch, now.uptime);
                batch.commit();
            }
            Found::Bytes(count) => {
                let mut batch = writer.begin(now);
                file.consume(
                    buffer.get(..count).unwrap_or_default(),
                    &mut batch,
                    now.uptime,
                );
                batch.commit();
            }
        }
    }
    Ok(true)
}

fn regular(metadata: Metadata) -> io::Result<Metadata> {
    if metadata.is_file() {
        return Ok(metadata);
    }
    let what = if metadata.is_dir() {
        "a directory"
    } else {
        "a pipe, socket or device"
    };
    Err(io::Error::other(format!("{what}, not a file")))
}

fn problem(path: &Path, error: &io::Error) -> Problem {
    let status = match error.kind() {
        ErrorKind::PermissionDenied => Status::Forbidden,
        ErrorKind::StaleNetworkFileHandle => Status::Gone,
        _ => Status::Broken,
    };
    Problem::new(status, format!("{}: {error}", faultline_text::path(path)))
}
