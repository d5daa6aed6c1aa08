use itertools::Itertools;
use std::collections::BTreeSet;

use super::{
    super::{
        axis::{Axis, range},
        style::{SeriesStyles, run_attribute},
        text::{escaped, fitted, sorted_marks, width_in_ems},
    },
    Coordinate, Sheet, TEXT_SIZE,
    frame::{Frame, LegendEntry, Swatch},
};
use crate::{
    groups::distinct,
    model::{Band, Line, Mark, Timeline},
};

const HEIGHT: f64 = 250.0;
const NAME_ROWS: usize = 3;
const NAME_ROW_HEIGHT: f64 = 15.0;

pub fn draw(sheet: &mut Sheet, chart: &Timeline, styles: &SeriesStyles) {
    let (low, high) = chart.span();
    let mut values = chart
        .series
        .iter()
        .flat_map(|line| line.y.iter().flatten().copied());
    let y = Axis::of_values(values.clone(), &chart.unit, chart.log, 5);
    let mut frame = Frame::for_axis(&y, sheet);
    let (x, time_format) = Axis::of_time(low, high, frame.ticks_below(7.0));
    frame.x_scale = x.scale;
    let placed_marks = placed_marks(&frame, chart);
    let names_height = placed_marks
        .iter()
        .filter_map(|mark| Some(mark.name.as_ref()?.above + NAME_ROW_HEIGHT))
        .fold(0.0, f64::max);
    frame.draw_vertical_axis(sheet, &y, &chart.y_label, names_height, HEIGHT);
    let strip_runs = chart.strip_runs();
    if strip_runs.is_empty() {
        for band in &chart.bands {
            let class = styles.band_class(&band.name, false);
            let height = frame.bottom - frame.top;
            draw_band(sheet, &frame, band, &class, (frame.top, height));
        }
    }
    draw_lines(sheet, &frame, chart, styles);
    draw_marks(sheet, &frame, &placed_marks, (chart, styles));
    let with_strips = draw_strips(sheet, &frame, chart, (&strip_runs, styles));
    with_strips.draw_horizontal_axis(sheet, &x, &format!("{} ({time_format})", chart.x_label));
    if values.all(|value| frame.y(value).is_none()) {
        frame.draw_no_values(sheet);
    }
    sheet.draw_legend(legend_entries(chart, styles));
}

fn draw_band(sheet: &mut Sheet, frame: &Frame, band: &Band, class: &str, (y, height): (f64, f64)) {
    if let (Some(from), Some(to)) = (frame.x(band.from), frame.x(band.to)) {
        sheet.rect(class, (from, y), ((to - from).max(1.0), height), &band.name);
    }
}

/// Draws a strip of phases per run below the box. The returned frame includes the strips.
fn draw_strips(
    sheet: &mut Sheet,
    frame: &Frame,
    chart: &Timeline,
    (strip_runs, styles): (&[&str], &SeriesStyles),
) -> Frame {
    let mut with_strips = *frame;
    if strip_runs.is_empty() {
        return with_strips;
    }
    sheet.line(
        "ax",
        (frame.left, frame.bottom),
        (frame.right, frame.bottom),
    );
    with_strips.bottom += 4.0;
    for run in strip_runs {
        sheet.begin(&run_attribute(run));
        let class = styles.run_style(run).filled_class();
        let top = with_strips.bottom;
        sheet.rect(&class, (frame.left - 7.0, top), (5.0, 4.0), "");
        for band in chart.bands.iter().filter(|band| band.run == *run) {
            let class = format!("{} st", styles.band_class(&band.name, true));
            draw_band(sheet, frame, band, &class, (top, 4.0));
        }
        sheet.end();
        with_strips.bottom += 6.0;
    }
    with_strips
}

fn draw_lines(sheet: &mut Sheet, frame: &Frame, chart: &Timeline, styles: &SeriesStyles) {
    // Two points for each pixel.
    let points = 2 * frame.width() as usize;
    for (line, style) in chart.series.iter().zip(styles.line_styles(&chart.series)) {
        let path = line_path(frame, &line.thinned(points));
        if !path.is_empty() {
            sheet.stroke(style, &run_attribute(&line.run), &path, &line.name);
        }
    }
}

fn line_path(frame: &Frame, line: &Line) -> String {
    let points = line
        .x
        .iter()
        .zip(&line.y)
        .map(|(x, y)| Some((frame.x(*x)?, frame.y((*y)?)?)))
        .collect_vec();
    let mut path = String::new();
    for piece in points.split(Option::is_none) {
        for (index, (x, y)) in piece.iter().flatten().enumerate() {
            let pen = if index == 0 { 'M' } else { 'L' };
            path += &format!("{pen}{x:.1} {y:.1}");
        }
        if piece.len() == 1 {
            // A single point: a line of length 0 with round ends.
            path.push_str("h0");
        }
    }
    path
}

struct PlacedMark<'a> {
    mark: &'a Mark,
    x: f64,
    name: Option<PlacedName>,
}

