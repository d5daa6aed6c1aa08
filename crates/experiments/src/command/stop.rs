//! Waiting for a runner that was asked to stop.

use crate::lock::{self, Holder};
use faultline_command::output::say;
use faultline_text::time;
use std::path::Path;
use std::time::Duration;

/// From look to look at it.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// What takes longer is told.
const MOMENT: Duration = Duration::from_secs(3);
/// And told again, each time after so long.
const AGAIN: Duration = Duration::from_secs(60);

/// Waits until nobody holds the lock any more; tells for what, and what to do if its holder cannot do anything.
///
/// # Errors
/// The lock cannot be looked at.
pub(super) fn wait(path: &Path) -> anyhow::Result<()> {
    // Of time that was slept, which is less than time that has passed.
    let (mut waited, mut message_at) = (Duration::ZERO, MOMENT);
    while let Holder::Process(pid) = lock::holder(path)? {
        if waited >= message_at {
            say(&words(pid, pid.is_some_and(lock::stands_still), waited));
            message_at += AGAIN;
        }
        std::thread::sleep(POLL_INTERVAL);
        waited += POLL_INTERVAL;
    }
    Ok(())
}

fn words(pid: Option<u32>, still: bool, waited: Duration) -> String {
    let who = pid.map_or("the runner".to_owned(), |pid| format!("process {pid}"));
    match pid.filter(|_| still) {
        Some(pid) => format!(
            "{who} is stopped (SIGSTOP, or Ctrl-Z in its terminal): `kill -CONT {pid}` lets it continue and stop its runs; after `kill -KILL {pid}` they are stopped from here"
        ),
        None => format!(
            "waiting for {who} for {}: it stops its runs, which takes up to the plan's grace period",
            time(waited)
        ),
    }
}
