use super::{
    super::{
        axis::Axis,
        style::{SeriesStyle, SeriesStyles, StyledSeries},
        text::{fitted, number, width_in_ems},
    },
    Coordinate, Sheet, TEXT_SIZE,
    frame::{CHART_HEIGHT, Frame, Swatch, legend_entry, value_and_ends},
};
use crate::model::{Bars, Counts, Histogram};

pub fn draw(sheet: &mut Sheet, chart: &Bars, styles: &SeriesStyles) {
    let values = chart
        .series
        .iter()
        .flat_map(|one| &one.values)
        .flatten()
        .flat_map(|bar| value_and_ends(*bar));
    let values = values.chain((!chart.log).then_some(0.0));
    let y = Axis::of_values(values, "", chart.log, 5);
    let mut frame = Frame::for_axis(&y, sheet);
    frame.draw_vertical_axis(sheet, &y, &chart.y_label, 0.0, CHART_HEIGHT);
    let series = chart.series.iter().map(|one| (one.name.as_str(), ""));
    let styled_series = styles.styled_series(series);
    let base = frame.y_or_bottom(0.0);
    for index in 0..chart.categories.len() {
        draw_category(sheet, &frame, chart, (index, &styled_series, base));
    }
    sheet.line("ax", (frame.left, base), (frame.right, base));
    let lines = draw_names(sheet, &frame, chart);
    sheet.next_y = frame.bottom + 10.0 + lines * 15.0;
    let entry = |styled| legend_entry(styled, Swatch::Filled);
    sheet.draw_legend(styled_series.iter().map(entry));
}

/// Left end and width.
fn category_span(frame: &Frame, chart: &Bars, index: usize) -> (f64, f64) {
    let width = frame.width() / chart.categories.len().max(1) as f64;
    (frame.left + width * index as f64, width)
}

fn draw_category(
    sheet: &mut Sheet,
    frame: &Frame,
    chart: &Bars,
    (index, styled_series, base): (usize, &[StyledSeries], f64),
) {
    let (left, category_width) = category_span(frame, chart, index);
    let count = chart.series.len() as f64;
    let bar_width = (category_width * 0.78 / count.max(1.0)).min(64.0);
    let mut x = left + (category_width - bar_width * count) / 2.0;
    for (series, styled) in chart.series.iter().zip(styled_series) {
        sheet.begin(&styled.data_attribute);
        let middle = x + bar_width / 2.0;
        let bar = series.values.get(index).copied().flatten();
        match bar.and_then(|bar| Some((bar, frame.y(bar.0)?))) {
            Some(((value, interval), top)) => {
                let (name, category) = (&series.name, &chart.categories[index]);
                sheet.rect(
                    &styled.style.filled_class(),
                    (x + bar_width * 0.04, top.min(base)),
                    (bar_width * 0.92, (base - top).abs().max(0.5)),
                    &format!("{name}, {category}: {}", number(value, 3)),
                );
                if let Some((low, high)) = interval {
                    draw_whisker(sheet, frame, (middle, low, high));
                }
            }
            None if bar_width >= 12.0 => sheet.text("m", "middle", (middle, base - 4.0), "–"),
            None => {}
        }
        sheet.end();
        x += bar_width;
    }
}

fn draw_whisker(sheet: &mut Sheet, frame: &Frame, (x, low, high): (f64, f64, f64)) {
    let [left, right, x] = [x - 4.0, x + 4.0, x].map(Coordinate);
    let [low, high] = [low, high].map(|end| Coordinate(frame.y_or_bottom(end)));
    sheet.add(format_args!(
        r#"<path class="wh" d="M{left} {low}H{right}M{left} {high}H{right}M{x} {low}V{high}"/>"#
    ));
}

/// Returns the number of lines.
fn draw_names(sheet: &mut Sheet, frame: &Frame, chart: &Bars) -> f64 {
    let mut lines = 1.0;
    for (index, name) in chart.categories.iter().enumerate() {
        let (left, width) = category_span(frame, chart, index);
        let (first, second) = wrapped_name(name, (width - 6.0).max(12.0) / TEXT_SIZE);
        let middle = left + width / 2.0;
        sheet.text("m", "middle", (middle, frame.bottom + 17.0), &first);
        if let Some(second) = second {
            lines = 2.0;
            sheet.text("m", "middle", (middle, frame.bottom + 32.0), &second);
        }
    }
    lines
}

