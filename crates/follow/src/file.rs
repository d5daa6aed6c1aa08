//! A log file, followed over rotation.
//!
//! Whoever has the follower polls it every [`POLL`]. inotify would not spare the polls: it is silent on network file systems and
//! about what happens behind a symbolic link, and a quarter of a second is well below what a tick shows.
//!
//! * **Start**: at the end of the file. A file that appears later is read from its beginning; one that is older than
//!   the daemon and only now got the name, or the right to be read, from its end: what it holds is history.
//! * **Rotation by rename**: the validator keeps writing to the old file until it has handled SIGUSR1, which Agave 4.2 and
//!   later do only after the start-up. So the old file is read on until the new one has data and the old one has been
//!   quiet for [`QUIET`]; until then both are.
//! * **Rotation by truncation** (`copytruncate`): seen by the size, or, if the file has grown beyond the offset again, by
//!   the last KiB before the offset, which is compared before every read.
//! * **Copies**: a new file that holds the same KiB at the same offset (`sed -i`, a rotation undone) is read on from there.
//!
//! What cannot be had: lines written between the last poll and a truncation; a file that got and lost the name between
//! two polls; a truncated file that grew again to hold the very same KiB at the same offset. A rewritten copy whose earlier
//! lines were changed is read from its beginning.

mod followed;

use crate::records::RecordWriter;
use crate::status::StatusHandle;
use faultline_catalog::{Problem, Stamp, Status};
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

/// An old file is let go when its successor has data and it has not grown for this long.
pub const QUIET: Duration = Duration::from_secs(5);

/// A deleted file nobody writes to is let go after this long, so that its space is freed.
const UNLINKED_QUIET: Duration = Duration::from_secs(60);

/// For this long the name may be missing, as it is in the middle of a rotation, before that is a problem.
const NAMELESS: Duration = Duration::from_secs(10);

/// A file is older than the daemon if it is by more than this; file systems stamp with a coarse clock.
const BIRTH_MARGIN: Duration = Duration::from_secs(1);

const CHUNK_BYTES: usize = 64 * 1024;

/// Chunks read from one file before the others, the name and the signal to stop are polled again.
const CHUNKS_PER_POLL: usize = 16;

/// Files followed at once, and files remembered after they were let go.
pub const MOST_FILES: usize = 16;

/// The follower of a file. It reads files when it [polls](Follower::poll), so that it is for a thread.
#[derive(Debug)]
pub struct Follower {
    path: Arc<Path>,
    writer: RecordWriter,
    /// When the follower was made.
    began: Stamp,
    open_files: Vec<Followed>,
    /// Which of them has the name; `None` while there is no such file, or none that may be read.
    named: Option<FileId>,
    marks: VecDeque<Mark>,
    /// The file that had the name at the start, read or not.
    first: Option<FileId>,
    /// Uptime at which the name was first found missing.
    nameless: Option<Duration>,
    buffer: Vec<u8>,
}

impl Follower {
    /// A follower of `path`, at its end as of `now`. A file that cannot be read yet is a problem in the status. Like every
    /// poll it takes as long as the file system does.
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
            nameless: None,
            buffer: vec![0; CHUNK_BYTES],
        };
        let problem = tail.find(now, true);
        tail.writer.status().settle(problem);
        tail
    }

    pub fn status(&self) -> StatusHandle {
        self.writer.status().clone()
    }

    /// How many files are open.
    pub fn files(&self) -> usize {
        self.open_files.len()
    }

    /// Finds the file with the name, reads a bounded part of what was written, closes finished files. True if it left
    /// something unread: then poll again at once, else after [`POLL`].
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
        // Opened again at the next poll, and read on from its mark.
        lost.into_iter().for_each(|id| self.let_go(id, now));
        self.let_go_of_old(now);
        self.writer.status().settle(problem);
        has_more
    }

    /// Finds the file that has the name and follows it. The problem, if that fails.
    fn find(&mut self, now: Stamp, at_start: bool) -> Option<Problem> {
        match self.adopt(now, at_start) {
            Ok(id) => {
                if self.named != Some(id) {
                    self.stir(self.named, now);
                    self.stir(Some(id), now);
                }
                (self.named, self.nameless) = (Some(id), None);
                None
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.named = None;
                let since = *self.nameless.get_or_insert(now.uptime);
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
        // Without O_NONBLOCK, a pipe put there since would block until somebody writes to it.
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

    /// Where to begin in a file that has just got the name.
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

    /// Whether the file was there before the daemon. By its age, so that a wall clock set back makes no file old.
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
            file.stirred = now.uptime;
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
        // With too many, those that were quiet longest go first: the validator writes to one of them at most.
        old.sort_by_key(|file| file.stirred);
        let surplus = self.open_files.len().saturating_sub(MOST_FILES);
        let done = old.into_iter().enumerate().filter(|(index, file)| {
            let quiet = now.uptime.saturating_sub(file.stirred);
            *index < surplus
                || (successor && quiet >= QUIET)
                || (quiet >= UNLINKED_QUIET && file.is_unlinked())
        });
        let done: Vec<FileId> = done.map(|(_, file)| file.id).collect();
        done.into_iter().for_each(|id| self.let_go(id, now));
    }

    fn let_go(&mut self, id: FileId, now: Stamp) {
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

/// Reads one file up to its end, or [`CHUNKS_PER_POLL`]. True if there is more.
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
