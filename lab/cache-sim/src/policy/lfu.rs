use super::heap::Heap;
use super::{Limits, Replacement};

pub(crate) struct Lfu {
    heap: Heap,
    limits: Limits,
    weight: u64,
    clock: u64,
}

impl Lfu {
    pub(crate) fn new(limits: Limits) -> Self {
        Lfu {
            heap: Heap::new(limits.weights.len()),
            limits,
            weight: 0,
            clock: 0,
        }
    }
}

impl Replacement for Lfu {
    fn access(&mut self, program: u32, evictions: &mut u64) -> bool {
        self.clock += 1;
        if let Some((uses, _)) = self.heap.key(program) {
            self.heap.set(program, (uses + 1, self.clock));
            return true;
        }
        let weight = self.limits.weights[program as usize];
        while self.weight + weight > self.limits.capacity {
            let Some((_, evicted)) = self.heap.pop() else {
                break;
            };
            self.weight -= self.limits.weights[evicted as usize];
            *evictions += 1;
        }
        self.heap.set(program, (1, self.clock));
        self.weight += weight;
        false
    }

    fn has(&self, program: u32) -> bool {
        self.heap.has(program)
    }
}
