//! W-TinyLFU: a program moves from a small window to a segmented LRU only if it is used more than
//! the one that it would replace. Use counts of all programs are halved periodically.

use super::queues::Queues;
use super::{Limits, Replacement};

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;
/// Uses are counted up to here, as by a sketch with four bits.
const MOST_USES: u8 = 15;

pub(crate) struct WTinyLfu {
    queues: Queues<3>,
    window: u64,
    main: u64,
    protected: u64,
    uses: Vec<u8>,
    counted: u64,
    period: u64,
}

impl WTinyLfu {
    pub(crate) fn new(limits: Limits) -> Self {
        let programs = limits.weights.len();
        let window = (limits.capacity / 100).max(1);
        let main = limits.capacity - window.min(limits.capacity);
        let mean = (limits.weights.iter().sum::<u64>() / (programs as u64).max(1)).max(1);
        let period = 10 * (limits.capacity / mean).max(1);
        WTinyLfu {
            queues: Queues::new(limits.weights),
            window,
            main,
            protected: main / 5 * 4 + main % 5 * 4 / 5,
            uses: vec![0; programs],
            counted: 0,
            period,
        }
    }

    fn count(&mut self, program: u32) {
        let uses = &mut self.uses[program as usize];
        *uses = (*uses + 1).min(MOST_USES);
        self.counted += 1;
        if self.counted >= self.period {
            self.uses.iter_mut().for_each(|uses| *uses /= 2);
            self.counted /= 2;
        }
    }

    fn shrink_window(&mut self, evictions: &mut u64) {
        while self.queues.weight(WINDOW) > self.window {
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
            > self.main
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
        while self.queues.weight(PROTECTED) > self.protected {
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
