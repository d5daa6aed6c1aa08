//! Policies with several queues: ARC, S3-FIFO and W-TinyLFU.

use super::{Replacement, queues::Queues};
use crate::cache::Budget;

/// Queues of ARC. A ghost is a program that was evicted from a queue.
const ONCE: usize = 0;
const AGAIN: usize = 1;
const ONCE_GHOST: usize = 2;
const AGAIN_GHOST: usize = 3;

/// ARC has a queue of programs used once, and one of programs used again. A lookup of a ghost
/// enlarges the share of its queue in the capacity.
pub struct Arc {
    queues: Queues<4>,
    once_target: f64,
}

impl Arc {
    pub fn new(budget: &Budget) -> Self {
        Self {
            queues: Queues::new(budget),
            once_target: 0.0,
        }
    }

    fn replace(&mut self, program: u32, is_again_ghost: bool, evictions: &mut u64) {
        let needed = self.queues.weight_of(program);
        while self.queues.weight(ONCE) + self.queues.weight(AGAIN) + needed > self.queues.capacity {
            let once = self.queues.weight(ONCE);
            let is_above = once as f64 > self.once_target;
            let reaches = once as f64 >= self.once_target;
            let takes_once = once > 0 && (is_above || (is_again_ghost && reaches));
            let (from, ghost) = if takes_once || self.queues.back(AGAIN).is_none() {
                (ONCE, ONCE_GHOST)
            } else {
                (AGAIN, AGAIN_GHOST)
            };
            let Some(evicted) = self.queues.pop(from) else {
                return;
            };
            self.queues.move_to_front(ghost, evicted);
            *evictions += 1;
        }
    }

    fn ghost_hit(&mut self, program: u32, ghost: usize, evictions: &mut u64) {
        let other = if ghost == ONCE_GHOST {
            AGAIN_GHOST
        } else {
            ONCE_GHOST
        };
        let ratio = self.queues.weight(other) as f64 / self.queues.weight(ghost) as f64;
        let step = ratio.max(1.0) * self.queues.weight_of(program) as f64;
        self.once_target = if ghost == ONCE_GHOST {
            (self.once_target + step).min(self.queues.capacity as f64)
        } else {
            (self.once_target - step).max(0.0)
        };
        self.replace(program, ghost == AGAIN_GHOST, evictions);
        self.queues.move_to_front(AGAIN, program);
    }

    fn cold_miss(&mut self, program: u32, evictions: &mut u64) {
        let weight = self.queues.weight_of(program);
        let total_weight =
            |queues: &Queues<4>| (0..4).map(|queue| queues.weight(queue)).sum::<u64>();
        while self.queues.weight(ONCE) + self.queues.weight(ONCE_GHOST) + weight
            > self.queues.capacity
        {
            if self.queues.pop(ONCE_GHOST).is_some() {
                continue;
            }
            if self.queues.pop(ONCE).is_none() {
                break;
            }
            *evictions += 1;
        }
        while total_weight(&self.queues) + weight > 2 * self.queues.capacity
            && self.queues.pop(AGAIN_GHOST).is_some()
        {}
        self.replace(program, false, evictions);
        self.queues.move_to_front(ONCE, program);
    }
}

impl Replacement for Arc {
    fn access(&mut self, program: u32, evictions: &mut u64) -> bool {
        match self.queues.queue_of(program) {
            Some(ONCE | AGAIN) => {
                self.queues.move_to_front(AGAIN, program);
                return true;
            }
            Some(ghost) => self.ghost_hit(program, ghost, evictions),
            None => self.cold_miss(program, evictions),
        }
        false
    }

    fn contains(&self, program: u32) -> bool {
        self.queues
            .queue_of(program)
            .is_some_and(|queue| queue <= AGAIN)
    }
}

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;
const S3_MAX_USES: u8 = 3;

/// S3-FIFO has a small queue for new programs, a main queue for programs used again, and ghosts of
/// the small queue.
pub struct S3Fifo {
    queues: Queues<3>,
    small_capacity: u64,
    /// The ghosts have the same capacity.
    main_capacity: u64,
    uses: Vec<u8>,
    /// Until the first eviction, programs enter the main queue if the small queue is full.
    has_evicted: bool,
}

