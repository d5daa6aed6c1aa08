//! The newest slots and the distance to the tip. By default, JSON-RPC is polled every second. The
//! validator pushes its slots every 10 s, so a pushed slot never replaces a recent response.
//!
//! A migration to Alpenglow ends with a purge: the node drops all slots above the genesis slot of
//! Alpenglow. The processed slot then goes back, but the reported highest slot with shreds does
//! not.

use super::SourceFacts;
use crate::{
    distance::{PUSH_MAX_AGE, RPC_PRECEDENCE_TIME},
    tick::SourceOutput,
};
use faultline_agave::{consensus::Protocol, rpc::Health};
use faultline_metrics::{Stamp, metrics::validator as v};
use faultline_phase::{PhaseEvidence, Process};
use std::time::Duration;

/// If the tip of a response was first reported this long before, its distance does not count: the
/// validator is starved or cut off. The tip advances once per slot, later if slots are skipped.
const TIP_MAX_AGE: Duration = Duration::from_secs(5);

/// A fork switch moves the processed slot back by fewer slots, the purge of a migration by more.
const MIN_PURGED_SLOTS: u64 = 32;

#[derive(Clone, Copy, Default)]
pub struct SlotTracker {
    last_rpc_at: Option<Stamp>,
    last_push_at: Option<Stamp>,
    /// The highest slot with shreds, and when JSON-RPC first reported it.
    tip: Option<(u64, Stamp)>,
    /// The highest tip in a migration. JSON-RPC reports it even after its purge.
    migration_tip: Option<u64>,
    /// The highest processed slot since the start of the migration. `None` if not tracked.
    highest_processed: Option<u64>,
    /// The processed slot is below the highest one by more than [`MIN_PURGED_SLOTS`]. Other signs
    /// of the end of the migration may come a minute later.
    has_gone_back: bool,
}

impl SlotTracker {
    /// Adds the slots reported since the previous tick to `evidence`.
    pub fn sample(
        &mut self,
        protocol: Option<Protocol>,
        facts: &SourceFacts,
        output: &mut SourceOutput,
        evidence: &mut PhaseEvidence,
    ) {
        self.add_evidence(protocol, facts, evidence);
        if evidence.process != Process::Stopped {
            self.export(protocol, facts, output);
        }
    }

    fn export(&self, protocol: Option<Protocol>, facts: &SourceFacts, output: &mut SourceOutput) {
        let (now, rpc) = (facts.now, facts.rpc.as_deref());
        let slots_behind_at = rpc.and_then(|facts| facts.slots_behind_received_at);
        let unless_rpc_is_recent = |rpc_at: Option<Stamp>, pushed: Option<u64>| {
            pushed.filter(|_| rpc_at.is_none_or(|at| now.since(at) >= RPC_PRECEDENCE_TIME))
        };
        let pushed = facts
            .datapoints
            .slots
            .filter(|(at, _)| now.since(*at) < PUSH_MAX_AGE)
            .map(|(_, slots)| slots)
            .unwrap_or_default();
        // Alpenglow has no optimistic confirmation: the last optimistic slot would be exported for
        // ever. Under Alpenglow, `processed` is the newest notarized slot, so `replayed` has its
        // own series.
        let is_alpenglow = protocol == Some(Protocol::Alpenglow);
        for (kind, slot) in [
            (
                "processed",
                facts.processed_slot().or(unless_rpc_is_recent(
                    facts.processed_slot_received_at(),
                    pushed.frozen,
                )),
            ),
            ("confirmed", rpc.and_then(|facts| facts.confirmed)),
            ("finalized", rpc.and_then(|facts| facts.finalized)),
            ("root", pushed.root),
            ("optimistic", pushed.optimistic.filter(|_| !is_alpenglow)),
            ("replayed", pushed.frozen.filter(|_| is_alpenglow)),
            (
                "shred",
                facts
                    .max_shred_slot()
                    .or(unless_rpc_is_recent(slots_behind_at, pushed.received)),
            ),
        ] {
            output.integer(&v::SLOT, [kind], slot);
        }
        let tip_is_fresh = slots_behind_at
            .zip(self.tip)
            .is_some_and(|(at, (_, since))| at.since(since) < TIP_MAX_AGE);
        let is_tip_purged = facts
            .max_shred_slot()
            .is_some_and(|tip| !self.tip_still_exists(protocol, tip));
        let mut distance_evidence = facts.distance_evidence();
        if !tip_is_fresh || is_tip_purged {
            distance_evidence.by_rpc = None;
        }
        output.integer(&v::SLOTS_BEHIND, [], distance_evidence.slots_behind());
    }

