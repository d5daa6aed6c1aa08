//! Waits for a condition with a deadline, and describes a condition that did not hold in time.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

use crate::{Error, Result};

/// Short for tests that wait often, and long enough to leave two cores to a validator.
const CHECK_INTERVAL: Duration = Duration::from_millis(25);

/// The state of a condition at one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition<T> {
    /// The condition holds, with its value.
    Ready(T),
    /// The condition does not hold yet, with a description of the state.
    NotYet(String),
}

/// Checks until the condition holds.
///
/// # Errors
/// [`Error::Late`] with the last state when `deadline` has passed, or the first error of `check`.
pub fn wait_for<T>(
    deadline: Duration,
    what: &str,
    mut check: impl FnMut() -> Result<Condition<T>>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        let last_seen = match check()? {
            Condition::Ready(value) => return Ok(value),
            Condition::NotYet(state) => state,
        };
        if start.elapsed() >= deadline {
            return Err(Error::Late {
                what: what.to_owned(),
                deadline,
                last_seen,
            });
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
}

/// Checks until `check` returns a value.
///
/// # Panics
/// When `deadline` has passed, with the description.
#[track_caller]
pub fn eventually<T>(deadline: Duration, what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    eventually_ok(deadline, what, || check().ok_or("nothing"))
}

/// Checks until `check` returns `Ok`. `Err` is the current state.
///
/// # Panics
/// When `deadline` has passed, with the description and the last state seen.
#[track_caller]
pub fn eventually_ok<T, S: Debug>(
    deadline: Duration,
    what: &str,
    mut check: impl FnMut() -> std::result::Result<T, S>,
) -> T {
    let waited = wait_for(deadline, what, || {
        Ok(match check() {
            Ok(value) => Condition::Ready(value),
            Err(state) => Condition::NotYet(format!("{state:?}")),
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
        eventually_ok(Duration::from_millis(1), "the moon is full", || {
            Err::<(), _>("waning")
        });
    }

    #[test]
    fn an_error_ends_the_wait_immediately() {
        let waited = wait_for(
            Duration::from_secs(3600),
            "never",
            || -> Result<Condition<()>> { Err(Error::Missing("broken".to_owned())) },
        );
        assert!(matches!(waited, Err(Error::Missing(_))));
    }
}
