use super::queues::Queues;
use super::{Limits, Replacement};

pub(crate) struct QueuePolicy {
    queue: Queues<1>,
    capacity: u64,
    moves_on_hit: bool,
}

impl QueuePolicy {
    pub(crate) fn lru(limits: Limits) -> Self {
        QueuePolicy {
            queue: Queues::new(limits.weights),
            capacity: limits.capacity,
            moves_on_hit: true,
        }
    }

    pub(crate) fn fifo(limits: Limits) -> Self {
        QueuePolicy {
            moves_on_hit: false,
            ..Self::lru(limits)
        }
    }
}

impl Replacement for QueuePolicy {
    fn access(&mut self, program: u32, evictions: &mut u64) -> bool {
        if self.queue.queue_of(program).is_some() {
            if self.moves_on_hit {
                self.queue.push(0, program);
            }
            return true;
        }
        while self.queue.weight(0) + self.queue.weight_of(program) > self.capacity
            && self.queue.pop(0).is_some()
        {
            *evictions += 1;
        }
        self.queue.push(0, program);
        false
    }

    fn has(&self, program: u32) -> bool {
        self.queue.queue_of(program).is_some()
    }
}
