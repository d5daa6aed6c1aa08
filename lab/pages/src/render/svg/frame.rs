use super::{
    super::{
        axis::{Axis, Scale, Tick},
        style::{SeriesStyle, Style},
        text::{escaped, fitted, width},
    },
    Coordinate, Sheet, TEXT_SIZE,
};
use crate::model::Bar;

/// Height of a chart that is not over time.
pub const HEIGHT: f64 = 220.0;

#[derive(Debug, Clone, Copy)]
pub struct Frame {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
    pub x_scale: Scale,
    y_scale: Scale,
}

impl Frame {
    /// A box right of the labels of `y`. Height and x scale come later.
    pub fn for_axis(y: &Axis, sheet: &Sheet) -> Self {
        let numbers = y.ticks.iter().map(|tick| width(&tick.label));
        Self {
            left: numbers.fold(2.0, f64::max) * TEXT_SIZE + 16.0,
            right: sheet.width - 20.0,
            top: 0.0,
            bottom: 0.0,
            x_scale: y.scale,
            y_scale: y.scale,
        }
    }

    pub fn width(&self) -> f64 {
        self.right - self.left
    }

    fn x_at(&self, share: f64) -> f64 {
        self.left + share * self.width()
    }

    /// From the bottom.
    fn y_at(&self, share: f64) -> f64 {
        self.bottom - share * (self.bottom - self.top)
    }

    pub fn x_of_tick(&self, tick: &Tick) -> f64 {
        self.x_at(tick.at)
    }

    /// The position of a value, within the box.
    pub fn x(&self, value: f64) -> Option<f64> {
        Some(self.x_at(self.x_scale.at(value)?.clamp(0.0, 1.0)))
    }

    pub fn y(&self, value: f64) -> Option<f64> {
        Some(self.y_at(self.y_scale.at(value)?.clamp(0.0, 1.0)))
    }

    /// As [`Frame::y`], with the bottom for values without a position.
    pub fn y_or_bottom(&self, value: f64) -> f64 {
        self.y(value).unwrap_or(self.bottom)
    }

    /// Width of a label on the horizontal axis, as a share of the axis.
    pub fn label_share(&self, label: &str) -> f64 {
        (width(label) + 1.0) * TEXT_SIZE / self.width().max(1.0)
    }

    pub fn middle(&self) -> (f64, f64) {
        (
            f64::midpoint(self.left, self.right),
            f64::midpoint(self.top, self.bottom),
        )
    }
}

/// A value and the ends of its interval; the value itself if they are missing or not finite.
pub fn value_and_ends((value, interval): Bar) -> [f64; 3] {
    let (low, high) = interval
        .filter(|(low, high)| low.is_finite() && high.is_finite())
        .unwrap_or((value, value));
    [value, low, high]
}

/// Gives the box its height and draws the vertical axis: its label above, grid lines, and numbers
/// at the left. `above` is the free space between label and box.
pub fn draw_vertical_axis(
    sheet: &mut Sheet,
    frame: &mut Frame,
    (axis, label): (&Axis, &str),
    (above, height): (f64, f64),
) {
    frame.top = sheet.y + above + 10.0;
    if !label.is_empty() {
        sheet.text(
            "t",
            "start",
            (8.0, sheet.y + 14.0),
            &fitted(label, (sheet.width - 16.0) / TEXT_SIZE),
        );
        frame.top += 16.0;
    }
    frame.bottom = frame.top + height;
    for tick in &axis.ticks {
        let y = frame.y_at(tick.at);
        sheet.line("g", (frame.left, y), (frame.right, y));
        sheet.text("m", "end", (frame.left - 8.0, y + 4.0), &tick.label);
    }
}

/// How many ticks fit below the box, with labels of `letters` letters.
pub fn ticks_below(frame: &Frame, letters: f64) -> usize {
    let space = frame.width() / (letters * 0.64 * TEXT_SIZE + 26.0);
    space.clamp(2.0, 12.0) as usize
}

