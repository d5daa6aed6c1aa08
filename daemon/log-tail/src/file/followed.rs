//! One file that has, or had, the log's name.

use crate::records::RecordBatch;
use faultline_agave::log::LogSplitter;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::Duration;

/// Bytes before the offset that are remembered. A line begins with its time in nanoseconds and is
/// rarely longer, so two logs do not agree in them.
const PRINT_BYTES: usize = 1024;

/// A shorter print proves nothing about a file with another identity.
const PROOF_BYTES: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(super) fn of(metadata: &Metadata) -> Self {
        FileId {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Mark {
    id: FileId,
    pub(super) offset: u64,
    print: Vec<u8>,
}

impl Mark {
    /// Whether it is of this very file, or of an earlier one with the same inode.
    pub(super) fn is_of(&self, metadata: &Metadata) -> bool {
        self.id == FileId::of(metadata)
    }

    /// Whether `file` has the same bytes before the same offset: it is the marked file, or a copy.
    pub(super) fn fits(&self, id: FileId, file: &File) -> bool {
        let enough = if id == self.id { 1 } else { PROOF_BYTES };
        self.print.len() >= enough
            && matches!(matches_print(file, self.offset, &self.print), Ok(true))
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Bytes(usize),
    End,
    /// The file is shorter than the offset, or has other bytes before it: it is read from the
    /// beginning.
    Truncated,
}

#[derive(Debug)]
pub(super) struct Followed {
    file: File,
    pub(super) id: FileId,
    offset: u64,
    /// The last bytes before the offset; fewer at the beginning of the file.
    print: Vec<u8>,
    splitter: LogSplitter,
    /// The offset is within a line that is history, so its rest is skipped.
    skip_line: bool,
    /// Uptime at which it last grew, or got or lost the name.
    pub(super) last_active: Duration,
}

impl Followed {
    pub(super) fn from(file: File, id: FileId, offset: u64, now: Duration) -> io::Result<Self> {
        let length = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(PRINT_BYTES);
        let mut print = vec![0; length];
        file.read_exact_at(&mut print, offset.saturating_sub(length as u64))?;
        let skip_line = print.last().is_some_and(|byte| *byte != b'\n');
        Ok(Followed {
            file,
            id,
            offset,
            print,
            splitter: LogSplitter::new(),
            skip_line,
            last_active: now,
        })
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            id: self.id,
            offset: self.offset,
            print: self.print.clone(),
        }
    }

    /// Compares the bytes before the offset first: a truncated file may have grown beyond the
    /// offset since the last read.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Found> {
        if !matches_print(&self.file, self.offset, &self.print)? {
            return Ok(Found::Truncated);
        }
        match self.file.read_at(buffer, self.offset) {
            Ok(0) => Ok(Found::End),
            Ok(count) => Ok(Found::Bytes(count)),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(Found::Bytes(0)),
            Err(error) => Err(error),
        }
    }

    pub(super) fn consume(&mut self, bytes: &[u8], batch: &mut RecordBatch<'_>, now: Duration) {
        self.offset += bytes.len() as u64;
        self.last_active = now;
        let tail = bytes
            .get(bytes.len().saturating_sub(PRINT_BYTES)..)
            .unwrap_or_default();
        let surplus = (self.print.len() + tail.len()).saturating_sub(PRINT_BYTES);
        self.print.drain(..surplus.min(self.print.len()));
        self.print.extend_from_slice(tail);
        let mut text = bytes;
        if self.skip_line {
            let Some(newline) = bytes.iter().position(|byte| *byte == b'\n') else {
                return;
            };
            self.skip_line = false;
            text = bytes.get(newline + 1..).unwrap_or_default();
        }
        batch.text(&mut self.splitter, text);
    }

    pub(super) fn restart(&mut self, batch: &mut RecordBatch<'_>, now: Duration) {
        self.end(batch);
        (self.offset, self.skip_line, self.last_active) = (0, false, now);
        self.print.clear();
    }

    /// Discards the incomplete last line, if there is one.
    pub(super) fn end(&mut self, batch: &mut RecordBatch<'_>) {
        batch.cut(&mut self.splitter);
    }

    pub(super) fn is_unlinked(&self) -> bool {
        self.file
            .metadata()
            .is_ok_and(|metadata| metadata.nlink() == 0)
    }

    pub(super) fn has_data(&self) -> bool {
        self.offset > 0
    }
}

fn matches_print(file: &File, offset: u64, print: &[u8]) -> io::Result<bool> {
    let mut there = [0; PRINT_BYTES];
    let Some(there) = there.get_mut(..print.len()) else {
        return Ok(false);
    };
    match file.read_exact_at(there, offset.saturating_sub(print.len() as u64)) {
        Ok(()) => Ok(there == print),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
