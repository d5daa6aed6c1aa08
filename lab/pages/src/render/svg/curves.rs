use super::{
    super::{
        axis::Axis,
        style::{SeriesStyle, SeriesStyles},
        text::number,
    },
    Coordinate, Sheet,
    frame::{CHART_HEIGHT, Frame, LegendEntry, Swatch, legend_entry, value_and_ends},
};
use crate::model::{Curve, Curves, ValueWithInterval};

pub fn draw(sheet: &mut Sheet, chart: &Curves, styles: &SeriesStyles) {
    let series = &chart.series;
    let points = series.iter().flat_map(|curve| &curve.points);
    let highlights = series.iter().filter_map(|curve| curve.highlight);
    let y = Axis::of_values(
        points
            .clone()
            .flat_map(|(_, estimate)| value_and_ends(*estimate))
            .chain(highlights.clone().map(|(_, value)| value))
            .chain([0.0]),
        &chart.unit,
        false,
        5,
    );
    let mut frame = Frame::for_axis(&y, sheet);
    frame.draw_vertical_axis(sheet, &y, &chart.y_label, 0.0, CHART_HEIGHT);
    let highlighted = Vec::from_iter(highlights.map(|(size, _)| size));
    let x = Axis::with_logarithmic_ticks(
        points
            .map(|(size, _)| *size)
            .chain(highlighted.iter().copied()),
        &highlighted,
        |size| number(size, 0),
        |label| frame.label_width_share(label),
    );
    frame.x_scale = x.scale;
    let styled_series = styles.styled_series(
        series
            .iter()
            .map(|curve| (curve.name.as_str(), curve.run.as_str())),
    );
    let highlight_label = match chart.highlight_label.as_str() {
        "" => "recorded",
        label => label,
    };
    for (curve, styled) in series.iter().zip(&styled_series) {
        sheet.begin(&styled.data_attribute);
        draw_line(sheet, &frame, curve, styled.style);
        draw_points(sheet, &frame, (curve, highlight_label), styled.style);
        sheet.end();
    }
    frame.draw_horizontal_axis(sheet, &x, &chart.x_label);
    if series.iter().all(|curve| curve.points.is_empty()) {
        frame.draw_no_values(sheet);
    }
    let style = match styled_series.as_slice() {
        [one] => one.style,
        _ => SeriesStyle::NEUTRAL,
    };
    let highlight_entry = (!highlighted.is_empty()).then(|| LegendEntry {
        swatch: Swatch::Diamond(style),
        text: highlight_label.to_owned(),
        data_attribute: String::new(),
    });
    sheet.draw_legend(
        styled_series
            .iter()
            .map(|styled| legend_entry(styled, Swatch::Line))
            .chain(highlight_entry),
    );
}

/// The line through the points, over the area of their intervals.
fn draw_line(sheet: &mut Sheet, frame: &Frame, curve: &Curve, style: SeriesStyle) {
    let path = |points: &mut dyn Iterator<Item = (f64, f64)>| {
        let mut path = String::new();
        for (size, value) in points {
            if let (Some(x), Some(y)) = (frame.x(size), frame.y(value)) {
                let pen = if path.is_empty() { 'M' } else { 'L' };
                path += &format!("{pen}{} {}", Coordinate(x), Coordinate(y));
            }
        }
        path
    };
    let points = curve.points.iter();
    let end = |nth| {
        move |(size, estimate): &(f64, ValueWithInterval)| (*size, value_and_ends(*estimate)[nth])
    };
    let upper = points.clone().map(end(2));
    let lower = points.clone().map(end(1));
    let area = path(&mut upper.chain(lower.rev()));
    let line = path(&mut points.map(|(size, (value, _))| (*size, *value)));
    if !line.is_empty() {
        sheet.area(style, &area);
        sheet.stroke(style, "", &line, &curve.name);
    }
}

fn draw_points(
    sheet: &mut Sheet,
    frame: &Frame,
    (curve, highlight_label): (&Curve, &str),
    style: SeriesStyle,
) {
    let position = |size, value| Some((frame.x(size)?, frame.y(value)?));
    for (size, estimate) in &curve.points {
        let Some((x, y)) = position(*size, estimate.0) else {
            continue;
        };
        let [value, low, high] = value_and_ends(*estimate).map(|value| number(value, 2));
        let (name, size) = (&curve.name, number(*size, 0));
        let title = format!("{name}, {size}: {value} [{low}, {high}]");
        sheet.circle(&style.filled_class(), (x, y), 2.5, &title);
    }
    if let Some((size, value)) = curve.highlight
        && let Some((x, y)) = position(size, value)
    {
        let class = format!("{} mk", style.class());
        sheet.line(&class, (x, frame.top), (x, frame.bottom));
        let (name, size, value) = (&curve.name, number(size, 0), number(value, 2));
        let title = format!("{name}, {highlight_label} at {size}: {value}");
        sheet.diamond(style, (x, y), &title);
    }
}
