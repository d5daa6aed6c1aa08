//! What may be claimed about a difference, given its interval.

use crate::{
    arms::Direction,
    block_bootstrap::{Estimate, Reliability},
};
use serde::Serialize;
use std::ops::RangeInclusive;

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The interval is reliable, and outside the range of no difference.
    #[serde(rename = "shown")]
    Established(Direction),
    /// The interval overlaps the range of no difference, or is within it.
    Inconclusive,
    /// The interval is outside the range of no difference, but not reliable.
    Unreliable(Reliability),
}

impl Decision {
    pub fn of(
        (low, high): (f64, f64),
        no_difference: RangeInclusive<f64>,
        reliability: Reliability,
    ) -> Self {
        let direction = if low > *no_difference.end() {
            Direction::Higher
        } else if high < *no_difference.start() {
            Direction::Lower
        } else {
            return Self::Inconclusive;
        };
        if reliability.is_reliable() {
            Self::Established(direction)
        } else {
            Self::Unreliable(reliability)
        }
    }

    pub fn established(self) -> Option<Direction> {
        match self {
            Self::Established(direction) => Some(direction),
            Self::Inconclusive | Self::Unreliable(_) => None,
        }
    }
}

impl Estimate {
    pub fn decision(&self, no_difference: RangeInclusive<f64>) -> Decision {
        Decision::of((self.low, self.high), no_difference, self.reliability)
    }
}
