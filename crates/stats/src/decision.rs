//! What an interval allows to say: sentences, exit codes and headlines about a difference all follow from a [`Decision`].

use crate::arms::Direction;
use crate::block::{Estimate, Reliability};
use serde::Serialize;
use std::ops::RangeInclusive;

/// Whether a difference is shown, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The whole interval lies on this side, and it is reliable.
    Shown(Direction),
    /// The interval reaches into the range of what is no difference.
    Inconclusive,
    /// The interval lies on one side, but it is not reliable.
    Unreliable(Reliability),
}

impl Decision {
    /// `None` if nothing is shown.
    pub fn shown(self) -> Option<Direction> {
        match self {
            Decision::Shown(direction) => Some(direction),
            Decision::Inconclusive | Decision::Unreliable(_) => None,
        }
    }
}

impl Estimate {
    /// Decides whether the value lies outside of the range of what is no difference.
    pub fn decision(&self, no_difference: RangeInclusive<f64>) -> Decision {
        let direction = if self.low > *no_difference.end() {
            Direction::Higher
        } else if self.high < *no_difference.start() {
            Direction::Lower
        } else {
            return Decision::Inconclusive;
        };
        if self.reliable.is_reliable() {
            Decision::Shown(direction)
        } else {
            Decision::Unreliable(self.reliable)
        }
    }
}