/// One line, or two for a wide name. The first has as many words as fit.
fn wrapped_name(name: &str, max_ems: f64) -> (String, Option<String>) {
    let mut breaks = name.rmatch_indices(' ').map(|(at, _)| name.split_at(at));
    match breaks.find(|(first, _)| width_in_ems(first) <= max_ems) {
        Some((first, second)) if width_in_ems(name) > max_ems => {
            let second = fitted(second.trim_start(), max_ems);
            (fitted(first, max_ems), Some(second))
        }
        _ => (fitted(name, max_ems), None),
    }
}

/// Outlines of at most so many series are filled.
const MAX_FILLED: usize = 3;

/// Draws bars for one series, filled outlines for a few, empty outlines for many.
pub fn draw_histogram(sheet: &mut Sheet, chart: &Histogram, styles: &SeriesStyles) {
    let counts = chart
        .series
        .iter()
        .flat_map(|series| series.counts.iter().copied());
    // A logarithmic axis begins below 1, so that a count of 1 has a bar.
    let lowest = if chart.log { 0.5 } else { 0.0 };
    let y = Axis::of_values(counts.clone().chain([lowest]), "", chart.log, 5);
    let mut frame = Frame::for_axis(&y, sheet);
    frame.draw_vertical_axis(sheet, &y, &chart.y_label, 0.0, CHART_HEIGHT);
    let low = chart.edges.first().copied().unwrap_or(0.0);
    let x = Axis::between(
        low,
        chart.edges.last().copied().unwrap_or(1.0),
        frame.ticks_below(6.0),
    );
    frame.x_scale = x.scale;
    let series = chart.series.iter();
    let styled_series =
        styles.styled_series(series.map(|series| (series.name.as_str(), series.run.as_str())));
    let is_single = chart.series.len() == 1;
    let draw_counts = if is_single { draw_bars } else { draw_outline };
    let swatch = if is_single {
        Swatch::Filled
    } else {
        Swatch::Line
    };
    for (series, styled) in chart.series.iter().zip(&styled_series) {
        sheet.begin(&styled.data_attribute);
        draw_counts(sheet, &frame, chart, (series, styled.style));
        sheet.end();
    }
    frame.draw_horizontal_axis(sheet, &x, &chart.x_label);
    if counts.clone().all(|count| count <= 0.0) {
        frame.draw_no_values(sheet);
    }
    let entries = chart
        .series
        .iter()
        .zip(&styled_series)
        .map(|(series, styled)| {
            let mut entry = legend_entry(styled, swatch);
            if series.above > 0.0 {
                entry.text += &format!(" ({} beyond the right edge)", number(series.above, 0));
            }
            entry
        });
    sheet.draw_legend(entries);
}

fn draw_bars(
    sheet: &mut Sheet,
    frame: &Frame,
    chart: &Histogram,
    (series, style): (&Counts, SeriesStyle),
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
        let title = format!(
            "{}: {} from {} to {}",
            series.name,
            number(*count, 0),
            number(edges[0], 2),
            number(edges[1], 2)
        );
        sheet.rect(&style.filled_class(), (from + pad, top), size, &title);
    }
}

fn draw_outline(
    sheet: &mut Sheet,
    frame: &Frame,
    chart: &Histogram,
    (series, style): (&Counts, SeriesStyle),
) {
    let bottom = Coordinate(frame.bottom);
    let mut path = String::new();
    for (edges, count) in chart.edges.windows(2).zip(&series.counts) {
        let (Some(from), Some(to)) = (frame.x(edges[0]), frame.x(edges[1])) else {
            continue;
        };
        if path.is_empty() {
            path = format!("M{} {bottom}", Coordinate(from));
        }
        let top = Coordinate(frame.y_or_bottom(*count));
        path += &format!("V{top}H{}", Coordinate(to));
    }
    if path.is_empty() {
        return;
    }
    path += &format!("V{bottom}");
    if chart.series.len() <= MAX_FILLED {
        sheet.area(style, &path);
    }
    sheet.stroke(style, "", &path, &series.name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_of_one_has_a_bar_on_a_logarithmic_axis() {
        let mut sheet = Sheet {
            body: String::new(),
            width: 400.0,
            next_y: 0.0,
        };
        let chart = Histogram {
            edges: vec![0.0, 1.0, 2.0],
            series: vec![Counts {
                counts: vec![1.0, 1000.0],
                ..Counts::default()
            }],
            log: true,
            ..Histogram::default()
        };
        draw_histogram(&mut sheet, &chart, &SeriesStyles::default());
        assert!(!sheet.body.contains(r#"height="0""#), "{}", sheet.body);
    }
}
