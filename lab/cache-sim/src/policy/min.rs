use super::{Limits, Replacement, heap::Heap};
use crate::{cache::sizes, error::Error, trace::Trace};

const NEVER: u32 = u32::MAX;

/// Keeps the programs that are used again soonest. Like Agave it evicts after a transaction, so it
/// is a bound for Agave, too.
pub struct Min {
    heap: Heap,
    capacity: u64,
    /// For each lookup, the transaction of the next lookup of the same program.
    next: Vec<u32>,
    lookup: usize,
}

impl Min {
    pub fn new(limits: Limits, trace: &Trace, fees_only: bool) -> Self {
        let next = next_uses(trace, fees_only, &limits);
        Min {
            heap: Heap::new(limits.weights),
            capacity: limits.capacity,
            next,
            lookup: 0,
        }
    }
}

impl Replacement for Min {
    fn access(&mut self, program: u32, _: &mut u64) -> bool {
        let next = self.next.get(self.lookup).copied().unwrap_or(NEVER);
        self.lookup += 1;
        let was_there = self.heap.has(program);
        self.heap.set(program, (u64::from(NEVER - next), 0));
        was_there
    }

    fn end_transaction(&mut self, evictions: &mut u64) {
        while self.heap.weight > self.capacity && self.heap.pop().is_some() {
            *evictions += 1;
        }
    }

    fn has(&self, program: u32) -> bool {
        self.heap.has(program)
    }
}

fn lookups(trace: &Trace, fees_only: bool, mut each: impl FnMut(u32, u32)) {
    let mut transaction = 0;
    for index in 0..trace.slots().len() {
        for call in trace
            .calls_of(index)
            .iter()
            .filter(|call| fees_only || !call.fees_only())
        {
            let programs = trace.set(call.set()).iter();
            let with_code =
                programs.filter(|program| trace.programs()[**program as usize].has_code);
            with_code.for_each(|program| each(transaction, *program));
            transaction += 1;
        }
    }
}

fn next_uses(trace: &Trace, fees_only: bool, limits: &Limits) -> Vec<u32> {
    let mut next: Vec<u32> = Vec::new();
    let mut last: Vec<Option<usize>> = vec![None; trace.programs().len()];
    lookups(trace, fees_only, |transaction, program| {
        // `access` is not called for a program that never fits.
        if limits.weights[program as usize] > limits.capacity {
            return;
        }
        if let Some(before) = last[program as usize].replace(next.len()) {
            next[before] = transaction;
        }
        next.push(NEVER);
    });
    next
}

/// Lower bound of the misses from a slot on, for all policies at a limit in bytes; the optimum
/// takes too long to compute. A hit costs size times the transactions since the last use. The bound
/// takes the cheapest hits while their sum is at most the capacity times the counted transactions
/// (Berger, Beckmann and Harchol-Balter 2018). The cache may so borrow space from other times: the
/// bound may be too low, but never too high.
pub fn least_misses_by_bytes(
    trace: &Trace,
    bytes: u64,
    first_slot: u64,
    fees_only: bool,
) -> Result<u64, Error> {
    let sizes = sizes(trace)?;
    let before = |index: &usize| trace.slots()[*index].slot < first_slot;
    let calls = |index: usize| {
        trace
            .calls_of(index)
            .iter()
            .filter(|call| fees_only || !call.fees_only())
            .count() as u32
    };
    let first_counted: u32 = (0..trace.slots().len()).take_while(before).map(calls).sum();
    // The cache keeps its content from after the last transaction that is not counted.
    let begin = first_counted.saturating_sub(1);
    let mut last: Vec<Option<u32>> = vec![None; trace.programs().len()];
    let mut costs: Vec<u128> = Vec::new();
    let (mut all, mut end) = (0_u64, begin);
    lookups(trace, fees_only, |transaction, program| {
        end = end.max(transaction);
        let size = sizes[program as usize];
        let earlier = last[program as usize]
            .replace(transaction)
            .filter(|_| size <= bytes);
        if transaction < first_counted {
            return;
        }
        all += 1;
        costs.extend(
            earlier.map(|earlier| u128::from(size) * u128::from(transaction - earlier.max(begin))),
        );
    });
    costs.sort_unstable();
    let mut capacity = u128::from(bytes) * u128::from(end - begin);
    let hits = costs.iter().take_while(|cost| {
        let rest = capacity.checked_sub(**cost);
        capacity = rest.unwrap_or(0);
        rest.is_some()
    });
    Ok(all - hits.count() as u64)
}
