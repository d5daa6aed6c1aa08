//! What is known of a validator at one tick, and the phases of its life.

/// A phase of the validator's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// No process was found yet.
    Absent,
    /// Reading its configuration, or no source has reported anything yet.
    Initializing,
    /// Searching gossip for a node with a snapshot.
    Searching,
    Downloading,
    /// Unpacking it and building the accounts index.
    Unpacking,
    /// Replaying the local ledger.
    Replaying,
    Starting,
    /// Waiting for stake at a cluster restart.
    WaitingForSupermajority,
    /// Halted at a slot on request.
    Halted,
    /// Services run; not at the tip since the start.
    CatchingUp,
    /// At the tip of the cluster.
    AtTip,
    /// Was at the tip and fell behind.
    Behind,
    /// The process that was followed has ended.
    Gone,
}

impl Phase {
    /// Every phase, in the order of a life.
    pub const ALL: [Phase; 13] = [
        Phase::Absent,
        Phase::Initializing,
        Phase::Searching,
        Phase::Downloading,
        Phase::Unpacking,
        Phase::Replaying,
        Phase::Starting,
        Phase::WaitingForSupermajority,
        Phase::Halted,
        Phase::CatchingUp,
        Phase::AtTip,
        Phase::Behind,
        Phase::Gone,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Phase::Absent => "absent",
            Phase::Initializing => "initializing",
            Phase::Searching => "searching",
            Phase::Downloading => "downloading",
            Phase::Unpacking => "unpacking",
            Phase::Replaying => "replaying",
            Phase::Starting => "starting",
            Phase::WaitingForSupermajority => "waiting_for_supermajority",
            Phase::Halted => "halted",
            Phase::CatchingUp => "catching_up",
            Phase::AtTip => "at_tip",
            Phase::Behind => "behind",
            Phase::Gone => "gone",
        }
    }

    /// The phase with this name; `None` for any other word.
    pub fn named(name: &str) -> Option<Self> {
        Phase::ALL.into_iter().find(|phase| phase.name() == name)
    }

    pub const fn runs(self) -> bool {
        matches!(self, Phase::CatchingUp | Phase::AtTip | Phase::Behind)
    }
}

/// The label value of a phase, or "unknown".
pub fn word(phase: Option<Phase>) -> &'static str {
    phase.map_or("unknown", Phase::name)
}

/// What the kernel says of the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Process {
    /// No process is followed.
    #[default]
    None,
    /// Stopped by a signal, or its cgroup is frozen: its slot does not advance.
    Stopped,
    Alive,
}

/// What a source reports of the phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// This phase: one of a start, or whatever an older recording has, whose evidence was not kept.
    Reported(Phase),
    Running,
}

/// What the sources reported since the tick before. A source that reported nothing is no evidence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Evidence {
    pub process: Process,
    /// As last reported; `None` if the report is too old.
    pub stage: Option<Stage>,
    /// The validator's own slot, if a source reported it since the tick before. It may be the same as before.
    pub slot: Option<u64>,
    /// The tip of the cluster as the validator knows it, likewise.
    pub tip: Option<u64>,
    /// The validator calls itself healthy. Its own slot then measures the slot time where no source reports the tip.
    pub is_healthy: bool,
}
