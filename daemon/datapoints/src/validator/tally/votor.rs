//! Reports of Votor, the consensus of Alpenglow: when this validator voted on each slot, and when
//! the slot was finalized.

use super::OptionalHistogram;
use faultline_agave::points::{KnownPoint, SlotTracking};
use faultline_metrics::{
    AddReadings, Reading, SLOT_DELAY_BOUNDS, metrics::consensus as m, named_enum,
};

/// A point without a newer slot is ignored: times of a repeated slot count from another start. A
/// slot that is further back than this shows that the newest slot was wrong.
const MAX_SLOTS_BACK: u64 = 4096;

#[derive(Default)]
pub struct Votor {
    /// Votor's event loop has reported, so the migration is over.
    is_running: bool,
    newest_slot: u64,
    vote_lateness: OptionalHistogram,
    /// In the order of [`FINALIZATION_PATHS`].
    finalizations: [OptionalHistogram; 2],
    /// By [`MissedVote`].
    missed_votes: [u64; MissedVote::ALL.len()],
    in_standstill: Option<bool>,
}

const FINALIZATION_PATHS: [&str; 2] = ["fast", "slow"];

named_enum! {
    enum MissedVote {
        Late = "late",
        Skipped = "skipped",
        None = "none",
    }
}

impl Votor {
    pub fn add(&mut self, known: &KnownPoint) {
        match known {
            KnownPoint::EventHandlerStats(_) => self.is_running = true,
            KnownPoint::SlotTracking(slot) => self.add_slot(slot),
            KnownPoint::ConsensusPoolService(service) => {
                self.in_standstill = service.in_standstill.or(self.in_standstill);
            }
            _ => {}
        }
    }

    fn add_slot(&mut self, point: &SlotTracking) {
        let Some(slot) = point.slot else {
            return;
        };
        let slots_back = self.newest_slot.checked_sub(slot);
        if slots_back.is_some_and(|slots| slots <= MAX_SLOTS_BACK) {
            return;
        }
        self.newest_slot = slot;
        let Some(finalized_us) = point.finalized_us else {
            return;
        };
        if let Some(is_fast) = point.is_fast_finalization {
            self.finalizations[usize::from(!is_fast)].observe_us(finalized_us, &SLOT_DELAY_BOUNDS);
        }
        let missed = match (point.vote_notarize_us, point.vote_skip_us) {
            (Some(vote_us), _) => {
                let lateness_us = vote_us.saturating_sub(finalized_us);
                self.vote_lateness
                    .observe_us(lateness_us, &SLOT_DELAY_BOUNDS);
                if lateness_us == 0 {
                    return;
                }
                MissedVote::Late
            }
            (None, Some(_)) => MissedVote::Skipped,
            (None, None) => MissedVote::None,
        };
        self.missed_votes[missed as usize] += 1;
    }

    pub fn merge(&mut self, newer: &Self) {
        self.is_running |= newer.is_running;
        self.newest_slot = self.newest_slot.max(newer.newest_slot);
        self.vote_lateness.merge(&newer.vote_lateness);
        for (mine, theirs) in self.finalizations.iter_mut().zip(&newer.finalizations) {
            mine.merge(theirs);
        }
        for (mine, theirs) in self.missed_votes.iter_mut().zip(newer.missed_votes) {
            *mine += theirs;
        }
        self.in_standstill = newer.in_standstill.or(self.in_standstill);
    }

    pub fn forget_gauges(&mut self) {
        self.is_running = false;
        self.newest_slot = 0;
        self.in_standstill = None;
    }