struct PlacedName {
    /// Pixels above the lowest row.
    above: f64,
    x: f64,
    text: String,
}

/// A name is right or left of its line, in the lowest row with space. It is left out without space,
/// or if a mark nearby has the same name.
fn placed_marks<'a>(frame: &Frame, chart: &'a Timeline) -> Vec<PlacedMark<'a>> {
    let mut taken: [Vec<(f64, f64)>; NAME_ROWS] = Default::default();
    let mut all: Vec<PlacedMark<'a>> = Vec::new();
    for mark in sorted_marks(chart) {
        let Some(x) = frame.x(mark.at) else { continue };
        let text = fitted(&mark.name, 22.0);
        let text_width = width_in_ems(&text) * TEXT_SIZE + 6.0;
        let is_repeated = all.iter().any(|other| {
            let name = other.name.as_ref();
            (x - other.x).abs() < 8.0 && name.is_some_and(|name| name.text == text)
        });
        let position = (0..NAME_ROWS)
            .flat_map(|row| [x + 1.0, x - 1.0 - text_width].map(|from| (row, from)))
            .find(|(row, from)| {
                let mut others = taken[*row].iter();
                !is_repeated
                    && *from >= frame.left
                    && from + text_width <= frame.right + 14.0
                    && others.all(|(start, end)| from > end || from + text_width < *start)
            });
        let name = position.map(|(row, from)| {
            taken[row].push((from, from + text_width));
            PlacedName {
                above: row as f64 * NAME_ROW_HEIGHT,
                x: from + 3.0,
                text,
            }
        });
        all.push(PlacedMark { mark, x, name });
    }
    all
}

fn draw_marks(
    sheet: &mut Sheet,
    frame: &Frame,
    placed_marks: &[PlacedMark<'_>],
    (chart, styles): (&Timeline, &SeriesStyles),
) {
    for PlacedMark { mark, x, name } in placed_marks {
        let style = styles.mark_style(chart, &mark.run);
        sheet.begin(&run_attribute(&mark.run));
        sheet.add(format_args!("<title>{}</title>", escaped(&mark.name)));
        let top = frame.top - 4.0 - name.as_ref().map_or(0.0, |name| name.above);
        let class = format!("{} mk", style.class());
        sheet.line(&class, (*x, top), (*x, frame.bottom));
        let class = style.filled_class();
        let [x, top] = [x - 4.0, frame.top].map(Coordinate);
        sheet.add(format_args!(
            r#"<path class="{class}" d="M{x} {top}h8l-4 6z"/>"#
        ));
        sheet.end();
    }
    // Names come last and have an outline in the background color, so that no line crosses them.
    for PlacedMark { mark, name, .. } in placed_marks {
        let Some(PlacedName { above, x, text }) = name else {
            continue;
        };
        sheet.begin(&run_attribute(&mark.run));
        sheet.text("t s halo", "start", (*x, frame.top - 5.0 - above), text);
        sheet.end();
    }
}

fn legend_entries(chart: &Timeline, styles: &SeriesStyles) -> Vec<LegendEntry> {
    let mut entries = chart
        .series
        .iter()
        .zip(styles.line_styles(&chart.series))
        .map(|(line, style)| LegendEntry {
            swatch: Swatch::Line(style),
            text: line.name.clone(),
            data_attribute: run_attribute(&line.run),
        })
        .collect_vec();
    let has_strips = !chart.strip_runs().is_empty();
    let mut seen = BTreeSet::new();
    for band in chart.bands.iter().filter(|band| seen.insert(&band.name)) {
        entries.push(LegendEntry {
            swatch: Swatch::Tint(styles.band_class(&band.name, has_strips)),
            text: band.name.clone(),
            data_attribute: String::new(),
        });
    }
    entries
}

impl Timeline {
    pub(in crate::render) fn strip_runs(&self) -> Vec<&str> {
        let runs = distinct(self.bands.iter().map(|band| band.run.as_str()));
        if runs.len() > 1 { runs } else { Vec::new() }
    }

    pub(in crate::render) fn span(&self) -> (f64, f64) {
        let of_bands = self.bands.iter().flat_map(|band| [band.from, band.to]);
        let times = self.series.iter().flat_map(|line| line.x.iter().copied());
        let times = times.chain(of_bands);
        range(times.chain(self.marks.iter().map(|mark| mark.at))).unwrap_or((0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_chart_without_positive_values_has_a_note() {
        let mut sheet = Sheet {
            body: String::new(),
            width: 400.0,
            next_y: 0.0,
        };
        let chart = Timeline {
            series: vec![Line {
                x: vec![0.0, 1.0],
                y: vec![Some(0.0), Some(-1.0)],
                ..Line::default()
            }],
            log: true,
            ..Timeline::default()
        };
        draw(&mut sheet, &chart, &SeriesStyles::default());
        assert!(sheet.body.contains(">no values<"), "{}", sheet.body);
    }
}
