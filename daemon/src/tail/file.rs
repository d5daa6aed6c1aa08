//! A log file, followed over rotation on a thread of its own: [`Follower`] at the daemon's pace, into its intake.

use super::{Parts, inlet};
use crate::clock::Clock;
use crate::supervisor::Stop;
use faultline_follow::{Follower, Left, POLL, View};
use std::path::Path;

/// The follower of a file. [`run`](FileTail::run) is for a thread: it reads files.
#[derive(Debug)]
pub struct FileTail {
    follower: Follower,
    clock: Clock,
}

impl FileTail {
    /// A follower of `path`, at its end as of now.
    pub fn open(path: &Path, parts: Parts) -> Self {
        let now = parts.clock.now();
        FileTail {
            follower: Follower::open(path, inlet::records(parts.intake), now),
            clock: parts.clock,
        }
    }

    /// How it fares.
    pub fn view(&self) -> View {
        self.follower.view()
    }

    /// Follows until the signal. A line that is incomplete then is not counted.
    pub fn run(mut self, stop: Stop) {
        while !stop.is_set() {
            match self.follower.look(self.clock.now()) {
                Left::More => std::thread::yield_now(),
                Left::Nothing => {
                    stop.sleep(POLL);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
