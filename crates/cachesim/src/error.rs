use thiserror::Error;

/// Why a trace cannot be read, or nothing can be concluded from it.
#[derive(Debug, Error)]
pub enum Error {
    /// The input could not be read, or the output not written.
    #[error("the trace cannot be read or written: {0}")]
    Io(#[from] std::io::Error),
    /// A line of a plain trace is not a slot and a program.
    #[error("line {line} of the trace: {what}: {text:?}")]
    Line {
        /// From 1.
        line: u64,
        /// What is wrong with it.
        what: &'static str,
        text: String,
    },
    /// The bytes of a trace file are not what was written.
    #[error("the trace file is damaged at byte {at}: {what}")]
    Damaged {
        /// Where the record begins, from 0.
        at: u64,
        /// What is wrong with it.
        what: String,
    },
    /// Records of a trace contradict one another.
    #[error("the trace contradicts itself: {0}")]
    Contradiction(String),
    /// No rule is known for this version.
    #[error(
        "no rule of the program cache is known for version {version:?}: known are releases of Agave from 2.0 to 4.4: 2.0 to 2.3, 3.0, 3.1, 4.0 to 4.4"
    )]
    UnknownVersion {
        /// As it was given, cut off and without control characters.
        version: String,
    },
    /// Too many transactions of the recording are in slots without a trace.
    #[error(
        "the trace covers {percent:.2} % of the recorded transactions ({missing} slots are missing, the first is {first}); \
         below {least} % nothing is predicted"
    )]
    Coverage {
        /// Of the recorded transactions.
        percent: f64,
        /// The least that is accepted, in percent.
        least: f64,
        /// Recorded slots without a trace.
        missing: usize,
        /// The first of these slots.
        first: u64,
    },
    /// What the cache held when the trace began decides the answer.
    #[error(
        "the recording began in the middle: from an empty cache {empty:.0} misses are predicted at {entries} entries, \
         from a full one {full:.0}; fetch more blocks before it"
    )]
    StartUnknown {
        /// Size of the cache.
        entries: u64,
        /// Mean misses from an empty cache.
        empty: f64,
        /// Mean misses from a cache full of the most used programs.
        full: f64,
    },
    /// A limit in bytes, of programs whose sizes are unknown.
    #[error("{programs} programs of the trace have no size in bytes; a limit in bytes needs them")]
    SizesUnknown { programs: usize },
    /// A number that was asked for makes no sense.
    #[error("{0}")]
    Request(String),
}

impl Error {
    /// A text that was read, fit for a message: cut off, without control characters.
    pub(crate) fn excerpt(text: &str) -> String {
        text.chars().filter(|c| !c.is_control()).take(60).collect()
    }
}
