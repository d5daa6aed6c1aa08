use faultline_catalog::Unit;
use std::time::Duration;

pub(super) fn value(x: f64, unit: Unit, rate: bool) -> String {
    let number = match unit {
        Unit::Bytes => bytes(x),
        Unit::Seconds => format!("{} s", count(x)),
        Unit::Count | Unit::Ratio | Unit::Sol | Unit::Flag | Unit::AsReported => count(x),
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
    let mut grouped = if x < 0.0 {
        "-".to_owned()
    } else {
        String::new()
    };
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Three digits, without trailing zeros after the point.
fn digits(x: f64) -> String {
    let decimals = match x.abs() {
        a if a < 9.995 => 2,
        a if a < 99.95 => 1,
        _ => 0,
    };
    let text = format!("{x:.decimals$}");
    if decimals == 0 {
        text
    } else {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// `340 µs`, `1.2 ms`, `2.5 s`.
pub(super) fn took(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        s if s < 0.000_999_5 => format!("{:.0} µs", s * 1e6),
        s if s < 0.999_5 => format!("{} ms", digits(s * 1e3)),
        s => format!("{} s", digits(s)),
    }
}

/// `2026-11-21 05:12:09 UTC` from Unix seconds.
pub(super) fn date(unix: f64) -> String {
    faultline_text::moment((unix * 1e9) as i64)
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
    fn short_times_have_their_unit() {
        assert_eq!(took(Duration::from_micros(340)), "340 µs");
        assert_eq!(took(Duration::from_micros(1234)), "1.23 ms");
        assert_eq!(took(Duration::from_millis(2500)), "2.5 s");
    }

    proptest! {
        #[test]
        fn any_number_can_be_written(x in any::<f64>()) {
            for text in [bytes(x), count(x), date(x)] {
                prop_assert!(!text.is_empty());
            }
        }
    }
}
