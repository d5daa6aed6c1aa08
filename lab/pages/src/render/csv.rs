//! Tables as CSV (RFC 4180) with all digits.
//!
//! - The unit follows the title: `RSS mean [GiB]`.
//! - A column with estimates becomes `X`, `X low` and `X high`.
//! - A column with missing values is followed by `X missing because`.
//! - A leading `'` protects text that a spreadsheet would take for a formula.

use crate::model::{Cell, Column, Table};
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

fn formula_safe(text: &str) -> String {
    let looks_like_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r'])
        && text.len() > 1
        && text.parse::<f64>().is_err();
    if looks_like_formula {
        format!("'{text}")
    } else {
        text.to_owned()
    }
}

fn line(fields: impl Iterator<Item = String>) -> String {
    let quoted = |field: String| {
        let needs_quotes = field.contains([',', '"', '\r', '\n'])
            || field.starts_with(' ')
            || field.ends_with(' ');
        if needs_quotes {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field
        }
    };
    fields.map(quoted).join(",") + "\r\n"
}
