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

pub use migration::Migration;
pub use progress::Progress;
pub use replayed::{Frozen, ReplayTimings};
pub use splitter::LogSplitter;

use chrono::DateTime;

use crate::BadLine;
use crate::line::Point;

const DATAPOINT: &str = "datapoint: ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLine<'a> {
    /// Unix nanoseconds. `None`, like level and target, without Agave's line head.
    pub time_ns: Option<i64>,
    pub level: Option<&'a str>,
    pub target: Option<&'a str>,
    /// The whole line without Agave's line head.
    pub message: &'a str,
}

impl<'a> LogLine<'a> {
    /// Parses one line without its newline, or one record of [`LogSplitter`]. It never fails.
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
        Some(Self {
            time_ns: Some(unix_nanos(words.next()?)?),
            level: Some(words.next()?),
            target: words.next(),
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
        Some(Point::logged(text, self.time_ns))
    }

    pub fn progress(&self) -> Option<Progress> {
        Progress::of_message(self.message)
    }

    pub fn migration(&self) -> Option<Migration> {
        Migration::of_message(self.message)
    }

    pub fn frozen(&self) -> Option<Frozen<'a>> {
        Frozen::of_message(self.message)
    }

    pub fn replay_timings(&self) -> Option<ReplayTimings> {
        ReplayTimings::of_message(self.message)
    }
}

/// Unix nanoseconds of a time in UTC. chrono alone would accept other zones, and cut off what is
/// smaller than a nanosecond.
fn unix_nanos(text: &str) -> Option<i64> {
    const LONGEST: usize = "2025-03-01T12:00:00.123456789Z".len();
    let time = DateTime::parse_from_rfc3339(text).ok()?;
    (text.ends_with('Z') && text.len() <= LONGEST).then(|| time.timestamp_nanos_opt())?
}

#[cfg(test)]
mod tests;
