//! Correlations from -1 to 1. Columns are headed by row numbers, so that names never collide.

use super::{
    super::text::{escaped, fitted, number, width_in_ems},
    Coordinate, Sheet, TEXT_SIZE,
};
use crate::model::Matrix;

pub fn draw(sheet: &mut Sheet, chart: &Matrix) {
    let names: Vec<String> = chart
        .names
        .iter()
        .enumerate()
        .map(|(index, name)| format!("{}  {name}", index + 1))
        .collect();
    let widest = names
        .iter()
        .map(|name| width_in_ems(name))
        .fold(4.0, f64::max)
        * TEXT_SIZE;
    let left = (widest + 16.0).min(sheet.width * 0.45);
    let count = names.len().max(1) as f64;
    let column_width = ((sheet.width - left - 8.0) / count).min(64.0);
    let row_height = column_width.clamp(18.0, 34.0);
    let top = sheet.next_y + 24.0;
    for (row, name) in names.iter().enumerate() {
        let position = row as f64;
        let y = top + position * row_height;
        sheet.text(
            "t",
            "start",
            (8.0, y + row_height / 2.0 + 4.0),
            &fitted(name, (left - 14.0) / TEXT_SIZE),
        );
        sheet.text(
            "m",
            "middle",
            (left + (position + 0.5) * column_width, sheet.next_y + 16.0),
            &(row + 1).to_string(),
        );
        for column in 0..names.len() {
            let value = chart
                .values
                .get(row)
                .and_then(|row| row.get(column))
                .copied()
                .flatten();
            let x = left + column as f64 * column_width;
            let pair = format!("{} and {}", chart.names[row], chart.names[column]);
            draw_cell(
                sheet,
                (x, y),
                (column_width, row_height),
                value.filter(|value| value.is_finite()),
                &pair,
            );
        }
    }
    sheet.next_y = top + row_height * count + 6.0;
}

fn draw_cell(
    sheet: &mut Sheet,
    (x, y): (f64, f64),
    (cell_width, row_height): (f64, f64),
    value: Option<f64>,
    pair: &str,
) {
    let shown = value.map_or("–".to_owned(), |value| number(value, 2));
    let class = match value {
        None => "na",
        Some(..0.0) => "neg",
        Some(_) => "pos",
    };
    let title = escaped(&format!(
        "{pair}: {}",
        if value.is_some() { &shown } else { "none" }
    ));
    // Up to 0.62, the color is faint enough for dark text. Above, it is full, under light text.
    let (text_class, opacity) = match value.map(f64::abs) {
        None => ("t", 1.0),
        Some(strength @ ..=0.62) => ("t", strength * 0.75),
        Some(_) => ("on", 1.0),
    };
    sheet.add(format_args!(
        r#"<g><title>{title}</title><rect class="{class}" x="{}" y="{}" width="{}" height="{}" fill-opacity="{}"/>"#,
        Coordinate(x + 0.5),
        Coordinate(y + 0.5),
        Coordinate(cell_width - 1.0),
        Coordinate(row_height - 1.0),
        Coordinate(opacity)
    ));
    let class = if cell_width < 38.0 {
        format!("{text_class} s")
    } else {
        text_class.to_owned()
    };
    if cell_width >= 27.0 {
        sheet.text(
            &class,
            "middle",
            (x + cell_width / 2.0, y + row_height / 2.0 + 4.0),
            &shown,
        );
    }
    sheet.add(format_args!("</g>"));
}