    /// False if `tip` was purged at the end of a migration.
    fn tip_still_exists(&self, protocol: Option<Protocol>, tip: u64) -> bool {
        let may_be_purged = self.has_gone_back || protocol == Some(Protocol::Alpenglow);
        !may_be_purged || Some(tip) > self.migration_tip
    }

    /// Tracks the processed slot from the start of a migration. After a purge, stops when replay is
    /// within [`MIN_PURGED_SLOTS`] of the highest slot before the purge. Never stops without a
    /// purge.
    fn track_purge(
        &mut self,
        protocol: Option<Protocol>,
        processed: u64,
        max_shred_slot: Option<u64>,
    ) {
        let is_migrating = protocol == Some(Protocol::Migrating);
        if !is_migrating && self.highest_processed.is_none() {
            return;
        }
        let highest = self.highest_processed.max(Some(processed));
        let has_gone_back = Some(processed.saturating_add(MIN_PURGED_SLOTS)) < highest;
        let had_gone_back = std::mem::replace(&mut self.has_gone_back, has_gone_back);
        // The response that first shows the purge still has a tip from before it.
        if (is_migrating && !has_gone_back) || (has_gone_back && !had_gone_back) {
            self.migration_tip = max_shred_slot.max(self.migration_tip);
        }
        self.highest_processed =
            highest.filter(|_| is_migrating || has_gone_back || !had_gone_back);
    }

