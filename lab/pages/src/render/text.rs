//! Texts of numbers, cells and reports.

pub use faultline_text::{clean, escaped, number};

use crate::model::{Cell, Mark, Report, Table, Timeline, VerdictKind};
use itertools::Itertools;

#[derive(Debug, PartialEq)]
pub struct DisplayUnit {
    /// Size of this unit in base units.
    pub size: f64,
    pub suffix: &'static str,
}

/// Bytes as KiB to TiB, seconds down to µs, large counts in M, G and T. The page's script has the
/// same rules.
pub fn display_unit(unit: &str, largest: f64) -> DisplayUnit {
    let steps: &[(f64, &'static str)] = match unit {
        "B" => &[
            (1_099_511_627_776.0, "TiB"),
            (1_073_741_824.0, "GiB"),
            (1_048_576.0, "MiB"),
            (1024.0, "KiB"),
            (1.0, "B"),
        ],
        "B/s" => &[
            (1_099_511_627_776.0, "TiB/s"),
            (1_073_741_824.0, "GiB/s"),
            (1_048_576.0, "MiB/s"),
            (1024.0, "KiB/s"),
            (1.0, "B/s"),
        ],
        "s" => &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")],
        _ => &[(1e12, "T"), (1e9, "G"), (1e6, "M"), (1.0, "")],
    };
    let (size, suffix) = steps
        .iter()
        .find(|(size, _)| largest >= *size)
        .or(steps.last())
        .copied()
        .unwrap_or((1.0, ""));
    DisplayUnit { size, suffix }
}

#[derive(Clone, Copy)]
pub enum ClockFormat {
    Hours,
    Minutes,
    Full,
}

impl ClockFormat {
    pub fn name(self) -> &'static str {
        match self {
            Self::Hours => "h:mm",
            Self::Minutes => "m:ss",
            Self::Full => "h:mm:ss",
        }
    }
}

/// `1:05`, `65:30`, `1:05:30`.
pub fn duration(seconds: f64, clock: ClockFormat) -> String {
    let whole = seconds.abs().round();
    let sign = if seconds < 0.0 && whole > 0.0 {
        "\u{2212}"
    } else {
        ""
    };
    let hours = (whole / 3600.0).floor();
    let minutes = (whole / 60.0).floor();
    let rest = whole % 60.0;
    match clock {
        ClockFormat::Hours => format!("{sign}{hours}:{:02}", minutes % 60.0),
        ClockFormat::Minutes => format!("{sign}{minutes}:{rest:02}"),
        ClockFormat::Full => format!("{sign}{hours}:{:02}:{rest:02}", minutes % 60.0),
    }
}

/// Approximate width in ems (multiples of the font size), rather too large.
pub fn width_in_ems(text: &str) -> f64 {
    text.chars()
        .map(|letter| match letter {
            'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.36,
            ' ' | 'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '-' => 0.44,
            'm' | 'w' | 'M' | 'W' | '%' | '@' => 1.0,
            'A'..='Z' => 0.74,
            letter if letter.is_ascii() => 0.64,
            letter if u32::from(letter) < 0x2100 => 0.7,
            _ => 1.1,
        })
        .sum()
}

/// Cuts a wider text and ends it with an ellipsis.
pub fn fitted(text: &str, max_ems: f64) -> String {
    let text = clean(text);
    if width_in_ems(&text) <= max_ems {
        return text;
    }
    let mut fitting = String::new();
    for letter in text.chars() {
        fitting.push(letter);
        if width_in_ems(&fitting) > max_ems - 0.9 {
            fitting.pop();
            break;
        }
    }
    format!("{}…", fitting.trim_end())
}

pub fn verdict_kind_text(report: &Report) -> &'static str {
    match report.verdict.kind {
        VerdictKind::Described => "Described, not tested",
        VerdictKind::Differs => "A difference is shown",
        VerdictKind::Better => "\u{2713} Better",
        VerdictKind::Worse => "\u{2717} Worse",
        VerdictKind::Equivalent => "Equivalent within the margin",
        VerdictKind::Inconclusive => "Inconclusive",
    }
}

pub fn runs_heading(report: &Report) -> &str {
    match report.runs_heading.as_str() {
        "" => "Runs",
        heading => heading,
    }
}

pub fn cell_text(cell: &Cell) -> String {
    let mut text = value_text(cell);
    if let Some(interval) = interval_text(cell) {
        text += &format!(" {interval}");
    }
    match cell {
        Cell::Linked { mark, .. } if !mark.is_empty() => format!("{text} ({})", clean(mark)),
        _ => text,
    }
}

/// The text of a cell without interval and mark.
pub fn value_text(cell: &Cell) -> String {
    match cell {
        Cell::Linked { cell, .. } => value_text(cell),
        Cell::Text(text) => clean(text),
        Cell::Number { value, decimals }
        | Cell::Estimate {
            value, decimals, ..
        } => number(*value, usize::from(*decimals)),
        Cell::Missing(why) if why.is_empty() => "–".to_owned(),
        Cell::Missing(why) => format!("– ({})", clean(why)),
    }
}

pub fn interval_text(cell: &Cell) -> Option<String> {
    Some(format!("[{}]", interval_ends(cell)?.join(", ")))
}

