use faultline_metrics::Stamp;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq)]
pub struct NewRecording {
    /// Such as `arm=512`, `run=1`. If a key occurs twice, the last value counts.
    pub labels: Vec<(String, String)>,
    pub session: NewSession,
}

/// One run of the daemon.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSession {
    pub started: Stamp,
    pub interval: Duration,
    pub version: String,
    /// Host, kernel, disks, configuration: a JSON object.
    pub manifest: serde_json::Value,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewProcess {
    pub pid: u32,
    /// Since 1970; `None` if unknown.
    pub started_unix: Option<Duration>,
    pub seen: Stamp,
    /// Version, binary, arguments without secrets, limits: a JSON object.
    pub manifest: serde_json::Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub at: Stamp,
    pub kind: EventKind,
    /// A JSON object, or empty.
    pub detail: String,
}

faultline_metrics::named_enum! {
    /// Kind of an event, with its name in the file.
    pub enum EventKind {
        DaemonStart = "daemon_start",
        DaemonStop = "daemon_stop",
        Start = "start",
        Exit = "exit",
        /// The kernel OOM-killed it, or another process of its cgroup.
        OomKill = "oom_kill",
        Restart = "restart",
        /// The detail has `from` and `to`.
        Phase = "phase",
        AtTip = "at_tip",
        Behind = "behind",
        /// It was at the tip, and its slot has not advanced for 15 s.
        Stall = "stall",
        /// The wall clock was set; the detail has the step in seconds, positive if forward.
        ClockStep = "clock_step",
        /// Nothing was recorded for a while; the detail has start and reason.
        Gap = "gap",
        Mark = "mark",
    }
}

impl EventKind {
    pub fn parse(word: &str) -> Option<Self> {
        EventKind::ALL
            .iter()
            .copied()
            .find(|kind| kind.name() == word)
    }
}
