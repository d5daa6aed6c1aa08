use super::{Datapoint, FromValue, decode};
use crate::{
    BadLine,
    line::{Field, Point, Value},
};

// The recorded datapoints, and those below that are not recorded.
crate::recorded_datapoints! { datapoints
    "bank_frozen" => BankFrozen {
        slot: u64,
    }

    /// A slot that the cluster confirmed optimistically, from gossip votes; also on nodes that do
    /// not vote.
    "optimistic_slot" => OptimisticSlot {
        slot: u64,
    }

    "shred_insert_is_full" => ShredInsertIsFull {
        slot: u64,
    }

    /// The point of the metrics agent itself: the last of every push.
    "metrics" => AgentStats {
        points_written: u64,
        points_lost: u64,
        secs_since_last_write: u64,
    }

    "validator-new" => ValidatorNew {
        version: String,
    }

    /// The identity was changed at run time. The push already has the new identity as `host_id`.
    "validator-set_identity" => SetIdentity {
        /// Since 4.2.
        old_id: String,
        /// Versions without `old_id` name it `id`.
        new_id: String = "new_id" | "id",
        version: String,
    }

    /// A background job of the accounts database began or ended. The point has one field: the
    /// number of running jobs of that kind.
    "accounts_db_active" => AccountsActive {
        /// Cleaning of old versions.
        clean: u64,
        /// Shrinking of files that are mostly dead.
        shrink: u64,
        /// Squashing of old files into one.
        squash_ancient: u64,
        /// Flushing of the write cache.
        flush: u64,
        /// Calculation of the accounts hash. Until 2.3.
        hash: u64,
    }

    "tower-vote" => TowerVote {
        latest: u64,
        root: u64,
    }

    "block-commitment-cache" => BlockCommitmentCache {
        highest_super_majority_root: u64 = "highest-super-majority-root",
        highest_confirmed_slot: u64 = "highest-confirmed-slot",
    }

    /// The event loop of Votor, every 10 s, once the migration is complete. Since 4.2.2.
    "event_handler_stats" => EventHandlerStats {
        ignored: u64,
    }

    /// A slot below the root. Times are microseconds since the slot's first event. If the slot has
    /// another event later, a second point follows, with times since that event. Since 4.2.2.
    "event_handler_slot_tracking" => SlotTracking {
        slot: u64,
        /// This validator sent its notarize vote.
        vote_notarize_us: u64 = "vote_notarize",
        vote_skip_us: u64 = "vote_skip",
        finalized_us: u64 = "finalized",
        is_fast_finalization: bool,
    }

    /// Every 10 s. Since 4.2.2.
    "consensus_pool_service" => ConsensusPoolService {
        in_standstill: bool = "in_standstill_bool",
    }

    /// A rooted bank has activated the Alpenglow feature, thousands of slots before the migration.
    /// Reported once. Since 4.2.2.
    "migration-started" => MigrationStarted {
        /// From this slot on, blocks contain only votes.
        migration_slot: u64,
    }

    /// The cluster uses Alpenglow from now on. Reported once. Since 4.2.2.
    "migration-complete" => MigrationComplete {
        genesis_slot: u64,
    }
}

impl ProgramCache {
    /// Compiled entries at the start of the last eviction pass. `None` if this report has no pass.
    pub fn loaded_entries(&self) -> Option<u64> {
        self.water_level.filter(|&level| level != 0)
    }
}

impl ReplaySlot {
    /// True if all counts are 0: this node produced the slot, because a replayed slot has at least
    /// its tick entries. The counts are read in order: one above 0 gives false, a missing one `None`.
    pub fn is_own_slot(&self) -> Option<bool> {
        Some(self.total_transactions? == 0 && self.total_entries? == 0 && self.total_shreds? == 0)
    }
}
