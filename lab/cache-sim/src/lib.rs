//! Simulates Agave's program cache for the transactions of a run, at any size and with other
//! policies. A load is a compilation that a lookup caused, never the workload.
//!
//! Results depend only on the input and a seed. Nothing opens a file, uses a clock, or panics.
//! Programs are numbered without gaps, so that a simulation indexes arrays and computes no hashes.

pub mod agave;
mod cache;
pub mod cost;
pub mod file;
pub mod interval;
pub mod policy;
pub mod predict;
pub mod run;
pub mod trace;

pub use agave::CacheRules;
pub use cache::{Counts, Limit};
pub use policy::{Policy, Setting};
pub use run::Simulation;
pub use trace::{Trace, with_attack};

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the trace cannot be read or written: {0}")]
    Io(#[from] std::io::Error),
    #[error(
        "it is not a trace file of this format; name the run's trace with `faultline cache predict --trace` or `cache fetch --out`"
    )]
    NotATrace,
    #[error("it has {found}, which this version does not know; use a newer faultline")]
    Newer { found: String },
    // A file can be continued if its metadata are whole.
    #[error(
        "the trace file is damaged at byte {offset}: {problem}; {}",
        if *offset > file::MAGIC.len() as u64 {
            "run the same `faultline cache fetch --rpc` again to continue it from there, or copy it again"
        } else {
            "copy it again, or remove it and run `faultline cache fetch`"
        }
    )]
    Damaged {
        /// Offset of the damaged record.
        offset: u64,
        problem: String,
    },
    #[error("the trace is invalid: {0}")]
    InvalidTrace(String),
    #[error(
        "program cache rules are known for Agave 2.0 to 2.3, 3.0, 3.1, and 4.0 to 4.5, but not for version {version:?}"
    )]
    UnknownVersion { version: String },
    #[error(
        "the trace covers {percent:.2} % of the recorded transactions (missing slots: {missing}, the first is {first}); \
         below {least} % nothing is predicted"
    )]
    Coverage {
        percent: f64,
        least: f64,
        missing: usize,
        first: u64,
    },
    /// No size can be predicted, because misses depend on the cache's content at the start.
    #[error(
        "the recording began after the validator's start with unknown cache content, and the misses depend on this \
         content: with {entries} entries, {empty:.0} misses are predicted from an empty cache, {full:.0} from a full \
         one; fetch more blocks before the recording, with --before and --out"
    )]
    StartUnknown {
        entries: u64,
        /// Mean misses from an empty cache.
        empty: f64,
        /// Mean misses from a cache full of the most used programs.
        full: f64,
    },
    #[error(
        "a limit in bytes needs the size of each program; programs of the trace without a size: {programs}"
    )]
    SizesUnknown { programs: usize },
    #[error("{0}")]
    CannotSimulate(String),
}

impl Error {
    pub(crate) fn excerpt(text: &str) -> String {
        text.chars().filter(|c| !c.is_control()).take(60).collect()
    }
}
