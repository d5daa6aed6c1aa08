//! What is written beside ticks and points.

use faultline_catalog::Stamp;
use std::time::Duration;

/// How a recording begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Opening {
    /// What the run is called: `arm=512`, `run=1`. A key that is there twice keeps its last value.
    pub labels: Vec<(String, String)>,
    /// Who writes.
    pub session: NewSession,
}

/// One life of the daemon.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSession {
    /// When it began.
    pub started: Stamp,
    /// From tick to tick.
    pub interval: Duration,
    /// The daemon's version.
    pub version: String,
    /// Host, kernel, disks, configuration: a JSON object.
    pub manifest: serde_json::Value,
}

/// A process that is followed from now on.
#[derive(Debug, Clone, PartialEq)]
pub struct NewProcess {
    /// Its number.
    pub pid: u32,
    /// When it started, since 1970; `None` if unknown.
    pub started_unix: Option<Duration>,
    /// When the daemon found it.
    pub seen: Stamp,
    /// Version, binary, arguments without secrets, limits: a JSON object.
    pub manifest: serde_json::Value,
}

/// Something that happened at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Stamp,
    /// What.
    pub kind: EventKind,
    /// A JSON object, or empty.
    pub detail: String,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)*) => {
        /// What can happen.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum EventKind {
            $($(#[$doc])* $name,)*
        }

        impl EventKind {
            /// Every kind.
            pub const ALL: &'static [EventKind] = &[$(EventKind::$name),*];

            /// The word in the file.
            pub const fn name(self) -> &'static str {
                match self {
                    $(EventKind::$name => $word,)*
                }
            }
        }
    };
}

kinds! {
    /// The daemon began to record.
    DaemonStart = "daemon_start",
    /// The daemon stopped in order.
    DaemonStop = "daemon_stop",
    /// A process is followed from here on.
    Start = "start",
    /// The followed process ended.
    Exit = "exit",
    /// The kernel killed it, or another process of its cgroup, for lack of memory.
    OomKill = "oom_kill",
    /// Another process took its place.
    Restart = "restart",
    /// The phase changed; the detail has `from` and `to`.
    Phase = "phase",
    /// It is at the tip of the cluster.
    AtTip = "at_tip",
    /// It fell behind.
    Behind = "behind",
    /// It was at the tip, and its slot has not advanced for 15 s.
    Stall = "stall",
    /// The system's wall clock was set; the detail has the step in seconds, positive if forward.
    ClockStep = "clock_step",
    /// Nothing was recorded for a while; the detail says since when and why.
    Gap = "gap",
    /// Set by hand or by an experiment.
    Mark = "mark",
}

impl EventKind {
    /// The kind with this word; `None` if there is none.
    pub fn parse(word: &str) -> Option<Self> {
        EventKind::ALL
            .iter()
            .copied()
            .find(|kind| kind.name() == word)
    }
}
