//! The number of series of one validator in Prometheus, which docs/DASHBOARDS.md states.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot read its scene fails"
)]

use faultline_metrics::metrics;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

const PROMISED: usize = 1900;

/// Not counted: the documented limit adds three series for each CPU of the host.
const BY_CPU: &[&str] = &["agave_host_interrupts_total", "agave_host_softirqs_total"];

/// The maximum number of pools: 150, `exited` and `other`.
const POOLS: usize = 152;

/// Series that the golden case lacks, with four disks and every reason, code and kind. `None` for
/// series that are off by default.
const NOT_ON_THE_PAGE: &[(&str, Option<usize>)] = &[
    ("agave_accounts_storages", Some(1)),
    ("agave_bank_transactions", Some(1)),
    ("agave_cgroup_io_bytes_total", Some(8)),
    ("agave_cgroup_memory_reclaim_pages_total", Some(4)),
    ("agave_healthy", Some(1)),
    ("agave_heap_bytes", Some(6)),
    ("agave_kept_up", Some(1)),
    ("agave_process_block_io_delay_seconds_total", Some(1)),
    ("agave_memory_commit_headroom_bytes", Some(1)),
    // For three cgroups.
    ("agave_memory_high_headroom_bytes", Some(3)),
    // Only an instrumented build reports these series.
    ("agave_program_cache_eviction_examined_total", None),
    ("agave_program_cache_eviction_passes_total", None),
    ("agave_program_cache_eviction_seconds_total", None),
    ("agave_program_cache_prune_seconds", None),
    ("agave_program_cache_prunes_stale_total", Some(1)),
    // Counted with the pools.
    ("agave_thread_pool_block_io_delay_seconds_total", Some(0)),
    // Off by default.
    ("agave_rpc_probe_failures_total", None),
    ("agave_rpc_probe_seconds", None),
    ("agave_poh_cpu_info", Some(1)),
    ("agave_stalled", Some(1)),
    ("agave_transactions_total", Some(1)),
    ("faultline_auth_failures_total", Some(2)),
    ("faultline_demo", None),
    ("faultline_flight_save_failures_total", Some(1)),
    // For a migration to Alpenglow.
    ("agave_alpenglow_genesis_slot", Some(1)),
    ("agave_migration_slot", Some(1)),
    // For a cluster with Alpenglow.
    ("agave_vote_lateness_seconds", Some(12)),
    ("agave_votes_missed_total", Some(3)),
    ("agave_finalization_seconds", Some(24)),
    ("agave_votes_sent_total", Some(6)),
    ("agave_consensus_votes_received_total", Some(6)),
    ("agave_consensus_out_of_range_total", Some(2)),
    ("agave_certificates_total", Some(12)),
    ("agave_certificates_dropped_total", Some(1)),
    ("agave_votor_events_total", Some(8)),
    ("agave_standstill", Some(1)),
    ("agave_leader_handovers_total", Some(2)),
    ("agave_leader_windows_missed_total", Some(1)),
    ("agave_leader_slot_delay_seconds_total", Some(2)),
    ("agave_reward_certificates_skipped_total", Some(1)),
    ("agave_bank_switches_total", Some(1)),
    ("agave_update_parents_total", Some(1)),
    // For a validator that votes.
    ("agave_vote_reward_lamports", Some(2)),
    ("agave_vote_reward_per_stake_of_best_ratio", Some(1)),
    ("agave_certificate_distance_slots", Some(2)),
    ("agave_admitted", Some(2)),
    ("agave_admission_shortfall_sol", Some(1)),
    ("agave_vote_account_info", Some(1)),
    ("agave_delinquent", Some(1)),
    ("agave_vote_slot", Some(2)),
    ("agave_vote_distance_slots", Some(2)),
    ("agave_vote_credits", Some(2)),
    ("agave_vote_credits_rank", Some(1)),
    ("agave_vote_credits_of_best_ratio", Some(1)),
    ("agave_vote_commission_ratio", Some(1)),
    ("agave_stake_sol", Some(1)),
    ("agave_balance_sol", Some(2)),
    ("agave_leader_slots", Some(3)),
    ("agave_cluster_leader_slots", Some(2)),
    ("agave_next_leader_slot_seconds", Some(1)),
    ("agave_restart_window_seconds", Some(1)),
    ("agave_restart_window_begins_seconds", Some(1)),
    ("agave_epoch", Some(1)),
    ("agave_epoch_progress_ratio", Some(1)),
    ("agave_epoch_remaining_seconds", Some(1)),
    ("agave_cluster_info", Some(1)),
    ("agave_cluster_version_stake_ratio", Some(4)),
    ("agave_cluster_feature_set_stake_ratio", Some(3)),
    // For five file systems and four interfaces, the maximum. Disks have at most 90 series: five
    // directly below the file systems, one array below them, and four members.
    ("agave_filesystem_info", Some(5)),
    ("agave_filesystem_size_bytes", Some(5)),
    ("agave_filesystem_avail_bytes", Some(5)),
    ("agave_filesystem_until_full_seconds", Some(5)),
    ("agave_filesystem_inodes", Some(5)),
    ("agave_filesystem_inodes_free", Some(5)),
    ("agave_filesystem_readonly", Some(5)),
    ("agave_filesystem_answer_age_seconds", Some(5)),
    ("agave_disk_info", Some(10)),
    ("agave_disk_operations_total", Some(18)),
    ("agave_disk_bytes_total", Some(10)),
    ("agave_disk_operation_seconds_total", Some(18)),
    ("agave_disk_io_time_seconds_total", Some(9)),
    ("agave_disk_io_time_weighted_seconds_total", Some(5)),
    ("agave_disk_utilisation_ratio", Some(9)),
    ("agave_disk_wear_ratio", Some(4)),
    ("agave_disk_array_missing_members", Some(6)),
    ("agave_udp_sockets", Some(1)),
    ("agave_udp_receive_queue_bytes", Some(2)),
    ("agave_udp_drops_total", Some(1)),
    ("agave_udp_datagrams_total", Some(2)),
    ("agave_udp_errors_total", Some(4)),
    ("agave_network_bytes_total", Some(8)),
    ("agave_network_drops_total", Some(8)),
    ("agave_cpu_frequency_hertz", Some(3)),
    ("agave_cpu_governor_info", Some(1)),
    ("agave_cpu_throttles_total", Some(2)),
    ("faultline_flight_last_save_timestamp_seconds", Some(1)),
    ("faultline_flight_saves_total", Some(5)),
    ("faultline_forward_bytes_total", None),
    ("faultline_forward_queue_bytes", None),
    ("faultline_forward_requests_total", None),
    ("faultline_ingest_bytes_total", Some(1)),
    ("faultline_ingest_connections", Some(1)),
    ("faultline_ingest_requests_total", Some(11)),
    ("faultline_marks_total", Some(17)),
    ("faultline_recorder_dropped_total", Some(1)),
    ("faultline_recorder_rows_total", Some(1)),
    ("faultline_series_dropped_total", None),
];