    /// A pushed value counts only if JSON-RPC has none. A pushed slot must be newer than the last
    /// response. A pushed tip must be trusted, because any program may have sent it.
    fn add_evidence(
        &mut self,
        protocol: Option<Protocol>,
        facts: &SourceFacts,
        evidence: &mut PhaseEvidence,
    ) {
        let (processed, max_shred_slot, rpc_at) = (
            facts.processed_slot(),
            facts.max_shred_slot(),
            facts.processed_slot_received_at(),
        );
        if let Some(processed) = processed {
            self.track_purge(protocol, processed, max_shred_slot);
        }
        if let Some(rpc) = &facts.rpc
            && rpc_at > self.last_rpc_at
        {
            self.last_rpc_at = rpc_at;
            evidence.slot = processed;
            evidence.is_healthy = rpc.health == Some(Health::Ok);
            let has_new_tip = rpc.slots_behind_received_at == rpc_at;
            evidence.tip =
                max_shred_slot.filter(|tip| has_new_tip && self.tip_still_exists(protocol, *tip));
            if let Some((slot, at)) = max_shred_slot.zip(rpc_at) {
                let before = self.tip.filter(|(before, _)| slot <= *before);
                self.tip = Some((slot, before.map_or(at, |(_, since)| since)));
            }
        }
        let Some((at, pushed)) = facts.datapoints.slots else {
            return;
        };
        if Some(at) <= self.last_push_at {
            return;
        }
        self.last_push_at = Some(at);
        if processed.is_none() && Some(at) > rpc_at {
            evidence.slot = pushed.frozen;
        }
        if max_shred_slot.is_none() && facts.distance_evidence().trusted_push().is_some() {
            evidence.tip = pushed.tip();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::RpcFacts;
    use faultline_agave::rpc::{EpochInfo, Health};
    use faultline_datapoints::validator::{intake::PushFacts, slots::Slots};
    use faultline_kernel::ProcessId;
    use std::sync::Arc;

    fn at(seconds: u64) -> Stamp {
        Stamp {
            uptime: Duration::from_secs(seconds),
            unix: Duration::ZERO,
        }
    }

    /// `answered`: second of the last response, and its processed slot and shred unless expired.
    /// `push`: second and slots of the last push.
    fn source_facts(
        answered: Option<(u64, Option<(u64, u64)>)>,
        push: Option<(u64, Slots)>,
    ) -> SourceFacts {
        let rpc = answered.map(|(second, inputs)| RpcFacts {
            process: ProcessId {
                pid: 1,
                start_ticks: 1,
            },
            polled_at: at(second),
            epoch_info: inputs.map(|(processed, _)| EpochInfo {
                absolute_slot: processed,
                block_height: 0,
                epoch: 0,
                slot_index: 0,
                slots_in_epoch: 1,
                transaction_count: None,
            }),
            confirmed: None,
            finalized: None,
            health: inputs.map(|_| Health::Ok),
            max_shred_slot: inputs.map(|(_, shred)| shred),
            slots_behind: inputs.map(|(processed, shred)| shred - processed),
            processed_slot_received_at: Some(at(second)),
            slots_behind_received_at: Some(at(second)),
            identity: None,
            version: None,
            problems: Vec::new(),
            up: inputs.is_some(),
        });
        let slots = push.map(|(second, slots)| (at(second), slots));
        SourceFacts {
            now: at(0),
            rpc: rpc.map(Arc::new),
            admin: None,
            votes: None,
            datapoints: PushFacts {
                slots,
                ..PushFacts::default()
            },
            health_distance: 128,
        }
    }

    fn pushed(frozen: u64, optimistic: u64) -> Slots {
        Slots {
            frozen: Some(frozen),
            optimistic: Some(optimistic),
            ..Slots::default()
        }
    }

    /// The exported processed slot and distance at `now`, and the evidence for the phase.
    fn sample(
        tracker: &mut SlotTracker,
        now: u64,
        source_facts: &SourceFacts,
    ) -> (Option<f64>, Option<f64>, PhaseEvidence) {
        let (mut output, mut evidence) = (SourceOutput::default(), PhaseEvidence::default());
        let source_facts = SourceFacts {
            now: at(now),
            ..source_facts.clone()
        };
        tracker.sample(None, &source_facts, &mut output, &mut evidence);
        let value = |name: &str, label: Option<&str>| {
            let reading = output.readings.iter().find(|reading| {
                reading.metric.name == name
                    && reading
                        .label_values
                        .first()
                        .map(faultline_metrics::LabelText::as_str)
                        == label
            });
            reading.and_then(|reading| reading.value.number())
        };
        (
            value("agave_slot", Some("processed")),
            value("agave_slots_behind", None),
            evidence,
        )
    }

    #[test]
    fn silent_json_rpc_is_not_replaced_by_an_older_push() {
        let mut tracker = SlotTracker::default();
        let push = Some((8, pushed(100, 100)));
        let (processed, behind, evidence) = sample(
            &mut tracker,
            10,
            &source_facts(Some((10, Some((105, 120)))), push),
        );
        assert_eq!(
            (processed, behind, evidence.slot, evidence.tip),
            (Some(105.0), Some(15.0), Some(105), Some(120))
        );
        let (processed, behind, evidence) =
            sample(&mut tracker, 14, &source_facts(Some((10, None)), push));
        assert_eq!(
            (processed, behind, evidence.slot, evidence.tip),
            (None, None, None, None),
            "the push is older than the response"
        );
        let later = Some((18, pushed(105, 150)));
        let (processed, behind, evidence) =
            sample(&mut tracker, 18, &source_facts(Some((10, None)), later));
        assert_eq!(
            (processed, behind, evidence.slot, evidence.tip),
            (None, None, Some(105), Some(150)),
            "not shown, but evidence of the phase"
        );
        let (processed, behind, _) = sample(
            &mut tracker,
            71,
            &source_facts(Some((10, None)), Some((70, pushed(200, 204)))),
        );
        assert_eq!(
            (processed, behind),
            (Some(200.0), Some(4.0)),
            "after a minute pushes alone tell"
        );
    }

    #[test]
    fn neither_a_push_alongside_a_response_nor_a_reused_response_is_evidence() {
        let mut tracker = SlotTracker::default();
        sample(
            &mut tracker,
            10,
            &source_facts(Some((10, Some((105, 106)))), Some((9, pushed(100, 100)))),
        );
        let input_facts = source_facts(Some((20, Some((105, 125)))), Some((19, pushed(106, 107))));
        let (.., evidence) = sample(&mut tracker, 20, &input_facts);
        assert_eq!((evidence.slot, evidence.tip), (Some(105), Some(125)));
        let (.., evidence) = sample(&mut tracker, 21, &input_facts);
        assert_eq!((evidence.slot, evidence.tip), (None, None));
    }

    #[test]
    fn a_pushed_slot_distance_contradicting_a_healthy_validator_is_ignored() {
        let mut tracker = SlotTracker::default();
        let mut input_facts =
            source_facts(Some((10, Some((105, 105)))), Some((9, pushed(100, 600))));
        let facts = Arc::get_mut(input_facts.rpc.as_mut().unwrap()).unwrap();
        (
            facts.max_shred_slot,
            facts.slots_behind,
            facts.slots_behind_received_at,
        ) = (None, None, None);
        assert_eq!(sample(&mut tracker, 10, &input_facts).1, None);
        input_facts.datapoints.slots = Some((at(9), pushed(100, 104)));
        assert_eq!(sample(&mut tracker, 10, &input_facts).1, Some(4.0));
    }

    #[test]
    fn the_validators_pushes_take_precedence_over_its_health_response() {
        let own = |second, frozen, optimistic| {
            let mut slots = pushed(frozen, optimistic);
            slots.is_proven = true;
            Some((second, slots))
        };
        let mut input_facts = source_facts(Some((10, Some((105, 105)))), own(9, 100, 2_600));
        let facts = Arc::get_mut(input_facts.rpc.as_mut().unwrap()).unwrap();
        (
            facts.max_shred_slot,
            facts.slots_behind,
            facts.slots_behind_received_at,
        ) = (None, None, None);
        let mut tracker = SlotTracker::default();
        let (_, behind, evidence) = sample(&mut tracker, 10, &input_facts);
        assert_eq!((behind, evidence.tip), (Some(2_500.0), Some(2_600)));
        input_facts.datapoints.slots =
            own(19, 2_700, 3_541).map(|(second, slots)| (at(second), slots));
        let (_, behind, evidence) = sample(&mut tracker, 20, &input_facts);
        assert_eq!((behind, evidence.tip), (Some(841.0), Some(3_541)));
    }

    #[test]
    fn without_a_newer_tip_the_distance_behind_is_unknown() {
        let mut tracker = SlotTracker::default();
        for second in 10..15 {
            assert!(
                sample(
                    &mut tracker,
                    second,
                    &source_facts(Some((second, Some((second, 40)))), None)
                )
                .1
                .is_some()
            );
        }
        assert_eq!(
            sample(
                &mut tracker,
                15,
                &source_facts(Some((15, Some((15, 40)))), None)
            )
            .1,
            None
        );
        assert_eq!(
            sample(
                &mut tracker,
                16,
                &source_facts(Some((16, Some((16, 60)))), None)
            )
            .1,
            Some(44.0)
        );
    }

    #[test]
    fn the_distance_lasts_until_the_next_response_of_a_long_interval() {
        let mut tracker = SlotTracker::default();
        let mut behind = |now, answered, tip| {
            let facts = source_facts(Some((answered, Some((30, tip)))), None);
            sample(&mut tracker, now, &facts).1
        };
        assert_eq!(behind(10, 10, 40), Some(10.0));
        assert_eq!(behind(19, 10, 40), Some(10.0), "the response is fresh");
        assert_eq!(behind(20, 20, 40), None, "the tip has not advanced");
        assert_eq!(behind(30, 30, 41), Some(11.0));
    }

    #[test]
    fn slots_purged_by_a_migration_are_not_the_tip() {
        let mut tracker = SlotTracker::default();
        let mut sample = |second, protocol, rpc_slots: (u64, u64), push: Slots| {
            let (mut output, mut evidence) = (SourceOutput::default(), PhaseEvidence::default());
            let mut source_facts =
                source_facts(Some((second, Some(rpc_slots))), Some((second, push)));
            source_facts.now = at(second);
            tracker.sample(Some(protocol), &source_facts, &mut output, &mut evidence);
            let value = |name: &str, label: &str| {
                let reading = output.readings.iter().find(|reading| {
                    reading.metric.name == name
                        && reading
                            .label_values
                            .first()
                            .is_none_or(|text| text.as_str() == label)
                });
                reading.and_then(|reading| reading.value.number())
            };
            let behind = value("agave_slots_behind", "");
            let kinds = ["optimistic", "replayed"].map(|kind| value("agave_slot", kind));
            (evidence.tip, behind, kinds)
        };
        let push = pushed(1_300, 999);
        assert_eq!(
            sample(1, Protocol::Migrating, (1_300, 1_301), push),
            (Some(1_301), Some(1.0), [Some(999.0), None])
        );
        let purged = pushed(1_002, 999);
        assert_eq!(
            sample(2, Protocol::Migrating, (1_000, 1_301), purged).0,
            None,
            "before a sign of its end"
        );
        assert_eq!(
            sample(3, Protocol::Alpenglow, (1_002, 1_301), purged),
            (None, None, [None, Some(1_002.0)])
        );
        assert_eq!(
            sample(61, Protocol::Migrating, (1_280, 1_302), purged).0,
            Some(1_302),
            "the processed slot is near the old tip again"
        );
        assert_eq!(
            sample(62, Protocol::Alpenglow, (1_301, 1_303), purged).0,
            Some(1_303),
            "new slots have passed it"
        );
    }

    #[test]
    fn tips_first_seen_with_the_purge_count_as_purged() {
        let (migrating, alpenglow) = (Some(Protocol::Migrating), Some(Protocol::Alpenglow));
        let mut tracker = SlotTracker::default();
        tracker.track_purge(migrating, 1_300, Some(1_301));
        tracker.track_purge(alpenglow, 1_002, Some(1_306));
        assert!(!tracker.tip_still_exists(alpenglow, 1_306));
        tracker.track_purge(alpenglow, 1_290, Some(1_306));
        assert!(!tracker.tip_still_exists(alpenglow, 1_306));
        assert!(tracker.tip_still_exists(alpenglow, 1_307));
        tracker.track_purge(alpenglow, 1_250, Some(1_400));
        assert!(tracker.tip_still_exists(alpenglow, 1_400), "it is over");
    }

    #[test]
    fn a_stopped_process_has_no_slot_despite_a_fresh_response() {
        let (mut output, mut evidence) = (
            SourceOutput::default(),
            PhaseEvidence {
                process: Process::Stopped,
                ..PhaseEvidence::default()
            },
        );
        let mut input_facts = source_facts(Some((10, Some((105, 106)))), None);
        input_facts.now = at(10);
        SlotTracker::default().sample(None, &input_facts, &mut output, &mut evidence);
        assert!(output.readings.is_empty());
    }
}
