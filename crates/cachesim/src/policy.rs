//! Other ways to choose what stays in the cache.
//!
//! They differ from Agave's in that they evict before a program is taken in, so that the cache is never above its limit. A
//! deployed program counts as compiled by its deployment, as to 4.2, and accounts without code are not looked up.

mod arc;
mod gdsf;
mod heap;
mod lfu;
mod list;
mod min;
mod queues;
mod s3fifo;
mod sieve;
mod tinylfu;

use crate::agave::Rule;
use crate::cache::{At, Budget, Cache, Counts, Limit};
use crate::error::Error;
use crate::trace::{ChangeKind, Trace};
use std::str::FromStr;

pub(crate) use arc::Arc;
pub(crate) use gdsf::Gdsf;
pub(crate) use lfu::Lfu;
pub(crate) use list::List;
pub(crate) use min::Min;
pub use min::least_misses_by_bytes;
pub(crate) use s3fifo::S3Fifo;
pub(crate) use sieve::Sieve;
pub(crate) use tinylfu::WTinyLfu;

/// How a cache chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    /// As a release of Agave does.
    Agave(Rule),
    /// The least recently used one goes.
    Lru,
    Fifo,
    /// The one with the fewest uses since it was loaded goes; of these the least recently used.
    Lfu,
    /// Zhang and others 2024.
    Sieve,
    /// Yang and others 2023.
    S3Fifo,
    /// Megiddo and Modha 2003.
    Arc,
    /// Einziger, Friedman and Manes 2017, with exact counts in place of a sketch.
    WTinyLfu,
    /// Cherkasova 1998: uses times compile time over size. What was just loaded may go itself.
    Gdsf,
    /// Belady 1966: the one whose next use is last goes, also the one just loaded. No policy has fewer misses at a limit of
    /// entries, if no programs are deployed; at a limit of bytes it is only good: see [`least_misses_by_bytes`].
    Min,
}

/// All but Agave's, in the order of their age.
pub const OTHERS: [(&str, Policy); 9] = [
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

    /// One of the names in [`OTHERS`], or `agave-` and a version.
    fn from_str(name: &str) -> Result<Self, Error> {
        if let Some(version) = name.strip_prefix("agave-") {
            return Rule::of(version).map(Policy::Agave);
        }
        let found = OTHERS
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, policy)| *policy);
        found.ok_or_else(|| {
            Error::Request(format!("no policy is called {:?}", Error::excerpt(name)))
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Setting {
    pub policy: Policy,
    /// How much it holds.
    pub limit: Limit,
    /// Share of the limit that is used, in percent: 90 in Agave.
    pub fill: u64,
    /// Whether transactions that only pay fees look programs up. Agave's rules know it themselves.
    pub fees_only: bool,
}

impl Setting {
    /// A release's cache of so many entries.
    pub fn agave(rule: Rule, entries: u64) -> Self {
        Setting {
            policy: Policy::Agave(rule),
            limit: Limit::Entries(entries),
            fill: 90,
            fees_only: rule.fees_only,
        }
    }
}

/// A policy for one lookup after the other.
pub(crate) trait Replacement {
    /// Looks a program up and, unless it is there, makes room and takes it in. Returns whether it was there, and adds what was
    /// evicted.
    fn access(&mut self, program: u32, evictions: &mut u64) -> bool;
    fn end_transaction(&mut self, _evictions: &mut u64) {}
    /// Whether a program is there.
    fn has(&self, program: u32) -> bool;
}

/// Such a policy with its counts.
pub(crate) struct Plain<'a, R> {
    policy: R,
    trace: &'a Trace,
    budget: Budget,
    compile_us: &'a [u64],
    known: Vec<bool>,
}

impl<'a, R: Replacement> Plain<'a, R> {
    pub(crate) fn new(policy: R, trace: &'a Trace, budget: Budget, compile_us: &'a [u64]) -> Self {
        Plain {
            policy,
            trace,
            budget,
            compile_us,
            known: vec![false; trace.programs().len()],
        }
    }
}

impl<R: Replacement> Cache for Plain<'_, R> {
    fn slot(&mut self, _: At) {}

    #[inline]
    fn transaction(&mut self, programs: &[u32], counts: &mut Counts) {
        for program in programs {
            if !self.trace.programs()[*program as usize].has_code {
                continue;
            }
            // What is larger than the cache is compiled each time.
            let fits = self.budget.of(*program) <= self.budget.target;
            if fits && self.policy.access(*program, &mut counts.evictions) {
                continue;
            }
            let known = &mut self.known[*program as usize];
            counts.misses += 1;
            *(if *known {
                &mut counts.reloads
            } else {
                &mut counts.insertions
            }) += 1;
            *known = true;
            counts.evictions += u64::from(!fits);
            counts.load(*program, self.trace, self.compile_us);
        }
        self.policy.end_transaction(&mut counts.evictions);
    }

    fn change(&mut self, _: u32, _: ChangeKind, _: &mut Counts) {}

    fn resident(&self, each: &mut dyn FnMut(u32)) {
        (0..)
            .take(self.known.len())
            .filter(|program| self.policy.has(*program))
            .for_each(each);
    }
}

/// How much there is room for, and what each program takes.
pub(crate) struct Limits {
    pub(crate) capacity: u64,
    pub(crate) weights: Vec<u64>,
}
