//! How each recorder stands, for the tick and the web.

use super::Handle;
use crate::discovery::Following;
use crate::tick::{Finding, Look, Poll};
use faultline_catalog::metrics::daemon as d;
use faultline_catalog::{Problem, ReadingList, Source, Status};
use faultline_kernel::ProcessId;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// How long it is shown that the file was removed or replaced, or entries dropped: longer than from scrape to scrape.
pub(super) const SHOW_FOR: Duration = Duration::from_secs(60);

/// One recorder's account: written by its thread, read at the tick.
#[derive(Debug)]
pub struct Account {
    /// The label value: `record` or `flight`.
    name: &'static str,
    state: Mutex<AccountState>,
}

#[derive(Debug, Default)]
struct AccountState {
    rows: u64,
    dropped: u64,
    problem: Option<Problem>,
}

impl Account {
    pub fn new(name: &'static str) -> Arc<Self> {
        Arc::new(Account {
            name,
            state: Mutex::default(),
        })
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn wrote(&self, rows: u64) {
        self.state.lock().rows += rows;
    }

    /// Ticks, points and events were not recorded.
    pub fn dropped(&self, entries: u64) {
        self.state.lock().dropped += entries;
    }

    /// What is wrong now; `None`: nothing.
    pub fn say(&self, problem: Option<Problem>) {
        self.state.lock().problem = problem;
    }

    /// Rows written, and entries dropped.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.rows, state.dropped)
    }

    /// What was said last.
    pub fn problem(&self) -> Option<Problem> {
        self.state.lock().problem.clone()
    }
}

/// The recorder as a source of a tick: tells how it stands, and notes who is followed, so that the tick is recorded with
/// its own process.
pub(super) struct RecorderSource {
    pub(super) handle: Handle,
    pub(super) following: Following,
    /// Adds to each finding.
    pub(super) more: Box<dyn Fn(&mut Finding) + Send>,
    /// What had found no room in the queue by the last look, and the uptime until which that is shown.
    pub(super) lost: (u64, Duration),
}

impl RecorderSource {
    /// That entries found no room in the queue lately. The words stay the same, so that they are logged once.
    fn overrun(&mut self, now: Duration) -> Option<Problem> {
        let lost = self.handle.queue.lost();
        if std::mem::replace(&mut self.lost.0, lost) < lost {
            self.lost.1 = now + SHOW_FOR;
        }
        (now < self.lost.1).then(|| {
            let what = "the recorder does not keep up and drops entries; faultline_recorder_dropped_total counts them";
            Problem::new(Status::Broken, what)
        })
    }

    fn note(&self, look: &Look<'_>) {
        let mut seen = self.handle.seen.lock();
        if seen.target.as_deref() == look.target {
            return;
        }
        let before: Option<ProcessId> = seen.target.take().map(|target| target.process);
        let ended = self.following.report().ended;
        seen.ended = ended
            .filter(|(process, _)| Some(*process) == before)
            .map(|(_, reason)| reason);
        seen.target = look.target.map(|target| Arc::new(target.clone()));
    }
}

impl Poll for RecorderSource {
    fn source(&self) -> Source {
        Source::Recorder
    }

    fn look(&mut self, look: &Look<'_>) -> Finding {
        self.note(look);
        // What is wrong with a file is a state, told at every tick.
        let mut finding = Finding {
            repeated: true,
            ..Finding::default()
        };
        finding.problems = self
            .handle
            .accounts
            .iter()
            .filter_map(|account| account.problem())
            .collect();
        finding.up = finding.problems.is_empty();
        finding.problems.extend(self.overrun(look.now.uptime));
        (self.more)(&mut finding);
        finding.readings.extend(self.handle.marks.readings());
        let lost = self.handle.queue.lost();
        for account in &self.handle.accounts {
            let (rows, dropped) = account.counts();
            finding
                .readings
                .counter(&d::RECORDER_ROWS, [account.name.into()], rows);
            finding
                .readings
                .counter(&d::RECORDER_DROPPED, [account.name.into()], dropped + lost);
        }
        finding
    }
}
