use super::{
    super::{
        axis::{Axis, Scale, Tick},
        style::{SeriesStyle, StyledSeries},
        text::{fitted, width_in_ems},
    },
    Coordinate, Sheet, TEXT_SIZE,
};
use crate::model::ValueWithInterval;

/// Height of the box of a chart, unless its kind has its own.
pub const CHART_HEIGHT: f64 = 220.0;

/// The box of a chart, and its scales.
#[derive(Clone, Copy)]
pub struct Frame {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
    pub x_scale: Scale,
    y_scale: Scale,
}

impl Frame {
    /// The box is right of the labels of `y`. Its height and x scale are set later.
    pub fn for_axis(y: &Axis, sheet: &Sheet) -> Self {
        let label_widths = y.ticks.iter().map(|tick| width_in_ems(&tick.label));
        Self {
            left: label_widths.fold(2.0, f64::max) * TEXT_SIZE + 16.0,
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

    /// `share` begins at the bottom.
    fn y_at(&self, share: f64) -> f64 {
        self.bottom - share * (self.bottom - self.top)
    }

    pub fn x_of_tick(&self, tick: &Tick) -> f64 {
        self.x_at(tick.position)
    }

    /// The position of a value, within the box.
    pub fn x(&self, value: f64) -> Option<f64> {
        Some(self.x_at(self.x_scale.position(value)?.clamp(0.0, 1.0)))
    }

    pub fn y(&self, value: f64) -> Option<f64> {
        Some(self.y_at(self.y_scale.position(value)?.clamp(0.0, 1.0)))
    }

    pub fn y_or_bottom(&self, value: f64) -> f64 {
        self.y(value).unwrap_or(self.bottom)
    }

    pub fn label_width_share(&self, label: &str) -> f64 {
        (width_in_ems(label) + 1.0) * TEXT_SIZE / self.width().max(1.0)
    }

    fn middle(&self) -> (f64, f64) {
        (
            f64::midpoint(self.left, self.right),
            f64::midpoint(self.top, self.bottom),
        )
    }

    /// Sets the height of the box and draws the axis. The label is above the box.
    pub fn draw_vertical_axis(
        &mut self,
        sheet: &mut Sheet,
        axis: &Axis,
        label: &str,
        space_above_box: f64,
        height: f64,
    ) {
        self.top = sheet.next_y + space_above_box + 10.0;
        if !label.is_empty() {
            let label = fitted(label, (sheet.width - 16.0) / TEXT_SIZE);
            sheet.text("t", "start", (8.0, sheet.next_y + 14.0), &label);
            self.top += 16.0;
        }
        self.bottom = self.top + height;
        for tick in &axis.ticks {
            let y = self.y_at(tick.position);
            sheet.line("g", (self.left, y), (self.right, y));
            sheet.text("m", "end", (self.left - 8.0, y + 4.0), &tick.label);
        }
    }

    /// Number of ticks that fit below the box if a label has `letters` letters.
    pub fn ticks_below(&self, letters: f64) -> usize {
        (self.width() / (letters * 0.64 * TEXT_SIZE + 26.0)).clamp(2.0, 12.0) as usize
    }

    /// Draws the axis and moves `sheet.next_y` below it.
    pub fn draw_horizontal_axis(&self, sheet: &mut Sheet, axis: &Axis, label: &str) {
        sheet.line("ax", (self.left, self.bottom), (self.right, self.bottom));
        for tick in &axis.ticks {
            let x = self.x_of_tick(tick);
            sheet.line("ax", (x, self.bottom), (x, self.bottom + 4.0));
            let half = width_in_ems(&tick.label) * TEXT_SIZE / 2.0;
            let label_x = x.min(sheet.width - half - 1.0).max(half + 1.0);
            sheet.text("m", "middle", (label_x, self.bottom + 18.0), &tick.label);
        }
        sheet.next_y = self.bottom + 24.0;
        if !label.is_empty() {
            let label = fitted(label, self.width() / TEXT_SIZE);
            sheet.text(
                "t",
                "middle",
                (self.middle().0, sheet.next_y + 12.0),
                &label,
            );
            sheet.next_y += 20.0;
        }
    }

    pub fn draw_no_values(&self, sheet: &mut Sheet) {
        sheet.text("m", "middle", self.middle(), "no values");
    }
}

/// A value and the ends of its interval; the value itself if they are missing or not finite.
pub fn value_and_ends((value, interval): ValueWithInterval) -> [f64; 3] {
    let (low, high) = interval
        .filter(|(low, high)| low.is_finite() && high.is_finite())
        .unwrap_or((value, value));
    [value, low, high]
}

const SWATCH_WIDTH: f64 = 26.0;
const LEGEND_LINE_HEIGHT: f64 = 19.0;

pub enum Swatch {
    Line(SeriesStyle),
    Filled(SeriesStyle),
    /// A square in the tint of this class.
    Tint(String),
    Diamond(SeriesStyle),
}

pub struct LegendEntry {
    pub swatch: Swatch,
    pub text: String,
    /// Same as [`StyledSeries::data_attribute`].
    pub data_attribute: String,
}

pub fn legend_entry(series: &StyledSeries, swatch: fn(SeriesStyle) -> Swatch) -> LegendEntry {
    LegendEntry {
        swatch: swatch(series.style),
        text: series.name.clone(),
        data_attribute: series.data_attribute.clone(),
    }
}

impl Sheet {
    pub fn draw_legend(&mut self, entries: impl IntoIterator<Item = LegendEntry>) {
        let mut x = 8.0;
        let mut is_empty = true;
        for entry in entries {
            is_empty = false;
            let text = fitted(&entry.text, (self.width - SWATCH_WIDTH - 24.0) / TEXT_SIZE);
            let entry_width = SWATCH_WIDTH + 6.0 + width_in_ems(&text) * TEXT_SIZE;
            if x > 8.0 && x + entry_width > self.width - 8.0 {
                x = 8.0;
                self.next_y += LEGEND_LINE_HEIGHT;
            }
            let y = self.next_y + 10.0;
            self.begin(&entry.data_attribute);
            match entry.swatch {
                Swatch::Line(mut style) => {
                    style.width_index = style.width_index.min(1);
                    let path = format!("M{} {}h{SWATCH_WIDTH}", Coordinate(x), Coordinate(y));
                    self.stroke(style, "", &path, "");
                }
                Swatch::Filled(style) => self.draw_square(&style.filled_class(), x, y),
                Swatch::Tint(class) => self.draw_square(&class, x, y),
                Swatch::Diamond(style) => self.diamond(style, (x + SWATCH_WIDTH / 2.0, y), ""),
            }
            self.text("t", "start", (x + SWATCH_WIDTH + 5.0, y + 4.0), &text);
            self.end();
            x += entry_width + 16.0;
        }
        self.next_y += if is_empty {
            2.0
        } else {
            LEGEND_LINE_HEIGHT + 4.0
        };
    }

    fn draw_square(&mut self, class: &str, x: f64, y: f64) {
        let [x, y] = [x + 6.0, y - 6.0].map(Coordinate);
        self.add(format_args!(
            r#"<rect class="{class}" x="{x}" y="{y}" width="14" height="12" rx="2"/>"#
        ));
    }
}
