//! A writer, a rotator and a follower in one thread. A test or a fuzzer gives their order: in any
//! order, every line must arrive once.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a model for tests: each uses a part, and what cannot go on fails it"
)]

use crate::probe::{Probe, append, numbered};
use faultline_log_tail::{Follower, MAX_FILES, POLL_INTERVAL};
use faultline_metrics::Stamp;
use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Maximum rotations before the writer reopens its log. With more than [`MAX_FILES`], the follower
/// would close files that are still written.
const MAX_ROTATIONS: usize = MAX_FILES / 2;

/// A follower in a folder, whose uptime the test sets.
pub struct Rig<D> {
    pub dir: D,
    pub probe: Probe,
    pub tail: Follower,
    pub uptime: Duration,
    /// How far the wall clock is ahead.
    pub ahead: Duration,
    pub written: u64,
}

impl<D: AsRef<Path>> Rig<D> {
    /// A follower of `log` in this folder.
    pub fn new(dir: D) -> Self {
        Self::ahead(dir, Duration::ZERO)
    }

    /// Like `new`, with a wall clock that is ahead from the start on.
    pub fn ahead(dir: D, ahead: Duration) -> Self {
        let probe = Probe::default();
        let began = Stamp {
            uptime: Duration::ZERO,
            unix: wall_clock() + ahead,
        };
        let tail = Follower::open(&dir.as_ref().join("log"), probe.records(), began);
        Self {
            dir,
            probe,
            tail,
            uptime: Duration::ZERO,
            ahead,
            written: 0,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.as_ref().join(name)
    }

    pub fn poll_after(&mut self, wait: Duration) {
        self.uptime += wait;
        let now = Stamp {
            uptime: self.uptime,
            unix: wall_clock() + self.ahead,
        };
        while self.tail.poll(now) {}
    }

    pub fn poll(&mut self) {
        self.poll_after(POLL_INTERVAL);
    }

    /// Writes the next `count` numbered lines.
    pub fn write(&mut self, file: &mut File, count: u64) {
        for _ in 0..count {
            file.write_all(numbered(self.written).as_bytes()).unwrap();
            self.written += 1;
        }
    }

    pub fn assert_all_once(&self) {
        assert_all_once(&self.probe, self.written);
    }
}

/// Since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "the kernel stamps the files of the model with this clock"
)]
fn wall_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// Checks that each of the `written` numbered lines arrived exactly once.
pub fn assert_all_once(probe: &Probe, written: u64) {
    let mut numbers = probe.numbers();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..written).collect::<Vec<_>>());
}

#[derive(Debug, Clone)]
pub enum Step {
    /// This many lines are written.
    Lines(u64),
    /// Half a line is written, or its other half.
    Half,
    /// The log gets another name. True: a new file exists at once; false: only when the writer
    /// creates it.
    Rename {
        create: bool,
    },
    /// The writer reopens its log.
    Reopen,
    /// The log is deleted, and the writer reopens it.
    Delete,
    /// The log is copied away and emptied.
    CopyTruncate,
    Look,
    /// This many seconds pass, then the follower polls.
    Wait(u64),
}

impl Step {
    /// Decodes a step from any two bytes.
    pub fn of(bytes: [u8; 2]) -> Self {
        let [what, how] = bytes;
        match what % 17 {
            0..=3 => Self::Lines(u64::from(how % 40) + 1),
            4 | 5 => Self::Half,
            6..=8 => Self::Rename {
                create: how % 2 == 0,
            },
            9..=11 => Self::Reopen,
            12 => Self::Delete,
            13 | 14 => Self::CopyTruncate,
            15 => Self::Look,
            _ => Self::Wait(u64::from(how % 20) + 1),
        }
    }
}

/// A writer, a rotator and a follower.
pub struct Model<D> {
    pub(crate) rig: Rig<D>,
    file: File,
    /// The rest of a line whose first half is written.
    half: Option<String>,
    rotations: usize,
    /// Rotations since the writer last opened its log.
    pending: usize,
}

impl<D: AsRef<Path>> Model<D> {
    /// Starts in an empty folder.
    pub fn new(folder: D) -> Self {
        let rig = Rig::new(folder);
        let file = append(&rig.path("log"));
        Self {
            rig,
            file,
            half: None,
            rotations: 0,
            pending: 0,
        }
    }

    pub fn take(&mut self, step: &Step) {
        match step {
            Step::Lines(count) => {
                self.complete();
                self.rig.write(&mut self.file, *count);
            }
            Step::Half if self.half.is_none() => {
                let line = numbered(self.rig.written);
                let (first, rest) = line.split_at(line.len() / 2);
                self.file.write_all(first.as_bytes()).unwrap();
                self.half = Some(rest.to_owned());
            }
            Step::Half => self.complete(),
            Step::Rename { create } => self.rename(*create),
            Step::Reopen => self.reopen(),
            Step::Delete => {
                self.rig.poll();
                fs::remove_file(self.rig.path("log")).ok();
                self.reopen();
            }
            Step::CopyTruncate => {
                self.complete();
                self.rig.poll();
                if let Ok(named) = File::options().write(true).open(self.rig.path("log")) {
                    named.set_len(0).unwrap();
                }
            }
            Step::Look => self.rig.poll(),
            Step::Wait(seconds) => self.rig.poll_after(Duration::from_secs(*seconds)),
        }
    }

    /// Ends the last line and lets the follower read it. Checks that each line arrived once, that
    /// none is bad, and that at most one file more than [`MAX_FILES`] is open.
    pub fn check(&mut self) {
        self.complete();
        self.rig.poll();
        self.rig.assert_all_once();
        assert_eq!(self.rig.probe.bad(), 0);
        let files = self.rig.tail.open_file_count();
        assert!(files <= MAX_FILES + 1, "{files} files are open");
    }

    fn rename(&mut self, create: bool) {
        if self.pending >= MAX_ROTATIONS {
            self.reopen();
        }
        // A file that gets and loses the name between two polls cannot be found.
        self.rig.poll();
        self.rotations += 1;
        self.pending += 1;
        let to = self.rig.path(&format!("log.{}", self.rotations));
        // Without a file there is nothing to rotate, as with `missingok` of logrotate.
        fs::rename(self.rig.path("log"), to).ok();
        if create {
            drop(append(&self.rig.path("log")));
        }
    }

    fn complete(&mut self) {
        if let Some(rest) = self.half.take() {
            self.file.write_all(rest.as_bytes()).unwrap();
            self.rig.written += 1;
        }
    }

    fn reopen(&mut self) {
        self.complete();
        self.rig.poll();
        self.file = append(&self.rig.path("log"));
        self.pending = 0;
    }
}
