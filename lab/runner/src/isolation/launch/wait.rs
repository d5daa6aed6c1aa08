use anyhow::Result;
use std::time::Duration;

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Calls `poll` until it returns a value; `None` after about `timeout`. Only the pauses count, not
/// the time of `poll`.
pub(super) fn wait<T>(
    timeout: Duration,
    mut poll: impl FnMut() -> Result<Option<T>>,
) -> Result<Option<T>> {
    let mut left = timeout;
    loop {
        if let Some(found) = poll()? {
            return Ok(Some(found));
        }
        if left.is_zero() {
            return Ok(None);
        }
        let pause = POLL_INTERVAL.min(left);
        std::thread::sleep(pause);
        left -= pause;
    }
}
