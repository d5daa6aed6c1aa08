//! Arguments that several commands have.

use std::time::Duration;

/// A request that cannot be fulfilled: exit code 64, as for arguments that cannot be parsed.
#[derive(Debug)]
pub struct WrongUsage(pub String);

impl std::fmt::Display for WrongUsage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongUsage {}

/// A duration of 100 ms or more, as the daemon wants it.
///
/// # Errors
/// What is wrong, with an example of a good one.
pub fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    if interval < Duration::from_millis(100) {
        return Err(format!("{text:?} is too short: the minimum is 100ms"));
    }
    Ok(interval)
}

/// `100ms`, `1s`, `1.5s`, `2m`, `1h`.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("{text:?} has no known unit: write ms, s, m or h, as in 1s")),
    };
    let number: f64 = number.trim().parse().map_err(|_| format!("{text:?} does not start with a number"))?;
    Duration::try_from_secs_f64(number * unit).map_err(|_| format!("{text:?} is not a duration"))
}
