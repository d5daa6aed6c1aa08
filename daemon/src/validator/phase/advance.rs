//! When a slot was last seen to advance.

use faultline_catalog::Stamp;
use std::time::Duration;

/// A slot keeps pace if it advances by one a second at least, seen over this long at most: a cluster makes about 2.5.
const PACE: Duration = Duration::from_secs(10);

/// Fewer slots than this show no pace: a starved validator replays one or two at a time.
const FEW: u64 = 3;

/// No cluster makes more slots in a second, on average: it aims at 2.5.
const CLUSTER_SLOTS: u64 = 4;

/// What one source says of the validator's own slot and of the tip it knows. An answer that repeats the slot before is no
/// news of the validator: a process that hangs may still be asked, and may still push.
#[derive(Debug, Clone, Copy, Default)]
pub struct Advance {
    own: Option<(u64, Stamp)>,
    pace: Option<Pace>,
    tip: Option<(u64, Stamp)>,
    /// The own slot, and when it was last seen to be no further. It stays while the slot comes on too fast.
    still: Option<(u64, Stamp)>,
    made_up: u64,
    /// The own slot of the newest answer.
    heard: Option<(u64, Stamp)>,
    hurries: bool,
}

/// Whether the own slot keeps pace.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// Where it is measured from: once it is kept, the answer before the one that showed it.
    from: (u64, Stamp),
    /// The newest answer.
    last: (u64, Stamp),
    /// When it was last kept.
    kept: Stamp,
}

impl Advance {
    /// Takes what was heard at `at`. The slot is compared with the one heard before, not with the highest one: a slot that
    /// was wrong once must not hide those that follow.
    pub fn see(&mut self, own: Option<u64>, tip: Option<u64>, at: Stamp) {
        advance(&mut self.own, own, at);
        keep_pace(&mut self.pace, own, at);
        self.make_up(own, at);
        self.hurry(own, at);
        advance(&mut self.tip, tip, at);
    }

    /// The process did not run until `at`: its slot was no further then.
    pub fn stood_still(&mut self, at: Stamp) {
        for (_, since) in self.still.iter_mut().chain(&mut self.heard) {
            *since = at;
        }
    }

    fn make_up(&mut self, own: Option<u64>, at: Stamp) {
        let Some(slot) = own else { return };
        let (before, since) = self.still.unwrap_or((slot, at));
        let passed = at.since(since);
        let made_by_cluster = CLUSTER_SLOTS * (passed.as_secs() + 1);
        self.made_up = slot.saturating_sub(before).saturating_sub(made_by_cluster);
        if self.made_up == 0 || passed >= PACE {
            self.still = Some((slot, at.max(since)));
        }
    }

    /// Two seconds' worth of slots more than a cluster's pace are left for skipped slots and late answers.
    fn hurry(&mut self, own: Option<u64>, at: Stamp) {
        let Some(slot) = own else { return };
        let (before, since) = *self.heard.get_or_insert((slot, at));
        if at > since {
            self.hurries =
                slot.saturating_sub(before) > CLUSTER_SLOTS * (at.since(since).as_secs() + 2);
            self.heard = Some((slot, at));
        }
    }

    /// Whether it came on faster than a cluster between its two newest answers: it was catching up until then, however near it
    /// believes the tip to be.
    pub fn hurries(&self) -> bool {
        self.hurries
    }

    /// How many slots it came on within seconds beyond what a cluster makes meanwhile: so far behind it was at least, even if its
    /// answers did not tell.
    pub fn made_up(&self) -> u64 {
        self.made_up
    }

    /// When the validator's own slot advanced last; `None` before it told one.
    pub fn own(&self) -> Option<Stamp> {
        self.own.map(|(_, at)| at)
    }

    /// When the validator's own slot was last seen to keep pace with a cluster; `None` before it told one. A starved validator
    /// advances now and then, and falls behind.
    pub fn paced(&self) -> Option<Stamp> {
        self.pace.map(|pace| pace.kept)
    }

    /// When the tip advanced last; `None` before one was told.
    pub fn tip(&self) -> Option<Stamp> {
        self.tip.map(|(_, at)| at)
    }
}

