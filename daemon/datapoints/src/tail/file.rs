//! Follows a log file on its own thread and feeds the intake.

use super::record_writer;
use crate::validator::intake::Intake;
use faultline_core::{
    clock::Clock,
    supervisor::{PATH_CALL_TIMEOUT, PathThread, Stop},
};
use faultline_log_tail::{Follower, POLL_INTERVAL, StatusHandle};
use faultline_metrics::{Problem, Status};
use std::{
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, channel},
};

/// [`run`](FileTail::run) needs a thread that may hang, because it reads files of the validator.
pub struct FileTail {
    /// `None` while its file system has not responded.
    follower: Option<Follower>,
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
        status.begin(&path.into(), now);
        let opening = PathThread::new("log-open")
            .start(move || Follower::open(&path_to_open, writer, now))
            .unwrap_or_else(|_| channel().1);
        FileTail {
            follower: opening.recv_timeout(PATH_CALL_TIMEOUT).ok(),
            opening,
            path: path.to_owned(),
            status,
            clock,
        }
    }

    pub fn status(&self) -> StatusHandle {
        self.status.clone()
    }

    /// Runs until `stop`. An incomplete last line is ignored.
    pub fn run(self, stop: Stop) {
        let Some(mut follower) = self.follower.or_else(|| self.opening.recv().ok()) else {
            let message = format!(
                "{}: no thread could open it; restart the daemon",
                faultline_text::path(&self.path)
            );
            self.status
                .set_problem(Some(Problem::new(Status::Broken, message)));
            while !stop.is_set() {
                stop.sleep(POLL_INTERVAL);
            }
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
