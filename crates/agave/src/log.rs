//! The validator's log: the same datapoints, how far a start has come, and which banks were frozen.
//!
//! ```text
//! [2025-03-01T12:00:00.123456789Z INFO  solana_metrics::metrics] datapoint: bank_frozen slot=7i hash="x"
//! ```
//!
//! Against the pushed form: no `host_id`, fields separated by spaces, and the time is when the line was printed, some
//! milliseconds (behind a slow sink up to 5 s) after the point was made. Continuation lines of a message are indented
//! by four spaces. Frankendancer prints the same message behind a head of its own, whose time is not read.

mod migration;
mod progress;
mod replayed;
mod splitter;
mod time;

pub use migration::Migration;
pub use progress::Progress;
pub use replayed::{Frozen, ReplayTimings};
pub use splitter::LogSplitter;

use crate::BadLine;
use crate::line::Point;

const DATAPOINT: &str = "datapoint: ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLine<'a> {
    /// Unix nanoseconds; `None` without a head Agave would write.
    pub time_ns: Option<i64>,
    /// `INFO`, `WARN`, ...; `None` without such a head.
    pub level: Option<&'a str>,
    /// The module that logged; `None` without such a head.
    pub target: Option<&'a str>,
    /// The message; the whole line without such a head.
    pub message: &'a str,
}

impl<'a> LogLine<'a> {
    /// Reads one line without its newline, or one record as [`LogSplitter`] joins them. Every line is a log line.
    pub fn parse(line: &'a str) -> Self {
        Self::with_head(line).unwrap_or(Self {
            time_ns: None,
            level: None,
            target: None,
            message: line,
        })
    }

    fn with_head(line: &'a str) -> Option<Self> {
        let (head, message) = line.strip_prefix('[')?.split_once("] ")?;
        let mut words = head.split_ascii_whitespace();
        let time_ns = time::rfc3339_nanos(words.next()?)?;
        Some(Self {
            time_ns: Some(time_ns),
            level: Some(words.next()?),
            target: words.next(),
            message,
        })
    }

    /// The datapoint this line prints. `None` if it prints none.
    ///
    /// Behind Agave's own head the message must begin with it; behind any other it is searched for.
    pub fn point(&self) -> Option<Result<Point<'a>, BadLine>> {
        let text = match self.time_ns {
            Some(_) => self.message.strip_prefix(DATAPOINT)?,
            None => self.message.split_once(DATAPOINT)?.1,
        };
        Some(Point::logged(text, self.time_ns))
    }

    /// The step of a start this line tells of. `None` if it tells of none.
    pub fn progress(&self) -> Option<Progress> {
        Progress::of_message(self.message)
    }

    /// The step of the migration to Alpenglow that this line reports. `None` if it reports none.
    pub fn migration(&self) -> Option<Migration> {
        Migration::of_message(self.message)
    }

    /// The bank this line says is frozen. `None` if it says so of none.
    pub fn frozen(&self) -> Option<Frozen<'a>> {
        Frozen::of_message(self.message)
    }

    /// The times of a replayed ledger this line prints. `None` if it prints none.
    pub fn replay_timings(&self) -> Option<ReplayTimings> {
        ReplayTimings::of_message(self.message)
    }
}

#[cfg(test)]
mod tests;
