use super::{Limits, Replacement, heap::Heap};

/// GDSF evicts the program with the lowest priority: `age + uses x compile time / size`. The age is
/// the priority of the program that was evicted last, so unused programs lose rank. A program that
/// was just loaded may be evicted itself.
pub struct Gdsf<'a> {
    heap: Heap,
    capacity: u64,
    compile_us: &'a [u64],
    uses: Vec<u32>,
    age: f64,
    clock: u64,
}

impl<'a> Gdsf<'a> {
    pub fn new(limits: Limits, compile_us: &'a [u64]) -> Self {
        Gdsf {
            uses: vec![0; limits.weights.len()],
            heap: Heap::new(limits.weights),
            capacity: limits.capacity,
            compile_us,
            age: 0.0,
            clock: 0,
        }
    }

    fn update_priority(&mut self, program: u32) {
        self.clock += 1;
        let at = program as usize;
        let cost = self.compile_us.get(at).copied().unwrap_or(1).max(1);
        let priority =
            self.age + f64::from(self.uses[at]) * cost as f64 / self.heap.weights[at] as f64;
        // The bits of positive floats have the order of the numbers.
        self.heap.set(program, (priority.to_bits(), self.clock));
    }
}

impl Replacement for Gdsf<'_> {
    fn access(&mut self, program: u32, evictions: &mut u64) -> bool {
        if self.heap.has(program) {
            self.uses[program as usize] += 1;
            self.update_priority(program);
            return true;
        }
        self.uses[program as usize] = 1;
        self.update_priority(program);
        while self.heap.weight > self.capacity
            && let Some(((priority, _), _)) = self.heap.pop()
        {
            self.age = f64::from_bits(priority);
            *evictions += 1;
        }
        false
    }

    fn has(&self, program: u32) -> bool {
        self.heap.has(program)
    }
}
