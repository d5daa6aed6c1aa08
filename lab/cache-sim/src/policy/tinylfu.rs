//! W-TinyLFU: a program moves from a small window to a segmented LRU only if it is used more than
//! the one that it would replace. Use counts of all programs are halved periodically.

use super::{Limits, Replacement, queues::Queues};

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;
/// Uses are counted up to here, as by a sketch with four bits.
const MAX_USES: u8 = 15;

pub struct WTinyLfu {
    queues: Queues<3>,
    /// Capacities: 1 % for the window; of the rest, 80 % for the protected segment.
    window_capacity: u64,
    main_capacity: u64,
    protected_capacity: u64,
    uses: Vec<u8>,
    uses_counted: u64,
    /// Uses after which all counts are halved: ten times the programs that fit.
    halving_period: u64,
}

impl WTinyLfu {
    pub fn new(limits: Limits) -> Self {
        let programs = limits.weights.len();
        let window_capacity = (limits.capacity / 100).max(1);
        let main_capacity = limits.capacity - window_capacity.min(limits.capacity);
        let mean = (limits.weights.iter().sum::<u64>() / (programs as u64).max(1)).max(1);
        let halving_period = 10 * (limits.capacity / mean).max(1);
        WTinyLfu {
            queues: Queues::new(limits.weights),
            window_capacity,
            main_capacity,
            protected_capacity: main_capacity / 5 * 4 + main_capacity % 5 * 4 / 5,
            uses: vec![0; programs],
            uses_counted: 0,
            halving_period,
        }
    }

    fn count(&mut self, program: u32) {
        let uses = &mut self.uses[program as usize];
        *uses = (*uses + 1).min(MAX_USES);
        self.uses_counted += 1;
        if self.uses_counted >= self.halving_period {
            self.uses.iter_mut().for_each(|uses| *uses /= 2);
            self.uses_counted /= 2;
        }
    }

    fn shrink_window(&mut self, evictions: &mut u64) {
        while self.queues.weight(WINDOW) > self.window_capacity {
            let Some(candidate) = self.queues.pop(WINDOW) else {
                return;
            };
            *evictions += self.admit(candidate);
        }
    }

    fn admit(&mut self, candidate: u32) -> u64 {
        let mut evicted = 0;
        while self.queues.weight(PROBATION)
            + self.queues.weight(PROTECTED)
            + self.queues.weight_of(candidate)
            > self.main_capacity
        {
            let queue = if self.queues.back(PROBATION).is_some() {
                PROBATION
            } else {
                PROTECTED
            };
            let Some(victim) = self.queues.back(queue) else {
                return evicted + 1;
            };
            if self.uses[candidate as usize] <= self.uses[victim as usize] {
                return evicted + 1;
            }
            self.queues.remove(victim);
            evicted += 1;
        }
        self.queues.push(PROBATION, candidate);
        evicted
    }

    fn protect(&mut self, program: u32) {
        self.queues.push(PROTECTED, program);
        while self.queues.weight(PROTECTED) > self.protected_capacity {
            let Some(demoted) = self.queues.pop(PROTECTED) else {
                return;
            };
            self.queues.push(PROBATION, demoted);
        }
    }
}

impl Replacement for WTinyLfu {
    fn access(&mut self, program: u32, evictions: &mut u64) -> bool {
        self.count(program);
        match self.queues.queue_of(program) {
            Some(WINDOW) => self.queues.push(WINDOW, program),
            Some(_) => self.protect(program),
            None => {
                self.queues.push(WINDOW, program);
                self.shrink_window(evictions);
                return false;
            }
        }
        true
    }

    fn has(&self, program: u32) -> bool {
        self.queues.queue_of(program).is_some()
    }
}
