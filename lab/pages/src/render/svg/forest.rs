//! A forest plot. A row has a metric's name, a ratio with its interval, and the effect as text.

use super::{
    super::{
        axis::Axis,
        text::{fitted, number, width_in_ems},
    },
    Coordinate, Sheet, TEXT_SIZE,
    frame::{Frame, value_and_ends},
};
use crate::model::{Forest, ForestRow, Tone};

const INTERVAL_HEIGHT: f64 = 24.0;

/// In a narrow drawing, name and text of a row are above the interval.
const TEXT_HEIGHT: f64 = 18.0;

const MIN_WIDE_WIDTH: f64 = 500.0;

/// Possible ticks. The axis begins and ends at a tick. Effects beyond an end are drawn at that end.
const AXIS_RATIOS: [f64; 19] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 2.0, 5.0, 10.0, 20.0,
    50.0, 100.0,
];

pub fn draw(sheet: &mut Sheet, chart: &Forest) {
    let is_narrow = sheet.width < MIN_WIDE_WIDTH;
    let row_height = INTERVAL_HEIGHT + if is_narrow { TEXT_HEIGHT } else { 0.0 };
    let empty_axis = Axis::with_logarithmic_ticks(std::iter::empty(), &[], ratio_label, |_| 0.0);
    let mut frame = Frame::for_axis(&empty_axis, sheet);
    let column_width = |text: fn(&ForestRow) -> &str| {
        (chart
            .rows
            .iter()
            .map(|row| width_in_ems(text(row)))
            .fold(0.0, f64::max)
            * TEXT_SIZE
            + 24.0)
            .min(sheet.width * 0.4)
    };
    let names_width = column_width(|row| &row.name);
    let texts_width = column_width(|row| &row.text);
    (frame.left, frame.right) = if is_narrow {
        (16.0, sheet.width - 16.0)
    } else {
        (names_width, sheet.width - texts_width - 12.0)
    };
    let x = axis(chart, &frame);
    frame.x_scale = x.scale;
    let height = row_height * chart.rows.len() as f64;
    frame.draw_vertical_axis(sheet, &empty_axis, "", 0.0, height);
    for tick in x.ticks.iter().map(|tick| frame.x_of_tick(tick)) {
        sheet.line("g", (tick, frame.top), (tick, frame.bottom));
    }
    let no_effect_x = frame.x(1.0).unwrap_or(frame.left);
    sheet.line("ax", (no_effect_x, frame.top), (no_effect_x, frame.bottom));
    for (index, row) in chart.rows.iter().enumerate() {
        let y = frame.top + row_height * (index + 1) as f64 - INTERVAL_HEIGHT / 2.0;
        draw_interval(sheet, &frame, (row, y));
        if is_narrow {
            let text = fitted(&row.text, 0.7 * sheet.width / TEXT_SIZE);
            let name = fitted(
                &row.name,
                sheet.width / TEXT_SIZE - width_in_ems(&text) - 2.0,
            );
            sheet.text("t halo", "start", (8.0, y - 10.0), &name);
            let class = format!("{} halo", text_class(row.tone));
            sheet.text(&class, "end", (sheet.width - 8.0, y - 10.0), &text);
        } else {
            let name = fitted(&row.name, (names_width - 16.0) / TEXT_SIZE);
            sheet.text("t", "start", (8.0, y + 4.0), &name);
            let text = fitted(&row.text, (texts_width - 16.0) / TEXT_SIZE);
            let at = (frame.right + 16.0, y + 4.0);
            sheet.text(text_class(row.tone), "start", at, &text);
        }
    }
    if chart.rows.is_empty() {
        frame.draw_no_values(sheet);
    }
    frame.draw_horizontal_axis(sheet, &x, &chart.x_label);
}

fn axis(chart: &Forest, frame: &Frame) -> Axis {
    let (mut low, mut high) = (0.9, 1.1);
    for ratio in chart.rows.iter().flat_map(|row| value_and_ends(row.ratio)) {
        if ratio.is_finite() && ratio > 0.0 {
            (low, high) = (ratio.min(low), ratio.max(high));
        }
    }
    let [first, .., last] = AXIS_RATIOS;
    let mut ratios = AXIS_RATIOS.into_iter();
    let from = ratios.clone().rfind(|ratio| *ratio <= low).unwrap_or(first);
    let to = ratios.find(|ratio| *ratio >= high).unwrap_or(last);
    let shown = AXIS_RATIOS
        .into_iter()
        .filter(|ratio| (from..=to).contains(ratio));
    Axis::with_logarithmic_ticks(shown, &[1.0], ratio_label, |label| {
        frame.label_width_share(label)
    })
}

/// `−50 %`, `0`, `+25 %`, `×2`.
fn ratio_label(ratio: f64) -> String {
    let change = 100.0 * (ratio - 1.0);
    match ratio {
        2.0.. => format!("×{}", number(ratio, 0)),
        _ if change.abs() < 0.5 => "0".to_owned(),
        _ if change > 0.0 => format!("+{} %", number(change, 0)),
        _ => format!("{} %", number(change, 0)),
    }
}

fn text_class(tone: Tone) -> &'static str {
    match tone {
        Tone::Neutral => "m",
        Tone::Better => "better f",
        Tone::Worse => "worse f",
    }
}

fn draw_interval(sheet: &mut Sheet, frame: &Frame, (row, y): (&ForestRow, f64)) {
    let class = match row.tone {
        Tone::Neutral => "kn",
        Tone::Better => "better",
        Tone::Worse => "worse",
    };
    // A ratio of 0 or infinity is at the end of the axis.
    let x = |ratio: f64| frame.x(ratio.clamp(f64::MIN_POSITIVE, f64::MAX));
    let [_, low, high] = value_and_ends(row.ratio);
    if let Some((low, high)) = x(low).zip(x(high)) {
        let [low, high, y] = [low, high, y].map(Coordinate);
        sheet.add(format_args!(
            r#"<path class="{class} l" stroke-width="2" d="M{low} {y}H{high}"/>"#
        ));
    }
    if let Some(x) = x(row.ratio.0) {
        let title = format!("{}: {}", row.name, row.text);
        sheet.circle(&format!("{class} f"), (x, y), 4.5, &title);
    }
}
