//! What others see of the follower.

use faultline_agave::log::Progress;
use faultline_catalog::{Problem, Stamp, Status};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A look takes milliseconds.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// A step of the validator's start, as its log told it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StartStep {
    /// When the line was read, at most a poll after it was written.
    pub at: Stamp,
    pub progress: Progress,
}

/// How the follower fares.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LogStatus {
    /// Whether the log is being read. False before the first look and while there is a problem.
    pub up: bool,
    /// Why it is not, in words.
    pub problem: Option<Problem>,
    /// Bytes of log text read since the daemon started.
    pub bytes: u64,
    /// Records handed on: lines, and datapoints joined from several lines.
    pub records: u64,
    /// Lines that could not be used: longer than 64 KiB, cut off, or with a string that never closes.
    pub bad: u64,
    /// When the last record was read; `None` before the first.
    pub last_line: Option<Stamp>,
}

/// Shared between the follower, which writes, and the tick, which reads. Locks are held for a copy at most.
#[derive(Debug, Clone, Default)]
pub struct View(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    bytes: AtomicU64,
    records: AtomicU64,
    bad: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    looked: bool,
    /// Which path is looked at, and since when.
    looking: Option<(Arc<Path>, Stamp)>,
    problem: Option<Problem>,
    last_line: Option<Stamp>,
    progress: Option<Arc<StartStep>>,
}

impl View {
    pub fn status(&self) -> LogStatus {
        let (up, problem, last_line) = {
            let state = self.lock();
            (
                state.looked && state.problem.is_none(),
                state.problem.clone(),
                state.last_line,
            )
        };
        LogStatus {
            up,
            problem,
            bytes: self.0.bytes.load(Ordering::Relaxed),
            records: self.0.records.load(Ordering::Relaxed),
            bad: self.0.bad.load(Ordering::Relaxed),
            last_line,
        }
    }

    /// The last step of a start the log told of; `None` if it told of none since the daemon started.
    pub fn progress(&self) -> Option<Arc<StartStep>> {
        self.lock().progress.clone()
    }

    /// A look at the file begins: its file system may never answer.
    pub fn begin(&self, path: &Arc<Path>, now: Stamp) {
        self.lock().looking = Some((Arc::clone(path), now));
    }

    /// The problem of a look that takes too long.
    pub fn unanswered(&self, now: Stamp) -> Option<Problem> {
        let state = self.lock();
        let (path, since) = state.looking.as_ref()?;
        let words = || {
            format!(
                "{}: its file system does not answer; is its mount dead?",
                faultline_text::path(path)
            )
        };
        (now.since(*since) > ANSWERS_WITHIN).then(|| Problem::new(Status::Broken, words()))
    }

    /// The outcome of a look. Tells the log of the program that follows, but only of changes.
    pub fn settle(&self, problem: Option<Problem>) {
        let mut state = self.lock();
        let changed = !state.looked || state.problem != problem;
        (state.looked, state.looking) = (true, None);
        state.problem.clone_from(&problem);
        drop(state);
        match problem {
            Some(problem) if changed => {
                tracing::warn!(%problem, "the validator's log cannot be read")
            }
            None if changed => tracing::info!("the validator's log is being read"),
            _ => {}
        }
    }

    pub(crate) fn read(&self, bytes: usize) {
        self.0
            .bytes
            .fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn count(&self, records: u64, bad: u64, now: Stamp) {
        self.0.records.fetch_add(records, Ordering::Relaxed);
        self.0.bad.fetch_add(bad, Ordering::Relaxed);
        if records > 0 {
            self.lock().last_line = Some(now);
        }
    }

    pub(crate) fn tell(&self, told: StartStep) {
        self.lock().progress = Some(Arc::new(told));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
