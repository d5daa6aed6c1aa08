mod parse;
mod time;
mod untrusted;

pub use parse::{parse_size, parse_time};
pub use time::{date, duration, duration_f64, file_time, ms, utc};
pub use untrusted::{clean, escaped, is_unsafe_char, path, shell_quoted, without_address};

/// `12,345`.
pub fn count(number: u64) -> String {
    grouped(&number.to_string())
}

/// `−1,234.50`, with the sign U+2212; `not a number` if `value` is not finite.
pub fn number(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "not a number".to_owned();
    }
    let plain = format!("{:.*}", decimals.min(17), value.abs());
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    // A value that rounds to zero has no sign.
    let is_negative = value < 0.0 && plain.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    let sign = if is_negative { "\u{2212}" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{fraction}", grouped(whole))
}

/// At most two decimals, one from 10 on, none from 100 on: `0.42`, `12.5`, `1,240`. A positive
/// value that rounds to zero is `<0.01`.
pub fn short(value: f64) -> String {
    let decimals = match value.abs() {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    if 0.0 < value && value < 0.005 {
        return "<0.01".to_owned();
    }
    let text = number(value, decimals);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// `1 slot`, `2.5 slots`: [`short`] with a noun that forms its plural by `s`.
pub fn counted(value: f64, noun: &str) -> String {
    let number = short(value);
    let plural = if number == "1" { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

pub fn lines(texts: &[String]) -> String {
    texts.iter().map(|text| format!("{text}\n")).collect()
}

/// `0.42 %` for a share of 0.0042.
pub fn percent(share: f64) -> String {
    format!("{} %", short(share * 100.0))
}

fn grouped(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `p = 0.0312`, and `p < 0.0001` for less.
pub fn p_value(p: f64) -> String {
    if p < 0.0001 {
        "p < 0.0001".to_owned()
    } else {
        format!("p = {p:.4}")
    }
}

/// `512 B`, `93.4 MiB`.
pub fn bytes(number: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = number as f64;
    let mut unit = "B";
    for larger in units {
        // From here on, one decimal rounds to 1024.0.
        if value < 1023.95 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    if unit == "B" {
        format!("{number} B")
    } else {
        format!("{value:.1} {unit}")
    }
}

/// [`bytes`] of the value of a metric.
pub fn bytes_f64(number: f64) -> String {
    bytes(number as u64)
}

/// A configured size: `1550 MiB`, `1.5 TiB`. Of the two largest units that fit, uses the first in
/// which two decimals are exact. If neither is, rounds in the largest.
pub fn size(number: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];
    let candidates = || units.into_iter().filter(|(_, shift)| number >> shift > 0);
    let exact = candidates()
        .take(2)
        .find(|(_, shift)| (u128::from(number) * 100).is_multiple_of(1 << shift));
    let Some((unit, shift)) = exact.or_else(|| candidates().next()) else {
        return "0 B".to_owned();
    };
    let value = format!("{:.2}", number as f64 / (1_u64 << shift) as f64);
    format!(
        "{} {unit}",
        value.trim_end_matches('0').trim_end_matches('.')
    )
}

pub fn table(headings: &[&str], mut rows: Vec<Vec<String>>) -> String {
    rows.insert(0, headings.iter().map(|head| (*head).to_owned()).collect());
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        cells.join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn lengths_counts_and_bytes_are_short_and_have_units() {
        let said = [0.25, 1.0, 3.5, 59.98, 65.0, 43_200.0, 90_000.0].map(duration_f64);
        assert_eq!(
            said,
            [
                "250 ms",
                "1 s",
                "3.5 s",
                "1 min",
                "1 min 5 s",
                "12 h",
                "1 d 1 h"
            ]
        );
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(count),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [0, 1023, 1024, MIB - 1, 97_900_000].map(bytes),
            ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "93.4 MiB"]
        );
        let sizes = [
            1550 << 20,
            1536 << 30,
            4 << 30,
            1500 << 10,
            1740 * MIB + 816 * 1024,
            4096,
            1000,
            0,
        ];
        let said = [
            "1550 MiB", "1.5 TiB", "4 GiB", "1500 KiB", "1.7 GiB", "4 KiB", "1000 B", "0 B",
        ];
        assert_eq!(sizes.map(size), said);
        assert_eq!(utc(1_700_000_000_000_000_000), "2023-11-14 22:13:20 UTC");
        assert_eq!(
            (utc(-1), file_time(951_827_696_000_000_000)),
            (
                "1969-12-31 23:59:59 UTC".to_owned(),
                "20000229T123456Z".to_owned()
            )
        );
    }

    #[test]
    fn lengths_are_rounded_also_into_the_next_unit() {
        for (seconds, text) in [
            (59.94, "59.9 s"),
            (59.98, "1 min"),
            (314.995, "5 min 15 s"),
            (3599.4, "59 min 59 s"),
            (3599.6, "1 h"),
            (5429.0, "1 h 30 min"),
            (5430.0, "1 h 31 min"),
            (86_369.0, "23 h 59 min"),
            (86_370.0, "1 d"),
            (171_000.0, "2 d"),
        ] {
            assert_eq!(duration_f64(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn short_numbers_have_three_digits_or_groups() {
        for (value, text) in [
            (0.0, "0"),
            (0.001, "<0.01"),
            (0.4167, "0.42"),
            (12.0, "12"),
            (99.96, "100"),
            (1240.4, "1,240"),
            (1_234_567.0, "1,234,567"),
            (-1500.0, "\u{2212}1,500"),
        ] {
            assert_eq!(short(value), text);
        }
        assert_eq!([0.0, 0.004, 0.48].map(percent), ["0 %", "0.4 %", "48 %"]);
        assert_eq!(
            [0.000_34, 0.402, 0.9994, 0.9996, 3.51, -1.0, f64::NAN].map(duration_f64),
            [
                "0.34 ms", "402 ms", "999 ms", "1 s", "3.5 s", "0 ms", "0 ms"
            ]
        );
    }

    #[test]
    fn table_columns_fit_their_widest_cell() {
        let rows = [["a", "12"], ["über", ""]].map(|row| row.map(str::to_owned).to_vec());
        let expected = "name  n\na     12\nüber\n";
        assert_eq!(table(&["name", "n"], rows.to_vec()), expected);
    }

    #[test]
    fn a_p_value_is_never_zero() {
        let shown = [0.5, 0.03125, 0.0001, 0.000_099, 0.0].map(p_value);
        let expected = [
            "p = 0.5000",
            "p = 0.0312",
            "p = 0.0001",
            "p < 0.0001",
            "p < 0.0001",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn numbers_have_groups_a_real_minus_and_no_negative_zero() {
        assert_eq!(number(1_234_567.891, 2), "1,234,567.89");
        assert_eq!(number(-1234.5, 1), "\u{2212}1,234.5");
        assert_eq!(number(-0.001, 2), "0.00");
        assert_eq!(number(999.6, 0), "1,000");
        assert_eq!(number(f64::NAN, 2), "not a number");
    }

    proptest! {
        #[test]
        fn any_number_can_be_formatted(value in any::<f64>()) {
            for text in [short(value), percent(value), duration_f64(value), bytes_f64(value)] {
                prop_assert!(!text.is_empty());
            }
        }
    }
}
