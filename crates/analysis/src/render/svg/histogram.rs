//! Bars for one series, filled outlines for a few, outlines for many.

use std::fmt::Write as _;

use super::super::axis::Axis;
use super::super::style::{SeriesStyle, SeriesStyles};
use super::super::text::{escaped, number};
use super::frame::{Frame, horizontal, nothing, ticks_below, vertical};
use super::legend::{self, Entry, Swatch};
use super::{N, Sheet};
use crate::report::model::{Counts, Histogram};

/// More series are drawn as outlines only.
const MOST_FILLED: usize = 3;

pub(super) fn draw(sheet: &mut Sheet, chart: &Histogram, styles: &SeriesStyles) {
    let counts = || {
        chart
            .series
            .iter()
            .flat_map(|series| series.counts.iter().copied())
    };
    let smallest = if chart.log { 1.0 } else { 0.0 };
    let y = Axis::of_values(counts().chain([smallest]), "", chart.log, 5);
    let frame = vertical(sheet, &y, &chart.y_label, 0.0, 220.0);
    let (low, high) = (
        chart.edges.first().copied().unwrap_or(0.0),
        chart.edges.last().copied().unwrap_or(1.0),
    );
    let x = Axis::between(low, high, ticks_below(&frame, 6.0));
    let series = chart
        .series
        .iter()
        .map(|series| (series.name.as_str(), series.run.as_str()));
    let owner = |series: &Counts| styles.owner(&series.name, &series.run);
    let styles = styles.series(series);
    let bars = chart.series.len() == 1;
    for (series, style) in chart.series.iter().zip(&styles) {
        sheet.add(format_args!("<g{}>", owner(series)));
        if bars {
            filled(sheet, &frame, (&x, &y), chart, (series, *style));
        } else {
            outline(sheet, &frame, (&x, &y), chart, (series, *style));
        }
        sheet.add(format_args!("</g>"));
    }
    horizontal(sheet, &frame, &x, &chart.x_label);
    if counts().all(|count| count <= 0.0) {
        nothing(sheet, &frame);
    }
    let entry = |(series, style): (&Counts, &SeriesStyle)| Entry {
        swatch: if bars {
            Swatch::Filled(*style)
        } else {
            Swatch::Line(*style)
        },
        text: if series.above > 0.0 {
            format!(
                "{} ({} beyond the right edge)",
                series.name,
                number(series.above, 0)
            )
        } else {
            series.name.clone()
        },
        owner: owner(series),
    };
    let entries: Vec<Entry> = chart.series.iter().zip(&styles).map(entry).collect();
    legend::draw(sheet, &entries);
}

fn filled(
    sheet: &mut Sheet,
    frame: &Frame,
    (x, y): (&Axis, &Axis),
    chart: &Histogram,
    (series, style): (&Counts, SeriesStyle),
) {
    for (edges, count) in chart.edges.windows(2).zip(&series.counts) {
        let (Some(from), Some(to), Some(top)) = (
            x.scale.at(edges[0]),
            x.scale.at(edges[1]),
            y.scale.at(*count),
        ) else {
            continue;
        };
        let (from, to) = (frame.x(from), frame.x(to));
        let pad = ((to - from) * 0.08).min(1.5);
        let wide = (to - from - 2.0 * pad).max(0.3);
        let (left, top) = (from + pad, frame.y(top.clamp(0.0, 1.0)));
        let title = format!(
            "{}: {} from {} to {}",
            escaped(&series.name),
            number(*count, 0),
            number(edges[0], 2),
            number(edges[1], 2)
        );
        sheet.add(format_args!(
            r#"<rect class="{} f" x="{}" y="{}" width="{}" height="{}"><title>{title}</title></rect>"#,
            style.class(),
            N(left),
            N(top),
            N(wide),
            N((frame.bottom - top).max(0.0))
        ));
    }
}

fn outline(
    sheet: &mut Sheet,
    frame: &Frame,
    (x, y): (&Axis, &Axis),
    chart: &Histogram,
    (series, style): (&Counts, SeriesStyle),
) {
    let mut path = String::new();
    for (edges, count) in chart.edges.windows(2).zip(&series.counts) {
        let (Some(from), Some(to)) = (x.scale.at(edges[0]), x.scale.at(edges[1])) else {
            continue;
        };
        let top = frame.y(y.scale.at(*count).unwrap_or(0.0).clamp(0.0, 1.0));
        let start = if path.is_empty() {
            format!("M{} {}V", N(frame.x(from)), N(frame.bottom))
        } else {
            "V".to_owned()
        };
        write!(path, "{start}{}H{}", N(top), N(frame.x(to))).unwrap_or_default();
    }
    if path.is_empty() {
        return;
    }
    if chart.series.len() <= MOST_FILLED {
        sheet.add(format_args!(
            r#"<path class="{} area" d="{path}V{}z"/>"#,
            style.class(),
            N(frame.bottom)
        ));
    }
    let dashes = if style.dashes().is_empty() {
        "none"
    } else {
        style.dashes()
    };
    sheet.add(format_args!(
        r#"<path class="{} l" stroke-width="{}" stroke-dasharray="{dashes}" d="{path}V{}"><title>{}</title></path>"#,
        style.class(),
        N(style.thickness()),
        N(frame.bottom),
        escaped(&series.name)
    ));
}
