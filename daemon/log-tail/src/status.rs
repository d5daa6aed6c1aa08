use faultline_agave::log::Progress;
use faultline_metrics::{Problem, Stamp, Status};
use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// A poll that takes longer is reported as a problem. It normally takes milliseconds.
const POLL_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StartStep {
    /// The time when the line was read, at most one poll interval after it was written.
    pub at: Stamp,
    pub progress: Progress,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct LogStatus {
    /// False before the first poll and while there is a problem.
    pub up: bool,
    pub problem: Option<Problem>,
    pub bytes: u64,
    /// Records passed to the sink: lines, and datapoints joined from several lines.
    pub records: u64,
    /// Lines that could not be used: longer than 64 KiB, cut off, or with a string that never closes.
    pub bad: u64,
    pub last_line: Option<Stamp>,
    /// The last reported step of a start; `None` if there was none since the daemon started.
    pub progress: Option<StartStep>,
    polling: Option<(Arc<Path>, Stamp)>,
}

impl LogStatus {
    /// A problem if the current poll takes too long: the file system may never answer.
    pub fn unanswered(&self, now: Stamp) -> Option<Problem> {
        let (path, since) = self.polling.as_ref()?;
        (now.since(*since) > POLL_TIMEOUT).then(|| {
            let path = faultline_text::path(path);
            let what = format!("{path}: its file system does not answer; is its mount dead?");
            Problem::new(Status::Broken, what)
        })
    }
}

#[derive(Debug, Clone, Default)]
pub struct StatusHandle(Arc<Mutex<LogStatus>>);

impl StatusHandle {
    pub fn snapshot(&self) -> LogStatus {
        self.lock().clone()
    }

    pub fn begin(&self, path: &Arc<Path>, now: Stamp) {
        self.lock().polling = Some((Arc::clone(path), now));
    }

    /// Ends a poll. `None`: the log is being read. Logs a change.
    pub fn set_problem(&self, problem: Option<Problem>) {
        let mut status = self.lock();
        let is_up = problem.is_none();
        let has_changed = status.up != is_up || status.problem != problem;
        status.up = is_up;
        status.polling = None;
        status.problem.clone_from(&problem);
        drop(status);
        match problem {
            Some(problem) if has_changed => {
                tracing::warn!(%problem, "the validator's log cannot be read");
            }
            None if has_changed => tracing::info!("the validator's log is being read"),
            _ => {}
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, LogStatus> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
