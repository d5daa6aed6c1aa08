//! What `build` takes from the source files, each with what stands in for the crates around it.

#![allow(dead_code)]

include!(concat!(env!("OUT_DIR"), "/origins.rs"));

/// Where the release has what is taken under this name.
pub fn origin(name: &str) -> String {
    let (_, origin) = ORIGINS
        .iter()
        .find(|(of, _)| *of == name)
        .unwrap_or_else(|| panic!("{name} is not taken from a source file"));
    (*origin).to_owned()
}

macro_rules! part {
    ($name:literal) => {
        include!(concat!(env!("OUT_DIR"), "/", $name, ".rs"))
    };
}
macro_rules! items {
    ($name:literal) => {
        include!(concat!(env!("OUT_DIR"), "/", $name, ".rs"));
    };
}
pub(crate) use {items, part};

/// `agave-votor`'s event, without what its statistics do not read.
pub mod event {
    use agave_votor_messages::consensus_message::Block;
    use solana_clock::Slot;

    #[derive(Debug, Clone)]
    pub enum VotorEvent {
        Block(()),
        BlockNotarized(Block),
        BlockNotarFallback(Block),
        FirstShred(Slot),
        ParentReady { slot: Slot, parent_block: Block },
        TimeoutCrashedLeader(Slot),
        Timeout(Slot),
        SafeToNotar(Block),
        SafeToSkip(Slot),
        ProduceWindow(()),
        Finalized(Block, bool),
        Standstill(Slot),
        SetIdentity,
    }
}

pub mod voting_service {
    use agave_votor_messages::vote::Vote;

    #[derive(Debug)]
    pub struct PushedVote {
        pub vote: Vote,
    }

    #[derive(Debug)]
    pub enum BLSOp {
        PushVote { vote: PushedVote },
        RefreshVotes { votes: Vec<PushedVote> },
        PushCertificates,
    }
}

/// `agave-votor`'s statistics, whole.
pub mod votor {
    pub mod event_handler {
        mod stats {
            super::super::super::items!("event_handler");
        }
        pub(crate) use stats::EventHandlerStats;
    }

    pub mod consensus_pool {
        mod stats {
            super::super::super::items!("consensus_pool");
        }
        use agave_votor_messages::certificate::CertificateType;
        use agave_votor_messages::vote::Vote;

        /// One report: received votes and certificates, and certificates that were built.
        pub fn report(
            votes: &[(Vote, usize)],
            received: &[(CertificateType, usize)],
            built: &[(CertificateType, usize)],
        ) {
            let mut stats = stats::ConsensusPoolStats::default();
            for (vote, count) in votes {
                (0..*count).for_each(|_| stats.incr_ingested_vote(vote));
                stats.incoming_votes += u32::try_from(*count).expect("a few");
            }
            for (certificate, count) in received {
                (0..*count).for_each(|_| stats.incr_ingested_cert(certificate));
                stats.incoming_certs += u32::try_from(*count).expect("a few");
            }
            for (certificate, count) in built {
                (0..*count).for_each(|_| stats.incr_generated_cert(certificate));
            }
            stats.exist_votes = 3;
            stats.out_of_range_votes = 1;
            stats.do_report();
        }
    }

    pub mod consensus_pool_service {
        mod stats {
            super::super::super::items!("consensus_pool_service");
        }
        use std::num::Saturating;

        pub struct Report {
            pub finalized: usize,
            pub missed_windows: usize,
            pub produced_windows: usize,
            pub standstill: bool,
        }

        pub fn report(of: &Report) {
            let mut stats = stats::ConsensusPoolServiceStats::new();
            stats.new_finalized_slot = Saturating(of.finalized);
            stats.parent_ready_missed_window = Saturating(of.missed_windows);
            stats.parent_ready_produce_window = Saturating(of.produced_windows);
            stats.standstill = of.standstill;
            stats.vote_aggregates_received = Saturating(41);
            stats.certificates_dropped = Saturating(2);
            stats.do_report();
        }
    }
}

pub mod block_creation_loop {
    pub struct VoteAccountUpdateStats {
        pub update_us: u64,
        pub vote_accounts_updated: usize,
    }

    mod stats {
        use super::VoteAccountUpdateStats;
        use crate::datapoint_info;
        use solana_clock::Slot;
        super::super::items!("slot-metrics");
    }

    /// How the leader took over from the one before.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub enum Handover {
        Slow,
        Fast,
        /// Fast, to a parent that was then another.
        Sad,
    }

    pub fn report(slot: u64, handover: Handover, delay_us: u64) {
        let mut metrics = stats::SlotMetrics::new(slot, handover != Handover::Slow);
        metrics.attempt_start_leader_count = 1;
        metrics.leader_handover_sad = handover == Handover::Sad;
        metrics.slot_delay_us = delay_us;
        metrics.replay_is_behind_us = delay_us / 4;
        metrics.vote_accounts_update_stats =
            (handover == Handover::Slow).then_some(VoteAccountUpdateStats {
                update_us: 812,
                vote_accounts_updated: 9,
            });
        metrics.report();
    }
}

/// Rewards of votes, from `solana-runtime`.
pub mod rewards {
    use std::num::NonZero;

    use agave_votor_messages::migration::AG_MIGRATION_EPOCH_CREDIT;
    use inflation::EpochInflationState;
    use solana_clock::Epoch;

    use crate::cluster::{self, EPOCH};

    /// `solana-vote-interface`'s.
    const MAX_EPOCH_CREDITS_HISTORY: usize = 64;
    /// 4 % a year of 600 million SOL.
    const LAMPORTS_A_DAY: u64 = 65_753_424_657_534;

    mod inflation {
        use serde::{Deserialize, Serialize};
        use solana_clock::Epoch;
        use wincode::{SchemaRead, SchemaWrite};
        super::super::items!("inflation");
    }

    super::items!("rewards");

    /// What one slot with all votes pays: to this voter, and for this voter to the leader.
    pub fn of_slot(epoch: Epoch, total_stake: u64, stake: u64) -> (u64, u64) {
        let state = EpochInflationState {
            max_possible_validator_reward: LAMPORTS_A_DAY,
            slots_per_epoch: cluster::SLOTS_IN_EPOCH,
            epoch,
        };
        calculate_reward(&state, total_stake, stake)
    }

    pub fn pay(credits: &mut Vec<(Epoch, u64, u64)>, epoch: Epoch, lamports: u64) {
        if let Some(lamports) = NonZero::new(lamports) {
            increment_credits(credits, EPOCH, epoch, lamports);
        }
    }
}

/// The admin socket of `agave-validator`.
pub mod admin {
    use serde::{Deserialize, Serialize};
    use solana_clock::Epoch;
    use solana_pubkey::Pubkey;
    use thiserror::Error;
    super::items!("admin");
}
