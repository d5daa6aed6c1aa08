//! Times and amounts for people.

use chrono::DateTime;
use std::time::Duration;

/// `2026-01-31 23:59:59 UTC`.
pub(crate) fn moment(unix_ns: i64) -> String {
    DateTime::from_timestamp_nanos(unix_ns).format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// `250 ms`, `3.5 s`, `4 min 5 s`, `12 h 0 min`, `3 d 4 h`.
pub(crate) fn time(length: Duration) -> String {
    let seconds = length.as_secs();
    match seconds {
        0 => format!("{} ms", length.as_millis()),
        1..60 => {
            let text = format!("{:.1}", length.as_secs_f64());
            format!("{} s", text.trim_end_matches(".0"))
        }
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// `12,345`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `512 B`, `93.4 MiB`.
pub(crate) fn bytes(number: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = number as f64;
    let mut unit = "B";
    for larger in units {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    if unit == "B" { format!("{number} B") } else { format!("{value:.1} {unit}") }
}

/// Lines under their heads, columns as wide as what is in them.
pub(crate) fn table(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut all = vec![heads.iter().map(|head| (*head).to_owned()).collect::<Vec<_>>()];
    all.extend(rows);
    let width = |column: usize| all.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..heads.len()).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("  ").trim_end().to_owned() + "\n"
    };
    all.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_counts_and_bytes_are_short_and_have_units() {
        let seconds = |s| time(Duration::from_secs_f64(s));
        let said = [0.25, 1.0, 3.5, 59.98, 65.0, 43_200.0, 90_000.0].map(seconds);
        assert_eq!(said, ["250 ms", "1 s", "3.5 s", "60 s", "1 min 5 s", "12 h 0 min", "1 d 1 h"]);
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1023, 1024, 97_900_000].map(bytes), ["0 B", "1023 B", "1.0 KiB", "93.4 MiB"]);
        assert_eq!(moment(1_700_000_000_000_000_000), "2023-11-14 22:13:20 UTC");
    }
}
