//! What a search comes to.

use super::growth::Growth;
use faultline_stats::staircase::{self, Interval};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Growth up to the horizon that is more than this share of what there is does not settle.
const SETTLES: f64 = 0.05;
/// Memory is told for these hours if it does not settle.
const HOURS: [f64; 3] = [1.0, 12.0, 24.0];

/// The ends of the last interval that was tried again, in bytes, and how often they kept up and failed.
pub type Confirmed = staircase::Confirmed<u64>;

/// What a search comes to. Memory in bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The headroom, or why there is none.
    pub outcome: Outcome,
    /// What the ends of the interval came to when they were tried again.
    pub confirmed: Option<Confirmed>,
    /// Highest unreclaimable memory before the tip: one start cannot be tried at several limits, so it needs at least this.
    pub start: u64,
    /// Unreclaimable memory at the end; absent if none was read.
    pub unreclaimable: Option<u64>,
    /// The most of it in any dwell: memory that is enough is so much and the headroom. Absent if none was read, and in
    /// journals of older versions.
    #[serde(default)]
    pub highest: Option<u64>,
    /// How much it grows in an hour; absent if too little was read.
    pub grows: Option<f64>,
    /// Whether growth up to the plan's horizon stays below 5 %; absent if that is not known.
    pub settles: Option<bool>,
    /// The memory that is enough, with the upper end of the headroom: one line if it settles, else for 1, 12 and 24 h at the
    /// tip. Empty without a headroom.
    pub memory: Vec<Memory>,
}

/// Enough memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// For so long at the tip.
    pub hours: f64,
    /// In bytes.
    pub bytes: u64,
}

/// How a search ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    /// The headroom that is just enough lies in this interval of 90 %.
    Found {
        /// Lower end.
        low: u64,
        /// Middle.
        middle: u64,
        /// Upper end.
        high: u64,
    },
    /// The time was over before both ends of this interval of 90 % had been tried again.
    Unconfirmed {
        /// Lower end.
        low: u64,
        /// Middle.
        middle: u64,
        /// Upper end.
        high: u64,
    },
    /// Equal dwells end too differently for an interval.
    Noisy,
    /// The first headroom is too small.
    AboveStart,
    /// The smallest headroom that was tried is enough.
    NeverFailed {
        /// That one.
        lowest: u64,
    },
    /// The time was over before the interval was narrow enough.
    OutOfTime,
    /// It cannot be known.
    Inconclusive {
        /// Why.
        why: String,
    },
}

impl Outcome {
    pub(super) fn found(interval: &Interval) -> Outcome {
        let [low, middle, high] = ends(interval);
        Outcome::Found { low, middle, high }
    }

    pub(super) fn unconfirmed(interval: &Interval) -> Outcome {
        let [low, middle, high] = ends(interval);
        Outcome::Unconfirmed { low, middle, high }
    }

    /// The interval's ends with the middle between them, if there is one.
    pub(crate) fn interval(&self) -> Option<[u64; 3]> {
        match *self {
            Outcome::Found { low, middle, high } | Outcome::Unconfirmed { low, middle, high } => {
                Some([low, middle, high])
            }
            _ => None,
        }
    }

    /// The headroom that is enough, if one is known.
    fn enough(&self) -> Option<u64> {
        match self {
            Outcome::NeverFailed { lowest } => Some(*lowest),
            _ => self.interval().map(|[_, _, high]| high),
        }
    }
}

fn ends(interval: &Interval) -> [u64; 3] {
    [interval.low, interval.middle, interval.high].map(|bytes| bytes as u64)
}

impl Answer {
    pub(super) fn new(
        outcome: Outcome,
        confirmed: Option<Confirmed>,
        start: u64,
        growth: &Growth,
        horizon: Duration,
    ) -> Self {
        let (line, newest) = (growth.line(), growth.newest());
        let settles = line
            .zip(newest)
            .map(|(line, (now, _))| line.slope * horizon.as_secs_f64() <= SETTLES * now as f64);
        let after = |hours: f64| -> Option<Memory> {
            let (line, (_, highest)) = (line?, newest?);
            let unreclaimable = if settles? {
                highest
            } else {
                (line.at(hours * 3600.0) as u64).max(highest)
            };
            Some(Memory {
                hours,
                bytes: start.max(unreclaimable).saturating_add(outcome.enough()?),
            })
        };
        let memory = match settles {
            Some(true) => vec![after(horizon.as_secs_f64() / 3600.0)],
            _ => HOURS.map(after).to_vec(),
        };
        Answer {
            confirmed,
            start,
            unreclaimable: newest.map(|(now, _)| now),
            highest: newest.map(|(_, highest)| highest),
            grows: line.map(|line| line.slope * 3600.0),
            settles,
            memory: memory.into_iter().flatten().collect(),
            outcome,
        }
    }
}
