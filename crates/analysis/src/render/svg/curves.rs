use std::fmt::Write as _;

use super::super::axis::Axis;
use super::super::style::{SeriesStyle, SeriesStyles};
use super::super::text::{escaped, number, width};
use super::frame::{Frame, horizontal, nothing, vertical};
use super::legend::{self, Entry, Swatch};
use super::{N, Sheet, TEXT_SIZE};
use crate::report::model::{Curve, Curves};

pub(super) fn draw(sheet: &mut Sheet, chart: &Curves, styles: &SeriesStyles) {
    let y = Axis::of_values(
        chart.series.iter().flat_map(values).chain([0.0]),
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
        let plot = Plot {
            frame: &frame,
            x: &x,
            y: &y,
            curve,
            style: *style,
        };
        plot.line(sheet);
        plot.points(sheet);
        plot.recorded(sheet, stands_out(chart));
        sheet.add(format_args!("</g>"));
    }
    horizontal(sheet, &frame, &x, &chart.x_label);
    if chart.series.iter().all(|curve| curve.points.is_empty()) {
        nothing(sheet, &frame);
    }
    legend::draw(sheet, &entries(chart, &styles, owners));
}

fn stands_out(chart: &Curves) -> &str {
    if chart.point.is_empty() {
        "recorded"
    } else {
        &chart.point
    }
}

fn values(curve: &Curve) -> Vec<f64> {
    let points = curve.points.iter().flat_map(|(_, (value, interval))| {
        let (low, high) = interval.unwrap_or((*value, *value));
        [*value, low, high]
    });
    points
        .chain(curve.recorded.map(|(_, value)| value))
        .collect()
}

fn entries(chart: &Curves, styles: &[SeriesStyle], owners: Vec<String>) -> Vec<Entry> {
    let named = chart.series.iter().zip(styles).zip(owners);
    let mut entries: Vec<Entry> = named
        .map(|((curve, style), owner)| Entry {
            swatch: Swatch::Line(*style),
            text: curve.name.clone(),
            owner,
        })
        .collect();
    if chart.series.iter().any(|curve| curve.recorded.is_some()) {
        let style = if let [one] = styles {
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
    entries
}

/// The ends of the band at a value; without an interval the value itself.
fn band(value: f64, ends: Option<(f64, f64)>) -> (f64, f64) {
    ends.filter(|(low, high)| low.is_finite() && high.is_finite())
        .unwrap_or((value, value))
}

fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
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
}

struct Plot<'a> {
    frame: &'a Frame,
    x: &'a Axis,
    y: &'a Axis,
    curve: &'a Curve,
    style: SeriesStyle,
}

impl Plot<'_> {
    fn at(&self, size: f64, value: f64) -> Option<(f64, f64)> {
        let (x, y) = (self.x.scale.at(size)?, self.y.scale.at(value)?);
        Some((self.frame.x(x), self.frame.y(y)))
    }

    fn line(&self, sheet: &mut Sheet) {
        let upper = self
            .curve
            .points
            .iter()
            .filter_map(|(size, (value, ends))| self.at(*size, band(*value, *ends).1));
        let lower = self
            .curve
            .points
            .iter()
            .rev()
            .filter_map(|(size, (value, ends))| self.at(*size, band(*value, *ends).0));
        let (class, area) = (self.style.class(), path(upper.chain(lower)));
        let line = path(
            self.curve
                .points
                .iter()
                .filter_map(|(size, (value, _))| self.at(*size, *value)),
        );
        if line.is_empty() {
            return;
        }
        let dashes = match self.style.dashes() {
            "" => "none",
            dashes => dashes,
        };
        let (thick, name) = (N(self.style.thickness()), escaped(&self.curve.name));
        sheet.add(format_args!(r#"<path class="{class} area" d="{area}z"/>"#));
        sheet.add(format_args!(
            r#"<path class="{class} l" stroke-width="{thick}" stroke-dasharray="{dashes}" d="{line}"><title>{name}</title></path>"#
        ));
    }

    fn points(&self, sheet: &mut Sheet) {
        let class = self.style.class();
        for (size, (value, ends)) in &self.curve.points {
            let Some((px, py)) = self.at(*size, *value) else {
                continue;
            };
            let (low, high) = band(*value, *ends);
            let [value, low, high] = [*value, low, high].map(|value| number(value, 2));
            let title = format!(
                "{}, {}: {value} [{low}, {high}]",
                self.curve.name,
                number(*size, 0)
            );
            sheet.add(format_args!(
                r#"<circle class="{class} f" cx="{}" cy="{}" r="2.5"><title>{}</title></circle>"#,
                N(px),
                N(py),
                escaped(&title)
            ));
        }
    }

    /// The recorded point, which the legend names `point`.
    fn recorded(&self, sheet: &mut Sheet, point: &str) {
        if let Some((size, value)) = self.curve.recorded
            && let Some((px, py)) = self.at(size, value)
        {
            sheet.line(
                &format!("{} mk", self.style.class()),
                (px, self.frame.top),
                (px, self.frame.bottom),
            );
            let title = format!(
                "{}, {point} at {}: {}",
                self.curve.name,
                number(size, 0),
                number(value, 2)
            );
            legend::point(sheet, self.style, (px, py), &title);
        }
    }
}
