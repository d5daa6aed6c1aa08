use std::fmt::Write as _;

use super::super::axis::Axis;
use super::super::style::{SeriesStyle, SeriesStyles};
use super::super::text::{escaped, number, width};
use super::frame::{Frame, horizontal, nothing, vertical};
use super::legend::{self, Entry, Swatch};
use super::{N, Sheet, TEXT_SIZE};
use crate::report::model::{Curve, Curves};

#[expect(clippy::too_many_lines, reason = "to be split by meaning")]
pub(super) fn draw(sheet: &mut Sheet, chart: &Curves, styles: &SeriesStyles) {
    let of_curve = |curve: &Curve| {
        let points = curve.points.iter().flat_map(|(_, (value, interval))| {
            let (low, high) = interval.unwrap_or((*value, *value));
            [*value, low, high]
        });
        points
            .chain(curve.recorded.map(|(_, value)| value))
            .collect::<Vec<_>>()
    };
    let y = Axis::of_values(
        chart.series.iter().flat_map(of_curve).chain([0.0]),
        &chart.unit,
        false,
        5,
    );
    let frame = vertical(sheet, &y, &chart.y_label, 0.0, 220.0);
    let recorded: Vec<f64> = chart
        .series
        .iter()
        .filter_map(|curve| Some(curve.recorded?.0))
        .collect();
    let of_points = chart
        .series
        .iter()
        .flat_map(|curve| curve.points.iter().map(|(size, _)| *size));
    let sizes = of_points.chain(recorded.iter().copied());
    let space =
        |label: &str| (width(label) + 1.0) * TEXT_SIZE / (frame.right - frame.left).max(1.0);
    let x = Axis::of_sizes(sizes, &recorded, space);
    let owners: Vec<String> = chart
        .series
        .iter()
        .map(|curve| styles.owner(&curve.name, &curve.run))
        .collect();
    let styles = styles.series(
        chart
            .series
            .iter()
            .map(|curve| (curve.name.as_str(), curve.run.as_str())),
    );
    for ((curve, style), owner) in chart.series.iter().zip(&styles).zip(&owners) {
        sheet.add(format_args!("<g{owner}>"));
        self::curve(sheet, &frame, (&x, &y), (curve, stands_out(chart)), *style);
        sheet.add(format_args!("</g>"));
    }
    horizontal(sheet, &frame, &x, &chart.x_label);
    if chart.series.iter().all(|curve| curve.points.is_empty()) {
        nothing(sheet, &frame);
    }
    let named = chart.series.iter().zip(&styles).zip(owners);
    let mut entries: Vec<Entry> = named
        .map(|((curve, style), owner)| Entry {
            swatch: Swatch::Line(*style),
            text: curve.name.clone(),
            owner,
        })
        .collect();
    if chart.series.iter().any(|curve| curve.recorded.is_some()) {
        let style = if let [one] = styles.as_slice() {
            *one
        } else {
            SeriesStyle::NEUTRAL
        };
        entries.push(Entry {
            swatch: Swatch::Point(style),
            text: stands_out(chart).to_owned(),
            owner: String::new(),
        });
    }
    legend::draw(sheet, &entries);
}

fn stands_out(chart: &Curves) -> &str {
    if chart.point.is_empty() {
        "recorded"
    } else {
        &chart.point
    }
}

#[expect(clippy::too_many_lines, reason = "to be split by meaning")]
fn curve(
    sheet: &mut Sheet,
    frame: &Frame,
    (x, y): (&Axis, &Axis),
    (curve, point): (&Curve, &str),
    style: SeriesStyle,
) {
    let tick_at =
        |size: f64, value: f64| Some((frame.x(x.scale.at(size)?), frame.y(y.scale.at(value)?)));
    let interval = |value: f64, ends: Option<(f64, f64)>| {
        ends.filter(|(low, high)| low.is_finite() && high.is_finite())
            .unwrap_or((value, value))
    };
    let path = |points: &mut dyn Iterator<Item = (f64, f64)>| {
        let mut path = String::new();
        for (index, (px, py)) in points.enumerate() {
            write!(
                path,
                "{}{} {}",
                if index == 0 { 'M' } else { 'L' },
                N(px),
                N(py)
            )
            .unwrap_or_default();
        }
        path
    };
    let upper = curve
        .points
        .iter()
        .filter_map(|(size, (value, ends))| tick_at(*size, interval(*value, *ends).1));
    let lower = curve
        .points
        .iter()
        .rev()
        .filter_map(|(size, (value, ends))| tick_at(*size, interval(*value, *ends).0));
    let (class, band) = (style.class(), path(&mut upper.chain(lower)));
    let line = path(
        &mut curve
            .points
            .iter()
            .filter_map(|(size, (value, _))| tick_at(*size, *value)),
    );
    if !line.is_empty() {
        let dashes = if style.dashes().is_empty() {
            "none"
        } else {
            style.dashes()
        };
        let (thick, name) = (N(style.thickness()), escaped(&curve.name));
        sheet.add(format_args!(r#"<path class="{class} area" d="{band}z"/>"#));
        sheet.add(format_args!(
            r#"<path class="{class} l" stroke-width="{thick}" stroke-dasharray="{dashes}" d="{line}"><title>{name}</title></path>"#
        ));
    }
    for (size, (value, ends)) in &curve.points {
        let Some((px, py)) = tick_at(*size, *value) else {
            continue;
        };
        let (low, high) = interval(*value, *ends);
        let [value, low, high] = [*value, low, high].map(|value| number(value, 2));
        let title = format!(
            "{}, {}: {value} [{low}, {high}]",
            curve.name,
            number(*size, 0)
        );
        sheet.add(format_args!(
            r#"<circle class="{class} f" cx="{}" cy="{}" r="2.5"><title>{}</title></circle>"#,
            N(px),
            N(py),
            escaped(&title)
        ));
    }
    if let Some((size, value)) = curve.recorded
        && let Some((px, py)) = tick_at(size, value)
    {
        sheet.line(&format!("{class} mk"), (px, frame.top), (px, frame.bottom));
        let title = format!(
            "{}, {point} at {}: {}",
            curve.name,
            number(size, 0),
            number(value, 2)
        );
        legend::point(sheet, style, (px, py), &title);
    }
}
