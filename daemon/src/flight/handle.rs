//! What others hold of a flight recorder: they ask for a save and see how it stands.

use crate::tick::Finding;
use faultline_catalog::metrics::daemon as d;
use faultline_catalog::{Problem, ReadingList, Status};
use parking_lot::{Condvar, Mutex};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// So many requests may wait for the recorder's next turn.
const MOST_REQUESTS: usize = 8;

/// Why a recording was saved, as the metric counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The kernel killed the validator for lack of memory.
    OomKill,
    Exit,
    Behind,
    /// It was at the tip, and its slot stands still.
    Stall,
    Request,
}

impl Reason {
    pub const ALL: [Reason; 5] = [
        Reason::OomKill,
        Reason::Exit,
        Reason::Behind,
        Reason::Stall,
        Reason::Request,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Reason::OomKill => "oom_kill",
            Reason::Exit => "exit",
            Reason::Behind => "behind",
            Reason::Stall => "stall",
            Reason::Request => "request",
        }
    }
}

/// Who wants a recording saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    Unasked,
    /// Who may send the daemon a signal.
    Operator,
    /// Whoever reaches its pages.
    Page,
}

/// How a save ended: where the recording is, or why there is none.
pub(super) type Outcome = Result<PathBuf, String>;

/// A request, and who waits for its outcome.
#[derive(Debug)]
pub struct Asked {
    /// In the words of whoever asked; may be empty.
    pub text: String,
    pub wish: Wish,
    pub(super) answer: oneshot::Sender<Outcome>,
}

#[derive(Debug, Clone, Default)]
pub struct Handle(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    all_done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    requests: Vec<Asked>,
    saves: [u64; Reason::ALL.len()],
    failures: u64,
    problem: Option<String>,
    under_way: usize,
}

impl Handle {
    /// Asks for a save; the answer comes when it is done, seconds later. `None`: too many wait already.
    pub fn request(&self, text: &str, wish: Wish) -> Option<oneshot::Receiver<Outcome>> {
        let mut state = self.0.state.lock();
        if state.requests.len() >= MOST_REQUESTS {
            return None;
        }
        let (answer, answered) = oneshot::channel();
        state.requests.push(Asked {
            text: text.to_owned(),
            wish,
            answer,
        });
        Some(answered)
    }

    pub(super) fn take_requests(&self) -> Vec<Asked> {
        std::mem::take(&mut self.0.state.lock().requests)
    }

    /// A save begins; [`ended`](Self::ended) follows.
    pub(super) fn begun(&self) {
        self.0.state.lock().under_way += 1;
    }

    /// Waits until no save is under way, or until `patience` is over.
    pub(super) fn wait(&self, patience: Duration) {
        let mut state = self.0.state.lock();
        let under_way = |state: &mut State| state.under_way > 0;
        let waited = self
            .0
            .all_done
            .wait_while_for(&mut state, under_way, patience);
        if waited.timed_out() {
            tracing::warn!("the flight recorder's last save is still running");
        }
    }

    /// A save has ended.
    pub(super) fn ended(&self, reason: Reason, outcome: &Outcome) {
        let mut state = self.0.state.lock();
        state.problem = None;
        match outcome {
            Ok(_) => state.saves[reason as usize] += 1,
            Err(why) => {
                state.failures += 1;
                state.problem = Some(format!("the flight recorder could not save: {why}"));
            }
        }
        state.under_way = state.under_way.saturating_sub(1);
        self.0.all_done.notify_all();
    }

    /// How it stands: counts since the daemon's start, and what was wrong with the last save.
    pub fn tell(&self, finding: &mut Finding) {
        let state = self.0.state.lock();
        for reason in Reason::ALL {
            let count = state.saves[reason as usize];
            let labels = [reason.name().into()];
            finding.readings.counter(&d::FLIGHT_SAVES, labels, count);
        }
        finding
            .readings
            .counter(&d::FLIGHT_FAILURES, [], state.failures);
        let problem = state.problem.clone();
        finding
            .problems
            .extend(problem.map(|what| Problem::new(Status::Broken, what)));
    }
}

/// Adds to a finding how the flight recorder stands, if there is one.
pub fn readings(flight: Option<Handle>) -> impl Fn(&mut Finding) + Send {
    move |finding| flight.iter().for_each(|flight| flight.tell(finding))
}
