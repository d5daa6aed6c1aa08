use crate::{
    Error, Result,
    trace::{ChangeKind, Trace},
};
use std::ops::AddAssign;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counts {
    /// Including votes.
    pub transactions: u64,
    pub lookups: u64,
    pub misses: u64,
    /// Tombstones, deployments, and loads of programs without an entry.
    pub insertions: u64,
    pub reloads: u64,
    /// Compilations that a lookup caused: insertions plus reloads, except tombstones and
    /// deployments.
    pub loads: u64,
    pub evictions: u64,
    /// Evicted programs with a single use.
    pub one_hit_wonders: u64,
    /// Bytes of the code that the loads compiled. An unknown size counts as 0.
    pub loaded_bytes: u64,
    pub compile_us: u64,
}

impl Counts {
    #[inline]
    pub(crate) fn add_load(&mut self, program: u32, trace: &Trace, compile_us: &[u64]) {
        self.loads += 1;
        self.loaded_bytes += trace
            .programs()
            .get(program as usize)
            .and_then(|program| program.bytes)
            .unwrap_or(0);
        self.compile_us = self
            .compile_us
            .saturating_add(compile_us.get(program as usize).copied().unwrap_or(0));
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
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

#[derive(Debug, Clone, Copy)]
pub enum Limit {
    Entries(u64),
    /// Total bytes of the programs' code.
    Bytes(u64),
}

/// A larger limit is reduced to this, so that 100 times the limit does not overflow.
const MAX_LIMIT: u64 = 1 << 57;

/// The usable part of a limit, and the weight of each entry.
pub struct Budget {
    /// The cache is filled up to this part of its limit, in entries or bytes.
    pub capacity: u64,
    /// By entry: first all programs, then superseded versions. A weight is 1 under a limit in
    /// entries, else that of [`program_bytes`].
    pub weights: Vec<u64>,
    programs: usize,
    /// Program of each superseded version.
    superseded: Vec<u32>,
}

impl Budget {
    pub fn new(trace: &Trace, limit: Limit, fill_percent: u64) -> Result<Self> {
        if !(1..=100).contains(&fill_percent) {
            return Err(Error::CannotSimulate(format!(
                "a fill of {fill_percent} % is not between 1 and 100"
            )));
        }
        let filled = |amount: u64| amount.min(MAX_LIMIT) * fill_percent / 100;
        let programs = trace.programs().len();
        let (capacity, weights) = match limit {
            Limit::Entries(entries) => (filled(entries), vec![1; programs]),
            Limit::Bytes(bytes) => (filled(bytes), program_bytes(trace)?),
        };
        if capacity == 0 {
            return Err(Error::CannotSimulate(
                "a cache of this size holds nothing".to_owned(),
            ));
        }
        Ok(Self {
            capacity,
            weights,
            programs,
            superseded: Vec::new(),
        })
    }

    #[inline]
    pub fn weight_of(&self, entry: u32) -> u64 {
        self.weights[entry as usize]
    }

    pub fn supersede(&mut self, program: u32) {
        self.weights.push(self.weight_of(program));
        self.superseded.push(program);
    }

    pub fn program_of(&self, entry: u32) -> u32 {
        (entry as usize)
            .checked_sub(self.programs)
            .map_or(entry, |index| self.superseded[index])
    }
}

/// By program. If a program was closed before `faultline cache fetch` read its size, it counts as
/// one byte. Fails if the size of a program with code is unknown.
pub fn program_bytes(trace: &Trace) -> Result<Vec<u64>> {
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

pub trait Cache {
    fn begin_slot(&mut self, slot: u64, root: u64);
    fn request_programs(&mut self, programs: &[u32], counts: &mut Counts);
    fn change(&mut self, program: u32, kind: ChangeKind, counts: &mut Counts);
    fn for_each_resident_program(&self, each: &mut dyn FnMut(u32));
}