fn advance(last: &mut Option<(u64, Stamp)>, slot: Option<u64>, at: Stamp) {
    let Some(slot) = slot else { return };
    *last = match *last {
        Some((before, since)) if slot <= before => Some((slot, since)),
        _ => Some((slot, at)),
    };
}

fn keep_pace(last: &mut Option<Pace>, slot: Option<u64>, at: Stamp) {
    let Some(slot) = slot else { return };
    let Some(pace) = last else {
        *last = Some(Pace {
            from: (slot, at),
            last: (slot, at),
            kept: at,
        });
        return;
    };
    if at <= pace.last.1 {
        return;
    }
    let previous = std::mem::replace(&mut pace.last, (slot, at));
    let (before, since) = pace.from;
    let passed = at.since(since);
    if slot < before {
        pace.from.0 = slot;
    } else if slot - before >= passed.as_secs().max(FEW) {
        (pace.from, pace.kept) = (previous, at);
    } else if passed >= PACE {
        // It did not keep pace; from here it may again.
        pace.from = (slot, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Stamp {
        Stamp {
            uptime: Duration::from_secs(seconds),
            unix: Duration::ZERO,
        }
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
        assert_eq!(
            (advance.own(), advance.paced()),
            (Some(at(13)), Some(at(3)))
        );
        advance.see(Some(107), None, at(600));
        assert_eq!(advance.paced(), Some(at(3)), "three slots in ten minutes");
        advance.see(Some(114), None, at(603));
        assert_eq!(advance.paced(), Some(at(603)), "a halted cluster goes on");
    }

    #[test]
    fn a_slot_that_advances_by_two_a_second_keeps_pace_at_each_answer() {
        let mut advance = Advance::default();
        for second in 0..20 {
            advance.see(Some(100 + 2 * second), None, at(second));
            advance.see(Some(100 + 2 * second), None, at(second));
            assert_eq!(
                advance.paced(),
                Some(at(if second < 2 { 0 } else { second }))
            );
        }
    }

    #[test]
    fn a_slot_that_advances_at_half_the_pace_never_keeps_it_however_long_that_takes() {
        let mut advance = Advance::default();
        for second in 0..60 {
            advance.see(Some(100 + second / 2), None, at(second));
        }
        assert_eq!(advance.paced(), Some(at(0)));
        assert_eq!(advance.own(), Some(at(58)));
    }

    #[test]
    fn slots_that_a_cluster_cannot_make_so_fast_were_made_up() {
        let mut advance = Advance::default();
        for second in 0..20 {
            advance.see(Some(50 + 5 * second / 2), None, at(second));
            assert_eq!(advance.made_up(), 0);
        }
        // It answers nothing for 40 s, and had gone on meanwhile.
        advance.see(Some(197), None, at(59));
        assert_eq!(advance.made_up(), 0);
        // It is stopped for 40 s.
        (60..100).for_each(|second| advance.stood_still(at(second)));
        advance.see(Some(200), None, at(100));
        assert_eq!(advance.made_up(), 0);
        advance.see(Some(240), None, at(101));
        advance.see(Some(290), None, at(102));
        assert_eq!(advance.made_up(), 290 - 200 - 12);
        advance.see(Some(295), None, at(110));
        advance.see(Some(297), None, at(111));
        assert_eq!(advance.made_up(), 0);
    }

    #[test]
    fn who_replays_faster_than_a_cluster_hurries_until_its_next_answer() {
        let mut advance = Advance::default();
        for (second, slot) in [(0, 100), (1, 103), (2, 111), (40, 211)] {
            advance.see(Some(slot), None, at(second));
            assert!(!advance.hurries(), "second {second}");
        }
        (41..90).for_each(|second| advance.stood_still(at(second)));
        for (second, slot, hurries) in [
            (90, 212, false),
            (91, 240, true),
            (91, 240, true),
            (92, 262, true),
            (93, 265, false),
        ] {
            advance.see(Some(slot), None, at(second));
            assert_eq!(advance.hurries(), hurries, "second {second}");
        }
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
