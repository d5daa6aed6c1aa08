//! Pushed lines of each phase.

use std::cell::RefCell;

use agave_votor_messages::certificate::CertificateType;
use agave_votor_messages::consensus_message::Block;
use agave_votor_messages::vote::Vote;
use solana_clock::Slot;
use solana_metrics::datapoint::DataPoint;
use solana_metrics::metrics::serialize_points;
use solana_pubkey::Pubkey;

use crate::banks::replayed;
use crate::clock;
use crate::cluster::{self, GENESIS_SLOT, MIGRATION_SLOT, Phase};
use crate::datapoint_info;
use crate::event::VotorEvent;
use crate::release::block_creation_loop::{self, Handover};
use crate::release::part;
use crate::release::votor::{consensus_pool, consensus_pool_service, event_handler};
use crate::voting_service::{BLSOp, PushedVote};

thread_local! {
    static POINTS: RefCell<Vec<DataPoint>> = const { RefCell::new(Vec::new()) };
}

pub fn submit(mut point: DataPoint) {
    point.timestamp = clock::now();
    POINTS.with_borrow_mut(|points| points.push(point));
}

/// What was submitted since the last call. The release's maps have no order: equal names are sorted.
pub fn take() -> Vec<DataPoint> {
    let mut points = POINTS.take();
    for same in points.chunk_by_mut(|a, b| a.name == b.name && a.timestamp == b.timestamp) {
        same.sort_by(|a, b| a.fields.cmp(&b.fields));
    }
    points
}

pub fn lines(points: &[DataPoint], host: &Pubkey) -> String {
    serialize_points(&points.to_vec(), &host.to_string())
}

pub const BANK: [&str; 6] = [
    "blockstore_switch_bank",
    "loaded-programs-cache-stats",
    "bank_frozen",
    "replay-slot-stats",
    "cost_tracker_stats",
    "accounts_db_store_timings",
];
pub const POOL: [&str; 2] = ["consensus_pool", "consensus_pool_service"];
pub const VOTOR: [&str; 2] = ["event_handler", "slot-metrics"];

pub fn optimistic(new_optimistic_slot: Slot) {
    part!("optimistic_slot");
}

pub fn migration_started() {
    clock::set(cluster::ACTIVATION_SLOT + 32, 150_000);
    let migration_slot = MIGRATION_SLOT;
    part!("migration-started");
}

pub fn migration_complete(genesis_block: Block) {
    part!("migration-complete");
}

/// The release's, with a fixed commit: a build outside a checkout invents one at each start.
fn version() -> String {
    let version = solana_version::Version::default();
    let commit = format!("{:08x}", version.commit());
    version.as_detailed_string().replace(&commit, "5eed5eed")
}

pub fn set_identity(old_identity: Pubkey, new_identity: Pubkey) {
    part!("validator-set_identity");
}

/// What happened with a slot: offsets in microseconds since its first event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Fast,
    Slow,
    /// Finalized before the own vote.
    Late,
    /// Finalized, and the own vote was to skip it.
    SkippedByOwn,
    /// Finalized, without an own vote.
    NoVote,
    /// Finalized without an own vote; the vote received after the report.
    VoteAfterReport,
    /// Skipped by all.
    SkippedByAll,
}

impl Outcome {
    pub fn of(slot: Slot) -> Self {
        match slot % 50 {
            7 | 21 | 22 | 40 => Self::Slow,
            13 | 30 => Self::Late,
            18 => Self::SkippedByOwn,
            27 => Self::NoVote,
            33 => Self::VoteAfterReport,
            36 | 37 | 38 | 39 => Self::SkippedByAll,
            _ => Self::Fast,
        }
    }
}

pub fn block(slot: Slot) -> Block {
    Block {
        slot,
        block_id: cluster::hash(&format!("block{slot}")).into(),
    }
}

struct Voting {
    stats: event_handler::EventHandlerStats,
}

