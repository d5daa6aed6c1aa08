//! What a search keeps beside its run.

use super::world::Observer;
use crate::plan::Search;
use crate::search::{Answer, Machine};
use anyhow::Context;
use faultline_isolation::Evidence;
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
    /// How often its group was out of memory so far.
    out_of_memory: u64,
}

impl Searching {
    pub(super) fn begin(rules: Search, observer: Box<dyn Observer>) -> anyhow::Result<Self> {
        let machine = Machine::new(rules, AT_TIP).context("[search] cannot be searched by these rules")?;
        Ok(Searching { machine, observer, answer: None, out_of_memory: 0 })
    }

    /// Whether its group waits because it is full, or was out of memory since the last look.
    pub(super) fn is_out_of_memory(&mut self, evidence: &Evidence) -> bool {
        let count = |name: &str| evidence.memory_events.get(name).copied().unwrap_or(0);
        let now = count("oom").saturating_add(count("oom_kill"));
        let before = std::mem::replace(&mut self.out_of_memory, now);
        count("under_oom") > 0 || now > before
    }

    pub(super) fn is_over(&self) -> bool {
        self.answer.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Reading;

    struct Blind;

    impl Observer for Blind {
        fn read(&mut self, at: Duration) -> Reading {
            Reading { at, ..Reading::default() }
        }
    }

    #[test]
    fn a_group_that_was_out_of_memory_once_is_not_for_ever() {
        let second = Duration::from_secs(1);
        let rules = Search { from: 1 << 30, settle: second, dwell: second, width: 0.1, most: second, horizon: second };
        let mut searching = Searching::begin(rules, Box::new(Blind)).unwrap();
        let mut evidence = Evidence::default();
        let mut seen = |name: &str, count: u64| {
            evidence.memory_events.insert(name.to_owned(), count);
            searching.is_out_of_memory(&evidence)
        };
        assert!(!seen("oom", 0));
        assert!(seen("oom", 1));
        assert!(!seen("oom", 1), "told once");
        assert!(seen("under_oom", 1));
        assert!(seen("under_oom", 1), "it still waits");
        assert!(!seen("under_oom", 0));
    }
}
