//! The program cache of Agave 4.4.0 beside its simulation, and with `since-4-5` that of 4.5.

#[path = "../../driver.rs"]
mod driver;

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use driver::{Counts, Real};
use faultline_cache_sim::trace::ChangeKind;
use solana_program_runtime::loaded_programs::{
    BlockRelation, ForkGraph, MAX_LOADED_ENTRY_COUNT, ProgramCache, ProgramCacheForTxBatch,
    ProgramRuntimeEnvironment, ProgramToLoad,
};
use solana_program_runtime::program_cache_entry::{
    ProgramCacheEntry, ProgramCacheEntryOwner, ProgramCacheEntryType,
};
use solana_program_runtime::program_metrics::ProgramStatistics;
use solana_program_runtime::solana_sbpf::elf::Executable;
use solana_program_runtime::solana_sbpf::program::{BuiltinProgram, FunctionRegistry, SBPFVersion};
use solana_pubkey::Pubkey;

/// This one and the one before.
#[cfg(not(feature = "since-4-5"))]
const RELEASES: [&str; 2] = ["4.4.0", "4.3.0"];
#[cfg(feature = "since-4-5")]
const RELEASES: [&str; 2] = ["4.5.0-alpha.4", "4.4.0"];

/// `exit`. What a program does is of no interest to the cache.
const CODE: [u8; 8] = [0x95, 0, 0, 0, 0, 0, 0, 0];

/// All slots are on one fork.
struct OneFork;

impl ForkGraph for OneFork {
    fn relationship(&self, a: u64, b: u64) -> BlockRelation {
        match a.cmp(&b) {
            std::cmp::Ordering::Less => BlockRelation::Ancestor,
            std::cmp::Ordering::Equal => BlockRelation::Equal,
            std::cmp::Ordering::Greater => BlockRelation::Descendant,
        }
    }
}

/// What its accounts say of a program.
struct Account {
    key: Pubkey,
    compile_us: u64,
    has_code: bool,
    deployment_slot: u64,
}

fn key(program: u32) -> Pubkey {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&program.to_le_bytes());
    Pubkey::new_from_array(bytes)
}

