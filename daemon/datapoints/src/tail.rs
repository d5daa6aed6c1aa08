//! The validator's log, an input in place of pushes: a file followed over rotation, or a unit's
//! journal.
//!
//! The log contains the same datapoints as the pushes, and in other records the steps of the
//! migration to Alpenglow. Reading starts at the log's end. Then every line counts once, over
//! rotations and restarts of `journalctl`. `faultline_log_tail` and `journal` list the exceptions.

mod journal;
#[cfg(test)]
#[path = "../../log-tail/tests/file/probe.rs"]
mod probe;

pub use faultline_log_tail::{LogStatus, StartupStep, StatusHandle};

use crate::validator::intake::{Intake, Push};
use faultline_core::{
    clock::Clock,
    config::Log,
    supervisor::{FS_CALL_TIMEOUT, FsCalls, Stop, WorkerGroup},
};
use faultline_log_tail::{Follower, POLL_INTERVAL, RecordSink, RecordWriter};
use faultline_metrics::{Problem, Stamp};
use journal::JournalTail;
use std::{
    io,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, channel},
};

pub enum LogTail {
    File(FileTail),
    Journal(JournalTail),
}

impl LogTail {
    /// An unreadable file is no error: the status reports it, and the validator may create the file
    /// later.
    pub fn build(config: &Log, intake: Intake, clock: Clock) -> Self {
        match config {
            Log::File(path) => Self::File(FileTail::open(path, intake, clock)),
            Log::Journal(unit) => Self::Journal(JournalTail::new(unit, intake, clock)),
        }
    }

    pub fn start(self, workers: &mut WorkerGroup) -> io::Result<()> {
        match self {
            Self::File(file) => workers.abandonable_thread("log", |stop| file.run(stop)),
            Self::Journal(journal) => {
                workers.task("journal", |stop| journal.run(stop));
                Ok(())
            }
        }
    }

    pub fn status(&self) -> StatusHandle {
        match self {
            Self::File(tail) => tail.status.clone(),
            Self::Journal(tail) => tail.status(),
        }
    }
}

struct IntakeSink {
    intake: Intake,
    push: Option<Push>,
}

impl RecordSink for IntakeSink {
    fn begin(&mut self, now: Stamp) {
        self.push = Some(self.intake.begin_trusted(now));
    }

    fn record(&mut self, record: &str) {
        if let Some(push) = &mut self.push {
            push.add_log_line(record);
        }
    }

    fn count_bad_record(&mut self) {
        if let Some(push) = &mut self.push {
            push.count_bad_line();
        }
    }

    fn commit(&mut self, at: Stamp) {
        if let Some(push) = self.push.take() {
            self.intake.commit(push, at);
        }
    }
}

fn record_writer(intake: Intake) -> RecordWriter {
    intake.set_reads_log();
    RecordWriter::new(Box::new(IntakeSink { intake, push: None }))
}

/// [`run`](FileTail::run) needs its own thread, because reads of the validator's files may hang.
pub struct FileTail {
    /// `None` while the file system has not responded.
    follower: Option<Follower>,
    /// Delivers the follower once the file is open.
    opening: Receiver<Follower>,
    path: PathBuf,
    status: StatusHandle,
    clock: Clock,
}

impl FileTail {
    /// Starts at the file's current end.
    pub fn open(path: &Path, intake: Intake, clock: Clock) -> Self {
        let (now, writer) = (clock.now(), record_writer(intake));
        let (status, path_to_open) = (writer.status.clone(), path.to_owned());
        status.begin_poll(&path.into(), now);
        let opening = FsCalls::new("log-open")
            .start(move || Follower::open(&path_to_open, writer, now))
            .unwrap_or_else(|_| channel().1);
        Self {
            follower: opening.recv_timeout(FS_CALL_TIMEOUT).ok(),
            opening,
            path: path.to_owned(),
            status,
            clock,
        }
    }

    /// Runs until `stop`. An incomplete last line is ignored.
    pub fn run(self, stop: Stop) {
        let Some(mut follower) = self.follower.or_else(|| self.opening.recv().ok()) else {
            let message = format!(
                "{}: the thread that opens it failed to start or ended; restart the daemon",
                faultline_text::path(&self.path)
            );
            self.status.set_problem(Some(Problem::broken(message)));
            while !stop.sleep(POLL_INTERVAL) {}
            return;
        };
        while !stop.is_set() {
            if follower.poll(self.clock.now()) {
                std::thread::yield_now();
            } else {
                stop.sleep(POLL_INTERVAL);
            }
        }
    }
}

#[cfg(test)]
mod tests;
