//! When a slot was last seen to advance.

use faultline_catalog::Stamp;
use std::time::Duration;

/// A slot keeps pace if it advances by one a second at least, seen over this long at most: a cluster makes about 2.5.
const PACE: Duration = Duration::from_secs(10);

/// What one source says of the validator's own slot and of the tip it knows. An answer that repeats the slot before is no
/// news of the validator: a process that hangs may still be asked, and may still push.
#[derive(Debug, Clone, Copy, Default)]
pub struct Advance {
    own: Option<(u64, Stamp)>,
    paced: Option<(u64, Stamp)>,
    tip: Option<(u64, Stamp)>,
}

impl Advance {
    /// Takes what was heard at `at`. The slot is compared with the one heard before, not with the highest one: a slot that
    /// was wrong once must not hide those that follow.
    pub fn see(&mut self, own: Option<u64>, tip: Option<u64>, at: Stamp) {
        advance(&mut self.own, own, at, |_| 1);
        advance(&mut self.paced, own, at, |passed| passed.min(PACE).as_secs().max(1));
        advance(&mut self.tip, tip, at, |_| 1);
    }

    /// When the validator's own slot advanced last; `None` before it told one.
    pub fn own(&self) -> Option<Stamp> {
        self.own.map(|(_, at)| at)
    }

    /// When the validator's own slot was last seen to keep pace with a cluster; `None` before it told one. A starved validator
    /// advances now and then, and falls behind.
    pub fn paced(&self) -> Option<Stamp> {
        self.paced.map(|(_, at)| at)
    }

    /// When the tip advanced last; `None` before one was told.
    pub fn tip(&self) -> Option<Stamp> {
        self.tip.map(|(_, at)| at)
    }
}

/// `least` says by how many slots it must have advanced in the time that has passed.
fn advance(last: &mut Option<(u64, Stamp)>, slot: Option<u64>, at: Stamp, least: fn(Duration) -> u64) {
    let Some(slot) = slot else { return };
    *last = match *last {
        Some((before, since)) if slot <= before => Some((slot, since)),
        Some((before, since)) if slot - before < least(at.since(since)) => Some((before, since)),
        _ => Some((slot, at)),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Stamp {
        Stamp { uptime: Duration::from_secs(seconds), unix: Duration::ZERO }
    }

    #[test]
    fn a_slot_that_is_repeated_has_not_advanced_and_a_missing_one_says_nothing() {
        let mut advance = Advance::default();
        assert_eq!(advance.own(), None);
        advance.see(Some(5), Some(9), at(1));
        advance.see(Some(5), Some(10), at(2));
        advance.see(None, None, at(3));
        assert_eq!((advance.own(), advance.tip()), (Some(at(1)), Some(at(2))));
        advance.see(Some(6), None, at(4));
        assert_eq!(advance.own(), Some(at(4)));
    }

    #[test]
    fn a_slot_that_advances_now_and_then_keeps_no_pace_until_it_advances_as_a_cluster_does() {
        let mut advance = Advance::default();
        for (second, slot) in [(1, 100), (2, 102), (3, 104), (8, 105), (13, 106)] {
            advance.see(Some(slot), None, at(second));
        }
        assert_eq!((advance.own(), advance.paced()), (Some(at(13)), Some(at(3))));
        advance.see(Some(107), None, at(600));
        assert_eq!(advance.paced(), Some(at(3)), "three slots in ten minutes");
        advance.see(Some(114), None, at(603));
        assert_eq!(advance.paced(), Some(at(603)), "a halted cluster goes on");
    }

    #[test]
    fn a_slot_that_was_wrong_once_does_not_hide_those_that_follow() {
        let mut advance = Advance::default();
        advance.see(Some(9_000_000_000), None, at(1));
        advance.see(Some(7), None, at(2));
        advance.see(Some(8), None, at(3));
        assert_eq!(advance.own(), Some(at(3)));
    }
}
