use crate::lock::{self, Holder};
use faultline_common::output::say;
use faultline_text::time;
use std::path::Path;
use std::time::Duration;

const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Longer waits are reported.
const MOMENT: Duration = Duration::from_secs(3);
const AGAIN: Duration = Duration::from_secs(60);

/// Reports what to do if the holder hangs.
pub(super) fn wait(path: &Path) -> anyhow::Result<()> {
    // Sum of sleeps: less than the elapsed time.
    let (mut waited, mut message_at) = (Duration::ZERO, MOMENT);
    while let Holder::Process(pid) = lock::holder(path)? {
        if waited >= message_at {
            say(&words(pid, pid.is_some_and(lock::is_suspended), waited));
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
