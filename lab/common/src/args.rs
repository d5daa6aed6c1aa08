use faultline_text::parse_time;
use std::time::Duration;

/// Arguments that can be parsed, but do not fit together. The program exits with 64, as for
/// arguments that cannot be parsed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// At least 100 ms, like the daemon's interval.
pub fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_time(text)?;
    if interval < Duration::from_millis(100) {
        return Err(format!("{text:?} is too short: the minimum is 100ms"));
    }
    Ok(interval)
}
