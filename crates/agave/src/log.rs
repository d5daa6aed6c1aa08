//! The validator's log: datapoints, the progress of a start, and frozen banks.
//!
//! ```text
//! [2025-03-01T12:00:00.123456789Z INFO  solana_metrics::metrics] datapoint: bank_frozen slot=7i hash="x"
//! ```
//!
//! Time, level and target in brackets are the line head. The time is that of printing: some
//! milliseconds after the point's creation, or up to 5 s if the receiver of pushes is slow. Unlike
//! a pushed datapoint, a logged one has no `host_id`, and spaces separate its fields. If a
//! message has newlines, Agave indents its further lines by four spaces. Frankendancer prints the same message after
//! another line head, which is not parsed.

mod splitter;

pub use splitter::LogSplitter;

use chrono::DateTime;

use crate::{BadLine, line::Point};

const DATAPOINT: &str = "datapoint: ";

#[derive(Debug, Clone, Copy)]
pub struct LogLine<'a> {
    /// Unix nanoseconds. `None` without Agave's line head.
    pub time_ns: Option<i64>,
    /// The line after Agave's line head; the whole line if it has none.
    pub message: &'a str,
}

impl<'a> LogLine<'a> {
    /// Parses one line without its newline, or one record of [`LogSplitter`].
    pub fn parse(line: &'a str) -> Self {
        Self::parse_head(line).unwrap_or(Self {
            time_ns: None,
            message: line,
        })
    }

    fn parse_head(line: &'a str) -> Option<Self> {
        let (head, message) = line.strip_prefix('[')?.split_once("] ")?;
        let (time, _) = head.split_once(' ')?;
        Some(Self {
            time_ns: Some(unix_nanos(time)?),
            message,
        })
    }

    /// After Agave's line head the message must begin with the datapoint. In a line without that
    /// head, the datapoint may begin anywhere.
    pub fn point(&self) -> Option<Result<Point<'a>, BadLine>> {
        let text = match self.time_ns {
            Some(_) => self.message.strip_prefix(DATAPOINT)?,
            None => self.message.split_once(DATAPOINT)?.1,
        };
        Some(Point::parse_logged(text, self.time_ns))
    }

    pub fn progress(&self) -> Option<Progress> {
        if self.message == "Validator initialized" {
            return Some(Progress::Initialized);
        }
        let entry = PREFIXES
            .iter()
            .find(|(prefix, _)| matches_prefix(self.message, prefix))?;
        Some(entry.1)
    }

    pub fn migration(&self) -> Option<Migration> {
        let (subject, event) = self.message.split_once(": ")?;
        if event == "Alpenglow enabled!" {
            return Some(Migration::Enabled { genesis_slot: None });
        }
        if let Some(rest) = event.strip_prefix("Alpenglow enabled during startup! Genesis slot ") {
            let genesis_slot = rest.trim_end().parse().ok();
            return Some(Migration::Enabled { genesis_slot });
        }
        if event.starts_with("Alpenglow feature flag was activated in ") {
            let slot = number_after(event, "migration will start at ")?;
            return Some(Migration::Starts { slot });
        }
        let phase = event
            .strip_prefix("Alpenglow migration phase ")
            .or_else(|| {
                let is_startup =
                    subject == "Pre startup initializing alpenglow migration from root bank";
                is_startup.then_some(event)
            })?;
        if phase.starts_with("AlpenglowEnabled") || phase.starts_with("FullAlpenglowEpoch") {
            let genesis_slot = number_after(phase, "Block { slot: ");
            return Some(Migration::Enabled { genesis_slot });
        }
        let slot = number_after(phase, "Migration { migration_slot: ")?;
        Some(Migration::Starts { slot })
    }

    pub fn frozen_bank(&self) -> Option<FrozenBank<'a>> {
        let rest = self.message.strip_prefix("bank frozen: ")?;
        let (slot, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let value_after = |key: &str| {
            rest.split_once(key)?
                .1
                .split([' ', ','])
                .next()
                .filter(|word| !word.is_empty())
        };
        Some(FrozenBank {
            slot: slot.parse().ok()?,
            hash: value_after("hash: "),
            signatures: value_after("signature_count: ").and_then(|count| count.parse().ok()),
        })
    }

    pub fn replay_timings(&self) -> Option<ReplayTimings> {
        let rest = self
            .message
            .strip_prefix("ledger processing timing: ExecuteTimings { metrics: [")?;
        let metrics: Option<Vec<u64>> = rest
            .split_once(']')?
            .0
            .split(',')
            .take(METRIC_COUNT + 1)
            .map(|number| number.trim().parse().ok())
            .collect();
        let metrics = metrics
            .filter(|metrics| metrics.len() == METRIC_COUNT)
            .unwrap_or_default();
        Some(ReplayTimings {
            program_cache_us: metrics.get(PROGRAM_CACHE_INDEX).copied(),
        })
    }
}

