use super::{
    groups::by_key,
    model::{Block, Cell, Column, Figure, Section, Table},
};
use faultline_text::number;
use itertools::{Itertools, chain};
use std::collections::BTreeSet;

pub const GIB: f64 = 1_073_741_824.0;

pub fn gib(bytes: f64) -> f64 {
    bytes / GIB
}

pub fn number_or(value: Option<f64>, decimals: u8, why: &str) -> Cell {
    match value.filter(|value| value.is_finite()) {
        // An empty sum is -0, and -0 + 0 is 0.
        Some(value) => Cell::Number {
            value: value + 0.0,
            decimals,
        },
        None => missing(why),
    }
}

pub fn count(value: usize) -> Cell {
    number_cell(value as f64, 0)
}

pub fn number_cell(value: f64, decimals: u8) -> Cell {
    number_or(Some(value), decimals, "not a finite number")
}

pub fn missing(why: &str) -> Cell {
    Cell::Missing(why.to_owned())
}

pub fn estimate([value, low, high]: [f64; 3], decimals: u8) -> Cell {
    Cell::Estimate {
        value,
        low,
        high,
        decimals,
    }
}

pub fn estimate_or(values: Option<[f64; 3]>, decimals: u8, why: &str) -> Cell {
    values.map_or_else(|| missing(why), |values| estimate(values, decimals))
}

pub fn text_cell(text: &str) -> Cell {
    Cell::Text(text.to_owned())
}

pub fn row(name: &str, cells: impl IntoIterator<Item = Cell>) -> Vec<Cell> {
    chain!([text_cell(name)], cells).collect()
}

pub fn section(id: &str, title: &str, blocks: Vec<Block>) -> Section {
    Section {
        id: id.to_owned(),
        title: title.to_owned(),
        blocks,
    }
}

pub fn text_or(text: Option<&str>, why: &str) -> Cell {
    text.filter(|text| !text.is_empty())
        .map_or_else(|| missing(why), text_cell)
}

/// A column is a title that may end with its unit, as in `Duration [s]`, or title and unit.
pub fn table(id: &str, title: &str, columns: &[impl Copy + Into<Column>], note: &str) -> Table {
    Table {
        id: id.to_owned(),
        title: title.to_owned(),
        note: note.to_owned(),
        columns: columns.iter().map(|column| (*column).into()).collect(),
        rows: Vec::new(),
    }
}

/// Drops each column whose cells are all missing, but never the first. The note names the dropped
/// columns and the reasons.
pub fn without_missing_columns(mut table: Table) -> Table {
    let reason = |index| {
        let reasons = table.rows.iter().map(|row| match row.get(index) {
            Some(Cell::Missing(why)) => Some(why),
            _ => None,
        });
        let all: Option<BTreeSet<&String>> = reasons.collect();
        all.filter(|all| !all.is_empty() && index > 0)
            .map(|all| all.iter().join("; "))
    };
    let reasons = (0..table.columns.len()).map(reason).collect_vec();
    let left_out = table
        .columns
        .iter()
        .zip(&reasons)
        .filter_map(|(column, why)| Some((why.as_ref()?, column.title.as_str())));
    for (why, columns) in by_key(left_out) {
        let columns = columns.join(", ");
        table.note += &format!(" Columns left out ({why}): {columns}.");
    }
    let mut column_reasons = reasons.iter();
    table
        .columns
        .retain(|_| column_reasons.next().is_none_or(Option::is_none));
    for row in &mut table.rows {
        let mut cell_reasons = reasons.iter();
        row.retain(|_| cell_reasons.next().is_none_or(Option::is_none));
    }
    table
}

pub fn figure(id: &str, title: &str, caption: &str, chart: super::model::Chart) -> Block {
    Block::Figure(Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        chart,
    })
}

/// At most 60 lower-case letters, digits and single dashes; never empty.
pub fn slug(name: &str) -> String {
    let name = name.to_lowercase();
    let words = name.split(|c: char| !c.is_ascii_alphanumeric());
    let slug = words.filter(|word| !word.is_empty()).join("-");
    if slug.is_empty() {
        "run".to_owned()
    } else {
        slug.chars().take(60).collect()
    }
}

/// A share in percent, with decimals only if there are any.
pub fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    let is_whole = (percent - percent.round()).abs() < 0.005;
    number(percent, if is_whole { 0 } else { 2 })
}

/// `512 GiB`, `3.5 MiB`.
pub fn bytes(value: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut size = value;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < units.len() && (unit < 3 || size >= 10_240.0) {
        size /= 1024.0;
        unit += 1;
    }
    format!(
        "{} {}",
        number(size, usize::from(size.fract() >= 0.05 && size < 100.0)),
        units[unit]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_printed_in_a_fitting_unit() {
        assert_eq!(bytes(512.0 * GIB), "512 GiB");
        assert_eq!(bytes(1536.0 * GIB), "1,536 GiB");
        assert_eq!(bytes(3.5 * 1024.0 * 1024.0), "3.5 MiB");
        assert_eq!(bytes(17.0), "17 B");
    }

    #[test]
    fn slugs_fit_anchors_and_file_names() {
        assert_eq!(slug("512 GiB, run 1"), "512-gib-run-1");
        assert_eq!(slug("../../etc/passwd"), "etc-passwd");
        assert_eq!(slug("</script>"), "script");
        assert_eq!(slug("\u{202e}"), "run");
    }
}
