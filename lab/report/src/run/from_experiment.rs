/// What the journal of an experiment says about the run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExperimentOutcome {
    /// A fixed range instead of a cluster.
    pub replay: bool,
    /// If `None`, the recording decides.
    pub success: Option<bool>,
    pub why: String,
    pub end: String,
    pub evidence: String,
    /// When a stop was requested or the end was seen.
    pub stopped_unix_ns: Option<i64>,
    pub oom: bool,
    /// In bytes: `memory.max`, else `memory.high`.
    pub limit: Option<u64>,
    /// Seconds in which some task waited for I/O: PSI of the cgroup.
    pub io_some: Option<f64>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Replayed {
    /// In order of freezing; each slot once.
    pub slots: Vec<ReplayedSlot>,
    /// Over all slots, summed over threads.
    pub program_cache_us: Option<u64>,
    /// Slots beyond the maximum that is read.
    pub left_out: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ReplayedSlot {
    pub slot: u64,
    /// From the previous bank's freezing to this one's; `None` for the first.
    pub elapsed_ms: Option<f64>,
    /// Fingerprint of the bank hash: equal for equal replays.
    pub contents: Option<u64>,
    pub signatures: Option<u64>,
    /// Programs not usable in the cache at the first lookup.
    pub misses: Option<u64>,
    pub reloads: Option<u64>,
    pub evictions: Option<u64>,
    pub insertions: Option<u64>,
}
