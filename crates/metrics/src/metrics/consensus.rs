use crate::{SLOT_DELAY_BOUNDS, metric::section};

section! {
    "Consensus",
    "What Votor, the consensus of Alpenglow, reports in the validator's own datapoints: sums about every 10 s, a point for each slot once the root has passed it, a point for each led slot. With Tower, most are absent.";
    VOTE_LATENESS = Histogram(&SLOT_DELAY_BOUNDS), Seconds, "agave_vote_lateness_seconds" []
        "How long after the finalization of a slot this validator sent its notarize vote; 0 if it voted first. Only slots with both."
        from "vote_notarize minus finalized of event_handler_slot_tracking";
    VOTES_MISSED = Counter, Count, "agave_votes_missed_total" ["reason"]
        "Finalized slots in which this validator's notarize vote did not help: late (sent after the finalization), skipped (it voted to skip), none (it sent neither). Without any votes, all slots are in none."
        from "finalized, vote_notarize, vote_skip of event_handler_slot_tracking";
    FINALIZATION = Histogram(&SLOT_DELAY_BOUNDS), Seconds, "agave_finalization_seconds" ["path"]
        "Time from the first event of a slot that this validator saw to its finalization: fast (one round of votes), slow (two). In the first slot of a leader window the first event is a shred or the parent. In the other slots it is this validator's vote, or the finalization itself (0)."
        from "finalized and is_fast_finalization of event_handler_slot_tracking";
    VOTES_SENT = Counter, Count, "agave_votes_sent_total" ["kind"]
        "Votes that this validator sent. Copies that are sent again are not counted, and a report counts at most 65,535 of a kind."
        from "count of event_handler_sent_vote_count, summed; 0 from the first event_handler_stats on"
        of "event_handler_sent_vote_count" {
            "count" where "vote" = "Notarize" as "notarize",
            "count" where "vote" = "Finalize" as "finalize",
            "count" where "vote" = "Skip" as "skip",
            "count" where "vote" = "NotarizeFallback" as "notarize_fallback",
            "count" where "vote" = "SkipFallback" as "skip_fallback",
            "count" where "vote" = "Genesis" as "genesis"
        }
        of "event_handler_stats" {
            points 0 as "notarize",
            points 0 as "finalize",
            points 0 as "skip",
            points 0 as "notarize_fallback",
            points 0 as "skip_fallback",
            points 0 as "genesis"
        };
    VOTES_RECEIVED = Counter, Count, "agave_consensus_votes_received_total" ["kind"]
        "Votes that were new to this validator's pool of votes, its own included. An aggregate of several validators' votes counts as one."
        from "consensus_pool_ingested_votes, summed"
        of "consensus_pool_ingested_votes" {
            "notarize" as "notarize",
            "finalize" as "finalize",
            "skip" as "skip",
            "notar_fallback" as "notarize_fallback",
            "skip_fallback" as "skip_fallback",
            "genesis" as "genesis"
        };
    OUT_OF_RANGE = Counter, Count, "agave_consensus_out_of_range_total" ["message"]
        "Votes and certificates that came for slots below this validator's root. They are ignored."
        from "out_of_range_votes, out_of_range_certs of consensus_pool, summed"
        of "consensus_pool" {
            "out_of_range_votes" as "vote",
            "out_of_range_certs" as "certificate"
        };
    CERTIFICATES = Counter, Count, "agave_certificates_total" ["kind", "from"]
        "Certificates by kind. from is built (by this validator, from votes) or received."
        from "consensus_pool_generated_certs, consensus_pool_ingested_certs, summed"
        of "consensus_pool_generated_certs" {
            "finalize" as "finalize" "built",
            "finalize_fast" as "finalize_fast" "built",
            "notarize" as "notarize" "built",
            "notarize_fallback" as "notarize_fallback" "built",
            "skip" as "skip" "built",
            "genesis" as "genesis" "built"
        }
        of "consensus_pool_ingested_certs" {
            "finalize" as "finalize" "received",
            "finalize_fast" as "finalize_fast" "received",
            "notarize" as "notarize" "received",
            "notarize_fallback" as "notarize_fallback" "received",
            "skip" as "skip" "received",
            "genesis" as "genesis" "received"
        };
    CERTIFICATES_DROPPED = Counter, Count, "agave_certificates_dropped_total" []
        "Certificates that this validator could not send because a queue was full."
        from "certificates_dropped of consensus_pool_service, summed"
        of "consensus_pool_service" { "certificates_dropped" };
    EVENTS = Counter, Count, "agave_votor_events_total" ["event"]
        "Events that Votor handled. The timers timeout (a slot) and timeout_crashed_leader (a leader window) also run out when all is well. safe_to_skip and safe_to_notar (fallback votes are due) and standstill are unusual."
        from "count of event_handler_received_event_count_and_timing, summed; 0 from the first event_handler_stats on"
        of "event_handler_received_event_count_and_timing" {
            "count" where "event" = "Timeout" as "timeout",
            "count" where "event" = "TimeoutCrashedLeader" as "timeout_crashed_leader",
            "count" where "event" = "SafeToNotar" as "safe_to_notar",
            "count" where "event" = "SafeToSkip" as "safe_to_skip",
            "count" where "event" = "Standstill" as "standstill",
            "count" where "event" = "ProduceWindow" as "produce_window",
            "count" where "event" = "Finalized" as "finalized",
            "count" where "event" = "BlockNotarized" as "block_notarized"
        }
        of "event_handler_stats" {
            points 0 as "timeout",
            points 0 as "timeout_crashed_leader",
            points 0 as "safe_to_notar",
            points 0 as "safe_to_skip",
            points 0 as "standstill",
            points 0 as "produce_window",
            points 0 as "finalized",
            points 0 as "block_notarized"
        };
    STANDSTILL = Gauge, Flag, "agave_standstill" []
        "1 if at the last report this validator was sending its certificates again, because no slot had been finalized for long. Absent until the migration has ended: until then, Agave reports a standstill without cause."
        from "in_standstill_bool of consensus_pool_service, after the first event_handler_stats";
    LEADER_HANDOVERS = Counter, Count, "agave_leader_handovers_total" ["kind"]
        "Led slots that began before the parent was ready: fast (each of them), sad (the parent changed later, so the block began again)."
        from "leader_handover_fast, leader_handover_sad of slot-metrics, summed"
        of "slot-metrics" { "leader_handover_fast" as "fast", "leader_handover_sad" as "sad" };
    LEADER_WINDOWS_MISSED = Counter, Count, "agave_leader_windows_missed_total" []
        "Leader windows that were over when their parent became ready: no block was made."
        from "parent_ready_missed_window of consensus_pool_service, summed"
        of "consensus_pool_service" { "parent_ready_missed_window" };
    LEADER_DELAY = Counter, Seconds, "agave_leader_slot_delay_seconds_total" ["reason"]
        "Time that led slots waited before they began: slot (all reasons, only slots that began), replay (replay of the parent was behind, or had replayed another block). Since Agave 4.4."
        from "slot_delay_us, replay_is_behind_us of slot-metrics, summed"
        of "slot-metrics" { us "slot_delay_us" as "slot", us "replay_is_behind_us" as "replay" };
    REWARD_CERTIFICATES_SKIPPED = Counter, Count, "agave_reward_certificates_skipped_total" []
        "Led blocks without a certificate that rewards the votes of 8 slots earlier, because the certificate was not built in time. Since Agave 4.4."
        from "reward_certs_skipped of slot-metrics, summed"
        of "slot-metrics" { "reward_certs_skipped" };
    BANK_SWITCHES = Counter, Count, "agave_bank_switches_total" []
        "Blocks that took the place of another block of their slot, because the cluster built on them. Such a slot and the slots after it are replayed again. Metrics of replay count them again; agave_block_transactions_total counts only added transactions."
        from "points of blockstore_switch_bank; 0 once replay-slot-stats has num_bank_switches"
        of "blockstore_switch_bank" { points 1 }
        of "replay-slot-stats" { zero "num_bank_switches" };
    UPDATE_PARENTS = Counter, Count, "agave_update_parents_total" []
        "Blocks whose leader changed the parent after the block had begun. The bank is discarded, and the block is replayed on the new parent. Absent until the first."
        from "points of replay-stage-update-parent"
        of "replay-stage-update-parent" { points 1 };
}
