//! Times, amounts and texts for people.

use chrono::DateTime;
use std::fmt::Write as _;
use std::time::Duration;

/// `2026-01-31 23:59:59 UTC`.
pub fn moment(unix_ns: i64) -> String {
    DateTime::from_timestamp_nanos(unix_ns).format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// `250 ms`, `3.5 s`, `4 min 5 s`, `12 h 0 min`, `3 d 4 h`.
pub fn time(length: Duration) -> String {
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
pub fn count(number: u64) -> String {
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
pub fn bytes(number: u64) -> String {
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

/// A size that somebody set: `1550 MiB`, `1.5 TiB`. In the largest unit, or the next smaller one, in which two decimals
/// tell it exactly; rounded to two decimals of the largest if there is none.
pub fn size(number: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];
    let fitting = || units.into_iter().filter(|(_, shift)| number >> shift > 0);
    let exact = fitting().take(2).find(|(_, shift)| (u128::from(number) * 100).is_multiple_of(1 << shift));
    let Some((unit, shift)) = exact.or_else(|| fitting().next()) else { return "0 B".to_owned() };
    let value = format!("{:.2}", number as f64 / (1_u64 << shift) as f64);
    format!("{} {unit}", value.trim_end_matches('0').trim_end_matches('.'))
}

/// Text that may come from anywhere, safe to show: one line, without characters that are invalid in XML, invisible, move a
/// terminal's cursor, or turn the direction of what follows. Those are shown by number, `[U+202E]`; white space becomes a space.
pub fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            letter if letter.is_whitespace() => clean.push(' '),
            letter if is_unfit(letter) => write!(clean, "[U+{:04X}]", u32::from(letter)).unwrap_or_default(),
            letter => clean.push(letter),
        }
    }
    clean
}

/// Whether a letter is invalid in XML, invisible, moves a terminal's cursor, or turns the direction of what follows.
pub fn is_unfit(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e007f}')
}

/// Lines under their heads, columns as wide as what is in them.
pub fn table(heads: &[&str], rows: Vec<Vec<String>>) -> String {
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

    const MIB: u64 = 1 << 20;

    #[test]
    fn what_turns_or_hides_text_is_shown_by_number() {
        assert_eq!(clean("a\u{202e}b\nc\u{0}\u{9b}2J"), "a[U+202E]b c[U+0000][U+009B]2J");
        assert_eq!(clean("aZ 9-ü\u{5d0}\u{627}\u{4e2d}"), "aZ 9-ü\u{5d0}\u{627}\u{4e2d}");
    }

    #[test]
    fn lengths_counts_and_bytes_are_short_and_have_units() {
        let seconds = |s| time(Duration::from_secs_f64(s));
        let said = [0.25, 1.0, 3.5, 59.98, 65.0, 43_200.0, 90_000.0].map(seconds);
        assert_eq!(said, ["250 ms", "1 s", "3.5 s", "60 s", "1 min 5 s", "12 h 0 min", "1 d 1 h"]);
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1023, 1024, 97_900_000].map(bytes), ["0 B", "1023 B", "1.0 KiB", "93.4 MiB"]);
        let sizes = [1550 << 20, 1536 << 30, 4 << 30, 1500 << 10, 1740 * MIB + 816 * 1024, 4096, 1000, 0];
        let said = ["1550 MiB", "1.5 TiB", "4 GiB", "1500 KiB", "1.7 GiB", "4 KiB", "1000 B", "0 B"];
        assert_eq!(sizes.map(size), said);
        assert_eq!(moment(1_700_000_000_000_000_000), "2023-11-14 22:13:20 UTC");
    }
}
