//! What a search keeps beside its run.

use super::world::Observer;
use crate::plan::Search;
use crate::search::{Answer, Machine};
use anyhow::Context;
use std::time::Duration;

/// From look to look of a search.
pub(super) const LOOK: Duration = Duration::from_millis(250);
/// Slots behind the tip up to which a daemon calls a validator near it, unless its configuration says another number.
const AT_TIP: u64 = 32;

/// A search that is going on.
pub(super) struct Searching {
    pub(super) machine: Machine,
    pub(super) observer: Box<dyn Observer>,
    /// What it came to, once it is over.
    pub(super) answer: Option<Answer>,
}

impl Searching {
    pub(super) fn begin(rules: Search, observer: Box<dyn Observer>) -> anyhow::Result<Self> {
        let machine = Machine::new(rules, AT_TIP).context("[search] cannot be searched by these rules")?;
        Ok(Searching { machine, observer, answer: None })
    }

    pub(super) fn is_over(&self) -> bool {
        self.answer.is_some()
    }
}
