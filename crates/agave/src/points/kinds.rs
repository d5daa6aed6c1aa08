//! The known datapoints, one table each.

use super::fields::{Datapoint, FieldValue, FromField, datapoints};

crate::recorded_datapoints!(datapoints);

impl ProgramCache {
    /// Compiled entries when the last eviction pass began. `None` if this report saw no pass.
    pub fn loaded_entries(&self) -> Option<u64> {
        self.water_level.filter(|&level| level != 0)
    }
}

impl ReplaySlot {
    /// Whether this node produced the slot itself: then nothing was replayed and every time but the total is 0. A
    /// replayed slot has at least its tick entries. `None` if the point does not tell.
    pub fn is_own_slot(&self) -> Option<bool> {
        Some(self.total_transactions? == 0 && self.total_entries? == 0 && self.total_shreds? == 0)
    }
}

datapoints! {
    BankFrozen {
        /// Its slot.
        slot: u64 = "slot",
    }

    /// A slot the cluster confirmed optimistically, as heard from gossip votes, also on nodes that do not vote.
    OptimisticSlot {
        /// The slot.
        slot: u64 = "slot",
    }

    /// A slot whose shreds are all here.
    ShredInsertIsFull {
        /// The slot.
        slot: u64 = "slot",
        /// From the first shred to the last, in ms.
        total_time_ms: u64 = "total_time_ms",
        /// Shreds that repair brought.
        num_repaired: u64 = "num_repaired",
        /// Shreds that erasure coding recovered.
        num_recovered: u64 = "num_recovered",
    }

    /// The metrics agent about the push this point ends.
    AgentStats {
        /// Points in the push.
        points_written: u64 = "points_written",
        num_points: u64 = "num_points",
        /// Points dropped for exceeding the agent's rate limit.
        points_lost: u64 = "points_lost",
        /// Points waiting when the push was cut.
        points_buffered: u64 = "points_buffered",
        /// Whole seconds since the previous push.
        secs_since_last_write: u64 = "secs_since_last_write",
    }

    /// Start-up is complete.
    ValidatorNew {
        /// The identity's public key.
        id: String = "id",
        /// For [`Version::parse`](crate::version::Version::parse).
        version: String = "version",
        /// Agave's number of the cluster type: 0 testnet, 1 mainnet-beta, 2 devnet, 3 development.
        cluster_type: u64 = "cluster_type",
        /// How long the start took.
        elapsed_ms: u64 = "elapsed_ms",
        /// Whether it waited for a cluster restart.
        waited_for_supermajority: bool = "waited_for_supermajority",
        /// The cluster's shred version.
        shred_version: u64 = "shred_version",
    }

    /// The identity was set while the validator ran. Pushed under the new one.
    SetIdentity {
        /// The public key before. 4.2 tells it.
        old_id: String = "old_id",
        /// The public key now. Nodes that do not tell the old one call it `id`.
        new_id: String = "new_id" | "id",
        /// For [`Version::parse`](crate::version::Version::parse).
        version: String = "version",
    }

    /// A background job of the accounts database began or ended: how many of its kind run now. One field a point.
    AccountsActive {
        /// Cleaning of old versions.
        clean: u64 = "clean",
        /// Shrinking of files that are mostly dead.
        shrink: u64 = "shrink",
        /// Squashing of old files into one.
        squash_ancient: u64 = "squash_ancient",
        /// Flushing of the write cache.
        flush: u64 = "flush",
        /// Calculation of the accounts hash. Until 2.3.
        hash: u64 = "hash",
    }

    /// A vote of this node.
    TowerVote {
        /// The slot voted for.
        latest: u64 = "latest",
        root: u64 = "root",
    }

    /// What the cluster has committed, as this node sees it.
    BlockCommitmentCache {
        highest_super_majority_root: u64 = "highest-super-majority-root",
        highest_confirmed_slot: u64 = "highest-confirmed-slot",
    }

    /// The event loop of Alpenglow's voting, every 10 s. It waits for the end of the migration. Since 4.2.2.
    EventHandlerStats {
        /// Events that were ignored.
        ignored: u64 = "ignored",
    }

    /// A root has activated the feature of Alpenglow, some thousand slots before the migration. Once, live. Since 4.2.2.
    MigrationStarted {
        /// From this slot on blocks hold only votes.
        migration_slot: u64 = "migration_slot",
    }

    /// Alpenglow runs. Once, live. Since 4.2.2.
    MigrationComplete {
        /// The last slot before Alpenglow.
        genesis_slot: u64 = "genesis_slot",
    }
}
