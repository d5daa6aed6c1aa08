//! The recorder's bounded queue. Producers never block.

use faultline_metrics::{Stamp, Tick};
use faultline_recording::Point;
use faultline_sources::discovery::{EndReason, Target};
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Enough for a disk that stalls for a minute, at the default interval.
const MAX_TICKS: usize = 64;

/// About 350 bytes each. A push of ten seconds has some hundred.
const MAX_POINTS: usize = 8192;

const MAX_MARKS: usize = 64;

#[derive(Debug)]
pub enum Message {
    Tick(Arc<Tick>, FollowedAtTick),
    Point(Box<Point>),
    Mark(Stamp, String),
}

#[derive(Debug, Clone, Default)]
pub struct FollowedAtTick {
    pub target: Option<Arc<Target>>,
    /// End reason of the previous process; `None` if none has ended.
    pub ended: Option<EndReason>,
}

/// One queue for all kinds of messages, with a limit for each, so that their order stays.
#[derive(Debug, Default)]
pub struct Queue {
    queued: Mutex<QueuedMessages>,
    lost: AtomicU64,
}

#[derive(Debug, Default)]
struct QueuedMessages {
    messages: VecDeque<Message>,
    ticks: usize,
    points: usize,
    marks: usize,
}

impl Queue {
    /// Returns false if the queue is full. Counts the loss, except of marks, whose sender gets an
    /// error.
    pub fn push(&self, message: Message) -> bool {
        let mut queued = self.queued.lock();
        let (count, max, counted) = match message {
            Message::Tick(..) => (&mut queued.ticks, MAX_TICKS, true),
            Message::Point(_) => (&mut queued.points, MAX_POINTS, true),
            Message::Mark(..) => (&mut queued.marks, MAX_MARKS, false),
        };
        let has_capacity = *count < max;
        if has_capacity {
            *count += 1;
            queued.messages.push_back(message);
        } else if counted {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        has_capacity
    }

    pub fn drain(&self) -> VecDeque<Message> {
        std::mem::take(&mut *self.queued.lock()).messages
    }

    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Counts points that were dropped earlier.
    pub fn count_lost(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(name: &str) -> Message {
        Message::Mark(Stamp::default(), name.to_owned())
    }

    fn tick(number: u64) -> Message {
        let tick = Tick {
            number,
            at: Stamp::default(),
            batches: Vec::new(),
        };
        Message::Tick(Arc::new(tick), FollowedAtTick::default())
    }

    #[test]
    fn a_full_recorder_queue_counts_dropped_ticks_but_accepts_other_kinds() {
        let queue = Queue::default();
        let taken = (0..MAX_TICKS as u64 + 5)
            .filter(|number| queue.push(tick(*number)))
            .count();
        assert_eq!((taken, queue.lost()), (MAX_TICKS, 5));
        assert!(queue.push(mark("a")));
        let all = queue.drain();
        assert_eq!(all.len(), MAX_TICKS + 1);
        assert!(matches!(all.back(), Some(Message::Mark(_, name)) if name == "a"));
        assert!(queue.push(tick(99)), "what was taken has made room");
        assert!((0..=MAX_MARKS).any(|_| !queue.push(mark("a"))));
        assert_eq!(queue.lost(), 5, "who sets a mark is told");
    }
}
