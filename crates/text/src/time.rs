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

/// `0.34 ms`, `250 ms`, `3.5 s`, `4 min 5 s`, `12 h`, `3 d 4 h`; rounded in the smaller unit.
pub fn duration(length: Duration) -> String {
    let seconds = length.as_secs_f64();
    let rounded = |unit: f64| (seconds / unit).round() as u64;
    match seconds {
        // From 999.5 ms on, milliseconds round to 1,000.
        ..0.9995 => ms(seconds),
        ..59.95 => {
            let text = format!("{seconds:.1}");
            format!("{} s", text.trim_end_matches(".0"))
        }
        ..3599.5 => two_units(rounded(1.0), 60, ["min", "s"]),
        ..86_370.0 => two_units(rounded(60.0), 60, ["h", "min"]),
        _ => two_units(rounded(3600.0), 24, ["d", "h"]),
    }
}

fn two_units(count: u64, per_large: u64, [large_unit, small_unit]: [&str; 2]) -> String {
    let large = count / per_large;
    match count % per_large {
        0 => format!("{large} {large_unit}"),
        small => format!("{large} {large_unit} {small} {small_unit}"),
    }
}

pub fn ms(seconds: f64) -> String {
    format!("{} ms", short(seconds * 1e3))
}

/// [`duration`] of seconds; `0 ms` if they are negative or not finite.
pub fn duration_f64(seconds: f64) -> String {
    duration(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}