fn number(key: &Pubkey) -> u32 {
    let bytes = key.to_bytes();
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

struct Cache {
    cache: ProgramCache<OneFork>,
    environment: ProgramRuntimeEnvironment,
    _forks: Arc<RwLock<OneFork>>,
    fill: u8,
    accounts: Vec<Account>,
}

impl Cache {
    fn loaded(&self, program: u32, deployment_slot: u64) -> ProgramCacheEntry {
        let environment = Arc::clone(&*self.environment);
        let code = Executable::new_from_text_bytes(
            &CODE,
            environment,
            SBPFVersion::V0,
            FunctionRegistry::default(),
        );
        let stats = ProgramStatistics::default();
        stats.jit_compiled(self.accounts[program as usize].compile_us);
        ProgramCacheEntry {
            program: ProgramCacheEntryType::Loaded(code.expect("code")),
            account_owner: ProgramCacheEntryOwner::LoaderV3,
            deployment_slot,
            stats: stats.into(),
            latest_access_slot: AtomicU64::new(0),
        }
    }

    fn closed(slot: u64) -> ProgramCacheEntry {
        ProgramCacheEntry::new_closed_tombstone(slot, ProgramCacheEntryOwner::LoaderV3)
    }

    /// As `load_program_with_pubkey` does.
    fn load(&self, slot: u64, program: u32) -> ProgramCacheEntry {
        let account = &self.accounts[program as usize];
        let entry = self.loaded(program, account.deployment_slot);
        entry.update_access_slot(if cfg!(feature = "since-4-5") {
            slot.min(self.cache.latest_root_slot)
        } else {
            slot
        });
        entry
    }

    /// As `filter_executable_program_accounts` and `replenish_program_cache` do.
    fn look_up(&mut self, slot: u64, programs: &[u32]) -> ProgramCacheForTxBatch {
        let wanted = |program: &u32| ProgramToLoad {
            program_id: &self.accounts[*program as usize].key,
            loader: ProgramCacheEntryOwner::LoaderV3,
            deployment_slot: self.accounts[*program as usize].deployment_slot,
        };
        let has_code = |program: &&u32| self.accounts[**program as usize].has_code;
        let mut missing: Vec<_> = programs.iter().filter(has_code).map(wanted).collect();
        let mut batch = ProgramCacheForTxBatch::new(slot);
        let mut is_first = true;
        while let Some(key) =
            self.cache
                .extract(&mut missing, &mut batch, &self.environment, true, is_first)
        {
            is_first = false;
            let entry = Arc::new(self.load(slot, number(&key)));
            batch.loaded_missing = true;
            self.cache
                .finish_cooperative_loading_task(&self.environment, slot, key, entry);
        }
        assert!(missing.is_empty());
        batch
    }

    /// As the loader does.
    fn change(&mut self, batch: &mut ProgramCacheForTxBatch, program: u32, kind: ChangeKind) {
        let (slot, key) = (batch.slot(), key(program));
        let entry = match kind {
            ChangeKind::Deployed => {
                let environment = self.environment.clone();
                let entry = ProgramCacheEntry::new_unloaded(
                    slot,
                    ProgramCacheEntryOwner::LoaderV3,
                    environment,
                );
                if let Some(old) = batch.find(&key) {
                    entry.stats.merge_from(&old.stats);
                }
                entry
            }
            ChangeKind::Closed => Self::closed(slot),
        };
        let account = &mut self.accounts[program as usize];
        (account.deployment_slot, account.has_code) = (slot, kind == ChangeKind::Deployed);
        batch.store_modified_entry(key, Arc::new(entry));
    }
}

impl Real for Cache {
    const VERSION: &'static str = RELEASES[0];
    const OTHER: &'static str = RELEASES[1];
    const ENTRIES: usize = MAX_LOADED_ENTRY_COUNT;

    fn new(root: u64, fill: u8, compile_us: &[Option<u64>]) -> Self {
        let forks = Arc::new(RwLock::new(OneFork));
        let mut cache = ProgramCache::new(root);
        cache.set_fork_graph(Arc::downgrade(&forks));
        let account = |(program, time): (u32, &Option<u64>)| Account {
            key: key(program),
            compile_us: time.unwrap_or(0),
            has_code: time.is_some(),
            deployment_slot: 0,
        };
        let environment = ProgramRuntimeEnvironment::from(BuiltinProgram::new_mock());
        Cache {
            cache,
            environment,
            _forks: forks,
            fill,
            accounts: (0..).zip(compile_us).map(account).collect(),
        }
    }

    fn root(&mut self, slot: u64) {
        self.cache.prune(slot, None, &OneFork);
    }

    /// As `load_and_execute_sanitized_transactions` does, and then `commit_transactions`.
    fn transaction(&mut self, slot: u64, programs: &[u32], change: Option<(u32, ChangeKind)>) {
        let mut batch = self.look_up(slot, programs);
        if let Some((program, kind)) = change {
            self.change(&mut batch, program, kind);
        }
        let modified = batch.drain_modified_entries();
        batch.merge(&modified);
        if batch.loaded_missing || batch.merged_modified {
            self.cache.evict_using_random_selection(self.fill, slot);
        }
        // Since 4.5 a change reaches only the batch.
        #[cfg(not(feature = "since-4-5"))]
        self.cache.merge(&self.environment, slot, &modified);
    }

    fn counts(&self) -> Counts {
        let stats = &self.cache.stats;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        assert_eq!(
            (of(&stats.replacements), of(&stats.lost_insertions)),
            (0, 0)
        );
        let evictions = stats.evictions.values().sum();
        [
            of(&stats.misses),
            of(&stats.insertions),
            of(&stats.reloads),
            evictions,
            of(&stats.one_hit_wonders),
        ]
    }
}

fn main() -> ExitCode {
    driver::main::<Cache>()
}
