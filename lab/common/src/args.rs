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

/// Above 0 and below 100, with or without `%`.
pub fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse();
    percent_within_range(number.unwrap_or(f64::NAN))
}

pub fn percent_within_range(percent: f64) -> Result<f64, String> {
    if percent > 0.0 && percent < 100.0 {
        Ok(percent)
    } else {
        Err("a percentage above 0 and below 100 is wanted".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_has_at_most_one_percent_sign_and_is_within_its_range() {
        assert_eq!(["5", "5%"].map(parse_percent), [Ok(5.0), Ok(5.0)]);
        for wrong in ["5%%", "%", "0", "-1", "100", "nan"] {
            let error = parse_percent(wrong).unwrap_err();
            assert_eq!(error, "a percentage above 0 and below 100 is wanted");
        }
    }
}
