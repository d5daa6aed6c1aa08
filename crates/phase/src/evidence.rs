faultline_metrics::named_enum! {
    /// With its name as a label value.
    pub enum Phase {
        Absent = "absent",
        /// Reading its configuration, or no source has reported anything yet.
        Initializing = "initializing",
        Searching = "searching",
        Downloading = "downloading",
        Unpacking = "unpacking",
        Replaying = "replaying",
        Starting = "starting",
        WaitingForSupermajority = "waiting_for_supermajority",
        Halted = "halted",
        /// Services run; not at the tip since the start.
        CatchingUp = "catching_up",
        AtTip = "at_tip",
        Behind = "behind",
        Gone = "gone",
    }
}

impl Phase {
    pub fn named(name: &str) -> Option<Self> {
        Phase::ALL.into_iter().find(|phase| phase.name() == name)
    }

    pub const fn runs(self) -> bool {
        matches!(self, Phase::CatchingUp | Phase::AtTip | Phase::Behind)
    }
}

pub fn phase_name(phase: Option<Phase>) -> &'static str {
    phase.map_or("unknown", Phase::name)
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Process {
    #[default]
    None,
    /// Stopped by a signal, or its cgroup is frozen: its slot does not advance.
    Stopped,
    Alive,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// A phase of the start, or any phase of an older recording, which has no evidence.
    Reported(Phase),
    Running,
}

/// Reports since the previous tick. Silence of a source is not evidence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Evidence {
    pub process: Process,
    /// As last reported; `None` if the report is too old.
    pub stage: Option<Stage>,
    /// The validator's own slot, if reported since the previous tick. It may be unchanged.
    pub slot: Option<u64>,
    /// The cluster's tip as the validator knows it, if reported since the previous tick.
    pub tip: Option<u64>,
    /// The validator calls itself healthy. Its own slot then measures the slot time if no source
    /// reports the tip.
    pub is_healthy: bool,
}
