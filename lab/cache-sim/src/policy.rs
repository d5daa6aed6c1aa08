//! Eviction policies other than Agave's.
//!
//! Unlike Agave and [`Policy::Min`], these policies evict in each lookup, so the cache never
//! exceeds its limit. Deployments and closings leave the cache as it is. Accounts without code are
//! not looked up.

mod heap;
mod queues;
mod segmented;

use crate::{
    Error, Result,
    agave::CacheRules,
    cache::{Budget, Cache, Counts, Limit},
    trace::{ChangeKind, Trace},
};
use std::str::FromStr;

pub use heap::least_misses_by_bytes;
pub(crate) use heap::{Gdsf, Lfu, Min};
pub(crate) use queues::{QueuePolicy, Sieve};
pub(crate) use segmented::{Arc, S3Fifo, WTinyLfu};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Policy {
    Agave(CacheRules),
    Lru,
    Fifo,
    /// Evicts the program with the fewest uses since it was loaded, and on a tie the least recently
    /// used one.
    Lfu,
    /// Zhang and others 2024.
    Sieve,
    /// Yang and others 2023.
    S3Fifo,
    /// Megiddo and Modha 2003.
    Arc,
    /// Einziger, Friedman and Manes 2017, with exact counts in place of a sketch.
    WTinyLfu,
    /// Cherkasova 1998: uses times compile time over size. It may evict a program that was just
    /// loaded.
    Gdsf,
    /// Belady 1966: evicts the program with the latest next use, even if just loaded. It is optimal
    /// for a limit of entries if no programs are deployed. [`least_misses_by_bytes`] is for bytes.
    Min,
}

pub const NAMED_POLICIES: [(&str, Policy); 9] = [
    ("fifo", Policy::Fifo),
    ("lru", Policy::Lru),
    ("lfu", Policy::Lfu),
    ("gdsf", Policy::Gdsf),
    ("arc", Policy::Arc),
    ("w-tinylfu", Policy::WTinyLfu),
    ("s3-fifo", Policy::S3Fifo),
    ("sieve", Policy::Sieve),
    ("min", Policy::Min),
];

impl FromStr for Policy {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        if let Some(version) = name.strip_prefix("agave-") {
            return CacheRules::of(version).map(Policy::Agave);
        }
        NAMED_POLICIES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, policy)| *policy)
            .ok_or_else(|| {
                Error::CannotSimulate(format!("there is no policy {:?}", Error::excerpt(name)))
            })
    }
}

#[derive(Clone, Copy)]
pub struct Setting {
    pub policy: Policy,
    pub limit: Limit,
    /// The cache is filled up to this percentage of its limit: 90 in Agave.
    pub fill_percent: u64,
    /// Whether fees-only transactions look programs up. Ignored with Agave's rules, which decide.
    pub includes_fees_only: bool,
}

impl Setting {
    pub fn agave(rules: CacheRules, entries: u64) -> Self {
        Self {
            policy: Policy::Agave(rules),
            limit: Limit::Entries(entries),
            fill_percent: 90,
            includes_fees_only: rules.includes_fees_only,
        }
    }
}

pub(crate) trait Replacement {
    /// Looks a program up, and may admit it after a miss. Returns whether it was a hit.
    fn access(&mut self, program: u32, evictions: &mut u64) -> bool;
    fn end_transaction(&mut self, _evictions: &mut u64) {}
    fn contains(&self, program: u32) -> bool;
}

pub(crate) struct PolicyCache<'a> {
    policy: Box<dyn Replacement + 'a>,
    trace: &'a Trace,
    budget: Budget,
    compile_us: &'a [u64],
    loaded_before: Vec<bool>,
}

impl<'a> PolicyCache<'a> {
    pub fn new(
        policy: Box<dyn Replacement + 'a>,
        trace: &'a Trace,
        budget: Budget,
        compile_us: &'a [u64],
    ) -> Self {
        PolicyCache {
            policy,
            trace,
            budget,
            compile_us,
            loaded_before: vec![false; trace.programs().len()],
        }
    }
}

impl Cache for PolicyCache<'_> {
    fn begin_slot(&mut self, _: u64, _: u64) {}

    #[inline]
    fn request_programs(&mut self, programs: &[u32], counts: &mut Counts) {
        for program in programs {
            if !self.trace.ever_had_code(*program) {
                continue;
            }
            let fits = self.budget.weight_of(*program) <= self.budget.capacity;
            if fits && self.policy.access(*program, &mut counts.evictions) {
                continue;
            }
            let loaded_before = &mut self.loaded_before[*program as usize];
            counts.misses += 1;
            *(if *loaded_before {
                &mut counts.reloads
            } else {
                &mut counts.insertions
            }) += 1;
            *loaded_before = true;
            counts.evictions += u64::from(!fits);
            counts.add_load(*program, self.trace, self.compile_us);
        }
        self.policy.end_transaction(&mut counts.evictions);
    }

    fn change(&mut self, _: u32, _: ChangeKind, _: &mut Counts) {}

    fn for_each_resident_program(&self, each: &mut dyn FnMut(u32)) {
        (0..)
            .take(self.loaded_before.len())
            .filter(|program| self.policy.contains(*program))
            .for_each(each);
    }
}
