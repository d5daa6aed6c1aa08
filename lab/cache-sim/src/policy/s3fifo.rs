//! S3-FIFO: a small queue for new programs, a main one for programs used again, and a list of what
//! the small one evicted.

use super::queues::Queues;
use super::{Limits, Replacement};

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;
const MOST_USES: u8 = 3;

pub(crate) struct S3Fifo {
    queues: Queues<3>,
    capacity: u64,
    small: u64,
    /// Capacity of the main queue, and of the list of evicted programs.
    main: u64,
    uses: Vec<u8>,
    /// Whether anything was evicted yet. Until then the main queue takes the overflow of the small
    /// one.
    was_full: bool,
}

impl S3Fifo {
    pub(crate) fn new(limits: Limits) -> Self {
        let uses = vec![0; limits.weights.len()];
        let small = (limits.capacity / 10).max(1);
        let main = limits.capacity - small;
        S3Fifo {
            queues: Queues::new(limits.weights),
            capacity: limits.capacity,
            small,
            main,
            uses,
            was_full: false,
        }
    }

    fn resident(&self) -> u64 {
        self.queues.weight(SMALL) + self.queues.weight(MAIN)
    }

    fn evict(&mut self) -> u64 {
        self.was_full = true;
        let main_is_over = self.queues.weight(MAIN) > self.main;
        if main_is_over || self.queues.back(SMALL).is_none() {
            self.evict_main()
        } else {
            self.evict_small()
        }
    }

    fn evict_small(&mut self) -> u64 {
        while let Some(program) = self.queues.pop(SMALL) {
            if self.uses[program as usize] > 1 {
                self.uses[program as usize] = 0;
                self.queues.push(MAIN, program);
                continue;
            }
            self.queues.push(GHOST, program);
            while self.queues.weight(GHOST) > self.main {
                self.queues.pop(GHOST);
            }
            return 1;
        }
        0
    }

    fn evict_main(&mut self) -> u64 {
        while let Some(program) = self.queues.pop(MAIN) {
            if self.uses[program as usize] == 0 {
                return 1;
            }
            self.uses[program as usize] -= 1;
            self.queues.push(MAIN, program);
        }
        0
    }
}

impl Replacement for S3Fifo {
    fn access(&mut self, program: u32, evictions: &mut u64) -> bool {
        if self.has(program) {
            let uses = &mut self.uses[program as usize];
            *uses = (*uses + 1).min(MOST_USES);
            return true;
        }
        let is_ghost = self.queues.queue_of(program) == Some(GHOST);
        self.queues.remove(program);
        while self.resident() > 0
            && self.resident() + self.queues.weight_of(program) > self.capacity
        {
            *evictions += self.evict();
        }
        self.uses[program as usize] = 0;
        let is_main_short = !self.was_full && self.queues.weight(SMALL) >= self.small;
        self.queues.push(
            if is_ghost || is_main_short {
                MAIN
            } else {
                SMALL
            },
            program,
        );
        false
    }

    fn has(&self, program: u32) -> bool {
        self.queues
            .queue_of(program)
            .is_some_and(|queue| queue != GHOST)
    }
}
