//! What a replayed bank pushes.

use std::sync::atomic::{AtomicU64, Ordering};

use solana_clock::Slot;
use solana_pubkey::Pubkey;
use solana_svm_timings::{ExecuteTimingType, ExecuteTimings};

use crate::clock;
use crate::cluster::{self, MIGRATION_SLOT};
use crate::datapoint_info;
use crate::release::part;

struct Bank {
    slot: Slot,
    transactions: u64,
    own: bool,
}

impl Bank {
    fn hash(&self) -> solana_hash::Hash {
        cluster::hash(&format!("bank{}", self.slot))
    }
}

/// What one replayed bank reports. A block of Alpenglow has no votes among its transactions.
pub fn replayed(slot: Slot, transactions: u64, own: bool) {
    let bank = Bank {
        slot,
        transactions,
        own,
    };
    if num_bank_switches(slot) > 0 {
        clock::set(slot, 10_000);
        switch(slot);
    }
    clock::set(slot, 20_000);
    program_cache(slot - 1, transactions);
    clock::set(slot, 95_000);
    let bank_slot = bank.slot;
    part!("bank_frozen");
    replay_slot(&bank);
    let stats = CostTrackerStats {
        block_cost: transactions * 21_000,
        transaction_count: transactions,
        number_of_accounts: 1_200,
        costliest_account: cluster::key("market"),
        costliest_account_cost: transactions * 2_000,
        allocated_accounts_data_size: 10_240,
        in_flight_transaction_count: 0,
        number_of_contended_accounts: 7,
    };
    cost_tracker::report_cost_tracker_stats(
        &stats,
        slot,
        own,
        transactions * 5_000,
        transactions * 700,
    );
    if slot.is_multiple_of(5) {
        accounts_store(transactions);
    }
}

/// The blocks of some slots took the place of others.
fn num_bank_switches(slot: Slot) -> u64 {
    u64::from(slot.is_multiple_of(25) && slot > MIGRATION_SLOT)
}

/// `solana-ledger`'s.
struct SwitchBankMetrics {
    total_elapsed_us: u64,
    lock_elapsed_us: u64,
    backup_elapsed_us: u64,
    purge_elapsed_us: u64,
    copy_elapsed_us: u64,
}

fn switch(slot: Slot) {
    let from_location = format!("Alternate({})", cluster::hash(&format!("block{slot}")));
    let metrics = SwitchBankMetrics {
        total_elapsed_us: 5_300,
        lock_elapsed_us: 40,
        backup_elapsed_us: 2_100,
        purge_elapsed_us: 900,
        copy_elapsed_us: 2_260,
    };
    part!("blockstore_switch_bank");
}

fn program_cache(slot: Slot, transactions: u64) {
    let (hits, misses, evictions, reloads, insertions) = (transactions * 3, 4, 2_u64, 1, 3);
    let (lost_insertions, replacements, one_hit_wonders) = (0, 0, 1);
    let (prunes_stale, prunes_orphan, prunes_environment, empty_entries) = (0, 1, 0, 0);
    let water_level = 921;
    part!("loaded-programs-cache-stats");
}

#[derive(Default)]
struct Batches {
    totals: ExecuteTimings,
}

/// `solana-ledger`'s, without what is not reported.
struct ReplaySlotStats {
    fetch_elapsed: u64,
    fetch_fail_elapsed: u64,
    poh_verify_elapsed: u64,
    transaction_verify_elapsed: u64,
    confirmation_elapsed: u64,
    replay_elapsed: u64,
    num_bank_switches: u64,
    started: clock::Instant,
    batch_execute: Batches,
}

fn replay_slot(bank: &Bank) {
    use solana_svm_timings::report_execute_timings;
    use std::ops::Index;

    let slot = bank.slot;
    clock::set(slot, 0);
    let mut timing = ReplaySlotStats {
        fetch_elapsed: 700,
        fetch_fail_elapsed: 0,
        poh_verify_elapsed: 900,
        transaction_verify_elapsed: 1_100,
        confirmation_elapsed: 8_000,
        replay_elapsed: 2_500,
        num_bank_switches: num_bank_switches(slot),
        started: clock::Instant::now(),
        batch_execute: Batches::default(),
    };
    let totals = &mut timing.batch_execute.totals;
    totals.metrics[ExecuteTimingType::LoadUs] += bank.transactions * 4;
    totals.metrics[ExecuteTimingType::ExecuteUs] += bank.transactions * 30;
    totals.metrics[ExecuteTimingType::StoreUs] += bank.transactions * 6;
    totals.metrics[ExecuteTimingType::ProgramCacheUs] += 2_000;
    totals.metrics[ExecuteTimingType::FilterExecutableUs] += bank.transactions;
    totals.details.create_executor_jit_compile_us += 1_500;
    totals.details.create_executor_verify_code_us += 300;
    totals.details.create_executor_load_elf_us += 90;
    totals.details.create_executor_register_syscalls_us += 10;
    if bank.own {
        timing.batch_execute.totals = ExecuteTimings::default();
    }
    let counted = u64::from(!bank.own);
    let (num_txs, num_entries, num_shreds) =
        (counted * bank.transactions, counted * 64, counted * 320);
    let (bank_complete_time_us, is_unified_scheduler_enabled) = (1_700, true);
    let confirmation_elapsed = "confirmation_without_replay_us";
    let replay_elapsed = "task_submission_us";
    let execute_batches_us: Option<i64> = None;
    clock::set(slot, 95_000);
    part!("replay-slot-stats");
}

pub struct CostTrackerStats {
    pub block_cost: u64,
    pub transaction_count: u64,
    pub number_of_accounts: usize,
    pub costliest_account: Pubkey,
    pub costliest_account_cost: u64,
    pub allocated_accounts_data_size: u64,
    pub in_flight_transaction_count: usize,
    pub number_of_contended_accounts: usize,
}

mod cost_tracker {
    use super::CostTrackerStats;
    use crate::datapoint_info;
    use crate::release::items;
    use solana_clock::Slot;
    items!("cost_tracker_stats");
}

#[derive(Default)]
struct AccountsStats {
    stakes_cache_check_and_store_us: AtomicU64,
    handle_dead_keys_us: AtomicU64,
    purge_exact_us: AtomicU64,
    purge_exact_count: AtomicU64,
}

struct ReadCache;

impl ReadCache {
    fn cache_len(&self) -> usize {
        2_400_000
    }

    fn data_size(&self) -> usize {
        2_900_000_000
    }
}

struct Accounts {
    stats: AccountsStats,
    read_only_accounts_cache: ReadCache,
}

struct ReadCacheStats {
    hits: u64,
    misses: u64,
    evicts: u64,
    load_ns: u64,
    store_ns: u64,
    evict_us: u64,
    evict_run_count: u64,
}

fn accounts_store(transactions: u64) {
    let accounts = Accounts {
        stats: AccountsStats::default(),
        read_only_accounts_cache: ReadCache,
    };
    let read_cache_stats = ReadCacheStats {
        hits: transactions * 20,
        misses: transactions,
        evicts: transactions / 2,
        load_ns: transactions * 2_500,
        store_ns: transactions * 900,
        evict_us: 350,
        evict_run_count: 1,
    };
    part!("accounts_db_store_timings");
}
