//! The validator's log: datapoints, the progress of a start, and frozen banks.
//!
//! ```text
//! [2025-03-01T12:00:00.123456789Z INFO  solana_metrics::metrics] datapoint: bank_frozen slot=7i hash="x"
//! ```
//!
//! Differences from the pushed form: there is no `host_id`, and spaces separate the fields. The
//! time is when the line was printed: some milliseconds after the point was made, and up to 5 s
//! behind a slow sink. Continuation lines of a message are indented by four spaces. Frankendancer
//! prints the same message behind its own line head, whose time is not read.

mod migration;
mod progress;
mod replayed;
mod splitter;

pub use migration::Migration;
pub use progress::Progress;
pub use replayed::{FrozenBank, ReplayTimings};
pub use splitter::LogSplitter;

use chrono::DateTime;

use crate::{BadLine, line::Point};

const DATAPOINT: &str = "datapoint: ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLine<'a> {
    /// Unix nanoseconds. `None` without Agave's line head.
    pub time_ns: Option<i64>,
    /// The whole line without Agave's line head.
    pub message: &'a str,
}

impl<'a> LogLine<'a> {
    /// Parses one line without its newline, or one record of [`LogSplitter`]. It never fails.
    pub fn parse(line: &'a str) -> Self {
        Self::with_head(line).unwrap_or(Self {
            time_ns: None,
            message: line,
        })
    }

    fn with_head(line: &'a str) -> Option<Self> {
        let (head, message) = line.strip_prefix('[')?.split_once("] ")?;
        // The level and the target follow.
        let (time, _) = head.split_once(' ')?;
        Some(Self {
            time_ns: Some(unix_nanos(time)?),
            message,
        })
    }

    /// Behind Agave's line head the message must begin with the datapoint. Behind any other head
    /// the datapoint is searched for.
    pub fn point(&self) -> Option<Result<Point<'a>, BadLine>> {
        let text = match self.time_ns {
            Some(_) => self.message.strip_prefix(DATAPOINT)?,
            None => self.message.split_once(DATAPOINT)?.1,
        };
        Some(Point::parse_logged(text, self.time_ns))
    }

    pub fn progress(&self) -> Option<Progress> {
        Progress::parse_message(self.message)
    }

    pub fn migration(&self) -> Option<Migration> {
        Migration::parse_message(self.message)
    }

    pub fn frozen(&self) -> Option<FrozenBank<'a>> {
        FrozenBank::parse_message(self.message)
    }

    pub fn replay_timings(&self) -> Option<ReplayTimings> {
        ReplayTimings::parse_message(self.message)
    }
}

/// Unix nanoseconds of a time in UTC. chrono alone would also accept other time zones, and would
/// truncate digits below a nanosecond.
fn unix_nanos(text: &str) -> Option<i64> {
    const MAX_LENGTH: usize = "2025-03-01T12:00:00.123456789Z".len();
    let time = DateTime::parse_from_rfc3339(text).ok()?;
    (text.ends_with('Z') && text.len() <= MAX_LENGTH).then(|| time.timestamp_nanos_opt())?
}

#[cfg(test)]
mod tests;
