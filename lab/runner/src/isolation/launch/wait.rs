use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(20);

/// Calls `poll` at least once; `None` after about `patience`. The pauses are counted, not the time
/// of `poll`.
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
