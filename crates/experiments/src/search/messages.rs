//! What goes into a search and what comes out.

use super::answer::Answer;
use super::evidence::{Evidence, Verdict};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What is known at one moment; four a second. What could not be read is absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// On a clock that never jumps.
    pub at: Duration,
    /// Unreclaimable memory of the group, in bytes.
    pub unreclaimable: Option<u64>,
    /// Memory of the group, page cache included, in bytes.
    pub memory: Option<u64>,
    /// The limit that holds for it, read back, in bytes; absent without a limit as well.
    pub applied_limit: Option<u64>,
    /// Whether the recorder is at work: its newest tick is fresh, whatever is in it.
    pub fresh: bool,
    /// Slots behind the tip.
    pub behind: Option<u64>,
    /// The tip.
    pub tip: Option<u64>,
    /// Refaults of the group's files so far, in pages.
    pub refaults: Option<u64>,
    /// Time that all tasks of the group waited for memory, so far.
    pub stalled: Option<Duration>,
    /// Whether the group is out of memory, or something in it was killed for that.
    pub out_of_memory: bool,
    /// Time that the threads of replay were ready and waited for a CPU, so far.
    pub replay_waited: Option<Duration>,
    /// Time that they ran, so far.
    pub replay_ran: Option<Duration>,
    /// The slots whose replay became known since the last reading; pushes bring it up to ten seconds late.
    pub replays: Vec<Replayed>,
}

impl Reading {
    /// Whether only the validator says nothing: recorder and memory could be read. One whose tip is known answers, and has heard of
    /// no newer one: the cluster may stand still.
    pub(super) fn is_silent(&self) -> bool {
        self.fresh && self.behind.is_none() && self.tip.is_none() && self.unreclaimable.is_some()
    }
}

/// One slot's replay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Replayed {
    /// When it was over, on the clock of the readings.
    pub at: Duration,
    /// How long it took, in microseconds.
    pub us: f64,
}

/// What a look asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// Set this limit, in bytes; `None`: lift it.
    Limit(Option<u64>),
    /// Write this down, before anything that comes after it. Only a limit that is a danger is lifted first: writing waits for
    /// a disk.
    Line(Line),
    /// The search is over.
    Over(Box<Answer>),
}

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "search")]
pub enum Line {
    /// From now on the limit follows unreclaimable memory with this headroom; `None`: there is no limit.
    Limit {
        /// Bytes.
        headroom: Option<u64>,
        /// What for.
        why: String,
    },
    /// A dwell is over.
    Dwell {
        /// Bytes; `None`: a reference.
        headroom: Option<u64>,
        /// Whether it confirms the end of an interval, at double length.
        confirms: bool,
        /// What it came to.
        verdict: Verdict,
        /// Why.
        evidence: Box<Evidence>,
    },
}

impl Line {
    /// The lower end of a range, which is not confirmed by a dwell: memory has risen by so much within a second before.
    pub(super) fn untried(headroom: u64, burst: u64, unreclaimable: Option<u64>) -> Self {
        let burst = faultline_text::bytes(burst);
        let why = format!(
            "not tried: unreclaimable memory has risen by {burst} within a second, half of it or more"
        );
        let evidence = Evidence {
            unreclaimable,
            why: vec![why],
            ..Evidence::default()
        };
        Line::Dwell {
            headroom: Some(headroom),
            confirms: true,
            verdict: Verdict::Failed,
            evidence: Box::new(evidence),
        }
    }
}
