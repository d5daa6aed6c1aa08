//! What a simulated cache is driven with, what it may hold, and what it counts.

use crate::error::Error;
use crate::trace::{ChangeKind, Trace};
use std::ops::AddAssign;

/// What happened from the begin of a run or of a part of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transactions of the blocks, votes included.
    pub transactions: u64,
    pub lookups: u64,
    /// Lookups that found nothing usable.
    pub misses: u64,
    /// New entries: first loads, tombstones, deployments.
    pub insertions: u64,
    /// Loads of programs that had been evicted.
    pub reloads: u64,
    /// Programs that a lookup had compiled. Without tombstones and deployments they are insertions and reloads.
    pub loads: u64,
    /// Programs that were evicted.
    pub evictions: u64,
    /// Those of them that had been used once.
    pub one_hit_wonders: u64,
    /// Code that was compiled, in bytes, of programs with a known size.
    pub loaded_bytes: u64,
    /// Time to compile, by the given time of each program.
    pub compile_us: u64,
}

impl Counts {
    #[inline]
    pub(crate) fn load(&mut self, program: u32, trace: &Trace, compile_us: &[u64]) {
        self.loads += 1;
        self.loaded_bytes += trace
            .programs()
            .get(program as usize)
            .and_then(|program| program.bytes)
            .unwrap_or(0);
        let us = compile_us.get(program as usize).copied().unwrap_or(0);
        self.compile_us = self.compile_us.saturating_add(us);
    }

    /// What came since an earlier moment of the same run.
    pub fn since(&self, earlier: &Counts) -> Counts {
        Counts {
            transactions: self.transactions - earlier.transactions,
            lookups: self.lookups - earlier.lookups,
            misses: self.misses - earlier.misses,
            insertions: self.insertions - earlier.insertions,
            reloads: self.reloads - earlier.reloads,
            loads: self.loads - earlier.loads,
            evictions: self.evictions - earlier.evictions,
            one_hit_wonders: self.one_hit_wonders - earlier.one_hit_wonders,
            loaded_bytes: self.loaded_bytes - earlier.loaded_bytes,
            compile_us: self.compile_us - earlier.compile_us,
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.transactions += other.transactions;
        self.lookups += other.lookups;
        self.misses += other.misses;
        self.insertions += other.insertions;
        self.reloads += other.reloads;
        self.loads += other.loads;
        self.evictions += other.evictions;
        self.one_hit_wonders += other.one_hit_wonders;
        self.loaded_bytes += other.loaded_bytes;
        self.compile_us = self.compile_us.saturating_add(other.compile_us);
    }
}

/// How much a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    Entries(u64),
    /// Bytes of their code.
    Bytes(u64),
}

/// A larger limit is this one, so that sums of weights do not overflow.
const MOST: u64 = 1 << 60;

/// What may stay in the cache, and what each program takes of it.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    pub(crate) target: u64,
    /// By program, then by superseded version.
    pub(crate) weights: Vec<u64>,
    programs: usize,
    superseded: Vec<u32>,
}

impl Budget {
    pub(crate) fn new(trace: &Trace, limit: Limit, fill: u64) -> Result<Self, Error> {
        if !(1..=100).contains(&fill) {
            return Err(Error::Request(format!(
                "a fill of {fill} % is not between 1 and 100"
            )));
        }
        let of = |amount: u64| amount.min(MOST) / 100 * fill + amount.min(MOST) % 100 * fill / 100;
        let programs = trace.programs().len();
        let (target, weights) = match limit {
            Limit::Entries(entries) => (of(entries), vec![1; programs]),
            Limit::Bytes(bytes) => (of(bytes), sizes(trace)?),
        };
        if target == 0 {
            return Err(Error::Request(
                "a cache of this size holds nothing".to_owned(),
            ));
        }
        Ok(Budget {
            target,
            weights,
            programs,
            superseded: Vec::new(),
        })
    }

    #[inline]
    pub(crate) fn of(&self, entry: u32) -> u64 {
        self.weights[entry as usize]
    }

    /// The next entry is a superseded version of the program.
    pub(crate) fn supersede(&mut self, program: u32) {
        self.weights.push(self.of(program));
        self.superseded.push(program);
    }

    pub(crate) fn program_of(&self, entry: u32) -> u32 {
        (entry as usize)
            .checked_sub(self.programs)
            .map_or(entry, |at| self.superseded[at])
    }
}

/// Sizes of programs; of those without code it does not matter.
pub(crate) fn sizes(trace: &Trace) -> Result<Vec<u64>, Error> {
    let unknown = trace
        .programs()
        .iter()
        .filter(|p| p.has_code && p.bytes.is_none())
        .count();
    if unknown > 0 {
        return Err(Error::SizesUnknown { programs: unknown });
    }
    Ok(trace
        .programs()
        .iter()
        .map(|program| program.bytes.unwrap_or(0).max(1))
        .collect())
}

/// Where a run is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At {
    pub(crate) slot: u64,
    pub(crate) root: u64,
}

/// What can be driven over a trace.
pub(crate) trait Cache {
    /// A slot begins.
    fn slot(&mut self, at: At);
    /// A transaction looks its programs up.
    fn transaction(&mut self, programs: &[u32], counts: &mut Counts);
    /// A transaction has changed a program.
    fn change(&mut self, program: u32, kind: ChangeKind, counts: &mut Counts);
    /// Gives each program that is loaded.
    fn resident(&self, each: &mut dyn FnMut(u32));
}
