use super::{
    super::{
        axis::{Axis, Scale, Tick},
        text::{fitted, width},
    },
    Sheet, TEXT_SIZE,
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

    /// The vertical position of a share of the height, counted from the bottom.
    fn y_at(&self, share: f64) -> f64 {
        self.bottom - share * (self.bottom - self.top)
    }

    pub fn x_of_tick(&self, tick: &Tick) -> f64 {
        self.x_at(tick.at)
    }

    /// The horizontal position of a value, within the box.
    pub fn x(&self, value: f64) -> Option<f64> {
        Some(self.x_at(self.x_scale.at(value)?.clamp(0.0, 1.0)))
    }

    /// The vertical position of a value, within the box.
    pub fn y(&self, value: f64) -> Option<f64> {
        Some(self.y_at(self.y_scale.at(value)?.clamp(0.0, 1.0)))
    }

    /// As [`Frame::y`], with the bottom for values without a position.
    pub fn y_or_bottom(&self, value: f64) -> f64 {
        self.y(value).unwrap_or(self.bottom)
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
    let interval = interval.filter(|(low, high)| low.is_finite() && high.is_finite());
    let (low, high) = interval.unwrap_or((value, value));
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
        let label = fitted(label, (sheet.width - 16.0) / TEXT_SIZE);
        sheet.text("t", "start", (8.0, sheet.y + 14.0), &label);
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
