//! What a validator is paid for: votes and leader slots; and the cluster around it.

use crate::metric::section;

/// About what votes cost in a day: one in each slot of 0.4 s, at 5,000 lamports for its one signature.
pub const VOTES_SOL_PER_DAY: f64 = 86_400.0 / 0.4 * 5_000e-9;

section! {
    "Votes and leader slots", "From the node's own JSON-RPC, asked one question at a time, once a minute and less often (`[validator]` in the configuration). What the node does not answer is absent: getBlockProduction and getClusterNodes need --full-rpc-api. Without a vote account, as on an RPC node, all of the vote account (votes, credits, stake, its balance) is absent, too. An answer lives for three of its intervals.";
    VOTE_ACCOUNT = Info, Flag, "agave_vote_account_info" ["identity", "role", "vote_account"] "The vote account, and whether this validator is voting with it, or on standby: then it runs another identity than the account's node.", from "getVoteAccounts: the account of the identity with the largest stake, unless the configuration names one";
    DELINQUENT = Gauge, Flag, "agave_delinquent" [] "1 if the cluster counts the validator as delinquent: its last vote is more than 128 slots old, and it earns nothing.", from "getVoteAccounts";
    VOTE_SLOT = Gauge, Count, "agave_vote_slot" ["kind"] "Newest slot of the vote account: last_vote (voted for), root (final for it).", from "lastVote and rootSlot of getVoteAccounts at processed; absent before the first vote";
    VOTE_DISTANCE = Gauge, Count, "agave_vote_distance_slots" ["kind"] "Slots between the processed slot and the newest slot of the vote account: last_vote (a healthy validator is 1 to 3 behind), root (about 32).", from "getVoteAccounts and getEpochInfo at processed, asked right after each other";
    VOTE_CREDITS = Gauge, Count, "agave_vote_credits" ["in"] "Vote credits earned in this_epoch (so far) and in previous_epoch; absent for an epoch in which it did not vote.", from "epochCredits of getVoteAccounts";
    VOTE_RANK = Gauge, Count, "agave_vote_credits_rank" [] "Place among all validators with stake by the credits of this epoch; 1 is the best.", from "getVoteAccounts of all, every five minutes";
    VOTE_SHARE = Gauge, Ratio, "agave_vote_credits_of_best_ratio" [] "Credits of this epoch over those of the best validator.", from "getVoteAccounts of all, every five minutes";
    COMMISSION = Gauge, Ratio, "agave_vote_commission_ratio" [] "Share of the rewards of its stake that the validator keeps.", from "commission of getVoteAccounts";
    STAKE = Gauge, Sol, "agave_stake_sol" ["state"] "Stake of the vote account: active in this epoch; activating and deactivating with its end.", from "activatedStake of getVoteAccounts; activating and deactivating only with validator.activating_stake, by getProgramAccounts of the stake program, every half hour at the tip (needs --full-rpc-api)";
    BALANCE = Gauge, Sol, "agave_balance_sol" ["account"] "Balance of the identity, which pays for votes, and of the vote account, which collects rewards.", from "getBalance at processed";
    ADMITTED = Gauge, Flag, "agave_admitted" ["epoch"] "1 if the vote account may vote and lead, 0 if not: this (the present epoch), next (it would pass the check at the beginning of the next epoch, which decides about the epoch after that). Absent on a node without a key to vote with.", from "validatorAdmissionTicketStatus of the admin socket, every minute, since Agave 4.2.2";
    LEADER_SLOTS = Gauge, Count, "agave_leader_slots" ["state"] "Leader slots of this epoch: assigned (all), passed, skipped (passed without a block of this validator).", from "getLeaderSchedule; getBlockProduction at confirmed (passed and skipped; needs --full-rpc-api)";
    CLUSTER_LEADER_SLOTS = Gauge, Count, "agave_cluster_leader_slots" ["state"] "Leader slots of all validators in this epoch: passed, skipped.", from "getBlockProduction at confirmed (needs --full-rpc-api)";
    NEXT_LEADER_SLOT = Gauge, Seconds, "agave_next_leader_slot_seconds" [] "Time until the next leader slot in this epoch, 0 in a leader slot; absent if there is none left, and while the validator is more than 128 slots behind.", from "getLeaderSchedule, the processed slot, and the pace of the slots since the question before";
    RESTART_WINDOW = Gauge, Seconds, "agave_restart_window_seconds" [] "Longest time ahead in this epoch without a leader slot: a restart that fits into it skips none. Absent while the validator is more than 128 slots behind.", from "getLeaderSchedule, the processed slot, the pace of the slots";
    RESTART_WINDOW_BEGINS = Gauge, Seconds, "agave_restart_window_begins_seconds" [] "Time until that window begins; 0 if it has begun. Absent while the validator is more than 128 slots behind.", from "getLeaderSchedule, the processed slot, the pace of the slots";
    EPOCH = Gauge, Count, "agave_epoch" [] "The epoch of the processed bank.", from "getEpochInfo";
    EPOCH_PROGRESS = Gauge, Ratio, "agave_epoch_progress_ratio" [] "Share of the slots of this epoch that have passed.", from "getEpochInfo";
    EPOCH_REMAINING = Gauge, Seconds, "agave_epoch_remaining_seconds" [] "Time until the epoch ends.", from "getEpochInfo, the pace of the slots";
    CLUSTER = Info, Flag, "agave_cluster_info" ["cluster", "genesis_hash"] "The cluster: mainnet-beta, testnet or devnet by its genesis hash, else that hash.", from "getGenesisHash, once";
    VERSION_STAKE = Gauge, Ratio, "agave_cluster_version_stake_ratio" ["version"] "Share of the cluster's active stake on a version that is newer than this node's, the same, older, or unknown.", from "getClusterNodes and getVoteAccounts, every ten minutes (needs --full-rpc-api)";
    FEATURE_SET_STAKE = Gauge, Ratio, "agave_cluster_feature_set_stake_ratio" ["feature_set"] "Share of the cluster's active stake on the same feature set as this node, on another, or unknown.", from "getClusterNodes and getVoteAccounts, every ten minutes (needs --full-rpc-api)";
}
