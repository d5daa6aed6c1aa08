use faultline_metrics::{Problem, ReadingList, Stamp, Status, metrics::daemon as d};
use faultline_recording::EventKind;
use faultline_sources::tick::SourceOutput;
use parking_lot::{Condvar, Mutex};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::sync::oneshot;

const MAX_REQUESTS: usize = 8;

faultline_metrics::named_enum! {
    /// Why a recording is saved, the most severe first.
    pub enum SaveReason {
        OomKill = "oom_kill",
        Exit = "exit",
        Behind = "behind",
        /// The validator was at the tip, and its slot does not advance.
        Stall = "stall",
        Request = "request",
    }
}

impl SaveReason {
    /// Whether events of the kind save the ring, and why.
    pub fn of(kind: EventKind) -> Option<Self> {
        SaveReason::ALL
            .into_iter()
            .find(|reason| reason.name() == kind.name())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaveOrigin {
    Automatic,
    /// A signal to the daemon.
    Signal,
    /// An HTTP request.
    Http,
}

pub type Outcome = Result<PathBuf, String>;

#[derive(Debug)]
pub struct SaveJob {
    pub reason: SaveReason,
    pub origin: SaveOrigin,
    /// The reason that a request gives; empty without one.
    pub text: String,
    /// When the ring took the job.
    pub at: Stamp,
    pub answer: Option<oneshot::Sender<Outcome>>,
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
    requests: Vec<SaveJob>,
    saves: [u64; SaveReason::ALL.len()],
    failures: u64,
    /// Since 1970.
    last_saved_at: Option<Duration>,
    problem: Option<String>,
    in_progress: usize,
}

impl Handle {
    /// Requests a save; the outcome arrives seconds later. `None`: too many requests wait already.
    pub fn request(&self, text: &str, origin: SaveOrigin) -> Option<oneshot::Receiver<Outcome>> {
        let mut state = self.0.state.lock();
        if state.requests.len() >= MAX_REQUESTS {
            return None;
        }
        let (answer, answered) = oneshot::channel();
        state.requests.push(SaveJob {
            reason: SaveReason::Request,
            origin,
            text: text.to_owned(),
            at: Stamp::default(),
            answer: Some(answer),
        });
        Some(answered)
    }

    pub(super) fn take_requests(&self) -> Vec<SaveJob> {
        std::mem::take(&mut self.0.state.lock().requests)
    }

    pub(super) fn save_begun(&self) {
        self.0.state.lock().in_progress += 1;
    }

    pub(super) fn wait(&self, timeout: Duration) {
        let mut state = self.0.state.lock();
        let in_progress = |state: &mut State| state.in_progress > 0;
        let waited = self
            .0
            .all_done
            .wait_while_for(&mut state, in_progress, timeout);
        if waited.timed_out() {
            tracing::warn!("the flight recorder's last save is still running");
        }
    }

    pub(super) fn set_last_save(&self, at: Option<Duration>) {
        self.0.state.lock().last_saved_at = at;
    }

    pub(super) fn save_ended(&self, job: SaveJob, outcome: Outcome) {
        // The tick takes the lock, so the disk is not read under it.
        let saved_at = outcome.as_ref().ok().and_then(|path| modified(path));
        let mut state = self.0.state.lock();
        state.problem = None;
        match &outcome {
            Ok(_) => {
                state.saves[job.reason as usize] += 1;
                state.last_saved_at = saved_at;
            }
            Err(why) => {
                state.failures += 1;
                state.problem = Some(format!("the flight recorder could not save: {why}"));
            }
        }
        state.in_progress = state.in_progress.saturating_sub(1);
        self.0.all_done.notify_all();
        drop(state);
        if let Some(answer) = job.answer {
            drop(answer.send(outcome));
        }
    }

    pub fn report(&self, output: &mut SourceOutput) {
        let state = self.0.state.lock();
        for reason in SaveReason::ALL {
            let count = state.saves[reason as usize];
            let labels = [reason.name().into()];
            output.readings.counter(&d::FLIGHT_SAVES, labels, count);
        }
        output
            .readings
            .counter(&d::FLIGHT_FAILURES, [], state.failures);
        let at = state.last_saved_at.map(|at| at.as_secs_f64());
        output.readings.real(&d::FLIGHT_LAST_SAVE, [], at);
        let problem = state.problem.clone();
        output
            .problems
            .extend(problem.map(|what| Problem::new(Status::Broken, what)));
    }
}

/// When the file was written, since 1970.
pub fn modified(path: &Path) -> Option<Duration> {
    let modified = std::fs::symlink_metadata(path).ok()?.modified().ok()?;
    modified.duration_since(SystemTime::UNIX_EPOCH).ok()
}
