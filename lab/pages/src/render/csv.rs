//! Tables as CSV (RFC 4180) with all digits.
//!
//! - The unit follows the title: `RSS mean [GiB]`.
//! - A column with estimates becomes `X`, `X low` and `X high`.
//! - A column with missing values is followed by `X missing because`.
//! - Text is clean, as on the page. A leading `'` protects text that a spreadsheet would take for a
//!   formula.

use crate::model::{Cell, Column, Table};
use faultline_text::clean;
use itertools::Itertools;

pub fn csv(table: &Table) -> String {
    let shapes = (0..table.columns.len())
        .map(|index| ColumnShape::of(table, index))
        .collect_vec();
    let columns = table.columns.iter().zip(&shapes);
    let mut out = line(columns.flat_map(|(column, shape)| shape.headers(column)));
    for row in &table.rows {
        let cells = row.iter().zip(&shapes);
        out += &line(cells.flat_map(|(cell, shape)| shape.fields(cell)));
    }
    out
}

#[derive(Clone, Copy)]
struct ColumnShape {
    has_estimates: bool,
    has_missing: bool,
}

impl ColumnShape {
    fn of(table: &Table, index: usize) -> Self {
        let cells = || table.rows.iter().filter_map(|row| row.get(index));
        Self {
            has_estimates: cells().any(|cell| matches!(cell.without_link(), Cell::Estimate { .. })),
            has_missing: cells().any(|cell| why_missing(cell).is_some()),
        }
    }

    fn headers(self, column: &Column) -> Vec<String> {
        let unit = if column.unit.is_empty() {
            String::new()
        } else {
            format!(" [{}]", column.unit)
        };
        let title = formula_safe(&column.title);
        let mut headers = vec![format!("{title}{unit}")];
        if self.has_estimates {
            headers.extend([format!("{title} low{unit}"), format!("{title} high{unit}")]);
        }
        if self.has_missing {
            headers.push(format!("{title} missing because"));
        }
        headers
    }

    fn fields(self, cell: &Cell) -> Vec<String> {
        let mut fields = match cell.without_link() {
            Cell::Text(text) => vec![formula_safe(text)],
            Cell::Number { value, .. } => vec![digits(*value)],
            Cell::Estimate {
                value, low, high, ..
            } => vec![digits(*value), digits(*low), digits(*high)],
            Cell::Missing(_) | Cell::Linked { .. } => vec![String::new()],
        };
        fields.resize(if self.has_estimates { 3 } else { 1 }, String::new());
        if self.has_missing {
            fields.push(formula_safe(why_missing(cell).unwrap_or_default()));
        }
        fields
    }
}

fn why_missing(cell: &Cell) -> Option<&str> {
    match cell.without_link() {
        Cell::Missing(why) => Some(why),
        Cell::Number { value, .. } | Cell::Estimate { value, .. } if !value.is_finite() => {
            Some("not a finite number")
        }
        _ => None,
    }
}

/// Shortest round-trip form; empty for NaN and infinity.
fn digits(value: f64) -> String {
    if value.is_finite() {
        value.to_string()
    } else {
        String::new()
    }
}

/// [`clean`] text that no spreadsheet takes for a formula.
fn formula_safe(text: &str) -> String {
    let text = clean(text);
    let looks_like_formula = text.trim_start().starts_with(['=', '+', '-', '@'])
        && text.len() > 1
        && text.parse::<f64>().is_err();
    if looks_like_formula {
        format!("'{text}")
    } else {
        text
    }
}

/// A field with untrusted text.
pub fn text_field(text: &str) -> String {
    quoted(formula_safe(text))
}

fn quoted(field: String) -> String {
    let needs_quotes =
        field.contains([',', '"', '\r', '\n']) || field.starts_with(' ') || field.ends_with(' ');
    if needs_quotes {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field
    }
}

fn line(fields: impl Iterator<Item = String>) -> String {
    fields.map(quoted).join(",") + "\r\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_controls_neither_a_terminal_nor_a_spreadsheet() {
        let texts = [
            "a\u{1b}]0;x\u{7}",
            "\u{202e}txt.exe",
            "=1+1",
            "\t@SUM(A1)",
            "\r\n+cmd|' /C calc'!A0",
            "-1.5",
            "-",
        ];
        let rows = texts.map(|text| vec![Cell::Text(text.to_owned())]);
        let table = Table {
            columns: vec![Column {
                title: "=arm\u{9b}2J".to_owned(),
                unit: String::new(),
            }],
            rows: rows.into(),
            ..Table::default()
        };
        let expected = [
            "'=arm[U+009B]2J",
            "a[U+001B]]0;x[U+0007]",
            "[U+202E]txt.exe",
            "'=1+1",
            "' @SUM(A1)",
            "'  +cmd|' /C calc'!A0",
            "-1.5",
            "-",
            "",
        ];
        assert_eq!(csv(&table).split("\r\n").collect_vec(), expected);
    }
}
