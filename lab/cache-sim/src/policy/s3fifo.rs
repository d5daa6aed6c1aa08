//! S3-FIFO: a small queue for new programs, a main queue for programs used again, and a list of the
//! programs that the small queue evicted.

use super::{Limits, Replacement, queues::Queues};

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;
const MAX_USES: u8 = 3;

pub struct S3Fifo {
    queues: Queues<3>,
    capacity: u64,
    small_capacity: u64,
    /// Capacity of the main queue, and of the list of evicted programs.
    main_capacity: u64,
    uses: Vec<u8>,
    /// Whether anything was evicted yet. Until then the main queue takes the overflow of the small
    /// one.
    has_evicted: bool,
}

impl S3Fifo {
    pub fn new(limits: Limits) -> Self {
        let uses = vec![0; limits.weights.len()];
        let small_capacity = (limits.capacity / 10).max(1);
        let main_capacity = limits.capacity - small_capacity;
        S3Fifo {
            queues: Queues::new(limits.weights),
            capacity: limits.capacity,
            small_capacity,
            main_capacity,
            uses,
            has_evicted: false,
        }
    }

    fn resident(&self) -> u64 {
        self.queues.weight(SMALL) + self.queues.weight(MAIN)
    }

    fn evict(&mut self) -> u64 {
        self.has_evicted = true;
        let main_is_over = self.queues.weight(MAIN) > self.main_capacity;
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
            while self.queues.weight(GHOST) > self.main_capacity {
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
            *uses = (*uses + 1).min(MAX_USES);
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
        let is_main_short = !self.has_evicted && self.queues.weight(SMALL) >= self.small_capacity;
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
