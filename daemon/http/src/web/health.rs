use faultline_metrics::Stamp;
use std::fmt;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stale {
    pub ticked: bool,
    /// Since the newest tick, or since the start if there was none.
    pub age: Duration,
    pub limit: Duration,
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let age = self.age.as_secs_f64();
        let limit = self.limit.as_secs_f64();
        match self.ticked {
            true => write!(
                f,
                "the newest tick is {age:.1} s old, more than {limit:.1} s"
            ),
            false => write!(
                f,
                "no tick in the {age:.1} s since the start, more than {limit:.1} s"
            ),
        }
    }
}

/// Alive if the newest tick is younger than five intervals, at least 10 s. Before the first tick,
/// the daemon's start counts. The watchdog and `/healthz` share this check.
pub fn health(newest: Option<Stamp>, now: Stamp, interval: Duration) -> Result<(), Stale> {
    let limit = interval.saturating_mul(5).max(Duration::from_secs(10));
    let age = now.since(newest.unwrap_or_default());
    if age < limit {
        Ok(())
    } else {
        Err(Stale {
            ticked: newest.is_some(),
            age,
            limit,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Stamp {
        Stamp {
            uptime: Duration::from_secs(seconds),
            unix: Duration::ZERO,
        }
    }

    #[test]
    fn ten_seconds_are_forgiven_even_at_a_short_interval() {
        let second = Duration::from_secs(1);
        assert_eq!(health(Some(at(50)), at(59), second), Ok(()));
        let stale = health(Some(at(50)), at(60), second).unwrap_err();
        assert_eq!(
            stale.to_string(),
            "the newest tick is 10.0 s old, more than 10.0 s"
        );
    }

    #[test]
    fn a_long_interval_is_given_five_of_its_own() {
        let interval = Duration::from_secs(15);
        assert_eq!(health(Some(at(100)), at(174), interval), Ok(()));
        assert!(health(Some(at(100)), at(175), interval).is_err());
    }

    #[test]
    fn before_the_first_tick_the_start_counts() {
        assert_eq!(health(None, at(9), Duration::from_secs(1)), Ok(()));
        assert!(
            !health(None, at(10), Duration::from_secs(1))
                .unwrap_err()
                .ticked
        );
    }
}
