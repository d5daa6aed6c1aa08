//! One file that has, or had, the log's name.

use crate::records::RecordBatch;
use faultline_agave::log::LogSplitter;
use std::{
    fs::{File, Metadata},
    io::{self, ErrorKind},
    os::unix::fs::{FileExt, MetadataExt},
    time::Duration,
};

/// Number of bytes before the offset that identify the content. A line starts with its time in
/// nanoseconds and is rarely longer than this, so the bytes of two logs differ.
const FINGERPRINT_BYTES: usize = 1024;

/// Minimum bytes to compare before a file with another inode counts as a copy.
const MIN_COPY_FINGERPRINT_BYTES: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub fn of(metadata: &Metadata) -> Self {
        FileId {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

#[derive(Debug, Clone)]
pub struct ResumePoint {
    id: FileId,
    pub offset: u64,
    fingerprint: Vec<u8>,
}

impl ResumePoint {
    /// True for the same file, and for an earlier file with the same inode.
    pub fn has_id_of(&self, metadata: &Metadata) -> bool {
        self.id == FileId::of(metadata)
    }

    /// True if `file` has the same bytes before the offset: it is the same file or a copy.
    pub fn has_same_bytes(&self, id: FileId, file: &File) -> bool {
        let min_bytes = if id == self.id {
            1
        } else {
            MIN_COPY_FINGERPRINT_BYTES
        };
        self.fingerprint.len() >= min_bytes
            && matches!(
                matches_fingerprint(file, self.offset, &self.fingerprint),
                Ok(true)
            )
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    Bytes(usize),
    End,
    /// The file is shorter than the offset or has other bytes before it. The caller reads it from
    /// the beginning.
    Truncated,
}

#[derive(Debug)]
pub struct FollowedFile {
    file: File,
    pub id: FileId,
    offset: u64,
    /// The last bytes before the offset; fewer at the beginning of the file.
    fingerprint: Vec<u8>,
    splitter: LogSplitter,
    /// Reading started within a line. The rest of that line is skipped.
    skip_line: bool,
    /// Uptime when the file last grew, appeared at the path or left it.
    pub last_active: Duration,
}

impl FollowedFile {
    pub fn new(file: File, id: FileId, offset: u64, now: Duration) -> io::Result<Self> {
        let length = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(FINGERPRINT_BYTES);
        let mut fingerprint = vec![0; length];
        file.read_exact_at(&mut fingerprint, offset.saturating_sub(length as u64))?;
        let skip_line = fingerprint.last().is_some_and(|byte| *byte != b'\n');
        Ok(FollowedFile {
            file,
            id,
            offset,
            fingerprint,
            splitter: LogSplitter::new(),
            skip_line,
            last_active: now,
        })
    }

    pub fn resume_point(&self) -> ResumePoint {
        ResumePoint {
            id: self.id,
            offset: self.offset,
            fingerprint: self.fingerprint.clone(),
        }
    }

    /// First compares the bytes before the offset: a truncated file may have grown beyond the
    /// offset since the last read.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<ReadOutcome> {
        if !matches_fingerprint(&self.file, self.offset, &self.fingerprint)? {
            return Ok(ReadOutcome::Truncated);
        }
        match self.file.read_at(buffer, self.offset) {
            Ok(0) => Ok(ReadOutcome::End),
            Ok(count) => Ok(ReadOutcome::Bytes(count)),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(ReadOutcome::Bytes(0)),
            Err(error) => Err(error),
        }
    }

    pub fn consume(&mut self, bytes: &[u8], batch: &mut RecordBatch<'_>, now: Duration) {
        self.offset += bytes.len() as u64;
        self.last_active = now;
        let tail = bytes
            .get(bytes.len().saturating_sub(FINGERPRINT_BYTES)..)
            .unwrap_or_default();
        let surplus = (self.fingerprint.len() + tail.len()).saturating_sub(FINGERPRINT_BYTES);
        self.fingerprint
            .drain(..surplus.min(self.fingerprint.len()));
        self.fingerprint.extend_from_slice(tail);
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

    pub fn restart(&mut self, batch: &mut RecordBatch<'_>, now: Duration) {
        self.end(batch);
        (self.offset, self.skip_line, self.last_active) = (0, false, now);
        self.fingerprint.clear();
    }

    /// Discards the incomplete last line, if there is one.
    pub fn end(&mut self, batch: &mut RecordBatch<'_>) {
        batch.cut(&mut self.splitter);
    }

    pub fn is_unlinked(&self) -> bool {
        self.file
            .metadata()
            .is_ok_and(|metadata| metadata.nlink() == 0)
    }

    pub fn has_data(&self) -> bool {
        self.offset > 0
    }
}

fn matches_fingerprint(file: &File, offset: u64, fingerprint: &[u8]) -> io::Result<bool> {
    let mut actual = [0; FINGERPRINT_BYTES];
    let Some(actual) = actual.get_mut(..fingerprint.len()) else {
        return Ok(false);
    };
    match file.read_exact_at(actual, offset.saturating_sub(fingerprint.len() as u64)) {
        Ok(()) => Ok(actual == fingerprint),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