impl Voting {
    fn event(&mut self, slot: Slot, micros: u64, event: &VotorEvent) {
        clock::set(slot, micros);
        let kind = self.stats.handle_event_arrival(event);
        self.stats.incr_event_with_timing(kind, 40);
    }

    fn vote(&mut self, slot: Slot, micros: u64, vote: Vote) {
        clock::set(slot, micros);
        let vote = PushedVote { vote };
        self.stats.incr_vote(&BLSOp::PushVote { vote });
    }

    fn slot(&mut self, slot: Slot) {
        let parent_block = block(slot - 1);
        if slot.is_multiple_of(4) {
            self.event(slot, 0, &VotorEvent::ParentReady { slot, parent_block });
            self.event(slot, 1_500, &VotorEvent::FirstShred(slot));
        }
        let notarize = |slot| Vote::new_notarization_vote(block(slot));
        let finalized = |fast| VotorEvent::Finalized(block(slot), fast);
        match Outcome::of(slot) {
            Outcome::Fast => {
                self.vote(slot, 92_000, notarize(slot));
                self.event(slot, 121_000, &finalized(true));
            }
            Outcome::Slow => {
                self.vote(slot, 92_000, notarize(slot));
                self.event(slot, 121_000, &VotorEvent::BlockNotarized(block(slot)));
                self.vote(slot, 121_500, Vote::new_finalization_vote(slot));
                self.event(slot, 163_000, &finalized(false));
            }
            Outcome::Late => {
                self.event(slot, 121_000, &finalized(true));
                self.vote(slot, 158_000, notarize(slot));
            }
            Outcome::SkippedByOwn => {
                self.event(slot, 150_000, &VotorEvent::Timeout(slot));
                self.vote(slot, 150_500, Vote::new_skip_vote(slot));
                self.event(slot, 188_000, &finalized(false));
            }
            Outcome::NoVote | Outcome::VoteAfterReport => {
                self.event(slot, 121_000, &finalized(true));
            }
            Outcome::SkippedByAll => {
                self.event(slot, 150_000, &VotorEvent::TimeoutCrashedLeader(slot));
                self.vote(slot, 150_500, Vote::new_skip_vote(slot));
            }
        }
    }
}

/// Ten seconds of Votor, reported at their end.
fn voting(first: Slot) {
    clock::set(first, 0);
    let mut voting = Voting {
        stats: event_handler::EventHandlerStats::new(),
    };
    for slot in first..first + 50 {
        voting.slot(slot);
    }
    clock::set(first + 50, 0);
    voting.event(first + 49, 199_000, &VotorEvent::SafeToSkip(first + 39));
    voting.stats.set_root(first + 50);
    clock::set(first + 50, 1_000);
    voting.stats.maybe_report();
    // A vote for a slot that was reported: its second point has a zero of its own.
    for slot in first..first + 50 {
        if Outcome::of(slot) == Outcome::VoteAfterReport {
            voting.vote(first + 50, 2_000, Vote::new_notarization_vote(block(slot)));
        }
    }
    voting.stats.set_root(first + 99);
    clock::set(first + 100, 1_000);
    voting.stats.maybe_report();
}

fn pool(
    slot: Slot,
    micros: u64,
    votes: &[(Vote, usize)],
    received: &[(CertificateType, usize)],
    built: &[(CertificateType, usize)],
) {
    clock::set(slot, micros);
    consensus_pool::report(votes, received, built);
}

