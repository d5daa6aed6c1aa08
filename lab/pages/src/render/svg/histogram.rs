//! Bars for one series, filled outlines for a few, outlines for many.

use std::fmt::Write as _;

use super::{
    super::{
        axis::Axis,
        style::{SeriesStyle, SeriesStyles},
        text::number,
    },
    Coordinate, Sheet,
    frame::{Frame, HEIGHT, draw_horizontal_axis, draw_no_values, draw_vertical_axis, ticks_below},
    legend::{self, Swatch},
};
use crate::model::{Counts, Histogram};

/// More series are drawn as outlines only.
const MAX_FILLED: usize = 3;

pub fn draw(sheet: &mut Sheet, chart: &Histogram, series_styles: &SeriesStyles) {
    let counts = chart
        .series
        .iter()
        .flat_map(|series| series.counts.iter().copied());
    let smallest = if chart.log { 1.0 } else { 0.0 };
    let y = Axis::of_values(counts.clone().chain([smallest]), "", chart.log, 5);
    let mut frame = Frame::for_axis(&y, sheet);
    draw_vertical_axis(sheet, &mut frame, (&y, &chart.y_label), (0.0, HEIGHT));
    let low = chart.edges.first().copied().unwrap_or(0.0);
    let high = chart.edges.last().copied().unwrap_or(1.0);
    let x = Axis::between(low, high, ticks_below(&frame, 6.0));
    frame.x_scale = x.scale;
    let series = chart.series.iter();
    let styles =
        series_styles.styles(series.map(|series| (series.name.as_str(), series.run.as_str())));
    let bars = chart.series.len() == 1;
    for (series, style) in chart.series.iter().zip(&styles) {
        sheet.begin(&style.owner_attribute);
        if bars {
            filled(sheet, &frame, chart, (series, style.series_style));
        } else {
            outline(sheet, &frame, chart, (series, style.series_style));
        }
        sheet.end();
    }
    draw_horizontal_axis(sheet, &frame, &x, &chart.x_label);
    if counts.clone().all(|count| count <= 0.0) {
        draw_no_values(sheet, &frame);
    }
    let swatch: fn(SeriesStyle) -> Swatch = if bars { Swatch::Filled } else { Swatch::Line };
    let entries = chart.series.iter().zip(&styles).map(|(series, style)| {
        let mut entry = legend::entry(style, swatch);
        if series.above > 0.0 {
            entry.text += &format!(" ({} beyond the right edge)", number(series.above, 0));
        }
        entry
    });
    legend::draw(sheet, entries);
}

fn filled(
    sheet: &mut Sheet,
    frame: &Frame,
    chart: &Histogram,
    (series, series_style): (&Counts, SeriesStyle),
) {
    for (edges, count) in chart.edges.windows(2).zip(&series.counts) {
        let (Some(from), Some(to), Some(top)) =
            (frame.x(edges[0]), frame.x(edges[1]), frame.y(*count))
        else {
            continue;
        };
        let pad = ((to - from) * 0.08).min(1.5);
        let size = (
            (to - from - 2.0 * pad).max(0.3),
            (frame.bottom - top).max(0.0),
        );
        let (name, count) = (&series.name, number(*count, 0));
        let [low, high] = [edges[0], edges[1]].map(|edge| number(edge, 2));
        let title = format!("{name}: {count} from {low} to {high}");
        sheet.rect(&series_style.filled(), (from + pad, top), size, &title);
    }
}

fn outline(
    sheet: &mut Sheet,
    frame: &Frame,
    chart: &Histogram,
    (series, series_style): (&Counts, SeriesStyle),
) {
    let mut path = String::new();
    for (edges, count) in chart.edges.windows(2).zip(&series.counts) {
        let (Some(from), Some(to)) = (frame.x(edges[0]), frame.x(edges[1])) else {
            continue;
        };
        if path.is_empty() {
            write!(path, "M{} {}", Coordinate(from), Coordinate(frame.bottom)).unwrap_or_default();
        }
        write!(
            path,
            "V{}H{}",
            Coordinate(frame.y_or_bottom(*count)),
            Coordinate(to)
        )
        .unwrap_or_default();
    }
    if path.is_empty() {
        return;
    }
    write!(path, "V{}", Coordinate(frame.bottom)).unwrap_or_default();
    if chart.series.len() <= MAX_FILLED {
        sheet.area(series_style, &path);
    }
    sheet.stroke(series_style, "", &path, &series.name);
}
