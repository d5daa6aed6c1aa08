use super::super::axis::Axis;
use super::super::text::{fitted, width};
use super::{N, Sheet, TEXT_SIZE};

#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

impl Frame {
    pub(super) fn x(&self, at: f64) -> f64 {
        self.left + at * (self.right - self.left)
    }

    /// From below.
    pub(super) fn y(&self, at: f64) -> f64 {
        self.bottom - at * (self.bottom - self.top)
    }
}

/// Draws the vertical axis. `above` is kept free between label and box.
pub(super) fn vertical(
    sheet: &mut Sheet,
    axis: &Axis,
    label: &str,
    above: f64,
    height: f64,
) -> Frame {
    let numbers = axis
        .ticks
        .iter()
        .map(|tick| width(&tick.label))
        .fold(2.0, f64::max)
        * TEXT_SIZE;
    let mut top = sheet.y + above + 10.0;
    if !label.is_empty() {
        let label = fitted(label, (sheet.width - 16.0) / TEXT_SIZE);
        sheet.text("t", "start", (8.0, sheet.y + 14.0), &label);
        top += 16.0;
    }
    let frame = Frame {
        left: numbers + 16.0,
        right: sheet.width - 20.0,
        top,
        bottom: top + height,
    };
    for tick in &axis.ticks {
        let y = frame.y(tick.at);
        sheet.line("g", (frame.left, y), (frame.right, y));
        sheet.text("m", "end", (frame.left - 8.0, y + 4.0), &tick.label);
    }
    frame
}

pub(super) fn ticks_below(frame: &Frame, letters: f64) -> usize {
    let space = (frame.right - frame.left) / (letters * 0.64 * TEXT_SIZE + 26.0);
    space.clamp(2.0, 12.0) as usize
}

/// Draws the horizontal axis and moves the sheet below it.
pub(super) fn horizontal(sheet: &mut Sheet, frame: &Frame, axis: &Axis, label: &str) {
    sheet.line(
        "ax",
        (frame.left, frame.bottom),
        (frame.right, frame.bottom),
    );
    for tick in &axis.ticks {
        let x = frame.x(tick.at);
        sheet.line("ax", (x, frame.bottom), (x, frame.bottom + 4.0));
        let half = width(&tick.label) * TEXT_SIZE / 2.0;
        let index = x.min(sheet.width - half - 1.0);
        sheet.text("m", "middle", (index, frame.bottom + 18.0), &tick.label);
    }
    below(sheet, frame, 24.0, label);
}

/// Draws the axis label and moves the sheet below it.
pub(super) fn below(sheet: &mut Sheet, frame: &Frame, offset: f64, label: &str) {
    sheet.y = frame.bottom + offset;
    if !label.is_empty() {
        let label = fitted(label, (frame.right - frame.left) / TEXT_SIZE);
        let middle = f64::midpoint(frame.left, frame.right);
        sheet.text("t", "middle", (middle, sheet.y + 12.0), &label);
        sheet.y += 20.0;
    }
}

pub(super) fn nothing(sheet: &mut Sheet, frame: &Frame) {
    let middle = (
        f64::midpoint(frame.left, frame.right),
        f64::midpoint(frame.top, frame.bottom),
    );
    sheet.add(format_args!(
        r#"<text class="m" x="{}" y="{}" text-anchor="middle">no values</text>"#,
        N(middle.0),
        N(middle.1)
    ));
}
