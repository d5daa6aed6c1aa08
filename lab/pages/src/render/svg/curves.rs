use super::{
    super::{
        axis::Axis,
        style::{SeriesStyle, SeriesStyles, Style},
        text::number,
    },
    Coordinate, Sheet,
    frame::{Frame, HEIGHT, LegendEntry, Swatch, legend_entry, value_and_ends},
};
use crate::model::{Bar, Curve, Curves};

pub fn draw(sheet: &mut Sheet, chart: &Curves, series_styles: &SeriesStyles) {
    let series = &chart.series;
    let points = series.iter().flat_map(|curve| &curve.points);
    let recorded = series.iter().filter_map(|curve| curve.recorded);
    let y = Axis::of_values(
        points
            .clone()
            .flat_map(|(_, bar)| value_and_ends(*bar))
            .chain(recorded.clone().map(|(_, value)| value))
            .chain([0.0]),
        &chart.unit,
        false,
        5,
    );
    let mut frame = Frame::for_axis(&y, sheet);
    frame.draw_vertical_axis(sheet, &y, &chart.y_label, 0.0, HEIGHT);
    let recorded: Vec<f64> = recorded.map(|(size, _)| size).collect();
    let x = Axis::of_sizes(
        points
            .map(|(size, _)| *size)
            .chain(recorded.iter().copied()),
        &recorded,
        |size| number(size, 0),
        |label| frame.label_share(label),
    );
    frame.x_scale = x.scale;
    let styles = series_styles.styles(
        series
            .iter()
            .map(|curve| (curve.name.as_str(), curve.run.as_str())),
    );
    let point = match chart.point.as_str() {
        "" => "recorded",
        point => point,
    };
    for (curve, style) in series.iter().zip(&styles) {
        sheet.begin(&style.owner_attribute);
        line(sheet, &frame, curve, style.series_style);
        points_of(sheet, &frame, (curve, point), style);
        sheet.end();
    }
    frame.draw_horizontal_axis(sheet, &x, &chart.x_label);
    if series.iter().all(|curve| curve.points.is_empty()) {
        frame.draw_no_values(sheet);
    }
    let series_style = match styles.as_slice() {
        [one] => one.series_style,
        _ => SeriesStyle::NEUTRAL,
    };
    let of_point = (!recorded.is_empty()).then(|| LegendEntry {
        swatch: Swatch::Point(series_style),
        text: point.to_owned(),
        owner_attribute: String::new(),
    });
    sheet.draw_legend(
        styles
            .iter()
            .map(|style| legend_entry(style, Swatch::Line))
            .chain(of_point),
    );
}

/// The line through the points, over the area of their intervals.
fn line(sheet: &mut Sheet, frame: &Frame, curve: &Curve, series_style: SeriesStyle) {
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
    let end = |nth: usize| move |(size, bar): &(f64, Bar)| (*size, value_and_ends(*bar)[nth]);
    let upper = points.clone().map(end(2));
    let lower = points.clone().map(end(1));
    let area = path(&mut upper.chain(lower.rev()));
    let line = path(&mut points.map(|(size, (value, _))| (*size, *value)));
    if !line.is_empty() {
        sheet.area(series_style, &area);
        sheet.stroke(series_style, "", &line, &curve.name);
    }
}

fn points_of(
    sheet: &mut Sheet,
    frame: &Frame,
    (curve, point): (&Curve, &str),
    Style { series_style, .. }: &Style,
) {
    let position = |size: f64, value: f64| Some((frame.x(size)?, frame.y(value)?));
    for (size, bar) in &curve.points {
        let Some((x, y)) = position(*size, bar.0) else {
            continue;
        };
        let [value, low, high] = value_and_ends(*bar).map(|value| number(value, 2));
        let (name, size) = (&curve.name, number(*size, 0));
        let title = format!("{name}, {size}: {value} [{low}, {high}]");
        sheet.circle(&series_style.filled(), (x, y), 2.5, &title);
    }
    if let Some((size, value)) = curve.recorded
        && let Some((x, y)) = position(size, value)
    {
        let class = format!("{} mk", series_style.class());
        sheet.line(&class, (x, frame.top), (x, frame.bottom));
        let (name, size, value) = (&curve.name, number(size, 0), number(value, 2));
        let title = format!("{name}, {point} at {size}: {value}");
        sheet.diamond(*series_style, (x, y), &title);
    }
}
