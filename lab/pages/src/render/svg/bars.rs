use super::{
    super::{
        axis::Axis,
        style::{SeriesStyles, Style},
        text::{fitted, number, width},
    },
    Coordinate, Sheet, TEXT_SIZE,
    frame::{Frame, HEIGHT, draw_axis_label, draw_vertical_axis, value_and_ends},
    legend::{self, Swatch},
};
use crate::model::Bars;

pub fn draw(sheet: &mut Sheet, chart: &Bars, series_styles: &SeriesStyles) {
    let bars = chart.series.iter().flat_map(|one| &one.values).flatten();
    let values = bars.flat_map(|bar| value_and_ends(*bar));
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
        .map(|style| legend::entry(style, Swatch::Filled));
    legend::draw(sheet, entries);
}

fn category_width(frame: &Frame, chart: &Bars, index: usize) -> (f64, f64) {
    let (index, of) = (index as f64, chart.categories.len().max(1) as f64);
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
                let (name, category) = (&series.name, &chart.categories[index]);
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
        let max_ems = (wide - 6.0).max(12.0) / TEXT_SIZE;
        let (first, second) = wrapped_name(name, max_ems);
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
    let last = breaks.rfind(|at| width(&name[..*at]) <= max_ems);
    match last.filter(|_| width(name) > max_ems) {
        Some(at) => (
            fitted(&name[..at], max_ems),
            Some(fitted(name[at..].trim_start(), max_ems)),
        ),
        None => (fitted(name, max_ems), None),
    }
}
