use crate::tick::SourceOutput;
use faultline_catalog::metrics::daemon as d;
use faultline_catalog::{Problem, Reading, Status};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

const MOST_REQUESTS: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    OomKill,
    Exit,
    Behind,
    /// It was at the tip, and its slot does not advance.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaveOrigin {
    Automatic,
    /// A signal to the daemon.
    Operator,
    /// An HTTP request.
    Page,
}

pub(super) type Outcome = Result<PathBuf, String>;

#[derive(Debug)]
pub struct SaveRequest {
    pub text: String,
    pub origin: SaveOrigin,
    pub(super) answer: oneshot::Sender<Outcome>,
}

#[derive(Debug, Clone, Default)]
pub struct Handle(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    requests: Mutex<Vec<SaveRequest>>,
    saves: [AtomicU64; Reason::ALL.len()],
    failures: AtomicU64,
    problem: Mutex<Option<String>>,
    in_progress: Mutex<usize>,
    all_done: Condvar,
}

impl Handle {
    /// Requests a save; the outcome arrives seconds later. `None`: too many requests wait already.
    pub fn request(&self, text: &str, origin: SaveOrigin) -> Option<oneshot::Receiver<Outcome>> {
        let mut requests = self
            .0
            .requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if requests.len() >= MOST_REQUESTS {
            return None;
        }
        let (answer, answered) = oneshot::channel();
        requests.push(SaveRequest {
            text: text.to_owned(),
            origin,
            answer,
        });
        Some(answered)
    }

    pub(super) fn take_requests(&self) -> Vec<SaveRequest> {
        std::mem::take(
            &mut *self
                .0
                .requests
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    pub(super) fn begun(&self) {
        *self
            .0
            .in_progress
            .lock()
            .unwrap_or_else(PoisonError::into_inner) += 1;
    }

    pub(super) fn wait(&self, patience: Duration) {
        let in_progress = self
            .0
            .in_progress
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .0
            .all_done
            .wait_timeout_while(in_progress, patience, |count| *count > 0);
        if waited.is_ok_and(|(count, _)| *count > 0) {
            tracing::warn!("the flight recorder's last save is still running");
        }
    }

    pub(super) fn ended(&self, reason: Reason, outcome: &Outcome) {
        let counter = match outcome {
            Ok(_) => Reason::ALL
                .iter()
                .zip(&self.0.saves)
                .find(|(one, _)| **one == reason)
                .map(|(_, count)| count),
            Err(_) => Some(&self.0.failures),
        };
        if let Some(counter) = counter {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        let problem = outcome
            .as_ref()
            .err()
            .map(|why| format!("the flight recorder could not save: {why}"));
        *self
            .0
            .problem
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = problem;
        let mut in_progress = self
            .0
            .in_progress
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *in_progress = in_progress.saturating_sub(1);
        self.0.all_done.notify_all();
    }

    pub fn report(&self, output: &mut SourceOutput) {
        for (reason, count) in Reason::ALL.iter().zip(&self.0.saves) {
            let count = count.load(Ordering::Relaxed);
            output.readings.push(Reading::counter(
                &d::FLIGHT_SAVES,
                [reason.name().into()],
                count,
            ));
        }
        let failures = self.0.failures.load(Ordering::Relaxed);
        output
            .readings
            .push(Reading::counter(&d::FLIGHT_FAILURES, [], failures));
        let problem = self
            .0
            .problem
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        output
            .problems
            .extend(problem.map(|what| Problem::new(Status::Broken, what)));
    }
}

pub fn readings(flight: Option<Handle>) -> impl Fn(&mut SourceOutput) + Send {
    move |output| flight.iter().for_each(|flight| flight.report(output))
}
