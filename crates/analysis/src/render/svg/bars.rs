use super::super::axis::Axis;
use super::super::style::{SeriesStyle, SeriesStyles};
use super::super::text::{escaped, fitted, number, width};
use super::frame::{Frame, below, vertical};
use super::legend::{self, Entry, Swatch};
use super::{N, Sheet, TEXT_SIZE};
use crate::report::model::Bars;

pub(super) fn draw(sheet: &mut Sheet, chart: &Bars, styles: &SeriesStyles) {
    let ends = |(value, interval): (f64, Option<(f64, f64)>)| {
        let (low, high) = interval.unwrap_or((value, value));
        [value, low, high]
    };
    let values = chart
        .series
        .iter()
        .flat_map(|series| series.values.iter().flatten().copied().flat_map(ends));
    let zero = if chart.log { None } else { Some(0.0) };
    let y = Axis::of_values(values.chain(zero), "", chart.log, 5);
    let frame = vertical(sheet, &y, &chart.y_label, 0.0, 220.0);
    let owners: Vec<String> = chart
        .series
        .iter()
        .map(|series| styles.owner(&series.name, ""))
        .collect();
    let styles = styles.series(chart.series.iter().map(|series| (series.name.as_str(), "")));
    let base = frame.y(y.scale.at(0.0).unwrap_or(0.0).clamp(0.0, 1.0));
    for (index, _) in chart.categories.iter().enumerate() {
        category(sheet, &frame, &y, chart, (index, &styles, &owners, base));
    }
    sheet.line("ax", (frame.left, base), (frame.right, base));
    let lines = names(sheet, &frame, chart);
    below(sheet, &frame, 10.0 + lines * 15.0, "");
    let named = chart.series.iter().zip(&styles).zip(owners);
    let entries: Vec<Entry> = named
        .map(|((series, style), owner)| Entry {
            swatch: Swatch::Filled(*style),
            text: series.name.clone(),
            owner,
        })
        .collect();
    legend::draw(sheet, &entries);
}

fn slot(frame: &Frame, chart: &Bars, index: usize) -> (f64, f64) {
    let (index, of) = (index as f64, chart.categories.len().max(1) as f64);
    let wide = (frame.right - frame.left) / of;
    (frame.left + wide * index, wide)
}

fn category(
    sheet: &mut Sheet,
    frame: &Frame,
    y: &Axis,
    chart: &Bars,
    (index, styles, owners, base): (usize, &[SeriesStyle], &[String], f64),
) {
    let (left, slot) = slot(frame, chart, index);
    let wide = (slot * 0.78 / chart.series.len().max(1) as f64).min(64.0);
    let mut x = left + (slot - wide * chart.series.len() as f64) / 2.0;
    for ((series, style), owner) in chart.series.iter().zip(styles).zip(owners) {
        sheet.add(format_args!("<g{owner}>"));
        let middle = x + wide / 2.0;
        let value = series.values.get(index).copied().flatten();
        match value.and_then(|(value, interval)| Some((value, interval, y.scale.at(value)?))) {
            Some((value, interval, at)) => {
                let top = frame.y(at.clamp(0.0, 1.0));
                let title = format!(
                    "{}, {}: {}",
                    series.name,
                    chart.categories[index],
                    number(value, 3)
                );
                sheet.add(format_args!(
                    r#"<rect class="{} f" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>"#,
                    style.class(),
                    N(x + wide * 0.04),
                    N(top.min(base)),
                    N(wide * 0.92),
                    N((base - top).abs().max(0.5)),
                    escaped(&title)
                ));
                if let Some((low, high)) = interval {
                    whisker(sheet, frame, y, (middle, low, high));
                }
            }
            None if wide >= 12.0 => sheet.text("m", "middle", (middle, base - 4.0), "–"),
            None => {}
        }
        sheet.add(format_args!("</g>"));
        x += wide;
    }
}

fn whisker(sheet: &mut Sheet, frame: &Frame, y: &Axis, (x, low, high): (f64, f64, f64)) {
    let index = |value: f64| frame.y(y.scale.at(value).unwrap_or(0.0).clamp(0.0, 1.0));
    let (low, high) = (index(low), index(high));
    let d = format!(
        "M{l} {a}H{r}M{l} {b}H{r}M{x} {a}V{b}",
        l = N(x - 4.0),
        r = N(x + 4.0),
        a = N(low),
        b = N(high),
        x = N(x)
    );
    sheet.add(format_args!(r#"<path class="wh" d="{d}"/>"#));
}

/// Returns the number of lines.
fn names(sheet: &mut Sheet, frame: &Frame, chart: &Bars) -> f64 {
    let mut most: f64 = 1.0;
    for (index, name) in chart.categories.iter().enumerate() {
        let (left, wide) = slot(frame, chart, index);
        let space = (wide - 6.0).max(12.0) / TEXT_SIZE;
        let (first, second) = halves(name, space);
        let middle = left + wide / 2.0;
        sheet.text("m", "middle", (middle, frame.bottom + 17.0), &first);
        if let Some(second) = second {
            most = 2.0;
            sheet.text("m", "middle", (middle, frame.bottom + 32.0), &second);
        }
    }
    most
}

fn halves(name: &str, space: f64) -> (String, Option<String>) {
    if width(name) <= space {
        return (fitted(name, space), None);
    }
    let mut breaks = name
        .match_indices(' ')
        .map(|(at, _)| at)
        .filter(|at| width(&name[..*at]) <= space);
    match breaks.next_back() {
        Some(at) => (
            fitted(&name[..at], space),
            Some(fitted(name[at..].trim_start(), space)),
        ),
        None => (fitted(name, space), None),
    }
}
