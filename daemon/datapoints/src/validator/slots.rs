//! The newest slots in datapoints, with a plausibility check. A sender can push a wrong slot under
//! the validator's name. So the slot of the newest push counts, not the highest slot. Impossible
//! slots are rejected.

use faultline_agave::points::KnownPoint;
use faultline_metrics::Stamp;
use std::time::Duration;

/// The start of mainnet-beta, the oldest cluster: 2020-03-16T14:29:00Z.
const FIRST_CLUSTER_START: Duration = Duration::from_secs(1_584_368_940);

/// Maximum average slots per second since a cluster's start.
const MAX_MEAN_SLOTS_PER_SECOND: u64 = 10;

/// A slot may exceed an earlier one by this many per second, plus the fixed slack below.
const MAX_SLOTS_PER_SECOND: u64 = 20;
const SLACK_SLOTS: u64 = 512;

/// Older slots are no reference for newer ones.
const MAX_REFERENCE_AGE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq)]
enum SlotKind {
    Frozen,
    Root,
    Optimistic,
    Received,
}

fn slot_of(known: &KnownPoint) -> Option<(SlotKind, u64)> {
    let (kind, slot) = match known {
        KnownPoint::BankFrozen(bank) => (SlotKind::Frozen, bank.slot),
        KnownPoint::SetRoot(root) => (SlotKind::Root, root.slot),
        KnownPoint::OptimisticSlot(slot) => (SlotKind::Optimistic, slot.slot),
        KnownPoint::ShredInsertIsFull(slot) => (SlotKind::Received, slot.slot),
        _ => return None,
    };
    slot.map(|slot| (kind, slot))
}

#[derive(Clone, Copy, Default)]
pub struct Slots {
    /// The newest slot that the validator replayed.
    pub frozen: Option<u64>,
    pub root: Option<u64>,
    /// The newest slot that the cluster confirmed.
    pub optimistic: Option<u64>,
    /// The newest slot that was received completely.
    pub received: Option<u64>,
    /// The validator itself sent all of them: with a password, as the owner of the socket, or in
    /// its log.
    pub is_proven: bool,
}

impl Slots {
    pub fn tip(&self) -> Option<u64> {
        self.optimistic.max(self.received)
    }

    pub fn behind(&self) -> Option<u64> {
        Some(self.tip()?.saturating_sub(self.frozen?))
    }

    /// Adds a point of the same push. Points may be out of order, so the highest slot counts.
    pub fn raise(&mut self, known: &KnownPoint) {
        let Some((kind, slot)) = slot_of(known) else {
            return;
        };
        let current = match kind {
            SlotKind::Frozen => &mut self.frozen,
            SlotKind::Root => &mut self.root,
            SlotKind::Optimistic => &mut self.optimistic,
            SlotKind::Received => &mut self.received,
        };
        *current = (*current).max(Some(slot));
    }

    /// Merges a later push. Kinds that it lacks keep their slot. A proven push replaces all
    /// unproven slots. An unproven push makes all slots unproven.
    pub fn merge_later(&mut self, later: Self) {
        if later.is_proven && !self.is_proven {
            *self = later;
            return;
        }
        *self = Self {
            frozen: later.frozen.or(self.frozen),
            root: later.root.or(self.root),
            optimistic: later.optimistic.or(self.optimistic),
            received: later.received.or(self.received),
            is_proven: later.is_proven,
        };
    }
}

#[derive(Default)]
pub struct SlotPlausibility {
    /// By [`SlotKind`].
    last_accepted: [Option<(u64, Stamp)>; 4],
    rpc_processed: Option<(u64, Stamp)>,
    rpc_received: Option<(u64, Stamp)>,
}

impl SlotPlausibility {
    pub fn set_rpc_slots(&mut self, processed: u64, received: Option<u64>, now: Stamp) {
        self.rpc_processed = Some((processed, now));
        self.rpc_received = received.map(|slot| (slot, now)).or(self.rpc_received);
    }

    /// Accepts a point with a plausible slot or none.
    pub fn accepts(&mut self, known: &KnownPoint, now: Stamp) -> bool {
        let Some((kind, slot)) = slot_of(known) else {
            return true;
        };
        let lowest = self
            .rpc_processed
            .and_then(|reported| lowest_successor(reported, now));
        let is_plausible = slot <= max_possible_slot(now)
            && (kind != SlotKind::Frozen || lowest.is_none_or(|lowest| slot >= lowest))
            && self.is_near_earlier(kind, slot, now);
        if is_plausible {
            self.last_accepted[kind as usize] = Some((slot, now));
        }
        is_plausible
    }

    /// False for a slot far ahead of earlier ones. The first slot of a kind may be far ahead: a
    /// starting validator receives the tip at once.
    fn is_near_earlier(&self, kind: SlotKind, slot: u64, now: Stamp) -> bool {
        let highest = |earlier: Option<_>| highest_successor(earlier?, now);
        let all = self
            .last_accepted
            .into_iter()
            .chain([self.rpc_processed, self.rpc_received]);
        highest(self.last_accepted[kind as usize]).is_none()
            || all.filter_map(highest).any(|highest| slot <= highest)
    }
}