    pub fn add_readings(&self, with_gauges: bool, out: &mut Vec<Reading>) {
        out.extend(self.vote_lateness.reading(&m::VOTE_LATENESS, None));
        for (times, path) in self.finalizations.iter().zip(FINALIZATION_PATHS) {
            out.extend(times.reading(&m::FINALIZATION, Some(path)));
        }
        if self.finalizations.iter().any(|times| times.0.is_some()) {
            for reason in MissedVote::ALL {
                let count = self.missed_votes[reason as usize];
                out.integer(&m::VOTES_MISSED, [reason.name().into()], count);
            }
        }
        let in_standstill = self
            .in_standstill
            .filter(|_| with_gauges && self.is_running);
        out.flag(&m::STANDSTILL, [], in_standstill);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validator::tally::{InputValues, Tally};
    use faultline_agave::line::Point;
    use faultline_metrics::{LabelText, Metric, Value};

    fn votor(lines: &[&str]) -> Votor {
        let mut votor = Votor::default();
        for line in lines {
            let point = Point::parse(line.as_bytes()).unwrap();
            let known = KnownPoint::parse(&point).unwrap().unwrap();
            votor.add(&known);
        }
        votor
    }

    fn shown(votor: &Votor) -> Vec<String> {
        let mut out = Vec::new();
        votor.add_readings(true, &mut out);
        out.iter()
            .map(|reading| {
                let value = match &reading.value {
                    Value::Histogram(all) => format!("{} in {:.3} s", all.count(), all.sum()),
                    value => format!("{:?}", value.number()),
                };
                let labels: Vec<&str> =
                    reading.label_values.iter().map(LabelText::as_str).collect();
                format!("{} {labels:?} {value}", reading.metric.name)
            })
            .collect()
    }

    const SLOT: &str = "event_handler_slot_tracking,host_id=A";

    #[test]
    fn votes_are_compared_with_the_finalization_of_their_slot() {
        let votor = votor(&[
            &format!(
                "{SLOT} slot=1i,vote_notarize=5000i,finalized=9000i,is_fast_finalization=true 1"
            ),
            &format!(
                "{SLOT} slot=2i,vote_notarize=9000i,finalized=4000i,is_fast_finalization=true 1"
            ),
            &format!("{SLOT} slot=3i,vote_skip=1i,finalized=8000i,is_fast_finalization=false 1"),
            &format!("{SLOT} slot=4i,finalized=8000i,is_fast_finalization=false 1"),
            &format!("{SLOT} slot=5i,vote_skip=1i 1"),
        ]);
        assert_eq!(
            shown(&votor),
            [
                "agave_vote_lateness_seconds [] 2 in 0.005 s",
                "agave_finalization_seconds [\"fast\"] 2 in 0.013 s",
                "agave_finalization_seconds [\"slow\"] 2 in 0.016 s",
                "agave_votes_missed_total [\"late\"] Some(1.0)",
                "agave_votes_missed_total [\"skipped\"] Some(1.0)",
                "agave_votes_missed_total [\"none\"] Some(1.0)",
            ]
        );
    }

    #[test]
    fn a_later_point_of_a_reported_slot_is_ignored() {
        let votor = votor(&[
            &format!("{SLOT} slot=7i,vote_notarize=5i,finalized=9i,is_fast_finalization=false 1"),
            &format!("{SLOT} slot=6i,finalized=0i,is_fast_finalization=true 2"),
            &format!("{SLOT} slot=7i,finalized=0i,is_fast_finalization=true 2"),
        ]);
        assert_eq!(votor.missed_votes, [0; 3]);
        assert_eq!(votor.finalizations[0], OptionalHistogram::default());
    }

    #[test]
    fn a_wrong_slot_does_not_hide_later_ones() {
        let wrong = format!("{SLOT} slot=9000000000i 1");
        let point = |slot| format!("{SLOT} slot={slot}i,finalized=9i,is_fast_finalization=true 2");
        let votor = votor(&[&wrong, &point(7), &point(8), &point(7)]);
        assert_eq!(votor.missed_votes[MissedVote::None as usize], 2);
    }

    #[test]
    fn a_standstill_is_absent_until_the_event_loop_reports() {
        let service = "consensus_pool_service,host_id=A in_standstill_bool=true 1";
        assert_eq!(shown(&votor(&[service])), Vec::<String>::new());
        let handler = "event_handler_stats,host_id=A ignored=0i 2";
        let mut votor = votor(&[service, handler]);
        assert_eq!(shown(&votor), ["agave_standstill [] Some(1.0)"]);
        votor.forget_gauges();
        assert_eq!(shown(&votor), Vec::<String>::new());
    }

    /// As 4.4.0 writes them.
    const REPORTS: [&str; 13] = [
        "event_handler_stats,host_id=A ignored=0i,leader_window_replaced=0i,set_root_count=9i 1",
        "event_handler_sent_vote_count,host_id=A vote=\"Notarize\",count=40i 1",
        "event_handler_sent_vote_count,host_id=A vote=\"Notarize\",count=2i 2",
        "event_handler_received_event_count_and_timing,host_id=A event=\"Timeout\",count=3i,elapsed_us=9i 1",
        "consensus_pool_ingested_votes,host_id=A finalize=1i,notarize=2i,notar_fallback=3i 1",
        "consensus_pool_ingested_certs,host_id=A finalize_fast=4i 1",
        "consensus_pool_generated_certs,host_id=A notarize_fallback=5i 1",
        "consensus_pool,host_id=A conflicting_votes=0i,out_of_range_votes=6i,out_of_range_certs=7i 1",
        "consensus_pool_service,host_id=A certificates_dropped=8i,parent_ready_missed_window=9i 1",
        "slot-metrics,host_id=A slot=4i,leader_handover_fast=1i,leader_handover_sad=0i,slot_delay_us=1500000i,replay_is_behind_us=500000i,reward_certs_skipped=2i 1",
        "blockstore_switch_bank,host_id=A,from_location=Alternate(x) slot=4i,total_elapsed_us=9i 1",
        "replay-slot-stats,host_id=A slot=4i,num_bank_switches=1i 1",
        "replay-stage-update-parent,host_id=A slot=5i,old_parent_slot=3i,new_parent_slot=2i 1",
    ];

    #[test]
    fn reports_are_summed() {
        let mut tally = Tally::default();
        for line in REPORTS {
            let point = Point::parse(line.as_bytes()).unwrap();
            let mut values = InputValues::default();
            values.reset(point.name());
            let known = KnownPoint::decode(&point, |field| values.add(field)).unwrap();
            tally.add(&point, &values, known.as_ref());
        }
        let mut out = Vec::new();
        tally.add_readings(true, &mut out);
        let value = |metric: &Metric, labels: &[&str]| {
            let labels: Vec<LabelText> = labels
                .iter()
                .map(|label| (*label).to_owned().into())
                .collect();
            let of = |reading: &&Reading| {
                reading.metric.name == metric.name && reading.label_values.iter().eq(labels.iter())
            };
            out.iter()
                .find(of)
                .and_then(|reading| reading.value.number())
        };
        assert_eq!(value(&m::VOTES_SENT, &["notarize"]), Some(42.0));
        assert_eq!(value(&m::VOTES_SENT, &["skip"]), Some(0.0));
        assert_eq!(value(&m::EVENTS, &["timeout"]), Some(3.0));
        assert_eq!(value(&m::EVENTS, &["standstill"]), Some(0.0));
        assert_eq!(value(&m::VOTES_RECEIVED, &["notarize_fallback"]), Some(3.0));
        assert_eq!(
            value(&m::CERTIFICATES, &["finalize_fast", "received"]),
            Some(4.0)
        );
        assert_eq!(
            value(&m::CERTIFICATES, &["notarize_fallback", "built"]),
            Some(5.0)
        );
        assert_eq!(value(&m::OUT_OF_RANGE, &["vote"]), Some(6.0));
        assert_eq!(value(&m::OUT_OF_RANGE, &["certificate"]), Some(7.0));
        assert_eq!(value(&m::CERTIFICATES_DROPPED, &[]), Some(8.0));
        assert_eq!(value(&m::LEADER_WINDOWS_MISSED, &[]), Some(9.0));
        assert_eq!(value(&m::LEADER_HANDOVERS, &["fast"]), Some(1.0));
        assert_eq!(value(&m::LEADER_DELAY, &["slot"]), Some(1.5));
        assert_eq!(value(&m::LEADER_DELAY, &["replay"]), Some(0.5));
        assert_eq!(value(&m::REWARD_CERTIFICATES_SKIPPED, &[]), Some(2.0));
        assert_eq!(value(&m::BANK_SWITCHES, &[]), Some(1.0));
        assert_eq!(value(&m::UPDATE_PARENTS, &[]), Some(1.0));
    }
}