fn pool_of_alpenglow(first: Slot) {
    let at = block(first);
    pool(
        first + 50,
        3_000,
        &[
            (Vote::new_notarization_vote(at), 300),
            (Vote::new_finalization_vote(first), 30),
            (Vote::new_skip_vote(first), 28),
            (Vote::new_notarization_fallback_vote(at), 2),
        ],
        &[
            (CertificateType::FinalizeFast(at), 12),
            (CertificateType::Finalize(first), 3),
            (CertificateType::Notarize(at), 12),
            (CertificateType::Skip(first), 1),
        ],
        &[
            (CertificateType::FinalizeFast(at), 29),
            (CertificateType::Finalize(first), 2),
            (CertificateType::Notarize(at), 32),
            (CertificateType::NotarizeFallback(at), 2),
            (CertificateType::Skip(first), 3),
        ],
    );
    consensus_pool_service::report(&consensus_pool_service::Report {
        finalized: 46,
        missed_windows: 1,
        produced_windows: 2,
        standstill: false,
    });
}

/// Before the migration: nothing is received, and the timer of the standstill runs out all the time.
fn idle_pool(slot: Slot, genesis_votes: usize) {
    let genesis = block(GENESIS_SLOT);
    pool(
        slot,
        3_000,
        &[(Vote::new_genesis_vote(genesis), genesis_votes)],
        &[],
        &[],
    );
    consensus_pool_service::report(&consensus_pool_service::Report {
        finalized: 0,
        missed_windows: 0,
        produced_windows: 0,
        standstill: true,
    });
}

/// What the node pushes in a phase.
pub fn of_phase(phase: Phase) -> Vec<DataPoint> {
    let last = phase.processed();
    match phase {
        Phase::Tower => {
            for slot in last - 24..=last {
                replayed(slot, 1_500, slot % 50 < 4);
                clock::set(slot, 150_000);
                optimistic(slot - 1);
            }
            idle_pool(last, 0);
        }
        Phase::Migrating => {
            for slot in last - 24..=last {
                replayed(slot, 420, false);
            }
            idle_pool(last, 6);
        }
        Phase::MigrationEpoch | Phase::NextEpoch | Phase::Later => {
            let first = last - 49;
            for slot in first..=last {
                if Outcome::of(slot) != Outcome::SkippedByAll {
                    replayed(slot, 800, slot % 50 < 4);
                }
            }
            pool_of_alpenglow(first);
            for (index, handover) in [
                Handover::Fast,
                Handover::Slow,
                Handover::Slow,
                Handover::Sad,
            ]
            .into_iter()
            .enumerate()
            {
                let slot = first - first % 4 + 4 + index as u64;
                clock::set(slot, 190_000);
                block_creation_loop::report(slot, handover, 1_000 + 100 * index as u64);
            }
            voting(first);
        }
    }
    take()
}

/// From the last banks of Tower over the end of the migration to the first banks of Alpenglow: slots go backwards.
pub fn of_the_switch() -> Vec<DataPoint> {
    let last_of_tower = Phase::Migrating.processed() + 20;
    let mut points = Vec::new();
    for slot in last_of_tower - 4..=last_of_tower {
        replayed(slot, 420, false);
    }
    clock::set(last_of_tower + 5, 0);
    migration_complete(block(GENESIS_SLOT));
    points.append(&mut take());
    // The first blocks of Alpenglow are that much later than their slots tell.
    let late = clock::nanos(last_of_tower + 10 - GENESIS_SLOT);
    for slot in GENESIS_SLOT + 1..=GENESIS_SLOT + 12 {
        replayed(slot, 800, false);
    }
    for mut point in take() {
        point.timestamp += late;
        points.push(point);
    }
    points
}

/// An operator calls `set-identity`. A batch names the identity of the moment in which it is written (`solana-metrics`,
/// src/metrics.rs:143), so points from before the switch come with the new one.
pub fn of_set_identity(old: Pubkey, new: Pubkey) -> String {
    let slot = Phase::NextEpoch.processed() + 200;
    for at in slot..slot + 2 {
        replayed(at, 800, false);
    }
    let before = lines(&take(), &old);
    replayed(slot + 2, 800, false);
    clock::set(slot + 3, 0);
    set_identity(old, new);
    for at in slot + 3..slot + 6 {
        replayed(at, 800, false);
    }
    before + &lines(&take(), &new)
}
