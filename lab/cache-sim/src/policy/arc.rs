//! ARC: one list of programs used once, and one of programs used again. A hit in the list of
//! programs that either evicted (its ghosts) gives it a larger share of the capacity.

use super::{Limits, Replacement, queues::Queues};

const ONCE: usize = 0;
const AGAIN: usize = 1;
const ONCE_GHOST: usize = 2;
const AGAIN_GHOST: usize = 3;

pub struct Arc {
    queues: Queues<4>,
    capacity: u64,
    once_target: f64,
}

impl Arc {
    pub fn new(limits: Limits) -> Self {
        Arc {
            queues: Queues::new(limits.weights),
            capacity: limits.capacity,
            once_target: 0.0,
        }
    }

    fn replace(&mut self, program: u32, is_again_ghost: bool, evictions: &mut u64) {
        let needed = self.queues.weight_of(program);
        while self.queues.weight(ONCE) + self.queues.weight(AGAIN) + needed > self.capacity {
            let once = self.queues.weight(ONCE);
            let (is_above, is_at) = (
                once as f64 > self.once_target,
                once as f64 >= self.once_target,
            );
            let is_once = once > 0 && (is_above || (is_again_ghost && is_at));
            let from = if is_once || self.queues.back(AGAIN).is_none() {
                ONCE
            } else {
                AGAIN
            };
            let Some(evicted) = self.queues.pop(from) else {
                return;
            };
            self.queues.push(
                if from == ONCE {
                    ONCE_GHOST
                } else {
                    AGAIN_GHOST
                },
                evicted,
            );
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
            (self.once_target + step).min(self.capacity as f64)
        } else {
            (self.once_target - step).max(0.0)
        };
        self.replace(program, ghost == AGAIN_GHOST, evictions);
        self.queues.push(AGAIN, program);
    }

    fn cold_miss(&mut self, program: u32, evictions: &mut u64) {
        let weight = self.queues.weight_of(program);
        let all = |queues: &Queues<4>| (0..4).map(|queue| queues.weight(queue)).sum::<u64>();
        while self.queues.weight(ONCE) + self.queues.weight(ONCE_GHOST) + weight > self.capacity {
            if self.queues.pop(ONCE_GHOST).is_some() {
                continue;
            }
            if self.queues.pop(ONCE).is_none() {
                break;
            }
            *evictions += 1;
        }
        while all(&self.queues) + weight > 2 * self.capacity
            && self.queues.pop(AGAIN_GHOST).is_some()
        {}
        self.replace(program, false, evictions);
        self.queues.push(ONCE, program);
    }
}

impl Replacement for Arc {
    fn access(&mut self, program: u32, evictions: &mut u64) -> bool {
        match self.queues.queue_of(program) {
            Some(ONCE | AGAIN) => {
                self.queues.push(AGAIN, program);
                return true;
            }
            Some(ghost) => self.ghost_hit(program, ghost, evictions),
            None => self.cold_miss(program, evictions),
        }
        false
    }

    fn has(&self, program: u32) -> bool {
        self.queues
            .queue_of(program)
            .is_some_and(|queue| queue <= AGAIN)
    }
}