/// Accepts a point of a pending sender if it has no slot, or one that a cluster can have by now.
/// Adds the slot to `slots`, which it is not compared with.
pub fn add_if_possible(slots: &mut Option<(Stamp, Slots)>, known: &KnownPoint, now: Stamp) -> bool {
    let Some((_, slot)) = slot_of(known) else {
        return true;
    };
    let is_plausible = slot <= max_possible_slot(now);
    if is_plausible {
        let (_, mut newest) = slots.unwrap_or_default();
        newest.raise(known);
        *slots = Some((now, newest));
    }
    is_plausible
}

/// The highest slot that may follow an earlier slot; `None` if that is too old.
fn highest_successor((slot, at): (u64, Stamp), now: Stamp) -> Option<u64> {
    let passed = now.since(at);
    let max_advance = passed
        .as_secs()
        .saturating_mul(MAX_SLOTS_PER_SECOND)
        .saturating_add(SLACK_SLOTS);
    (passed < MAX_REFERENCE_AGE).then(|| slot.saturating_add(max_advance))
}

/// The lowest frozen slot that may follow an earlier one; `None` if that is too old.
fn lowest_successor((slot, at): (u64, Stamp), now: Stamp) -> Option<u64> {
    (now.since(at) < MAX_REFERENCE_AGE).then(|| slot.saturating_sub(4 * SLACK_SLOTS))
}

/// The maximum slot of any cluster by now. A wall clock that was never set limits nothing.
fn max_possible_slot(now: Stamp) -> u64 {
    let age = now.unix.saturating_sub(FIRST_CLUSTER_START);
    if age.is_zero() {
        u64::MAX
    } else {
        age.as_secs().saturating_mul(MAX_MEAN_SLOTS_PER_SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_agave::line::Point;

    fn at(seconds: u64) -> Stamp {
        Stamp {
            uptime: Duration::from_secs(seconds),
            unix: Duration::from_secs(1_790_000_000 + seconds),
        }
    }

    fn known(line: &str) -> KnownPoint {
        KnownPoint::parse(&Point::parse(line.as_bytes()).unwrap())
            .unwrap()
            .unwrap()
    }

    fn optimistic(slot: u64) -> KnownPoint {
        known(&format!("optimistic_slot,host_id=A slot={slot}i 1"))
    }

    fn frozen(slot: u64) -> KnownPoint {
        known(&format!("bank_frozen,host_id=A slot={slot}i,hash=\"x\" 1"))
    }

    #[test]
    fn a_slot_that_no_cluster_can_have_reached_is_refused() {
        let mut plausible = SlotPlausibility::default();
        assert!(!plausible.accepts(&optimistic(9_000_000_000), at(1)));
        assert!(!plausible.accepts(&optimistic(i64::MAX as u64), at(1)));
        assert!(plausible.accepts(&optimistic(400_000_000), at(1)));
    }

    #[test]
    fn an_implausible_slot_jump_is_refused_except_at_start() {
        let mut plausible = SlotPlausibility::default();
        assert!(plausible.accepts(&frozen(1_000), at(1)));
        assert!(
            plausible.accepts(&optimistic(90_000), at(1)),
            "the first of its kind"
        );
        assert!(plausible.accepts(&optimistic(90_025), at(11)));
        assert!(!plausible.accepts(&optimistic(200_000), at(12)));
        assert!(
            plausible.accepts(&frozen(80_000), at(12)),
            "replay may run as fast as it likes up to the tip"
        );
        assert!(!plausible.accepts(&frozen(100_000), at(12)));
        assert!(plausible.accepts(&optimistic(90_050), at(21)));
        assert!(
            plausible.accepts(&optimistic(200_000), at(90)),
            "after a minute of silence nothing forbids it"
        );
    }

    #[test]
    fn json_rpc_slots_confirm_pushed_ones_and_refuse_far_lower() {
        let mut plausible = SlotPlausibility::default();
        assert!(plausible.accepts(&optimistic(1_000), at(1)));
        plausible.set_rpc_slots(50_000, Some(50_010), at(2));
        assert!(plausible.accepts(&optimistic(50_005), at(2)));
        assert!(!plausible.accepts(&frozen(5), at(3)));
        assert!(plausible.accepts(&frozen(49_999), at(3)));
    }

    #[test]
    fn a_level_follows_the_newest_push() {
        let mut slots = Slots::default();
        let push = |slots: &[KnownPoint]| {
            let mut push = Slots::default();
            slots.iter().for_each(|known| push.raise(known));
            push
        };
        slots.merge_later(push(&[frozen(10), frozen(9), optimistic(700)]));
        assert_eq!((slots.frozen, slots.behind()), (Some(10), Some(690)));
        slots.merge_later(push(&[optimistic(15)]));
        assert_eq!((slots.frozen, slots.behind()), (Some(10), Some(5)));
    }
}
