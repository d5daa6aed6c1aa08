use std::{os::fd::OwnedFd, path::Path, sync::Arc};

use rustix::{
    fs::{CWD, Mode, OFlags},
    io::Errno,
};

use crate::{Parsed, ReadError, Result};

/// Most kernel files fit; for larger ones the buffer is doubled.
const INITIAL_CAPACITY: usize = 4096;

const MIN_PAGE_BYTES: usize = 4096;

/// Maximum size of a file. `/proc/interrupts` of 512 CPUs has up to 20 MiB.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// A name, a space and a 64-bit number; the longest line of `vmstat` has 50 bytes.
const MAX_LINE_BYTES: usize = 128;

pub const READ_FILE: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC);

/// What a file belongs to. If that does not exist any more, a missing file is `Gone` instead of
/// `Absent`.
#[derive(Debug, Clone)]
pub enum FileOwner {
    Host,
    /// A descriptor of the folder of a process or thread. A later one with the same number is not
    /// reachable through it.
    Task(Arc<OwnedFd>),
    Folder(Arc<Path>),
}

impl FileOwner {
    pub fn still_exists(&self) -> bool {
        match self {
            Self::Host => true,
            Self::Task(folder) => {
                rustix::fs::statat(folder, "stat", rustix::fs::AtFlags::empty()).is_ok()
            }
            Self::Folder(path) => rustix::fs::stat(&**path).is_ok(),
        }
    }

    pub fn error(&self, errno: Errno, path: &Arc<Path>) -> ReadError {
        ReadError::from_errno(errno, path, || self.still_exists())
    }

    fn open(&self, path: &Path) -> Result<OwnedFd, Errno> {
        match self {
            Self::Task(folder) => rustix::fs::openat(
                folder,
                path.file_name().ok_or(Errno::NOENT)?,
                READ_FILE,
                Mode::empty(),
            )
            // A task that has ended has no mounts: the open of `mountinfo` then fails with this.
            .map_err(|errno| match errno {
                Errno::INVAL => Errno::SRCH,
                errno => errno,
            }),
            Self::Host | Self::Folder(_) => rustix::fs::openat(CWD, path, READ_FILE, Mode::empty()),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub enum ReadUntil {
    /// The kernel delivers the file in one piece. A read that ends in a newline and does not fill
    /// the buffer was complete, which saves a second read.
    ShortRead,
    /// The kernel delivers pieces. Only an empty read is the end.
    EmptyRead,
    /// The kernel delivers pieces of whole lines, at most a page each. A line is shorter than
    /// [`MAX_LINE_BYTES`], so a piece that leaves at least that much space in its page is the last.
    /// Reading stops after the piece that contains a line with this prefix.
    Line(&'static [u8]),
}

/// A file that is opened once and re-read from its beginning with `pread`.
#[derive(Debug)]
pub struct OpenFile {
    fd: OwnedFd,
    path: Arc<Path>,
    owner: FileOwner,
    until: ReadUntil,
}

impl OpenFile {
    pub(crate) fn open(owner: FileOwner, path: Arc<Path>, until: ReadUntil) -> Result<Self> {
        let fd = owner
            .open(&path)
            .map_err(|errno| owner.error(errno, &path))?;
        Ok(Self {
            fd,
            path,
            owner,
            until,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the contents of `buffer` with the whole file. Allocates only if the file fills the
    /// buffer. After an error the contents are undefined.
    pub fn read<'b>(&self, buffer: &'b mut Vec<u8>) -> Result<&'b [u8]> {
        match read_whole(&self.fd, self.until, buffer) {
            // Some files of an exiting process are empty instead of failing.
            Ok(()) if buffer.is_empty() && !self.owner.still_exists() => Err(ReadError::Gone {
                path: Arc::clone(&self.path),
            }),
            Ok(()) => Ok(buffer),
            Err(errno) => Err(self.owner.error(errno, &self.path)),
        }
    }

    pub fn parse<T>(
        &self,
        buffer: &mut Vec<u8>,
        parse: impl FnOnce(&[u8]) -> Parsed<T>,
    ) -> Result<T> {
        parse(self.read(buffer)?).map_err(|error| error.at(Arc::clone(&self.path)))
    }
}

pub fn read_whole(fd: &OwnedFd, until: ReadUntil, buffer: &mut Vec<u8>) -> Result<(), Errno> {
    buffer.clear();
    buffer.reserve(INITIAL_CAPACITY);
    loop {
        let free = buffer.capacity() - buffer.len();
        let offset = buffer.len() as u64;
        let bytes_read = rustix::io::retry_on_intr(|| {
            rustix::io::pread(fd, rustix::buffer::spare_capacity(buffer), offset)
        })?;
        let is_last_piece = match until {
            ReadUntil::ShortRead => bytes_read < free,
            ReadUntil::Line(_) if bytes_read + MAX_LINE_BYTES <= MIN_PAGE_BYTES => {
                bytes_read < free
            }
            ReadUntil::Line(start) => {
                let mut lines = buffer.rsplit(|byte| *byte == b'\n');
                lines.any(|line| line.starts_with(start))
            }
            ReadUntil::EmptyRead => false,
        };
        if bytes_read == 0 || (is_last_piece && buffer.last() == Some(&b'\n')) {
            return Ok(());
        }
        if buffer.len() > MAX_BYTES {
            return Err(Errno::FBIG);
        }
        if bytes_read == free {
            buffer.reserve(buffer.capacity());
        }
    }
}

/// A file that is opened at its first read. If it has vanished, a read opens its path again.
#[derive(Debug)]
pub struct LazyFile {
    owner: FileOwner,
    pub path: Arc<Path>,
    until: ReadUntil,
    open: Option<OpenFile>,
}

impl LazyFile {
    pub fn new(owner: FileOwner, path: impl Into<Arc<Path>>, until: ReadUntil) -> Self {
        Self {
            owner,
            path: path.into(),
            until,
            open: None,
        }
    }

    pub fn parse<T>(
        &mut self,
        buffer: &mut Vec<u8>,
        parse: impl FnOnce(&[u8]) -> Parsed<T>,
    ) -> Result<T> {
        self.read(buffer)?;
        parse(buffer).map_err(|error| error.at(Arc::clone(&self.path)))
    }

    fn read(&mut self, buffer: &mut Vec<u8>) -> Result<()> {
        if let Some(open) = &self.open {
            match open.read(buffer) {
                Ok(_) => return Ok(()),
                Err(ReadError::Gone { .. } | ReadError::Absent { .. }) => self.open = None,
                Err(error) => return Err(error),
            }
        }
        let file = OpenFile::open(self.owner.clone(), Arc::clone(&self.path), self.until)?;
        file.read(buffer)?;
        self.open = Some(file);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
