use std::fmt::Write as _;

use super::{
    super::{
        axis::Axis,
        style::{SeriesStyle, SeriesStyles, Style},
        text::{fitted, number, width},
    },
    Coordinate, Sheet, TEXT_SIZE,
    frame::{
        Frame, HEIGHT, Swatch, draw_axis_label, draw_horizontal_axis, draw_legend, draw_no_values,
        draw_vertical_axis, legend_entry, ticks_below, value_and_ends,
    },
};
use crate::model::{Bars, Counts, Histogram};

pub fn draw(sheet: &mut Sheet, chart: &Bars, series_styles: &SeriesStyles) {
    let values = chart
        .series
        .iter()
        .flat_map(|one| &one.values)
        .flatten()
        .flat_map(|bar| value_and_ends(*bar));
    let zero = if chart.log { None } else { Some(0.0) };
    let y = Axis::of_values(values.chain(zero), "", chart.log, 5);
    let mut frame = Frame::for_axis(&y, sheet);
    draw_vertical_axis(sheet, &mut frame, (&y, &chart.y_label), (0.0, HEIGHT));
    let series = chart.series.iter().map(|one| (one.name.as_str(), ""));
    let styles = series_styles.styles(series);
    let base = frame.y_or_bottom(0.0);
    for (index, _) in chart.categories.iter().enumerate() {
        category(sheet, &frame, chart, (index, &styles, base));
    }
    sheet.line("ax", (frame.left, base), (frame.right, base));
    let lines = draw_names(sheet, &frame, chart);
    draw_axis_label(sheet, &frame, 10.0 + lines * 15.0, "");
    let entries = styles
        .iter()
        .map(|style| legend_entry(style, Swatch::Filled));
    draw_legend(sheet, entries);
}

fn category_width(frame: &Frame, chart: &Bars, index: usize) -> (f64, f64) {
    let index = index as f64;
    let of = chart.categories.len().max(1) as f64;
    let wide = frame.width() / of;
    (frame.left + wide * index, wide)
}

fn category(
    sheet: &mut Sheet,
    frame: &Frame,
    chart: &Bars,
    (index, styles, base): (usize, &[Style], f64),
) {
    let (left, category_width) = category_width(frame, chart, index);
    let wide = (category_width * 0.78 / chart.series.len().max(1) as f64).min(64.0);
    let mut x = left + (category_width - wide * chart.series.len() as f64) / 2.0;
    for (series, style) in chart.series.iter().zip(styles) {
        sheet.begin(&style.owner_attribute);
        let middle = x + wide / 2.0;
        let bar = series.values.get(index).copied().flatten();
        match bar.and_then(|bar| Some((bar, frame.y(bar.0)?))) {
            Some(((value, interval), top)) => {
                let name = &series.name;
                let category = &chart.categories[index];
                sheet.rect(
                    &style.series_style.filled(),
                    (x + wide * 0.04, top.min(base)),
                    (wide * 0.92, (base - top).abs().max(0.5)),
                    &format!("{name}, {category}: {}", number(value, 3)),
                );
                if let Some((low, high)) = interval {
                    whisker(sheet, frame, (middle, low, high));
                }
            }
            None if wide >= 12.0 => sheet.text("m", "middle", (middle, base - 4.0), "–"),
            None => {}
        }
        sheet.end();
        x += wide;
    }
}

fn whisker(sheet: &mut Sheet, frame: &Frame, (x, low, high): (f64, f64, f64)) {
    let d = format!(
        "M{l} {a}H{r}M{l} {b}H{r}M{x} {a}V{b}",
        l = Coordinate(x - 4.0),
        r = Coordinate(x + 4.0),
        a = Coordinate(frame.y_or_bottom(low)),
        b = Coordinate(frame.y_or_bottom(high)),
        x = Coordinate(x)
    );
    sheet.add(format_args!(r#"<path class="wh" d="{d}"/>"#));
}

/// Draws the names of the categories. Returns the number of lines.
fn draw_names(sheet: &mut Sheet, frame: &Frame, chart: &Bars) -> f64 {
    let mut most: f64 = 1.0;
    for (index, name) in chart.categories.iter().enumerate() {
        let (left, wide) = category_width(frame, chart, index);
        let (first, second) = wrapped_name(name, (wide - 6.0).max(12.0) / TEXT_SIZE);
        let middle = left + wide / 2.0;
        sheet.text("m", "middle", (middle, frame.bottom + 17.0), &first);
        if let Some(second) = second {
            most = 2.0;
            sheet.text("m", "middle", (middle, frame.bottom + 32.0), &second);
        }
    }
    most
}

/// The name in one line; if it is too wide, in two, broken where the first part still fits.
fn wrapped_name(name: &str, max_ems: f64) -> (String, Option<String>) {
    let mut breaks = name.match_indices(' ').map(|(at, _)| at);
    match breaks
        .rfind(|at| width(&name[..*at]) <= max_ems)
        .filter(|_| width(name) > max_ems)
    {
        Some(at) => (
            fitted(&name[..at], max_ems),
            Some(fitted(name[at..].trim_start(), max_ems)),
        ),
        None => (fitted(name, max_ems), None),
    }
}

/// More series are drawn as outlines only.
const MAX_FILLED: usize = 3;

/// Draws bars for one series, filled outlines for a few, outlines for many.
pub fn draw_histogram(sheet: &mut Sheet, chart: &Histogram, series_styles: &SeriesStyles) {
    let counts = chart
        .series
        .iter()
        .flat_map(|series| series.counts.iter().copied());
    let smallest = if chart.log { 1.0 } else { 0.0 };
    let y = Axis::of_values(counts.clone().chain([smallest]), "", chart.log, 5);
    let mut frame = Frame::for_axis(&y, sheet);
    draw_vertical_axis(sheet, &mut frame, (&y, &chart.y_label), (0.0, HEIGHT));
    let low = chart.edges.first().copied().unwrap_or(0.0);
    let x = Axis::between(
        low,
        chart.edges.last().copied().unwrap_or(1.0),
        ticks_below(&frame, 6.0),
    );
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
        let mut entry = legend_entry(style, swatch);
        if series.above > 0.0 {
            entry.text += &format!(" ({} beyond the right edge)", number(series.above, 0));
        }
        entry
    });
    draw_legend(sheet, entries);
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
        let name = &series.name;
        let count = number(*count, 0);
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
