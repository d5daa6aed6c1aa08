//! What is known of a run beside its recording: what the experiment says that made it, and what its log says of slots.

/// What an experiment says of a run it made. It watched from outside, with evidence of its own.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FromExperiment {
    /// Whether it was to do the same work as the others and to end by itself, and not to follow a cluster.
    pub replay: bool,
    /// Whether the run did what its arm was to show it can; `None`: the recording decides.
    pub kept_up: Option<bool>,
    pub why: String,
    /// How it ended, in words.
    pub end: String,
    pub evidence: String,
    /// When it was asked to end or was seen to have ended, in nanoseconds since 1970; `None` if that is not known.
    pub stopped_unix_ns: Option<i64>,
    /// The kernel killed it for lack of memory.
    pub oom: bool,
    /// The limit of memory that its plan gave it, in bytes: the one that kills, else the one that slows down; `None` if it
    /// had none of its own.
    pub limit: Option<u64>,
    /// Seconds in which some task of its group waited for I/O; `None` where the kernel does not tell.
    pub io_some: Option<f64>,
}

/// What the log of a workload says that replayed a fixed range of slots.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Replayed {
    /// In the order in which their banks were frozen; each slot once.
    pub slots: Vec<ReplayedSlot>,
    /// Time in the program cache over all slots, summed over threads, in microseconds; `None` if the log does not tell.
    pub program_cache_us: Option<u64>,
    /// Slots beyond those kept, of which nothing is known.
    pub left_out: usize,
}

/// One slot of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ReplayedSlot {
    pub slot: u64,
    /// When its bank was frozen, in Unix nanoseconds.
    pub frozen_unix_ns: i64,
    /// From the bank before it, frozen to frozen, in milliseconds; `None` of the first.
    pub elapsed_ms: Option<f64>,
    /// A fingerprint of the bank's hash: equal where the same was replayed. `None` if the log has no hash.
    pub contents: Option<u64>,
    /// Signatures of its transactions.
    pub signatures: Option<u64>,
    /// Programs not usable in the cache at the first look.
    pub misses: Option<u64>,
    /// Programs loaded again after they had been evicted.
    pub reloads: Option<u64>,
    pub evictions: Option<u64>,
    /// Entries that are new.
    pub insertions: Option<u64>,
}
