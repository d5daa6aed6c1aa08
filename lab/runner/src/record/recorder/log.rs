//! The daemon's log. Its text is for the user: no decision depends on it.

use rustix::fs::{
    FallocateFlags, MemfdFlags, OFlags, fallocate, fcntl_getfl, fcntl_setfl, memfd_create,
};
use std::{fs::File, io, os::unix::fs::FileExt, path::Path, process::Stdio};

/// Bytes of an in-memory log that have been read are freed in parts of at least this size.
const MIN_FREED_BYTES: u64 = 1 << 20;
const TAIL_LINES: usize = 12;
/// Bytes at the end of the log that are searched for the last lines.
const TAIL_BYTES: u64 = 16 << 10;
const MAX_LINES_WITHOUT_LEVEL: usize = 3;
const LEVELS: [&str; 5] = [" ERROR ", " WARN ", " INFO ", " DEBUG ", " TRACE "];

/// A file in memory or on disk. A pipe would break if this program were killed while the daemon
/// finishes the recording.
pub struct Log {
    file: File,
    read_position: u64,
    freed_bytes: u64,
    is_on_disk: bool,
}

impl Log {
    pub fn in_memory() -> io::Result<Self> {
        let file = memfd_create(super::DAEMON_NAME, MemfdFlags::CLOEXEC)?;
        fcntl_setfl(&file, fcntl_getfl(&file)? | OFlags::APPEND)?;
        Ok(Self {
            file: file.into(),
            read_position: 0,
            freed_bytes: 0,
            is_on_disk: false,
        })
    }

    pub fn on_disk(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: File::open(path)?,
            read_position: 0,
            freed_bytes: 0,
            is_on_disk: true,
        })
    }

    pub fn stdio(&self) -> io::Result<Stdio> {
        Ok(self.file.try_clone()?.into())
    }

    fn new_lines(&mut self) -> Vec<String> {
        let text = self.text(self.read_position);
        let complete_length = text.rfind('\n').map_or(0, |end| end + 1);
        self.read_position += complete_length as u64;
        let lines = text[..complete_length].lines().map(str::to_owned).collect();
        if !self.is_on_disk {
            self.free_read_bytes();
        }
        lines
    }

    /// Punches a hole before the tail. The file keeps its size, because the daemon appends to it.
    /// Each hole starts at 0, because the last one did not free the page in which it ended.
    fn free_read_bytes(&mut self) {
        let end = self.read_position.saturating_sub(TAIL_BYTES);
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if end.saturating_sub(self.freed_bytes) >= MIN_FREED_BYTES
            && fallocate(&self.file, flags, 0, end).is_ok()
        {
            self.freed_bytes = end;
        }
    }

    pub fn new_warnings_and_errors(&mut self) -> Vec<String> {
        self.new_lines()
            .iter()
            .filter_map(|line| warning_or_error(line))
            .map(str::to_owned)
            .collect()
    }

    pub fn tail(&self) -> String {
        let text = self.text(self.length().saturating_sub(TAIL_BYTES));
        let lines = Vec::from_iter(text.lines());
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }

    /// The last warning or error as one line. If there is none, the last lines without a log level,
    /// such as those of a panic.
    pub fn last_problem(&self) -> String {
        let text = self.text(self.length().saturating_sub(TAIL_BYTES));
        text.lines()
            .rev()
            .find_map(warning_or_error)
            .map(str::to_owned)
            .unwrap_or_else(|| {
                let has_level = |line: &&str| LEVELS.iter().any(|level| line.contains(level));
                let lines: Vec<&str> = text
                    .lines()
                    .filter(|line| !line.trim().is_empty() && !has_level(line))
                    .collect();
                lines[lines.len().saturating_sub(MAX_LINES_WITHOUT_LEVEL)..].join("; ")
            })
    }

    fn length(&self) -> u64 {
        self.file.metadata().map_or(0, |meta| meta.len())
    }

    fn text(&self, from: u64) -> String {
        let length = self.length().saturating_sub(from);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        match self.file.read_exact_at(&mut bytes, from) {
            // A byte outside ASCII becomes one `?`, because the read position counts bytes.
            Ok(()) => bytes
                .into_iter()
                .map(|byte| {
                    if byte.is_ascii() {
                        char::from(byte)
                    } else {
                        '?'
                    }
                })
                .collect(),
            Err(_) => String::new(),
        }
    }
}

fn warning_or_error(line: &str) -> Option<&str> {
    ["WARN ", "ERROR "]
        .iter()
        .find_map(|level| Some(line.split_once(level)?.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Write, os::unix::fs::MetadataExt};

    #[test]
    fn the_recorder_log_is_read_by_line_with_a_size_limit() {
        let mut log = Log::in_memory().unwrap();
        let mut daemon = log.file.try_clone().unwrap();
        daemon.write_all("one\ntwo \u{fc}\nhal".as_bytes()).unwrap();
        assert_eq!(log.new_lines(), ["one", "two ??"]);
        daemon.write_all(b"f\n").unwrap();
        assert_eq!(log.new_lines(), ["half"]);
        assert_eq!(log.tail(), "one\ntwo ??\nhalf");
        let line = [b"x".repeat(99).as_slice(), b"\n"].concat();
        // Parts that end inside a page leave no page behind.
        for _ in 0..40 {
            for _ in 0..12_000 {
                daemon.write_all(&line).unwrap();
            }
            assert_eq!(log.new_lines().len(), 12_000);
        }
        daemon.write_all(b"unfi").unwrap();
        assert!(log.new_lines().is_empty());
        let memory = log.file.metadata().unwrap().blocks() * 512;
        assert!(memory < 2 * TAIL_BYTES, "{memory} bytes");
        daemon.write_all(b"nished\n").unwrap();
        assert_eq!(log.new_lines(), ["unfinished"]);
        let line = "x".repeat(99);
        let tail = [vec![line.as_str(); TAIL_LINES - 1], vec!["unfinished"]].concat();
        assert_eq!(log.tail(), tail.join("\n"));
    }

    #[test]
    fn the_last_log_error_is_one_line_without_info_messages() {
        let of = |text: &str| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), text).unwrap();
            Log::on_disk(file.path()).unwrap().last_problem()
        };
        let (info, warn) = (
            "2026-01-01T00:00:00Z  INFO listening\n",
            "2026-01-01T00:00:00Z  WARN no room\n",
        );
        let error = "2026-01-01T00:00:00Z ERROR the file is gone\n";
        assert_eq!(of(&[info, warn, error, info].concat()), "the file is gone");
        assert_eq!(of(&[info, warn, info].concat()), "no room");
        assert_eq!(of(&[info, info].concat()), "");
        assert_eq!(
            of(&[info, "\nthread panicked at x.rs:\nwhy\n"].concat()),
            "thread panicked at x.rs:; why"
        );
        assert_eq!(of(""), "");
    }

    #[test]
    fn an_on_disk_recorder_log_is_not_truncated() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let line = b"2026 WARN no\n".repeat(100_000);
        std::fs::write(file.path(), &line).unwrap();
        let mut log = Log::on_disk(file.path()).unwrap();
        assert_eq!(log.new_warnings_and_errors().len(), 100_000);
        assert_eq!(log.tail().lines().count(), TAIL_LINES);
        assert_eq!(
            std::fs::metadata(file.path()).unwrap().len(),
            line.len() as u64
        );
    }
}
