//! Waiting for a condition, with a deadline and with words for the case that it never comes.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// Pause between two looks: short enough for tests that wait often, long enough to leave two cores to a validator.
const PAUSE: Duration = Duration::from_millis(25);

/// One look at the world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look<T> {
    /// The condition holds; the value it gives.
    Ready(T),
    /// It does not hold yet; the state in words.
    NotYet(String),
}

/// Looks until the condition holds.
///
/// # Errors
/// [`Error::Late`] with the last state seen when `deadline` has passed, or the first error of `look`.
pub fn wait_for<T>(
    deadline: Duration,
    what: &str,
    mut look: impl FnMut() -> Result<Look<T>>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        let last_seen = match look()? {
            Look::Ready(value) => return Ok(value),
            Look::NotYet(state) => state,
        };
        if start.elapsed() >= deadline {
            return Err(Error::Late {
                what: what.to_owned(),
                deadline,
                last_seen,
            });
        }
        std::thread::sleep(PAUSE);
    }
}

/// Looks until `look` gives a value.
///
/// # Panics
/// When `deadline` has passed, with the description.
#[track_caller]
pub fn eventually<T>(deadline: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    eventually_seeing(deadline, what, || look().ok_or("nothing"))
}

/// Looks until `look` gives `Ok`; what it gives as `Err` is the state seen so far.
///
/// # Panics
/// When `deadline` has passed, with the description and the last state seen.
#[track_caller]
pub fn eventually_seeing<T, S: Debug>(
    deadline: Duration,
    what: &str,
    mut look: impl FnMut() -> std::result::Result<T, S>,
) -> T {
    let waited = wait_for(deadline, what, || {
        Ok(match look() {
            Ok(value) => Look::Ready(value),
            Err(state) => Look::NotYet(format!("{state:?}")),
        })
    });
    match waited {
        Ok(value) => value,
        #[expect(
            clippy::panic,
            reason = "the promise of this function: a test ends here"
        )]
        Err(late) => panic!("{late}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_returned_once_the_condition_holds() {
        let mut looks = 0;
        let value = eventually(Duration::from_secs(30), "three looks", || {
            looks += 1;
            (looks == 3).then_some("done")
        });
        assert_eq!((value, looks), ("done", 3));
    }

    #[test]
    #[should_panic(expected = "the moon is full: not within 1ms; last seen: \"waning\"")]
    fn a_condition_that_never_becomes_true_panics_with_the_last_state() {
        eventually_seeing(Duration::from_millis(1), "the moon is full", || {
            Err::<(), _>("waning")
        });
    }

    #[test]
    fn an_error_ends_the_wait_immediately() {
        let waited = wait_for(
            Duration::from_secs(3600),
            "never",
            || -> Result<Look<()>> { Err(Error::Missing("broken".to_owned())) },
        );
        assert!(matches!(waited, Err(Error::Missing(_))));
    }
}
