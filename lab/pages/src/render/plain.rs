use super::text::{clean, number};
use crate::model::{Cell, Table};

/// Below this, only the magnitude of a p-value matters.
const SMALLEST_P: f64 = 0.001;

/// An estimate is followed by its interval; a missing value is `-`.
pub fn plain(table: &Table) -> String {
    let mut titles = Vec::new();
    let mut rows = vec![Vec::new(); table.rows.len()];
    for (index, column) in table.columns.iter().enumerate() {
        let cells = || {
            table
                .rows
                .iter()
                .map(move |row| row.get(index).map(Cell::inner))
        };
        let has_intervals = cells().any(|cell| matches!(cell, Some(Cell::Estimate { .. })));
        titles.push(column.title.as_str());
        if has_intervals {
            titles.push("interval");
        }
        for (row, cell) in rows.iter_mut().zip(cells()) {
            let is_p = column.title == "p";
            row.push(cell.map_or_else(missing, |cell| value(cell, is_p)));
            if has_intervals {
                row.push(cell.map_or_else(missing, interval));
            }
        }
    }
    faultline_text::table(&titles, rows)
}

fn missing() -> String {
    "-".to_owned()
}

fn value(cell: &Cell, is_p: bool) -> String {
    match cell {
        Cell::Text(text) => clean(text),
        Cell::Number { value, .. } if is_p && *value <= SMALLEST_P => format!("< {SMALLEST_P}"),
        Cell::Number { value, decimals }
        | Cell::Estimate {
            value, decimals, ..
        } => number(*value, usize::from(*decimals)),
        Cell::Missing(_) | Cell::Linked { .. } => missing(),
    }
}

fn interval(cell: &Cell) -> String {
    match cell {
        Cell::Estimate {
            low,
            high,
            decimals,
            ..
        } => {
            let [low, high] = [low, high].map(|end| number(*end, usize::from(*decimals)));
            format!("{low} to {high}")
        }
        _ => missing(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
                p(0.25),
            ],
        ];
        let lines = "arm         mean  interval          p\n\
                     a[U+202E]   1.2   \u{2212}1.0 to 2,000.0  < 0.001\n\
                     b           -     -                 0.250\n";
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeezed(&plain(&shown)), squeezed(lines));
    }
}