/// Draws the horizontal axis and moves the sheet below it.
pub fn draw_horizontal_axis(sheet: &mut Sheet, frame: &Frame, axis: &Axis, label: &str) {
    sheet.line(
        "ax",
        (frame.left, frame.bottom),
        (frame.right, frame.bottom),
    );
    for tick in &axis.ticks {
        let x = frame.x_of_tick(tick);
        sheet.line("ax", (x, frame.bottom), (x, frame.bottom + 4.0));
        let half = width(&tick.label) * TEXT_SIZE / 2.0;
        let label_x = x.min(sheet.width - half - 1.0).max(half + 1.0);
        sheet.text("m", "middle", (label_x, frame.bottom + 18.0), &tick.label);
    }
    draw_axis_label(sheet, frame, 24.0, label);
}

/// Draws the axis label and moves the sheet below it.
pub fn draw_axis_label(sheet: &mut Sheet, frame: &Frame, offset: f64, label: &str) {
    sheet.y = frame.bottom + offset;
    if !label.is_empty() {
        let label = fitted(label, frame.width() / TEXT_SIZE);
        let (middle, _) = frame.middle();
        sheet.text("t", "middle", (middle, sheet.y + 12.0), &label);
        sheet.y += 20.0;
    }
}

pub fn draw_no_values(sheet: &mut Sheet, frame: &Frame) {
    sheet.text("m", "middle", frame.middle(), "no values");
}

const SWATCH: f64 = 26.0;
const LEGEND_LINE: f64 = 19.0;

pub enum Swatch {
    Line(SeriesStyle),
    Filled(SeriesStyle),
    Tint(String),
    Point(SeriesStyle),
}

pub struct LegendEntry {
    pub swatch: Swatch,
    pub text: String,
    /// See [`Style::owner_attribute`](super::super::style::Style).
    pub owner_attribute: String,
}

pub fn legend_entry(style: &Style, swatch: fn(SeriesStyle) -> Swatch) -> LegendEntry {
    LegendEntry {
        swatch: swatch(style.series_style),
        text: style.name.clone(),
        owner_attribute: style.owner_attribute.clone(),
    }
}

pub fn draw_legend(sheet: &mut Sheet, entries: impl Iterator<Item = LegendEntry>) {
    let mut x = 8.0;
    let mut is_empty = true;
    for entry in entries {
        is_empty = false;
        let text = fitted(&entry.text, (sheet.width - SWATCH - 24.0) / TEXT_SIZE);
        let wide = SWATCH + 6.0 + width(&text) * TEXT_SIZE;
        if x > 8.0 && x + wide > sheet.width - 8.0 {
            x = 8.0;
            sheet.y += LEGEND_LINE;
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
            Swatch::Filled(series_style) => draw_square(sheet, &series_style.filled(), x, y),
            Swatch::Tint(class) => draw_square(sheet, &class, x, y),
            Swatch::Point(series_style) => {
                draw_point(sheet, series_style, (x + SWATCH / 2.0, y), "")
            }
        }
        sheet.text("t", "start", (x + SWATCH + 5.0, y + 4.0), &text);
        sheet.end();
        x += wide + 16.0;
    }
    sheet.y += if is_empty { 2.0 } else { LEGEND_LINE + 4.0 };
}

fn draw_square(sheet: &mut Sheet, class: &str, x: f64, y: f64) {
    let x = Coordinate(x + 6.0);
    let y = Coordinate(y - 6.0);
    sheet.add(format_args!(
        r#"<rect class="{class}" x="{x}" y="{y}" width="14" height="12" rx="2"/>"#
    ));
}

pub fn draw_point(sheet: &mut Sheet, series_style: SeriesStyle, (x, y): (f64, f64), title: &str) {
    let class = series_style.filled();
    let title = escaped(title);
    let d = format!("M{} {}l6 6l-6 6l-6-6z", Coordinate(x), Coordinate(y - 6.0));
    sheet.add(format_args!(
        r#"<path class="{class} halo" d="{d}"><title>{title}</title></path>"#
    ));
}
