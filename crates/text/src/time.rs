use crate::short;
use chrono::DateTime;
use std::time::Duration;

/// `2026-01-31 23:59:59 UTC`.
pub fn moment(unix_ns: i64) -> String {
    DateTime::from_timestamp_nanos(unix_ns)
        .format("%Y-%m-%d %H:%M:%S UTC")
        .to_string()
}

/// `2026-01-31`.
pub fn day(unix_ns: i64) -> String {
    DateTime::from_timestamp_nanos(unix_ns)
        .format("%Y-%m-%d")
        .to_string()
}

/// `20260131T235959Z`, for names of files.
pub fn stamp(unix_ns: i64) -> String {
    DateTime::from_timestamp_nanos(unix_ns)
        .format("%Y%m%dT%H%M%SZ")
        .to_string()
}

/// `0.34 ms`, `250 ms`, `3.5 s`, `4 min 5 s`, `12 h 0 min`, `3 d 4 h`.
pub fn time(length: Duration) -> String {
    let seconds = length.as_secs();
    match seconds {
        0 => format!("{} ms", short(length.as_secs_f64() * 1e3)),
        1..60 => {
            let text = format!("{:.1}", length.as_secs_f64());
            format!("{} s", text.trim_end_matches(".0"))
        }
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// [`time`] of a number of seconds; `0 ms` if the number is negative or not finite.
pub fn seconds(seconds: f64) -> String {
    time(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}
