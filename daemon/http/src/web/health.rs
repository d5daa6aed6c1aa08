use faultline_metrics::Stamp;
use faultline_text::duration;
use std::time::Duration;

/// Alive while the newest tick is younger than five intervals or 10 s, whichever is longer. Before
/// the first tick, the daemon's start counts. The watchdog and `/healthz` share this check.
pub fn check_health(
    newest_tick: Option<Stamp>,
    now: Stamp,
    interval: Duration,
) -> Result<(), String> {
    let limit = interval.saturating_mul(5).max(Duration::from_secs(10));
    let age = now.since(newest_tick.unwrap_or_default());
    if age < limit {
        return Ok(());
    }
    let (age, limit) = (duration(age), duration(limit));
    Err(match newest_tick {
        Some(_) => format!("the newest tick is {age} old; it must be younger than {limit}"),
        None => format!("no tick in the {age} since the start; the first was due within {limit}"),
    })
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
    fn ten_seconds_without_a_tick_stay_healthy_at_a_short_interval() {
        let second = Duration::from_secs(1);
        assert_eq!(check_health(Some(at(50)), at(59), second), Ok(()));
        let stale = check_health(Some(at(50)), at(60), second).unwrap_err();
        assert_eq!(
            stale,
            "the newest tick is 10 s old; it must be younger than 10 s"
        );
    }

    #[test]
    fn a_long_interval_is_unhealthy_after_five_intervals() {
        let interval = Duration::from_secs(15);
        assert_eq!(check_health(Some(at(100)), at(174), interval), Ok(()));
        assert!(check_health(Some(at(100)), at(175), interval).is_err());
    }

    #[test]
    fn before_the_first_tick_health_is_measured_from_start() {
        assert_eq!(check_health(None, at(9), Duration::from_secs(1)), Ok(()));
        let stale = check_health(None, at(10), Duration::from_secs(1)).unwrap_err();
        assert!(stale.starts_with("no tick in the 10 s"), "{stale}");
    }
}
