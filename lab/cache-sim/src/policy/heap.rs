use super::Replacement;
use crate::{
    Result,
    cache::{Budget, program_bytes},
    trace::Trace,
};

const NOT_IN_HEAP: u32 = u32::MAX;

/// Programs of a cache, the one with the lowest priority first.
struct Heap {
    /// (priority, program); a priority's second part breaks ties.
    items: Vec<((u64, u64), u32)>,
    /// Index of each program in `items`.
    positions: Vec<u32>,
    weights: Vec<u64>,
    /// Sum over the programs in the heap.
    weight: u64,
    capacity: u64,
}

impl Heap {
    fn new(budget: &Budget) -> Self {
        Self {
            items: Vec::new(),
            positions: vec![NOT_IN_HEAP; budget.weights.len()],
            weights: budget.weights.clone(),
            weight: 0,
            capacity: budget.capacity,
        }
    }

    fn contains(&self, program: u32) -> bool {
        self.positions[program as usize] != NOT_IN_HEAP
    }

    fn priority(&self, program: u32) -> Option<(u64, u64)> {
        self.items
            .get(self.positions[program as usize] as usize)
            .map(|(priority, _)| *priority)
    }

    fn set(&mut self, program: u32, priority: (u64, u64)) {
        if !self.contains(program) {
            self.positions[program as usize] = self.items.len() as u32;
            self.items.push((priority, program));
            self.weight += self.weights[program as usize];
        }
        let index = self.positions[program as usize] as usize;
        self.items[index].0 = priority;
        let index = self.sift_up(index);
        self.sift_down(index);
    }

    fn pop(&mut self) -> Option<((u64, u64), u32)> {
        let last = self.items.len().checked_sub(1)?;
        self.swap(0, last);
        let least = self.items.pop()?;
        self.positions[least.1 as usize] = NOT_IN_HEAP;
        self.weight -= self.weights[least.1 as usize];
        self.sift_down(0);
        Some(least)
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.items.swap(a, b);
        self.positions[self.items[a].1 as usize] = a as u32;
        self.positions[self.items[b].1 as usize] = b as u32;
    }

    fn sift_up(&mut self, mut index: usize) -> usize {
        while index > 0 && self.items[index].0 < self.items[(index - 1) / 2].0 {
            self.swap(index, (index - 1) / 2);
            index = (index - 1) / 2;
        }
        index
    }

    fn sift_down(&mut self, mut index: usize) {
        loop {
            let children = [2 * index + 1, 2 * index + 2]
                .into_iter()
                .filter(|child| *child < self.items.len());
            let Some(least) = children.min_by_key(|child| self.items[*child].0) else {
                return;
            };
            if self.items[index].0 <= self.items[least].0 {
                return;
            }
            self.swap(index, least);
            index = least;
        }
    }
}

pub struct Lfu {
    heap: Heap,
    clock: u64,
}

impl Lfu {
    pub fn new(budget: &Budget) -> Self {
        Self {
            heap: Heap::new(budget),
            clock: 0,
        }
    }
}

impl Replacement for Lfu {
    fn access(&mut self, program: u32, evictions: &mut u64) -> bool {
        self.clock += 1;
        if let Some((uses, _)) = self.heap.priority(program) {
            self.heap.set(program, (uses + 1, self.clock));
            return true;
        }
        let weight = self.heap.weights[program as usize];
        while self.heap.weight + weight > self.heap.capacity && self.heap.pop().is_some() {
            *evictions += 1;
        }
        self.heap.set(program, (1, self.clock));
        false
    }

    fn contains(&self, program: u32) -> bool {
        self.heap.contains(program)
    }
}

/// Evicts the program with the lowest `age + uses x compile time / size`. The age is the priority of
/// the program that was evicted last, so unused programs fall behind.
pub struct Gdsf<'a> {
    heap: Heap,
    compile_us: &'a [u64],
    uses: Vec<u32>,
    age: f64,
    clock: u64,
}

impl<'a> Gdsf<'a> {
    pub fn new(budget: &Budget, compile_us: &'a [u64]) -> Self {
        Gdsf {
            uses: vec![0; budget.weights.len()],
            heap: Heap::new(budget),
            compile_us,
            age: 0.0,
            clock: 0,
        }
    }

    fn update_priority(&mut self, program: u32) {
        self.clock += 1;
        let index = program as usize;
        let cost = self.compile_us.get(index).copied().unwrap_or(1).max(1);
        let priority =
            self.age + f64::from(self.uses[index]) * cost as f64 / self.heap.weights[index] as f64;
        // The bits of positive floats have the order of the numbers.
        self.heap.set(program, (priority.to_bits(), self.clock));
    }
}

