//! A log file, followed over rotation.
//!
//! Whoever has the follower lets it look every [`POLL`]. inotify would not spare the looks: it is silent on network file systems and
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
//! What cannot be had: lines written between the last look and a truncation; a file that got and lost the name between
//! two looks; a truncated file that grew again to hold the very same KiB at the same offset. A rewritten copy whose earlier
//! lines were changed is read from its beginning.

mod followed;

use crate::records::Records;
use crate::view::View;
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

/// From look to look.
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

/// Chunks read from one file before the others, the name and the signal to stop are looked at again.
const CHUNKS_PER_LOOK: usize = 16;

/// Files followed at once, and files remembered after they were let go.
pub const MOST_FILES: usize = 16;

/// The follower of a file. It reads files whenever it [looks](Follower::look), so that it is for a thread.
#[derive(Debug)]
pub struct Follower {
    path: Arc<Path>,
    records: Records,
    /// When the follower was made.
    began: Stamp,
    held: Vec<Followed>,
    /// Which of them has the name; `None` while there is no such file, or none that may be read.
    named: Option<FileId>,
    marks: VecDeque<Mark>,
    /// The file that had the name at the start, read or not.
    first: Option<FileId>,
    /// Uptime at which the name was first found missing.
    nameless: Option<Duration>,
    buffer: Vec<u8>,
}

/// Whether a look left something unread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// All there was is read: look again after [`POLL`].
    Nothing,
    /// There is more: look again at once.
    More,
}

impl Follower {
    /// A follower of `path`, at its end as of `now`. A file that cannot be read yet is a problem in the view. Like every
    /// look it takes as long as the file system does.
    pub fn open(path: &Path, records: Records, now: Stamp) -> Self {
        let path: Arc<Path> = path.into();
        records.view().begin(&path, now);
        let mut tail = Follower {
            path: Arc::clone(&path),
            records,
            began: now,
            held: Vec::new(),
            named: None,
            marks: VecDeque::new(),
            first: fs::metadata(&path)
                .ok()
                .map(|metadata| FileId::of(&metadata)),
            nameless: None,
            buffer: vec![0; CHUNK_BYTES],
        };
        let problem = tail.find(now, true);
        tail.records.view().settle(problem);
        tail
    }

    pub fn view(&self) -> View {
        self.records.view().clone()
    }

    /// How many files are held open.
    pub fn files(&self) -> usize {
        self.held.len()
    }

    /// Looks who has the name, reads what was written (not more than a bounded share of it), lets go of what is done with.
    pub fn look(&mut self, now: Stamp) -> Left {
        self.records.view().begin(&self.path, now);
        let mut problem = self.find(now, false);
        let mut left = Left::Nothing;
        let mut lost = Vec::new();
        for file in &mut self.held {
            match read(file, &mut self.buffer, &mut self.records, now) {
                Ok(Left::More) => left = Left::More,
                Ok(Left::Nothing) => {}
                Err(error) => {
                    problem.get_or_insert_with(|| self::problem(&self.path, &error));
                    lost.push(file.id);
                }
            }
        }
        // Opened again at the next look, and read on from its mark.
        lost.into_iter().for_each(|id| self.let_go(id, now));
        self.let_go_of_old(now);
        self.records.view().settle(problem);
        left
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
                if self.held.is_empty() && self.marks.is_empty() {
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
        if self.held.iter().any(|file| file.id == id) {
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
        if self.held.iter().any(|file| file.id == id) {
            return Ok(id);
        }
        let offset = if at_start {
            metadata.len()
        } else {
            self.beginning(&file, &metadata, now)
        };
        self.held
            .push(Followed::from(file, id, offset, now.uptime)?);
        Ok(id)
    }

    /// Where to begin in a file that has just got the name.
    fn beginning(&self, file: &File, metadata: &Metadata, now: Stamp) -> u64 {
        let id = FileId::of(metadata);
        let current = self.held.iter().map(Followed::mark);
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
        for file in self.held.iter_mut().filter(|file| Some(file.id) == id) {
            file.stirred = now.uptime;
        }
    }

    fn let_go_of_old(&mut self, now: Stamp) {
        let successor = self
            .held
            .iter()
            .any(|file| Some(file.id) == self.named && file.has_data());
        let mut old: Vec<&Followed> = self
            .held
            .iter()
            .filter(|file| Some(file.id) != self.named)
            .collect();
        // With too many, those that were quiet longest go first: the validator writes to one of them at most.
        old.sort_by_key(|file| file.stirred);
        let surplus = self.held.len().saturating_sub(MOST_FILES);
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
        let Some(at) = self.held.iter().position(|file| file.id == id) else {
            return;
        };
        let mut file = self.held.remove(at);
        self.records.stretch(now, |stretch| file.end(stretch));
        self.marks.push_back(file.mark());
        if self.marks.len() > MOST_FILES {
            self.marks.pop_front();
        }
    }
}

/// Reads one file up to its end, or for so long that it is the others' turn.
fn read(
    file: &mut Followed,
    buffer: &mut [u8],
    records: &mut Records,
    now: Stamp,
) -> io::Result<Left> {
    for _ in 0..CHUNKS_PER_LOOK {
        match file.read(buffer)? {
            Found::End => return Ok(Left::Nothing),
            Found::Truncated => records.stretch(now, |stretch| file.restart(stretch, now.uptime)),
            Found::Bytes(count) => {
                let bytes = buffer.get(..count).unwrap_or_default();
                records.stretch(now, |stretch| file.take(bytes, stretch, now.uptime));
            }
        }
    }
    Ok(Left::More)
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
