//! Numbers, ages and dates as people read them, and text that cannot become markup.

use crate::clock::civil;
use crate::web::text::hides;
use faultline_catalog::Unit;
use std::fmt::{self, Write};
use std::time::Duration;

/// Text for HTML, inside elements and quoted attributes. What hides or turns text becomes U+FFFD.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => f.write_char(' ')?,
                c if hides(c) => f.write_char('\u{fffd}')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// A value with its unit, per second if it is a rate.
pub(super) fn value(x: f64, unit: Unit, rate: bool) -> String {
    let number = match unit {
        Unit::Bytes => bytes(x),
        Unit::Seconds => format!("{} s", count(x)),
        Unit::Count | Unit::Flag | Unit::AsReported => count(x),
    };
    if rate { format!("{number}/s") } else { number }
}

/// Binary units, three digits: `1.52 GiB`, `312 GiB`.
pub(super) fn bytes(x: f64) -> String {
    let mut x = x;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        // Rounds up to four digits from here on.
        if x.abs() < 999.5 {
            return format!("{} {unit}", digits(x));
        }
        x /= 1024.0;
    }
    format!("{} TiB", digits(x))
}

/// Grouped by thousands; three digits below 100.
pub(super) fn count(x: f64) -> String {
    if !x.is_finite() {
        return x.to_string();
    }
    if x.abs() < 99.95 {
        return digits(x);
    }
    let whole = format!("{:.0}", x.abs());
    let mut grouped = if x < 0.0 { "-".to_owned() } else { String::new() };
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Three digits, without trailing zeros behind the point.
fn digits(x: f64) -> String {
    let decimals = match x.abs() {
        a if a < 9.995 => 2,
        a if a < 99.95 => 1,
        _ => 0,
    };
    let text = format!("{x:.decimals$}");
    if decimals == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
}

/// The two largest units of a long time: `0.8 s`, `3 min 12 s`, `2 d 4 h`.
pub(super) fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86400, seconds % 86400 / 3600),
    }
}

/// A short time: `340 µs`, `1.2 ms`, `2.5 s`.
pub(super) fn took(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        s if s < 0.000_999_5 => format!("{:.0} µs", s * 1e6),
        s if s < 0.999_5 => format!("{} ms", digits(s * 1e3)),
        s => format!("{} s", digits(s)),
    }
}

/// `2026-11-21 05:12:09 UTC` of seconds since 1970.
pub(super) fn date(unix: f64) -> String {
    // Beyond year 9999 or before 1970 no clock of ours is right.
    let seconds = unix.clamp(0.0, 253_402_300_799.0) as u64;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    format!("{year}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", second / 3600, second % 3600 / 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_have_three_digits_and_a_binary_unit() {
        let gib = 1024.0 * 1024.0 * 1024.0;
        for (x, text) in [
            (0.0, "0 B"),
            (999.0, "999 B"),
            (1000.0, "0.98 KiB"),
            (1.52 * gib, "1.52 GiB"),
            (312.4 * gib, "312 GiB"),
            (2048.0 * gib, "2 TiB"),
        ] {
            assert_eq!(bytes(x), text);
        }
    }

    #[test]
    fn counts_are_grouped() {
        for (x, text) in [
            (0.0, "0"),
            (0.4167, "0.42"),
            (12.0, "12"),
            (99.96, "100"),
            (1240.4, "1,240"),
            (1234567.0, "1,234,567"),
            (-1500.0, "-1,500"),
        ] {
            assert_eq!(count(x), text);
        }
    }

    #[test]
    fn ages_name_the_two_largest_units() {
        for (seconds, text) in
            [(9, "9.0 s"), (59, "59 s"), (192, "3 min 12 s"), (7500, "2 h 5 min"), (187_300, "2 d 4 h")]
        {
            assert_eq!(age(Duration::from_secs(seconds)), text);
        }
        assert_eq!(took(Duration::from_micros(340)), "340 µs");
        assert_eq!(took(Duration::from_micros(1234)), "1.23 ms");
        assert_eq!(took(Duration::from_millis(2500)), "2.5 s");
    }

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(date(0.0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_399.0), "2000-02-28 23:59:59 UTC");
        assert_eq!(date(951_782_400.0), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_709_251_200.0), "2024-03-01 00:00:00 UTC");
        assert_eq!(date(1_767_225_599.9), "2025-12-31 23:59:59 UTC");
        assert_eq!(date(f64::MAX), "9999-12-31 23:59:59 UTC");
    }

    proptest! {
        #[test]
        fn escaped_text_opens_no_element_and_closes_no_attribute(text in any::<String>()) {
            let escaped = Escaped(&text).to_string();
            prop_assert!(!escaped.contains(['<', '>', '"', '\'', '\0']));
        }

        #[test]
        fn any_number_can_be_written(x in any::<f64>()) {
            for text in [bytes(x), count(x), date(x)] {
                prop_assert!(!text.is_empty());
            }
        }
    }
}