impl S3Fifo {
    pub fn new(budget: &Budget) -> Self {
        let small_capacity = (budget.capacity / 10).max(1);
        Self {
            queues: Queues::new(budget),
            small_capacity,
            main_capacity: budget.capacity - small_capacity,
            uses: vec![0; budget.weights.len()],
            has_evicted: false,
        }
    }

    fn resident_weight(&self) -> u64 {
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
                self.queues.move_to_front(MAIN, program);
                continue;
            }
            self.queues.move_to_front(GHOST, program);
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
            self.queues.move_to_front(MAIN, program);
        }
        0
    }
}

impl Replacement for S3Fifo {
    fn access(&mut self, program: u32, evictions: &mut u64) -> bool {
        if self.contains(program) {
            let uses = &mut self.uses[program as usize];
            *uses = (*uses + 1).min(S3_MAX_USES);
            return true;
        }
        let is_ghost = self.queues.queue_of(program) == Some(GHOST);
        self.queues.remove(program);
        while self.resident_weight() > 0
            && self.resident_weight() + self.queues.weight_of(program) > self.queues.capacity
        {
            *evictions += self.evict();
        }
        self.uses[program as usize] = 0;
        let bypasses_small = !self.has_evicted && self.queues.weight(SMALL) >= self.small_capacity;
        self.queues.move_to_front(
            if is_ghost || bypasses_small {
                MAIN
            } else {
                SMALL
            },
            program,
        );
        false
    }

    fn contains(&self, program: u32) -> bool {
        self.queues
            .queue_of(program)
            .is_some_and(|queue| queue != GHOST)
    }
}

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;
/// Maximum count of uses, as in a sketch with four bits.
const TINYLFU_MAX_USES: u8 = 15;

/// W-TinyLFU: a program moves from a small window to a segmented LRU only if it is used more than
/// the one that it would replace. Use counts of all programs are halved periodically.
pub struct WTinyLfu {
    queues: Queues<3>,
    /// 1 % of the capacity.
    window_capacity: u64,
    main_capacity: u64,
    protected_capacity: u64,
    uses: Vec<u8>,
    uses_counted: u64,
    /// Uses after which all counts are halved: ten times the number of programs that fit.
    halving_period: u64,
}

impl WTinyLfu {
    pub fn new(budget: &Budget) -> Self {
        let programs = budget.weights.len();
        let window_capacity = (budget.capacity / 100).max(1);
        let main_capacity = budget.capacity.saturating_sub(window_capacity);
        let mean_weight = (budget.weights.iter().sum::<u64>() / (programs as u64).max(1)).max(1);
        Self {
            queues: Queues::new(budget),
            window_capacity,
            main_capacity,
            protected_capacity: main_capacity * 4 / 5,
            uses: vec![0; programs],
            uses_counted: 0,
            halving_period: 10 * (budget.capacity / mean_weight).max(1),
        }
    }

    fn count(&mut self, program: u32) {
        let uses = &mut self.uses[program as usize];
        *uses = (*uses + 1).min(TINYLFU_MAX_USES);
        self.uses_counted += 1;
        if self.uses_counted >= self.halving_period {
            self.uses.iter_mut().for_each(|uses| *uses /= 2);
            self.uses_counted /= 2;
        }
    }

    /// Returns the number of evicted programs, which may include `candidate`.
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
        self.queues.move_to_front(PROBATION, candidate);
        evicted
    }
}

impl Replacement for WTinyLfu {
    fn access(&mut self, program: u32, evictions: &mut u64) -> bool {
        self.count(program);
        match self.queues.queue_of(program) {
            Some(WINDOW) => self.queues.move_to_front(WINDOW, program),
            Some(_) => {
                self.queues.move_to_front(PROTECTED, program);
                while self.queues.weight(PROTECTED) > self.protected_capacity
                    && let Some(demoted) = self.queues.pop(PROTECTED)
                {
                    self.queues.move_to_front(PROBATION, demoted);
                }
            }
            None => {
                self.queues.move_to_front(WINDOW, program);
                while self.queues.weight(WINDOW) > self.window_capacity
                    && let Some(candidate) = self.queues.pop(WINDOW)
                {
                    *evictions += self.admit(candidate);
                }
                return false;
            }
        }
        true
    }

    fn contains(&self, program: u32) -> bool {
        self.queues.queue_of(program).is_some()
    }
}
