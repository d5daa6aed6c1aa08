//! The state of the search, shared between the thread that searches and all readers.

use super::Target;
use faultline_catalog::{Problem, Reading, Stamp, metrics};
use faultline_kernel::{CgroupFolder, ProcessId};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch as channel;

/// Why a process that was followed is no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The kernel told of its end.
    Exit,
    /// The same, or it was found gone, within a minute after the kernel had OOM-killed in its cgroup or
    /// on its host.
    OomKill,
    /// It was found gone, or turned into another program.
    Unknown,
}

impl Reason {
    pub const ALL: [Reason; 3] = [Reason::Exit, Reason::OomKill, Reason::Unknown];

    pub const fn name(self) -> &'static str {
        match self {
            Reason::Exit => "exit",
            Reason::OomKill => "oom_kill",
            Reason::Unknown => "unknown",
        }
    }
}

/// How the search stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What is looked for, in words.
    pub looking_for: String,
    /// While none is followed: why not, at least one. While one is followed: what is wrong with it.
    pub problems: Vec<Problem>,
    /// How often the followed process was replaced by another one, by the reason of the earlier one's end.
    pub restarts: [(Reason, u64); 3],
    /// Ends of the followed process by reason.
    pub ends: [(Reason, u64); 3],
    /// The process whose end was seen last, and why it ended.
    pub ended: Option<(ProcessId, Reason)>,
    /// When it was looked last; `None` before the first look.
    pub looked_at: Option<Stamp>,
    /// How long that look took.
    pub took: Duration,
}

/// What ticks have found of OOM kills.
#[derive(Debug, Clone, Default)]
pub(super) struct OomKills {
    /// Those of the host, at the newest tick.
    pub(super) host: Option<u64>,
    pub(super) cgroup: Option<FoundCgroup>,
}

/// A cgroup when a process was first found in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundCgroup {
    pub process: ProcessId,
    /// The cgroup whose memory is counted.
    pub memory: CgroupFolder,
    /// Its OOM kills at that time.
    pub oom_kills: Option<u64>,
}

/// The target, for everybody who needs it. Cheap to clone; nobody holds the lock longer than a copy takes.
#[derive(Debug, Clone)]
pub struct Following(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Notified when a search is over.
    searched: Condvar,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) current: Option<Arc<Target>>,
    /// The process of `current`, for tasks that wait for a change.
    pub(super) process: channel::Sender<Option<ProcessId>>,
    pub(super) oom_kills: OomKills,
    pub(super) report: Report,
}

impl Following {
    pub(super) fn new(looking_for: String) -> Self {
        let none = Reason::ALL.map(|reason| (reason, 0));
        let (looked_at, took, ended) = (None, Duration::ZERO, None);
        let (restarts, ends) = (none, none);
        let report = Report {
            looking_for,
            problems: Vec::new(),
            restarts,
            ends,
            ended,
            looked_at,
            took,
        };
        let process = channel::Sender::new(None);
        let state = State {
            current: None,
            process,
            oom_kills: OomKills::default(),
            report,
        };
        Following(Arc::new(Shared {
            state: Mutex::new(state),
            searched: Condvar::new(),
        }))
    }

    /// Blocks until the first search is over, whatever it found, for `timeout` at most.
    pub fn wait_for_first_search(&self, timeout: Duration) {
        let unknown =
            |state: &mut State| state.current.is_none() && state.report.problems.is_empty();
        self.0
            .searched
            .wait_while_for(&mut self.state(), unknown, timeout);
    }

    /// Wakes [`Following::wait_for_first_search`].
    pub(super) fn search_is_over(&self) {
        self.0.searched.notify_all();
    }

    /// Who is followed now.
    pub fn current(&self) -> Option<Arc<Target>> {
        self.state().current.clone()
    }

    /// Which process is followed now, and each one that is followed later.
    pub fn process(&self) -> channel::Receiver<Option<ProcessId>> {
        self.state().process.subscribe()
    }

    /// Takes the host's count of OOM kills, which a tick reads anyway.
    pub fn saw_host_oom_kills(&self, count: Option<u64>) {
        self.state().oom_kills.host = count;
    }

    /// Takes the cgroup in which a tick has found the process, when it is another than before.
    pub fn saw_cgroup(&self, cgroup: FoundCgroup) {
        self.state().oom_kills.cgroup = Some(cgroup);
    }

    /// How the search stands.
    pub fn report(&self) -> Report {
        self.state().report.clone()
    }

    /// Restarts and ends, with all three reasons from the beginning.
    pub fn readings(&self, out: &mut Vec<Reading>) {
        let (restarts, ends) = {
            let report = &self.state().report;
            (report.restarts, report.ends)
        };
        for (metric, counts) in [
            (&metrics::process::RESTARTS, restarts),
            (&metrics::process::ENDS, ends),
        ] {
            out.extend(
                counts
                    .map(|(reason, count)| Reading::counter(metric, [reason.name().into()], count)),
            );
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }
}
