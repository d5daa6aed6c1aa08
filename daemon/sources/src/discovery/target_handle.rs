//! State of the search for the validator. The finder thread writes it, other threads read it.

use super::Target;
use faultline_kernel::{CgroupFolder, ProcessId};
use faultline_metrics::{AddReadings, Problem, Reading, Stamp, metrics};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

faultline_metrics::named_enum! {
    pub enum EndReason {
        /// A pidfd reported the end of the process: it exited, or a signal killed it.
        Exit = "exit",
        /// The process ended within a minute after an OOM kill in its cgroup. If that count is
        /// unreadable: after an OOM kill on its host.
        OomKill = "oom_kill",
        /// No pidfd was available, and a poll found that the process had ended. Or the process
        /// executed another program. Or it was a wrapper whose validator ended before the search.
        Unknown = "unknown",
    }
}

#[derive(Clone, Default, PartialEq)]
pub struct SearchReport {
    pub looking_for: String,
    /// The reasons of a search without a result, at least one. With a target: its problems.
    pub problems: Vec<Problem>,
    /// Replacements of the followed process, by the [`EndReason`] of the earlier one.
    pub restarts: [u64; 3],
    pub ends: [u64; 3],
    pub last_end: Option<(ProcessId, EndReason)>,
    /// Time of the last search, or check of the followed process. `None` before the first search.
    pub updated_at: Option<Stamp>,
}

/// OOM kill counts that ticks read; that of the host is of the last tick.
#[derive(Clone, Default)]
pub struct OomKillCounts {
    pub host: Option<u64>,
    pub found_cgroup: Option<FoundCgroup>,
}

/// A cgroup at the moment when the process was first found in it.
#[derive(Clone, PartialEq)]
pub struct FoundCgroup {
    pub process: ProcessId,
    pub memory_folder: CgroupFolder,
    pub oom_kills: Option<u64>,
}

/// The lock is held only briefly.
#[derive(Clone)]
pub struct TargetHandle(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    searched: Condvar,
}

#[derive(Default)]
pub struct State {
    pub current: Option<Arc<Target>>,
    /// The process of `current`, for tasks that wait for a change.
    pub process: watch::Sender<Option<ProcessId>>,
    pub oom_kills: OomKillCounts,
    pub report: SearchReport,
}

impl TargetHandle {
    pub(super) fn new(looking_for: String) -> Self {
        let state = State {
            report: SearchReport {
                looking_for,
                ..SearchReport::default()
            },
            ..State::default()
        };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            searched: Condvar::new(),
        }))
    }

    /// Blocks until the first search ends, found or not, but at most `timeout`.
    pub fn wait_for_first_search(&self, timeout: Duration) {
        let is_unfinished =
            |state: &mut State| state.current.is_none() && state.report.problems.is_empty();
        self.0
            .searched
            .wait_while_for(&mut self.state(), is_unfinished, timeout);
    }

    pub(super) fn notify_searched(&self) {
        self.0.searched.notify_all();
    }

    pub fn current(&self) -> Option<Arc<Target>> {
        self.state().current.clone()
    }

    pub fn watch_process(&self) -> watch::Receiver<Option<ProcessId>> {
        self.state().process.subscribe()
    }

    pub fn set_host_oom_kills(&self, count: Option<u64>) {
        self.state().oom_kills.host = count;
    }

    pub fn set_cgroup(&self, cgroup: FoundCgroup) {
        self.state().oom_kills.found_cgroup = Some(cgroup);
    }

    pub fn report(&self) -> SearchReport {
        self.state().report.clone()
    }

    /// All reasons are exported from the start.
    pub fn add_readings(&self, out: &mut Vec<Reading>) {
        let state = self.state();
        for (metric, counts) in [
            (&metrics::process::RESTARTS, &state.report.restarts),
            (&metrics::process::ENDS, &state.report.ends),
        ] {
            for (reason, count) in EndReason::ALL.into_iter().zip(*counts) {
                out.integer(metric, [reason.name().into()], count);
            }
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }
}
