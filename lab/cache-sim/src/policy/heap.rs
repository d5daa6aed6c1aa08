use super::{Limits, Replacement};

const NOWHERE: u32 = u32::MAX;

/// Programs of a cache by their priority, the lowest first.
pub struct Heap {
    items: Vec<((u64, u64), u32)>,
    positions: Vec<u32>,
    pub weights: Vec<u64>,
    /// Of all programs in it.
    pub weight: u64,
}

impl Heap {
    pub fn new(weights: Vec<u64>) -> Self {
        Heap {
            items: Vec::new(),
            positions: vec![NOWHERE; weights.len()],
            weights,
            weight: 0,
        }
    }

    pub fn has(&self, program: u32) -> bool {
        self.positions[program as usize] != NOWHERE
    }

    pub fn key(&self, program: u32) -> Option<(u64, u64)> {
        self.items
            .get(self.positions[program as usize] as usize)
            .map(|(key, _)| *key)
    }

    pub fn set(&mut self, program: u32, key: (u64, u64)) {
        let index = if self.has(program) {
            self.positions[program as usize] as usize
        } else {
            self.items.len()
        };
        if index == self.items.len() {
            self.items.push((key, program));
            self.weight += self.weights[program as usize];
            self.positions[program as usize] = index as u32;
        }
        self.items[index].0 = key;
        let index = self.up(index);
        self.down(index);
    }

    pub fn pop(&mut self) -> Option<((u64, u64), u32)> {
        let last = self.items.len().checked_sub(1)?;
        self.swap(0, last);
        let least = self.items.pop()?;
        self.positions[least.1 as usize] = NOWHERE;
        self.weight -= self.weights[least.1 as usize];
        self.down(0);
        Some(least)
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.items.swap(a, b);
        self.positions[self.items[a].1 as usize] = a as u32;
        self.positions[self.items[b].1 as usize] = b as u32;
    }

    fn up(&mut self, mut index: usize) -> usize {
        while index > 0 && self.items[index].0 < self.items[(index - 1) / 2].0 {
            self.swap(index, (index - 1) / 2);
            index = (index - 1) / 2;
        }
        index
    }

    fn down(&mut self, mut index: usize) {
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
    capacity: u64,
    clock: u64,
}

impl Lfu {
    pub fn new(limits: Limits) -> Self {
        Lfu {
            heap: Heap::new(limits.weights),
            capacity: limits.capacity,
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
        let weight = self.heap.weights[program as usize];
        while self.heap.weight + weight > self.capacity && self.heap.pop().is_some() {
            *evictions += 1;
        }
        self.heap.set(program, (1, self.clock));
        false
    }

    fn has(&self, program: u32) -> bool {
        self.heap.has(program)
    }
}
