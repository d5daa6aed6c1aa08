//! One file that has, or had, the log's name.

use crate::records::{RecordBatch, RecordWriter};
use faultline_agave::log::LogSplitter;
use faultline_metrics::Stamp;
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

/// Maximum chunks read from one file in one poll, so that other files and the stop signal get
/// their turn.
const CHUNKS_PER_POLL: usize = 16;

#[derive(Clone, Copy, PartialEq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

pub struct FilePosition {
    pub id: FileId,
    pub offset: u64,
    /// The last bytes before the offset; fewer at the beginning of the file.
    fingerprint: Vec<u8>,
}

impl FilePosition {
    /// True if `file` has the same bytes before the offset: it is the same file or a copy.
    pub fn is_in(&self, id: FileId, file: &File) -> bool {
        (id == self.id || self.fingerprint.len() >= MIN_COPY_FINGERPRINT_BYTES)
            && self.matches_fingerprint(file).unwrap_or(false)
    }

    fn matches_fingerprint(&self, file: &File) -> io::Result<bool> {
        let mut actual = [0; FINGERPRINT_BYTES];
        let length = self.fingerprint.len();
        let Some(actual) = actual.get_mut(..length) else {
            return Ok(false);
        };
        match file.read_exact_at(actual, self.offset.saturating_sub(length as u64)) {
            Ok(()) => Ok(actual == self.fingerprint),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }
}

pub struct FollowedFile {
    file: File,
    pub position: FilePosition,
    pub splitter: LogSplitter,
    /// Reading started within a line. The rest of that line is skipped.
    skips_rest_of_line: bool,
    /// Uptime when the file last grew, appeared at the path or left it. A file that left the path
    /// is closed once it has been inactive.
    pub last_active: Duration,
}

impl FollowedFile {
    pub fn new(file: File, id: FileId, offset: u64, now: Duration) -> io::Result<Self> {
        let length = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(FINGERPRINT_BYTES);
        let mut fingerprint = vec![0; length];
        file.read_exact_at(&mut fingerprint, offset.saturating_sub(length as u64))?;
        let skips_rest_of_line = fingerprint.last().is_some_and(|byte| *byte != b'\n');
        Ok(Self {
            file,
            position: FilePosition {
                id,
                offset,
                fingerprint,
            },
            splitter: LogSplitter::new(),
            skips_rest_of_line,
            last_active: now,
        })
    }

    /// Reads up to the end of the file, or [`CHUNKS_PER_POLL`] chunks. True if there may be more.
    pub fn read(
        &mut self,
        buffer: &mut [u8],
        writer: &mut RecordWriter,
        now: Stamp,
    ) -> io::Result<bool> {
        for _ in 0..CHUNKS_PER_POLL {
            // A truncated file may have grown beyond the offset since the last read.
            if !self.position.matches_fingerprint(&self.file)? {
                self.restart(writer.begin(now), now.uptime);
                continue;
            }
            match self.file.read_at(buffer, self.position.offset) {
                Ok(0) => return Ok(false),
                Ok(count) => {
                    let bytes = buffer.get(..count).unwrap_or_default();
                    self.consume(bytes, writer.begin(now), now.uptime);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn consume(&mut self, bytes: &[u8], mut batch: RecordBatch<'_>, now: Duration) {
        self.last_active = now;
        self.position.offset += bytes.len() as u64;
        let fingerprint = &mut self.position.fingerprint;
        let tail = bytes
            .get(bytes.len().saturating_sub(FINGERPRINT_BYTES)..)
            .unwrap_or_default();
        let surplus = (fingerprint.len() + tail.len()).saturating_sub(FINGERPRINT_BYTES);
        fingerprint.drain(..surplus.min(fingerprint.len()));
        fingerprint.extend_from_slice(tail);
        let mut text = bytes;
        if self.skips_rest_of_line {
            let newline = bytes.iter().position(|byte| *byte == b'\n');
            self.skips_rest_of_line = newline.is_none();
            text = newline
                .and_then(|newline| bytes.get(newline + 1..))
                .unwrap_or_default();
        }
        batch.add_text(&mut self.splitter, text);
        batch.commit();
    }

    /// Continues at the beginning of a truncated file. Its incomplete last line is discarded.
    fn restart(&mut self, mut batch: RecordBatch<'_>, now: Duration) {
        batch.end_text(&mut self.splitter);
        batch.commit();
        (
            self.position.offset,
            self.skips_rest_of_line,
            self.last_active,
        ) = (0, false, now);
        self.position.fingerprint.clear();
    }

    pub fn is_unlinked(&self) -> bool {
        self.file
            .metadata()
            .is_ok_and(|metadata| metadata.nlink() == 0)
    }
}
