//! SIEVE: a hand moves from the oldest program to the newest. It spares those used since its last
//! visit and evicts the first other one.

use super::queues::Queues;
use super::{Limits, Replacement};

pub(crate) struct Sieve {
    queue: Queues<1>,
    capacity: u64,
    visited: Vec<bool>,
    hand: Option<u32>,
}

impl Sieve {
    pub(crate) fn new(limits: Limits) -> Self {
        let visited = vec![false; limits.weights.len()];
        Sieve {
            queue: Queues::new(limits.weights),
            capacity: limits.capacity,
            visited,
            hand: None,
        }
    }

    fn evict(&mut self) -> bool {
        let Some(mut candidate) = self.hand.or_else(|| self.queue.back(0)) else {
            return false;
        };
        while std::mem::take(&mut self.visited[candidate as usize]) {
            candidate = self
                .queue
                .toward_front(candidate)
                .or_else(|| self.queue.back(0))
                .unwrap_or(candidate);
        }
        self.hand = self.queue.toward_front(candidate);
        self.queue.remove(candidate);
        true
    }
}

impl Replacement for Sieve {
    fn access(&mut self, program: u32, evictions: &mut u64) -> bool {
        if self.has(program) {
            self.visited[program as usize] = true;
            return true;
        }
        while self.queue.weight(0) + self.queue.weight_of(program) > self.capacity && self.evict() {
            *evictions += 1;
        }
        self.visited[program as usize] = false;
        self.queue.push(0, program);
        false
    }

    fn has(&self, program: u32) -> bool {
        self.queue.queue_of(program).is_some()
    }
}
