use super::SourceFacts;
use crate::{tick::SourceOutput, votes::sol};
use faultline_agave::{
    admission,
    consensus::{Consensus, ConsensusEvidence, Protocol},
};
use faultline_metrics::{
    Stamp,
    metrics::{validator as v, votes::ADMISSION_SHORTFALL},
};
use std::time::Duration;

/// Minimum distance from the finalized to the confirmed slot that shows Tower. Tower finalizes a
/// slot about 31 slots after its confirmation, Alpenglow at the same time.
const MIN_TOWER_GAP_SLOTS: u64 = 16;
/// Alpenglow also has short gaps, because it publishes both slots one after the other.
const MIN_GAP_DURATION: Duration = Duration::from_secs(3);
/// With a long poll interval, two such gaps may look like one.
const MIN_GAP_POLLS: u32 = 4;
/// Lifetime of evidence for Tower: optimistic slots and the commitment gap. Both stop when the
/// migration begins, in the state [`Protocol::Migrating`] between Tower and Alpenglow.
const TOWER_MAX_AGE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Default)]
struct CommitmentGap {
    /// Time and finalized slot when the gap began, last showed Tower, or its finalized slot fell.
    started_at: Option<(Stamp, u64)>,
    /// The last poll, and the polls in a row with a gap.
    last_poll: Option<Stamp>,
    polls: u32,
    /// The last time when the gap had lasted long enough while finalized slots advanced.
    shown_at: Option<Stamp>,
}

impl CommitmentGap {
    fn update(&mut self, at: Stamp, confirmed: u64, finalized: u64) {
        if self.last_poll.replace(at) == Some(at) {
            return;
        }
        self.polls += 1;
        if confirmed.saturating_sub(finalized) < MIN_TOWER_GAP_SLOTS {
            self.started_at = None;
            self.polls = 0;
            return;
        }
        let (since, from) = *self.started_at.get_or_insert((at, finalized));
        if finalized < from {
            self.started_at = Some((at, finalized));
        } else if finalized > from
            && at.since(since) >= MIN_GAP_DURATION
            && self.polls >= MIN_GAP_POLLS
        {
            self.shown_at = Some(at);
            self.started_at = Some((at, finalized));
        }
    }

    fn shows_tower(&self, now: Stamp) -> bool {
        self.shown_at
            .is_some_and(|at| now.since(at) < TOWER_MAX_AGE)
    }
}

/// Exports the SOL that the vote account lacks for the admission ticket. If the validator does not
/// report it, computes it from the balance and the slot time, but only near the tip. Elsewhere the
/// slot time is not measured, and its last value may be outdated.
pub fn add_admission_shortfall(
    facts: &SourceFacts,
    slot_time: Option<Duration>,
    output: &mut SourceOutput,
) {
    let reported = facts
        .admin
        .as_ref()
        .and_then(|admin| admin.admission_shortfall());
    let by_balance = || {
        let lamports = facts.votes.as_ref()?.vote_balance(facts.now)?;
        let slot_seconds = slot_time?.as_secs_f64();
        let is_near_tip = facts.distance_evidence().is_near_tip() == Some(true);
        admission::shortfall_lamports(lamports, slot_seconds).filter(|_| is_near_tip)
    };
    let lamports = reported.or_else(by_balance);
    output.real(&ADMISSION_SHORTFALL, [], lamports.map(sol));
}

/// State of one process: it begins anew when another process is followed.
#[derive(Default)]
pub struct ConsensusState {
    gap: CommitmentGap,
    current: Option<Consensus>,
}

impl ConsensusState {
    pub fn update(&mut self, facts: &SourceFacts) -> Option<Consensus> {
        let now = facts.now;
        if let Some(rpc) = &facts.rpc
            && let (Some(at), Some(confirmed), Some(finalized)) =
                (rpc.processed_slot_received_at, rpc.confirmed, rpc.finalized)
        {
            self.gap.update(at, confirmed, finalized);
        }
        let votes = facts.votes.as_ref();
        let reports = facts.datapoints.migration;
        let replayed = facts.datapoints.slots.and_then(|(_, slots)| slots.frozen);
        let is_recent = |at: Stamp| now.since(at) < TOWER_MAX_AGE;
        let evidence = ConsensusEvidence {
            has_event_handler: reports.has_event_handler,
            is_migration_complete: reports.is_complete,
            reported_genesis_slot: reports.genesis_slot,
            reported_migration_slot: reports.migration_slot,
            processed_slot: facts.processed_slot().or(replayed),
            has_optimistic_slot: reports.optimistic_at.is_some_and(is_recent),
            has_commitment_gap: self.gap.shows_tower(now),
            ..votes.map_or_else(ConsensusEvidence::default, |votes| votes.evidence(now))
        };
        let before = self.current;
        self.current = Consensus::merge(before, evidence.consensus());
        let names = |consensus: Consensus| (consensus.protocol.name(), consensus.sign.name());
        let (from, to) = (before.map(names), self.current.map(names));
        if from != to {
            tracing::info!(?from, ?to, "consensus");
        }
        self.current
    }
}

pub fn add_readings(consensus: &Consensus, output: &mut SourceOutput) {
    for protocol in Protocol::ALL {
        let is_current = protocol == consensus.protocol;
        output.flag(&v::CONSENSUS, [protocol.name()], is_current);
    }
    output.integer(&v::CONSENSUS_SIGN, [consensus.sign.name()], 1);
    output.integer(&v::ALPENGLOW_GENESIS_SLOT, [], consensus.genesis_slot);
    output.integer(&v::MIGRATION_SLOT, [], consensus.migration_slot);
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
    fn only_a_lasting_gap_with_advancing_finalized_slots_shows_tower() {
        let mut gap = CommitmentGap::default();
        for second in 0..3 {
            gap.update(at(second), 131 + second, 100 + second);
            assert!(!gap.shows_tower(at(second)));
        }
        gap.update(at(3), 134, 103);
        assert!(gap.shows_tower(at(3)) && gap.shows_tower(at(62)) && !gap.shows_tower(at(63)));

        let mut migrating = CommitmentGap::default();
        (0..90).for_each(|second| migrating.update(at(second), 131, 100));
        assert!(!migrating.shows_tower(at(90)), "nothing is finalized");

        let mut alpenglow = CommitmentGap::default();
        for second in 0..90 {
            let root = 100 + 5 * second;
            // Every third response comes between the updates of the two slots.
            let ahead = if second % 3 == 0 { 40 } else { 0 };
            alpenglow.update(at(second), root + ahead, root);
            assert!(!alpenglow.shows_tower(at(second)));
        }
    }

    #[test]
    fn with_a_long_poll_interval_two_chance_gaps_do_not_show_tower() {
        let mut gap = CommitmentGap::default();
        for poll in 0..3 {
            let second = 5 * poll;
            // Each tick sees the facts of the last poll.
            (0..5).for_each(|_| gap.update(at(second), 131 + second, 100 + second));
            assert!(!gap.shows_tower(at(second)), "{poll}");
        }
        gap.update(at(15), 146, 115);
        assert!(gap.shows_tower(at(15)));
    }
}