/// Unix nanoseconds of a time in UTC. chrono alone would also accept other time zones, and would
/// truncate digits below a nanosecond.
fn unix_nanos(text: &str) -> Option<i64> {
    const MAX_LENGTH: usize = "2025-03-01T12:00:00.123456789Z".len();
    let time = DateTime::parse_from_rfc3339(text).ok()?;
    (text.ends_with('Z') && text.len() <= MAX_LENGTH).then(|| time.timestamp_nanos_opt())?
}

/// Messages about the migration to Alpenglow, as Agave 4.2.2 to 4.5.0-alpha.4 print them. Each
/// begins with a subject and a colon; the subject is the identity, except at start-up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Migration {
    /// The feature is active. Blocks contain only votes from this slot on.
    Starts {
        slot: u64,
    },
    Enabled {
        genesis_slot: Option<u64>,
    },
}

fn number_after(text: &str, words: &str) -> Option<u64> {
    let (_, rest) = text.split_once(words)?;
    rest.split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

/// Start-up messages of Agave 2.0.5 to 4.4.0, from its source code.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress {
    /// Repeated every 5 s, only when logging to a file.
    Downloading,
    /// A snapshot, full or incremental.
    Unpacked,
    /// The message has the word `processed` since 3.1.
    GeneratingIndex,
    ReplayBegins,
    /// Repeated every 2 s.
    Replaying,
    Replayed,
    WaitingForSupermajority,
    Initialized,
}

/// Prefixes of the messages. `#` stands for digits.
const PREFIXES: [(&str, Progress); 11] = [
    ("Downloading # bytes from ", Progress::Downloading),
    ("downloaded # bytes ", Progress::Downloading),
    ("snapshot untar took ", Progress::Unpacked),
    ("incremental snapshot untar took ", Progress::Unpacked),
    ("generating index: #/", Progress::GeneratingIndex),
    ("generating index: processed #/", Progress::GeneratingIndex),
    ("Processing ledger from slot #", Progress::ReplayBegins),
    ("ledger holds data through slot #", Progress::Replaying),
    ("processing ledger: slot=#", Progress::Replaying),
    ("ledger processed in ", Progress::Replayed),
    (
        "Waiting for #% of activated stake at slot ",
        Progress::WaitingForSupermajority,
    ),
];

fn matches_prefix(message: &str, prefix: &str) -> bool {
    let Some((head, tail)) = prefix.split_once('#') else {
        return message.starts_with(prefix);
    };
    message.strip_prefix(head).is_some_and(|rest| {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        after.len() < rest.len() && after.starts_with(tail)
    })
}

/// `bank frozen: SLOT hash: HASH ... signature_count: N ...`, once for each bank, when its last
/// transaction has been processed; 2.0.5 to 4.4.0. Live replay and ledger replay print the same
/// line.
#[derive(Debug, Clone, Copy)]
pub struct FrozenBank<'a> {
    pub slot: u64,
    /// The bank hash: equal hashes mean equal replays.
    pub hash: Option<&'a str>,
    /// Signatures of the slot's transactions.
    pub signatures: Option<u64>,
}

/// `ledger processing timing: ExecuteTimings {...}`, once, after the replay of a local ledger.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ReplayTimings {
    /// Lookups, waits and loads of the program cache, summed over threads and slots. `None` unless
    /// the line has 14 metrics (2.1 to 2.3), because only their order identifies them.
    pub program_cache_us: Option<u64>,
}

/// Number of metrics of `ExecuteTimings` in 2.1 to 2.3.
const METRIC_COUNT: usize = 14;
const PROGRAM_CACHE_INDEX: usize = 11;

#[cfg(test)]
mod tests;
