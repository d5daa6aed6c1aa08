use crate::{
    Error, Result,
    agave::ProgramCache,
    cache::{Budget, Cache, Counts},
    policy::{
        Arc, Gdsf, Lfu, Min, Policy, PolicyCache, QueuePolicy, Replacement, S3Fifo, Setting, Sieve,
        WTinyLfu,
    },
    trace::{Trace, TransactionCall},
};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of blocks from the root to the replayed block, if the validator votes normally.
const ROOT_DEPTH: usize = 32;

#[derive(Clone, Copy, PartialEq)]
pub enum InitialContent {
    Empty,
    /// Full of the most used programs of the trace.
    Full,
}

pub struct Simulation<'a> {
    pub trace: &'a Trace,
    pub setting: Setting,
    /// Only Agave's rules support [`InitialContent::Full`]. Other policies begin empty.
    pub initial_content: InitialContent,
    /// The first counted slot; earlier slots warm the cache.
    pub first_slot: u64,
    /// Compile times by program number. A missing one counts as 0; GDSF takes at least 1.
    pub compile_us: &'a [u64],
    pub seed: u64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    pub counts: Counts,
    /// Loaded entries at the end, with replaced versions not yet pruned.
    pub entries: u64,
    /// Uncompiled code of `entries`. An unknown size counts as 0.
    pub bytes: u64,
}

impl Simulation<'_> {
    pub fn run(&self, on_counted_slot: impl FnMut(u64, Counts)) -> Result<Outcome> {
        let budget = Budget::new(self.trace, self.setting.limit, self.setting.fill_percent)?;
        let trace = self.trace;
        let compile_us = self.compile_us;
        let includes_fees_only = self.setting.includes_fees_only;
        let policy: Box<dyn Replacement> = match self.setting.policy {
            Policy::Agave(rules) => {
                let mut cache = ProgramCache::new(rules, trace, budget, compile_us, self.seed);
                if self.initial_content == InitialContent::Full {
                    cache.fill(&most_used(trace));
                }
                return Ok(self.drive(&mut cache, rules.includes_fees_only, on_counted_slot));
            }
            Policy::Lru => Box::new(QueuePolicy::new(&budget, true)),
            Policy::Fifo => Box::new(QueuePolicy::new(&budget, false)),
            Policy::Lfu => Box::new(Lfu::new(&budget)),
            Policy::Sieve => Box::new(Sieve::new(&budget)),
            Policy::S3Fifo => Box::new(S3Fifo::new(&budget)),
            Policy::Arc => Box::new(Arc::new(&budget)),
            Policy::WTinyLfu => Box::new(WTinyLfu::new(&budget)),
            Policy::Gdsf => Box::new(Gdsf::new(&budget, compile_us)),
            Policy::Min => Box::new(Min::new(&budget, trace, includes_fees_only)),
        };
        let mut cache = PolicyCache::new(policy, trace, budget, compile_us);
        Ok(self.drive(&mut cache, includes_fees_only, on_counted_slot))
    }

    pub(crate) fn drive<C: Cache>(
        &self,
        cache: &mut C,
        includes_fees_only: bool,
        mut on_counted_slot: impl FnMut(u64, Counts),
    ) -> Outcome {
        let trace = self.trace;
        let mut outcome = Outcome::default();
        let mut changes = trace.changes().iter().peekable();
        for (index, slot) in trace.slots().iter().enumerate() {
            let root = index
                .checked_sub(ROOT_DEPTH)
                .map_or(0, |root| trace.slots()[root].slot);
            cache.begin_slot(slot.slot, root);
            let calls = trace.transactions_of(index);
            let mut counts = Counts::default();
            let mut done = 0;
            while let Some(change) = changes.next_if(|change| change.slot_index as usize == index) {
                let position = (change.position as usize).clamp(done, calls.len());
                look_up(
                    trace,
                    &calls[done..position],
                    includes_fees_only,
                    cache,
                    &mut counts,
                );
                cache.change(change.program, change.kind, &mut counts);
                done = position;
            }
            look_up(
                trace,
                &calls[done..],
                includes_fees_only,
                cache,
                &mut counts,
            );
            counts.transactions += slot.transactions;
            if slot.slot >= self.first_slot {
                outcome.counts += counts;
                on_counted_slot(slot.slot, counts);
            }
        }
        cache.for_each_resident_program(&mut |program| {
            outcome.entries += 1;
            outcome.bytes += trace
                .programs()
                .get(program as usize)
                .and_then(|program| program.bytes)
                .unwrap_or(0);
        });
        outcome
    }
}

fn look_up<C: Cache>(
    trace: &Trace,
    calls: &[TransactionCall],
    includes_fees_only: bool,
    cache: &mut C,
    counts: &mut Counts,
) {
    for call in calls {
        if call.is_fees_only() && !includes_fees_only {
            continue;
        }
        let programs = trace.programs_of_set(call.set_number());
        counts.lookups += programs.len() as u64;
        cache.request_programs(programs, counts);
    }
}

/// Returns the outcomes in the order of `simulations`.
pub fn run_all(simulations: &[Simulation], threads: usize) -> Result<Vec<Outcome>> {
    let next = AtomicUsize::new(0);
    let run_remaining = || {
        let mut outcomes = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(simulation) = simulations.get(index) else {
                return outcomes;
            };
            outcomes.push((index, simulation.run(|_, _| {})));
        }
    };
    let mut outcomes = std::thread::scope(|scope| {
        let workers: Vec<_> = (1..threads.min(simulations.len()))
            .map(|_| scope.spawn(run_remaining))
            .collect();
        let mut outcomes = run_remaining();
        // If a thread panicked, outcomes are missing.
        outcomes.extend(
            workers
                .into_iter()
                .filter_map(|worker| worker.join().ok())
                .flatten(),
        );
        outcomes
    });
    if outcomes.len() < simulations.len() {
        return Err(Error::CannotSimulate(
            "a simulation ended without an outcome".to_owned(),
        ));
    }
    outcomes.sort_by_key(|(index, _)| *index);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// (program, lookups) of programs with code, the most used first.
fn most_used(trace: &Trace) -> Vec<(u32, u32)> {
    let mut uses = vec![0_u32; trace.programs().len()];
    for call in trace.calls() {
        for program in trace.programs_of_set(call.set_number()) {
            uses[*program as usize] += 1;
        }
    }
    let mut ranked = Vec::from_iter((0..).zip(uses));
    ranked.retain(|(program, uses)| *uses > 0 && trace.ever_had_code(*program));
    ranked.sort_by_key(|(program, uses)| (std::cmp::Reverse(*uses), *program));
    ranked
}