fn interval_ends(cell: &Cell) -> Option<[String; 2]> {
    match cell.without_link() {
        Cell::Estimate {
            low,
            high,
            decimals,
            ..
        } => Some([low, high].map(|end| number(*end, usize::from(*decimals)))),
        _ => None,
    }
}

/// Whether each column is aligned to the right: it has numbers and no texts.
pub fn numeric_columns(table: &Table) -> Vec<bool> {
    (0..table.columns.len())
        .map(|index| {
            let cells = || {
                table
                    .rows
                    .iter()
                    .filter_map(|row| Some(row.get(index)?.without_link()))
            };
            cells().any(|cell| matches!(cell, Cell::Number { .. } | Cell::Estimate { .. }))
                && !cells().any(|cell| matches!(cell, Cell::Text(_)))
        })
        .collect()
}

/// Times are clock texts.
pub fn events(timeline: &Timeline) -> impl Iterator<Item = (String, &Mark)> {
    sorted_marks(timeline).map(|mark| (duration(mark.at, ClockFormat::Full), mark))
}

pub fn sorted_marks(timeline: &Timeline) -> impl Iterator<Item = &Mark> {
    timeline
        .marks
        .iter()
        .filter(|mark| mark.at.is_finite())
        .sorted_by(|a, b| a.at.total_cmp(&b.at))
}

/// A plain table shows smaller p-values as `< 0.001`.
const SMALLEST_P: f64 = 0.001;

/// An estimate is followed by its interval; a missing value is `-`. Units are left out.
pub fn plain_table(table: &Table) -> String {
    let mut titles = Vec::new();
    let mut rows = vec![Vec::new(); table.rows.len()];
    for (index, column) in table.columns.iter().enumerate() {
        let cells = || {
            table
                .rows
                .iter()
                .map(move |row| row.get(index).map(Cell::without_link))
        };
        let has_intervals = cells().any(|cell| matches!(cell, Some(Cell::Estimate { .. })));
        titles.push(column.title.as_str());
        if has_intervals {
            titles.push("interval");
        }
        for (row, cell) in rows.iter_mut().zip(cells()) {
            let is_p = column.title == "p";
            row.push(cell.map_or_else(missing, |cell| plain_value(cell, is_p)));
            if has_intervals {
                row.push(
                    cell.and_then(interval_ends)
                        .map_or_else(missing, |ends| ends.join(" to ")),
                );
            }
        }
    }
    faultline_text::table(&titles, rows)
}

fn missing() -> String {
    "-".to_owned()
}

fn plain_value(cell: &Cell, is_p: bool) -> String {
    match cell {
        Cell::Number { value, .. } if is_p && *value < SMALLEST_P => format!("< {SMALLEST_P}"),
        Cell::Missing(_) => missing(),
        cell => value_text(cell),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_printed_in_clock_format() {
        assert_eq!(duration(3660.0, ClockFormat::Hours), "1:01");
        assert_eq!(duration(-90.0, ClockFormat::Minutes), "\u{2212}1:30");
        assert_eq!(duration(-0.2, ClockFormat::Minutes), "0:00");
        assert_eq!(duration(3_690.4, ClockFormat::Full), "1:01:30");
        assert_eq!(duration(172_800.0, ClockFormat::Hours), "48:00");
    }

    #[test]
    fn units_follow_the_largest_value() {
        assert_eq!(display_unit("B", 3e9).suffix, "GiB");
        assert_eq!(display_unit("B", 100.0).suffix, "B");
        assert_eq!(display_unit("s", 0.0004).suffix, "µs");
        assert_eq!(display_unit("s", 0.4).suffix, "ms");
        assert_eq!(
            display_unit("/s", 2.5e6),
            DisplayUnit {
                size: 1e6,
                suffix: "M"
            }
        );
        assert_eq!(
            display_unit("", 90_000.0),
            DisplayUnit {
                size: 1.0,
                suffix: ""
            }
        );
    }

    #[test]
    fn an_overlong_cell_ends_in_an_ellipsis() {
        assert_eq!(fitted("short", 10.0), "short");
        let cut = fitted(&"long ".repeat(20), 10.0);
        assert!(cut.ends_with('…') && width_in_ems(&cut) <= 10.5, "{cut}");
    }

    use crate::cells::table;

    #[test]
    fn an_estimate_has_its_interval_and_p_values_are_never_zero() {
        let columns = [("arm", ""), ("mean", "ms"), ("p", "")];
        let mut shown = table("t", "T", &columns, "");
        let estimate = Cell::Estimate {
            value: 1.25,
            low: -1.0,
            high: 2000.0,
            decimals: 1,
        };
        let p = |value| Cell::Number { value, decimals: 3 };
        shown.rows = vec![
            vec![Cell::Text("a\u{202e}".to_owned()), estimate, p(0.0)],
            vec![
                Cell::Text("b".to_owned()),
                Cell::Missing("too few".to_owned()),
                p(SMALLEST_P),
            ],
        ];
        let lines = "arm         mean  interval          p\n\
                     a[U+202E]   1.2   \u{2212}1.0 to 2,000.0  < 0.001\n\
                     b           -     -                 0.001\n";
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeezed(&plain_table(&shown)), squeezed(lines));
    }
}