impl Replacement for Gdsf<'_> {
    fn access(&mut self, program: u32, evictions: &mut u64) -> bool {
        if self.heap.contains(program) {
            self.uses[program as usize] += 1;
            self.update_priority(program);
            return true;
        }
        self.uses[program as usize] = 1;
        self.update_priority(program);
        while self.heap.weight > self.heap.capacity
            && let Some(((priority, _), _)) = self.heap.pop()
        {
            self.age = f64::from_bits(priority);
            *evictions += 1;
        }
        false
    }

    fn contains(&self, program: u32) -> bool {
        self.heap.contains(program)
    }
}

const NEVER: u32 = u32::MAX;

/// Evicts the program whose next use is latest. Like Agave, it evicts after a transaction. So its
/// misses are a lower bound for Agave, if the limit is in entries and no program is deployed.
pub struct Min {
    heap: Heap,
    /// For each lookup, the transaction of the next lookup of the same program.
    next_uses: Vec<u32>,
    /// Number of the current lookup.
    lookup: usize,
}

impl Min {
    pub fn new(budget: &Budget, trace: &Trace, includes_fees_only: bool) -> Self {
        Self {
            heap: Heap::new(budget),
            next_uses: next_uses(trace, includes_fees_only, budget),
            lookup: 0,
        }
    }
}

impl Replacement for Min {
    fn access(&mut self, program: u32, _: &mut u64) -> bool {
        let next_use = self.next_uses.get(self.lookup).copied().unwrap_or(NEVER);
        self.lookup += 1;
        let is_hit = self.heap.contains(program);
        self.heap.set(program, (u64::from(NEVER - next_use), 0));
        is_hit
    }

    fn end_transaction(&mut self, evictions: &mut u64) {
        while self.heap.weight > self.heap.capacity && self.heap.pop().is_some() {
            *evictions += 1;
        }
    }

    fn contains(&self, program: u32) -> bool {
        self.heap.contains(program)
    }
}

/// Calls `each` with (transaction, program).
fn for_each_lookup(trace: &Trace, includes_fees_only: bool, mut each: impl FnMut(u32, u32)) {
    let calls = trace.calls().iter();
    let requesting = calls.filter(|call| includes_fees_only || !call.is_fees_only());
    for (transaction, call) in (0..).zip(requesting) {
        trace
            .programs_of_set(call.set_number())
            .iter()
            .filter(|program| trace.ever_had_code(**program))
            .for_each(|program| each(transaction, *program));
    }
}

fn next_uses(trace: &Trace, includes_fees_only: bool, budget: &Budget) -> Vec<u32> {
    let mut next_uses = Vec::new();
    let mut last = vec![None; trace.programs().len()];
    for_each_lookup(trace, includes_fees_only, |transaction, program| {
        // `access` is not called for a program that never fits.
        if budget.weight_of(program) > budget.capacity {
            return;
        }
        if let Some(before) = last[program as usize].replace(next_uses.len()) {
            next_uses[before] = transaction;
        }
        next_uses.push(NEVER);
    });
    next_uses
}

/// Lower bound of the misses since `first_slot`, for all policies with a limit in bytes. The optimum
/// takes too long to compute.
///
/// A hit needs its program in the cache since the last use: it costs the program's size times the
/// transactions since then. All hits together cannot cost more than the capacity times the number of
/// counted transactions. The bound assumes that the cheapest hits use up this amount (Berger,
/// Beckmann and Harchol-Balter 2018).
pub fn least_misses_by_bytes(
    trace: &Trace,
    bytes: u64,
    first_slot: u64,
    includes_fees_only: bool,
) -> Result<u64> {
    let sizes = program_bytes(trace)?;
    let first_counted: u32 = (0..trace.slots().len())
        .take_while(|index| trace.slots()[*index].slot < first_slot)
        .map(|index| {
            trace
                .transactions_of(index)
                .iter()
                .filter(|call| includes_fees_only || !call.is_fees_only())
                .count() as u32
        })
        .sum();
    // Hits may be due to programs cached after the last uncounted transaction, so the capacity
    // counts since then.
    let begin = first_counted.saturating_sub(1);
    let mut last = vec![None; trace.programs().len()];
    let mut hit_costs = Vec::new();
    let mut counted_lookups = 0_u64;
    let mut end = begin;
    for_each_lookup(trace, includes_fees_only, |transaction, program| {
        end = end.max(transaction);
        let size = sizes[program as usize];
        let earlier = last[program as usize]
            .replace(transaction)
            .filter(|_| size <= bytes);
        if transaction < first_counted {
            return;
        }
        counted_lookups += 1;
        hit_costs.extend(
            earlier.map(|earlier| u128::from(size) * u128::from(transaction - earlier.max(begin))),
        );
    });
    hit_costs.sort_unstable();
    let mut available = u128::from(bytes) * u128::from(end - begin);
    Ok(counted_lookups
        - hit_costs
            .iter()
            .take_while(|cost| {
                let remaining = available.checked_sub(**cost);
                available = remaining.unwrap_or(0);
                remaining.is_some()
            })
            .count() as u64)
}
