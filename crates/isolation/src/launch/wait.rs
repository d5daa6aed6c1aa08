//! Waiting for a condition, in looks rather than by a clock.

use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(20);

/// What `poll` finds, or `None` if it has found nothing within about `patience`. It looks at least once.
pub(super) fn wait<T, E>(
    patience: Duration,
    mut poll: impl FnMut() -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    let mut left = patience;
    loop {
        if let Some(found) = poll()? {
            return Ok(Some(found));
        }
        if left.is_zero() {
            return Ok(None);
        }
        let pause = PAUSE.min(left);
        std::thread::sleep(pause);
        left -= pause;
    }
}
