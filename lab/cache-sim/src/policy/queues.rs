use super::Replacement;
use crate::cache::Budget;

const NONE: u32 = u32::MAX;

/// `N` queues of programs. Programs enter at the front. Each program is in at most one queue.
pub struct Queues<const N: usize> {
    nodes: Vec<Node>,
    fronts: [u32; N],
    backs: [u32; N],
    queue_weights: [u64; N],
    program_weights: Vec<u64>,
    pub capacity: u64,
}

#[derive(Clone, Copy)]
struct Node {
    to_front: u32,
    to_back: u32,
    /// Number of the program's queue plus 1; 0 if it is in no queue.
    queue: u8,
}

impl<const N: usize> Queues<N> {
    pub fn new(budget: &Budget) -> Self {
        let node = Node {
            to_front: NONE,
            to_back: NONE,
            queue: 0,
        };
        Self {
            nodes: vec![node; budget.weights.len()],
            fronts: [NONE; N],
            backs: [NONE; N],
            queue_weights: [0; N],
            program_weights: budget.weights.clone(),
            capacity: budget.capacity,
        }
    }

    #[inline]
    pub fn queue_of(&self, program: u32) -> Option<usize> {
        usize::from(self.nodes[program as usize].queue).checked_sub(1)
    }

    pub fn weight(&self, queue: usize) -> u64 {
        self.queue_weights[queue]
    }

    pub fn weight_of(&self, program: u32) -> u64 {
        self.program_weights[program as usize]
    }

    pub fn back(&self, queue: usize) -> Option<u32> {
        Some(self.backs[queue]).filter(|program| *program != NONE)
    }

    pub fn toward_front(&self, program: u32) -> Option<u32> {
        Some(self.nodes[program as usize].to_front).filter(|program| *program != NONE)
    }

    pub fn remove(&mut self, program: u32) {
        let node = self.nodes[program as usize];
        let Some(queue) = self.queue_of(program) else {
            return;
        };
        match self.nodes.get_mut(node.to_front as usize) {
            Some(in_front) => in_front.to_back = node.to_back,
            None => self.fronts[queue] = node.to_back,
        }
        match self.nodes.get_mut(node.to_back as usize) {
            Some(behind) => behind.to_front = node.to_front,
            None => self.backs[queue] = node.to_front,
        }
        self.nodes[program as usize].queue = 0;
        self.queue_weights[queue] -= self.weight_of(program);
    }

    pub fn move_to_front(&mut self, queue: usize, program: u32) {
        self.remove(program);
        let front = self.fronts[queue];
        match self.nodes.get_mut(front as usize) {
            Some(node) => node.to_front = program,
            None => self.backs[queue] = program,
        }
        self.nodes[program as usize] = Node {
            to_front: NONE,
            to_back: front,
            queue: queue as u8 + 1,
        };
        self.fronts[queue] = program;
        self.queue_weights[queue] += self.weight_of(program);
    }

    pub fn pop(&mut self, queue: usize) -> Option<u32> {
        let program = self.back(queue)?;
        self.remove(program);
        Some(program)
    }
}

pub struct QueuePolicy {
    queue: Queues<1>,
    moves_on_hit: bool,
}

impl QueuePolicy {
    /// LRU moves programs on a hit, FIFO does not.
    pub fn new(budget: &Budget, moves_on_hit: bool) -> Self {
        Self {
            queue: Queues::new(budget),
            moves_on_hit,
        }
    }
}

impl Replacement for QueuePolicy {
    fn access(&mut self, program: u32, evictions: &mut u64) -> bool {
        if self.contains(program) {
            if self.moves_on_hit {
                self.queue.move_to_front(0, program);
            }
            return true;
        }
        while self.queue.weight(0) + self.queue.weight_of(program) > self.queue.capacity
            && self.queue.pop(0).is_some()
        {
            *evictions += 1;
        }
        self.queue.move_to_front(0, program);
        false
    }

    fn contains(&self, program: u32) -> bool {
        self.queue.queue_of(program).is_some()
    }
}

/// SIEVE: a pointer, the hand, moves from the oldest program to the newest. It evicts the first
/// program that was not used since the hand last passed it.
pub struct Sieve {
    queue: Queues<1>,
    visited: Vec<bool>,
    hand: Option<u32>,
}

impl Sieve {
    pub fn new(budget: &Budget) -> Self {
        Self {
            queue: Queues::new(budget),
            visited: vec![false; budget.weights.len()],
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
        if self.contains(program) {
            self.visited[program as usize] = true;
            return true;
        }
        while self.queue.weight(0) + self.queue.weight_of(program) > self.queue.capacity
            && self.evict()
        {
            *evictions += 1;
        }
        self.visited[program as usize] = false;
        self.queue.move_to_front(0, program);
        false
    }

    fn contains(&self, program: u32) -> bool {
        self.queue.queue_of(program).is_some()
    }
}
