use crate::metric::section;

section! {
    "Votes and leader slots",
    "From the node's own JSON-RPC: one request at a time, each at most about once a minute (`[validator]` in the configuration). Values that the node does not answer are absent: getBlockProduction and getClusterNodes need --full-rpc-api. Without a vote account, as on an RPC node, the account's votes, credits, stake and balance are absent, too. An answer is dropped after three of its intervals.";
    VOTE_ACCOUNT = Info, Flag, "agave_vote_account_info" ["identity", "role", "vote_account"]
        "The vote account, and the role of this validator: voting with the account, or standby (the node of the account is another identity)."
        from "getVoteAccounts: the account that the configuration names. Else an account of the identity: the one that --vote-account names, else a current one before a delinquent one, then the one with the newest vote";
    DELINQUENT = Gauge, Flag, "agave_delinquent" []
        "1 if the cluster counts the validator as delinquent: its last vote is 128 slots old or more, and it earns nothing. Absent if the answering node was more than 128 slots behind (or unhealthy, if its distance is not known): its answer comes from an old bank."
        from "getVoteAccounts";
    VOTE_SLOT = Gauge, Count, "agave_vote_slot" ["kind"]
        "Newest slot of the vote account: last_vote (its newest vote; with Alpenglow, its newest vote in a certificate), root (Tower only)."
        from "lastVote and rootSlot of getVoteAccounts at processed; absent before the first vote";
    VOTE_DISTANCE = Gauge, Count, "agave_vote_distance_slots" ["kind"]
        "Slots between the processed slot and the newest slot of the vote account: last_vote (a healthy validator is 1 to 3 behind), root (about 32). Ends with Tower: see agave_certificate_distance_slots. Absent like agave_delinquent while the answering node is far behind: both slots come from an old bank."
        from "getVoteAccounts and getEpochInfo at processed, asked right after each other";
    VOTE_CREDITS = Gauge, Count, "agave_vote_credits" ["in"]
        "Vote credits earned with Tower in this_epoch (so far) and in previous_epoch; in the epoch of the migration only credits from before it. Absent for an epoch without votes, and while the consensus is not known."
        from "epochCredits of getVoteAccounts, up to the marker of the migration";
    VOTE_RANK = Gauge, Count, "agave_vote_credits_rank" []
        "Place among the voting validators by the Tower credits of this epoch; 1 is the best. Ends with the epoch of the migration."
        from "getVoteAccounts of all, every five minutes";
    VOTE_CREDITS_VS_BEST = Gauge, Ratio, "agave_vote_credits_of_best_ratio" []
        "Tower credits of this epoch over those of the best validator. Ends with the epoch of the migration."
        from "getVoteAccounts of all, every five minutes";
    VOTE_REWARD = Gauge, Count, "agave_vote_reward_lamports" ["in"]
        "Lamports earned with Alpenglow, for votes and for blocks, in this_epoch (so far) and in previous_epoch; in the epoch of the migration only lamports from after it."
        from "epochCredits of getVoteAccounts, behind the marker of the migration";
    VOTE_REWARD_VS_BEST = Gauge, Ratio, "agave_vote_reward_per_stake_of_best_ratio" []
        "Lamports earned with Alpenglow in this epoch over active stake, against the best validator of at least the median stake; Alpenglow only."
        from "getVoteAccounts of all, every five minutes";
    CERTIFICATE_DISTANCE = Gauge, Count, "agave_certificate_distance_slots" ["certificate"]
        "Slots from the newest certificate of the cluster to the newest one with a vote of this validator. reward: 0 to 2 is healthy, 6 to 8 is slightly too slow and still rewarded. finalization: grows while it is too slow. Alpenglow only."
        from "the newest lastVote and rootSlot of all validators in getVoteAccounts minus those of this one, every five minutes, and every minute while its votes are late";
    COMMISSION = Gauge, Ratio, "agave_vote_commission_ratio" []
        "Share of the rewards of its stake that the validator keeps."
        from "inflationRewardsCommissionBps of getVoteAccounts; commission, in whole percent, from a node without that field";
    STAKE = Gauge, Sol, "agave_stake_sol" ["state"]
        "Stake of the vote account: active in this epoch; activating and deactivating at its end."
        from "activatedStake of getVoteAccounts; activating and deactivating only with validator.activating_stake, by getProgramAccounts of the stake program, every half hour at the tip (needs --full-rpc-api)";
    BALANCE = Gauge, Sol, "agave_balance_sol" ["account"]
        "Balance of the identity, which pays for votes with Tower, and of the vote account, which collects rewards and pays the admission ticket of each epoch with Alpenglow."
        from "getBalance at processed";
    ADMITTED = Gauge, Flag, "agave_admitted" ["in"]
        "1 if the vote account may vote and lead, 0 if not: this_epoch, epoch_after_next (it would pass the check at the beginning of the next epoch, which decides about the epoch after that). Absent on a node without a key to vote with, and while Agave 4.2.2 reports that the ticket is not active yet."
        from "validatorAdmissionTicketStatus of the admin socket, every minute, since Agave 4.2.2";
    ADMISSION_SHORTFALL = Gauge, Sol, "agave_admission_shortfall_sol" []
        "What the vote account lacks for the admission ticket that is due when the next epoch begins; 0 if it has enough. Alpenglow only; absent while the price is not known."
        from "the reason that validatorAdmissionTicketStatus gives; else the ticket (1.6 SOL at slots of 0.4 s to 0.8 SOL at 0.2 s) and rent minus the balance";
    LEADER_SLOTS = Gauge, Count, "agave_leader_slots" ["state"]
        "Leader slots of this epoch: assigned (all), passed, skipped (passed without a block of this validator)."
        from "getLeaderSchedule; getBlockProduction at confirmed (passed and skipped; needs --full-rpc-api)";
    CLUSTER_LEADER_SLOTS = Gauge, Count, "agave_cluster_leader_slots" ["state"]
        "Leader slots of all validators in this epoch: passed, skipped."
        from "getBlockProduction at confirmed (needs --full-rpc-api)";
    NEXT_LEADER_SLOT = Gauge, Seconds, "agave_next_leader_slot_seconds" []
        "Time until the next leader slot in this epoch, 0 in a leader slot; absent if none is left, or if the validator is more than 128, or an unknown number of, slots behind."
        from "getLeaderSchedule, the processed slot, the pace of the slots";
    RESTART_WINDOW = Gauge, Seconds, "agave_restart_window_seconds" []
        "Longest time ahead in this epoch without a leader slot: a restart within this time skips no leader slot. Absent if the validator is more than 128, or an unknown number of, slots behind."
        from "getLeaderSchedule, the processed slot, the pace of the slots";
    RESTART_WINDOW_BEGINS = Gauge, Seconds, "agave_restart_window_begins_seconds" []
        "Time until the window of agave_restart_window_seconds begins; 0 if it has begun. Absent like agave_restart_window_seconds."
        from "getLeaderSchedule, the processed slot, the pace of the slots";
    EPOCH = Gauge, Count, "agave_epoch" []
        "The epoch of the processed bank."
        from "getEpochInfo";
    EPOCH_PROGRESS = Gauge, Ratio, "agave_epoch_progress_ratio" []
        "Share of the slots of this epoch that have passed."
        from "getEpochInfo";
    EPOCH_REMAINING = Gauge, Seconds, "agave_epoch_remaining_seconds" []
        "Time until the epoch ends."
        from "the processed slot, the pace of the slots";
    CLUSTER = Info, Flag, "agave_cluster_info" ["cluster", "genesis_hash"]
        "The cluster: mainnet-beta, testnet or devnet by its genesis hash, else that hash."
        from "getGenesisHash, once";
    VERSION_STAKE = Gauge, Ratio, "agave_cluster_version_stake_ratio" ["version"]
        "Share of the cluster's active stake on a version that is newer than this node's, the same, older, or unknown. A prerelease is older than its release. Frankendancer is the Agave that it embeds; versions of nodes that report another client (Firedancer, Sig) are unknown, as they cannot be compared."
        from "getClusterNodes and getVoteAccounts, every ten minutes (needs --full-rpc-api)";
    FEATURE_SET_STAKE = Gauge, Ratio, "agave_cluster_feature_set_stake_ratio" ["feature_set"]
        "Share of the cluster's active stake on the same feature set as this node, on another, or unknown."
        from "getClusterNodes and getVoteAccounts, every ten minutes (needs --full-rpc-api)";
}
