use crate::short;
use chrono::DateTime;
use std::time::Duration;

/// `2026-01-31 23:59:59 UTC`.
pub fn utc(unix_ns: i64) -> String {
    in_utc(unix_ns, "%Y-%m-%d %H:%M:%S UTC")
}

/// `2026-01-31`.
pub fn date(unix_ns: i64) -> String {
    in_utc(unix_ns, "%Y-%m-%d")
}

/// `20260131T235959Z`, in UTC.
pub fn file_time(unix_ns: i64) -> String {
    in_utc(unix_ns, "%Y%m%dT%H%M%SZ")
}

fn in_utc(unix_ns: i64, format: &str) -> String {
    let time = DateTime::from_timestamp_nanos(unix_ns);
    time.format(format).to_string()
}

/// `0.34 ms`, `250 ms`, `3.5 s`, `4 min 5 s`, `12 h`, `3 d 4 h`.
pub fn duration(length: Duration) -> String {
    let seconds = length.as_secs();
    match seconds {
        // From 999.5 ms on, milliseconds round to 1,000.
        _ if length < Duration::from_micros(999_500) => {
            format!("{} ms", short(length.as_secs_f64() * 1e3))
        }
        0..60 => {
            let text = format!("{:.1}", length.as_secs_f64());
            format!("{} s", text.trim_end_matches(".0"))
        }
        60..3600 => two_units((seconds / 60, "min"), (seconds % 60, "s")),
        3600..86_400 => two_units((seconds / 3600, "h"), (seconds / 60 % 60, "min")),
        _ => two_units((seconds / 86_400, "d"), (seconds / 3600 % 24, "h")),
    }
}

fn two_units((large, large_unit): (u64, &str), (small, small_unit): (u64, &str)) -> String {
    match small {
        0 => format!("{large} {large_unit}"),
        _ => format!("{large} {large_unit} {small} {small_unit}"),
    }
}

/// [`duration`] of seconds; `0 ms` if they are negative or not finite.
pub fn duration_f64(seconds: f64) -> String {
    duration(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}
