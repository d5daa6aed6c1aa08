use super::{
    super::{
        style::{SeriesStyle, Style},
        text::{escaped, fitted, width},
    },
    Coordinate, Sheet, TEXT_SIZE,
};

const SWATCH: f64 = 26.0;
const LINE: f64 = 19.0;

pub enum Swatch {
    Line(SeriesStyle),
    Filled(SeriesStyle),
    Tint(String),
    Point(SeriesStyle),
}

pub struct Entry {
    pub swatch: Swatch,
    pub text: String,
    /// See [`Style::owner`](super::super::style::Style).
    pub owner_attribute: String,
}

/// The entry of a series.
pub fn entry(style: &Style, swatch: fn(SeriesStyle) -> Swatch) -> Entry {
    Entry {
        swatch: swatch(style.series_style),
        text: style.name.clone(),
        owner_attribute: style.owner_attribute.clone(),
    }
}

pub fn draw(sheet: &mut Sheet, entries: impl Iterator<Item = Entry>) {
    let mut x = 8.0;
    let mut is_empty = true;
    for entry in entries {
        is_empty = false;
        let text = fitted(&entry.text, (sheet.width - SWATCH - 24.0) / TEXT_SIZE);
        let wide = SWATCH + 6.0 + width(&text) * TEXT_SIZE;
        if x > 8.0 && x + wide > sheet.width - 8.0 {
            x = 8.0;
            sheet.y += LINE;
        }
        let y = sheet.y + 10.0;
        sheet.begin(&entry.owner_attribute);
        match entry.swatch {
            Swatch::Line(series_style) => {
                let weight = series_style.weight.min(1);
                let path = format!("M{} {}h{SWATCH}", Coordinate(x), Coordinate(y));
                sheet.stroke(
                    SeriesStyle {
                        weight,
                        ..series_style
                    },
                    "",
                    &path,
                    "",
                );
            }
            Swatch::Filled(series_style) => square(sheet, &series_style.filled(), x, y),
            Swatch::Tint(class) => square(sheet, &class, x, y),
            Swatch::Point(series_style) => point(sheet, series_style, (x + SWATCH / 2.0, y), ""),
        }
        sheet.text("t", "start", (x + SWATCH + 5.0, y + 4.0), &text);
        sheet.end();
        x += wide + 16.0;
    }
    sheet.y += if is_empty { 2.0 } else { LINE + 4.0 };
}

fn square(sheet: &mut Sheet, class: &str, x: f64, y: f64) {
    let (x, y) = (Coordinate(x + 6.0), Coordinate(y - 6.0));
    sheet.add(format_args!(
        r#"<rect class="{class}" x="{x}" y="{y}" width="14" height="12" rx="2"/>"#
    ));
}

pub fn point(sheet: &mut Sheet, series_style: SeriesStyle, (x, y): (f64, f64), title: &str) {
    let (class, title) = (series_style.filled(), escaped(title));
    let d = format!("M{} {}l6 6l-6 6l-6-6z", Coordinate(x), Coordinate(y - 6.0));
    sheet.add(format_args!(
        r#"<path class="{class} halo" d="{d}"><title>{title}</title></path>"#
    ));
}
