use super::super::style::SeriesStyle;
use super::super::text::{escaped, fitted, width};
use super::{N, Sheet, TEXT_SIZE};

const SWATCH: f64 = 26.0;
const LINE: f64 = 19.0;

pub(super) enum Swatch {
    Line(SeriesStyle),
    Filled(SeriesStyle),
    Tint(String),
    Point(SeriesStyle),
}

pub(super) struct Entry {
    pub(super) swatch: Swatch,
    pub(super) text: String,
    pub(super) owner: String,
}

pub(super) fn draw(sheet: &mut Sheet, entries: &[Entry]) {
    let mut x = 8.0;
    let space = sheet.width - 16.0;
    for entry in entries {
        let text = fitted(&entry.text, (space - SWATCH - 8.0) / TEXT_SIZE);
        let wide = SWATCH + 6.0 + width(&text) * TEXT_SIZE;
        if x > 8.0 && x + wide > sheet.width - 8.0 {
            x = 8.0;
            sheet.y += LINE;
        }
        let (left, y) = (x, sheet.y + 10.0);
        sheet.add(format_args!("<g{}>", entry.owner));
        match &entry.swatch {
            Swatch::Line(style) => line(sheet, *style, left, y),
            Swatch::Filled(style) => square(sheet, &format!("{} f", style.class()), left, y),
            Swatch::Tint(class) => square(sheet, class, left, y),
            Swatch::Point(style) => point(sheet, *style, (left + SWATCH / 2.0, y), ""),
        }
        sheet.text("t", "start", (left + SWATCH + 5.0, y + 4.0), &text);
        sheet.add(format_args!("</g>"));
        x += wide + 16.0;
    }
    sheet.y += if entries.is_empty() { 2.0 } else { LINE + 4.0 };
}

fn line(sheet: &mut Sheet, style: SeriesStyle, x: f64, y: f64) {
    let (class, dashes, thick) = (style.class(), style.dashes(), N(style.thickness().max(1.4)));
    sheet.add(format_args!(
        r#"<path class="{class} l" stroke-dasharray="{}" stroke-width="{thick}" d="M{} {}h{SWATCH}"/>"#,
        if dashes.is_empty() { "none" } else { dashes },
        N(x),
        N(y)
    ));
}

fn square(sheet: &mut Sheet, class: &str, x: f64, y: f64) {
    let (x, y) = (N(x + 6.0), N(y - 6.0));
    sheet.add(format_args!(
        r#"<rect class="{class}" x="{x}" y="{y}" width="14" height="12" rx="2"/>"#
    ));
}

pub(super) fn point(sheet: &mut Sheet, style: SeriesStyle, (x, y): (f64, f64), title: &str) {
    let (class, title) = (style.class(), escaped(title));
    let d = format!("M{} {}l6 6l-6 6l-6-6z", N(x), N(y - 6.0));
    sheet.add(format_args!(
        r#"<path class="{class} f halo" d="{d}"><title>{title}</title></path>"#
    ));
}
