//! Files that are opened once and read many times.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::{ParseError, ReadError};

/// Room made before the first read; most files of the kernel fit, and a larger one grows the buffer once.
const INITIAL_CAPACITY: usize = 4096;

/// The smallest page of any machine.
const SMALLEST_PAGE: usize = 4096;

/// Of a name, a space and a 64-bit number; the longest of `vmstat` has 50 bytes.
const LONGEST_LINE: usize = 128;

const READ_FILE: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC);

/// Whose file it is: what must have vanished for a missing file to be `Gone` rather than `Absent`.
#[derive(Debug, Clone)]
pub(crate) enum Owner {
    /// The machine, which does not vanish.
    Host,
    /// A process, by a descriptor of its folder: a later process with the same number is not reachable through it.
    Process(Arc<OwnedFd>),
    /// A folder that may be removed and made again.
    Folder(Arc<Path>),
}

impl Owner {
    pub(crate) fn is_there(&self) -> bool {
        match self {
            Self::Host => true,
            Self::Process(folder) => {
                rustix::fs::statat(folder, "stat", rustix::fs::AtFlags::empty()).is_ok()
            }
            Self::Folder(path) => rustix::fs::stat(&**path).is_ok(),
        }
    }

    /// `path` is the whole path; of a process only the last part is used, below its descriptor.
    fn open(&self, path: &Path) -> Result<OwnedFd, Errno> {
        match self {
            Self::Process(folder) => rustix::fs::openat(
                folder,
                path.file_name().ok_or(Errno::NOENT)?,
                READ_FILE,
                Mode::empty(),
            ),
            Self::Host | Self::Folder(_) => rustix::fs::openat(CWD, path, READ_FILE, Mode::empty()),
        }
    }
}

/// How the kernel hands out a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Records {
    /// As one piece: a read that leaves room in the buffer had everything, which saves the second read.
    One,
    /// In pieces: only a read of nothing is the end.
    Many,
    /// In pieces that end where the next line, shorter than [`LONGEST_LINE`], would not fit into a page: one that leaves
    /// more room than that is the last.
    Lines,
}

/// A file opened once and re-read from its beginning with `pread`.
#[derive(Debug)]
pub struct OpenFile {
    fd: OwnedFd,
    path: Arc<Path>,
    owner: Owner,
    records: Records,
}

impl OpenFile {
    pub(crate) fn open(owner: Owner, path: Arc<Path>, records: Records) -> Result<Self, ReadError> {
        match owner.open(&path) {
            Ok(fd) => Ok(Self {
                fd,
                path,
                owner,
                records,
            }),
            Err(errno) => Err(ReadError::from_errno(errno, &path, || owner.is_there())),
        }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the whole file as it is now, replacing what `buffer` held. The buffer grows when the file is larger; with
    /// a buffer that has once been large enough nothing is allocated.
    ///
    /// # Errors
    /// `Gone` after the process or cgroup has vanished, and the others as [`ReadError`] says. What `buffer` then holds
    /// is not meaningful.
    pub fn read<'b>(&self, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], ReadError> {
        match read_whole(&self.fd, self.records, buffer) {
            // Some files of a process that is just ending are empty instead of failing.
            Ok(()) if buffer.is_empty() && !self.owner.is_there() => Err(ReadError::Gone {
                path: Arc::clone(&self.path),
            }),
            Ok(()) => Ok(buffer),
            Err(errno) => Err(ReadError::from_errno(errno, &self.path, || {
                self.owner.is_there()
            })),
        }
    }

    /// [`read`](Self::read), then `parse`; a text that cannot be parsed is `Broken` and names this file.
    pub fn parse<T>(
        &self,
        buffer: &mut Vec<u8>,
        parse: impl FnOnce(&[u8]) -> Result<T, ParseError>,
    ) -> Result<T, ReadError> {
        parse(self.read(buffer)?).map_err(|error| error.at(Arc::clone(&self.path)))
    }
}

/// Reads from the beginning to the end into `buffer`, which is emptied first.
pub(crate) fn read_whole(
    fd: &OwnedFd,
    records: Records,
    buffer: &mut Vec<u8>,
) -> Result<(), Errno> {
    buffer.clear();
    buffer.reserve(INITIAL_CAPACITY);
    loop {
        let free = buffer.capacity() - buffer.len();
        let offset = buffer.len() as u64;
        let got = match rustix::io::pread(fd, rustix::buffer::spare_capacity(buffer), offset) {
            Ok(got) => got,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
        };
        let last = match records {
            Records::One => got < free,
            Records::Lines => got < free && got + LONGEST_LINE <= SMALLEST_PAGE,
            Records::Many => false,
        };
        if got == 0 || (last && buffer.last() == Some(&b'\n')) {
            return Ok(());
        }
        if got == free {
            buffer.reserve(buffer.capacity());
        }
    }
}

/// A file that may be missing now and there later: opened when first asked for, and again after it was lost.
#[derive(Debug)]
pub(crate) struct Slot {
    owner: Owner,
    path: Arc<Path>,
    records: Records,
    open: Option<OpenFile>,
}

impl Slot {
    pub(crate) fn new(owner: Owner, path: impl Into<Arc<Path>>, records: Records) -> Self {
        Self {
            owner,
            path: path.into(),
            records,
            open: None,
        }
    }

    pub(crate) fn path(&self) -> &Arc<Path> {
        &self.path
    }

    pub(crate) fn parse<T>(
        &mut self,
        buffer: &mut Vec<u8>,
        parse: impl FnOnce(&[u8]) -> Result<T, ParseError>,
    ) -> Result<T, ReadError> {
        self.read(buffer)?;
        parse(buffer).map_err(|error| error.at(Arc::clone(&self.path)))
    }

    fn read(&mut self, buffer: &mut Vec<u8>) -> Result<(), ReadError> {
        if let Some(open) = &self.open {
            match open.read(buffer) {
                Ok(_) => return Ok(()),
                // What the descriptor pointed to is lost; the path may lead to its successor.
                Err(ReadError::Gone { .. } | ReadError::Absent { .. }) => self.open = None,
                Err(error) => return Err(error),
            }
        }
        let file = OpenFile::open(self.owner.clone(), Arc::clone(&self.path), self.records)?;
        file.read(buffer)?;
        self.open = Some(file);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