fn pool(line: &str) -> Option<&str> {
    line.strip_prefix("agave_thread_pool_")?
        .split_once("pool=\"")?
        .1
        .split('"')
        .next()
}

#[test]
fn the_series_limit_is_kept_with_the_maximum_number_of_pools() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/everything/expected.prom");
    let page = std::fs::read_to_string(page).expect("the page of the golden case");
    let lines: Vec<&str> = page
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .filter(|line| !BY_CPU.iter().any(|name| line.starts_with(name)))
        .collect();
    let mut of_pools: BTreeMap<&str, usize> = BTreeMap::new();
    for pool in lines.iter().filter_map(|line| pool(line)) {
        *of_pools.entry(pool).or_default() += 1;
    }
    // With kernel.task_delayacct, each pool also has its block I/O delay.
    let of_a_pool = of_pools.values().max().copied().unwrap_or_default() + 1;
    let others = lines.len() - of_pools.values().sum::<usize>();
    let names = lines
        .iter()
        .filter_map(|line| line.split(['{', ' ']).next());
    let there: BTreeSet<&str> = names.map(|name| name.trim_end_matches("_bucket")).collect();
    // Only series that the configuration allows by name.
    let allowed = ["agave_datapoint", "agave_datapoint_sum_total"];
    let absent = metrics::exported()
        .map(|metric| metric.name)
        .filter(|name| !there.contains(name) && !allowed.contains(name) && !BY_CPU.contains(name));
    let counted: BTreeMap<&str, Option<usize>> = NOT_ON_THE_PAGE.iter().copied().collect();
    let uncounted = |name| {
        panic!(
            "{name}: the page of the golden case lacks it. Renew the page (just golden). If it \
             still lacks it, add it to NOT_ON_THE_PAGE; add it to BY_CPU if each CPU has a series"
        )
    };
    let absent: usize = absent
        .map(|name| {
            counted
                .get(name)
                .unwrap_or_else(|| uncounted(name))
                .unwrap_or(0)
        })
        .sum();
    let series = others + absent + POOLS * of_a_pool;
    println!(
        "{others} of the page, {absent} that it lacks, {of_a_pool} for each pool: at most {series}"
    );
    assert_eq!(of_a_pool, 7, "the page shows what a pool costs");
    assert!(series <= PROMISED, "{series} series");
}
