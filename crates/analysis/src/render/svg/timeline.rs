use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::super::axis::Axis;
use super::super::style::{SeriesStyle, SeriesStyles, of_run};
use super::super::text::{escaped, fitted, width};
use super::super::thin::{Piece, thin};
use super::frame::{Frame, horizontal, nothing, ticks_below, vertical};
use super::legend::{self, Entry, Swatch};
use super::{N, Sheet, TEXT_SIZE};
use crate::report::model::{Mark, Timeline};

const HEIGHT: f64 = 250.0;
const ROWS: usize = 3;
const ROW: f64 = 15.0;

pub(super) fn draw(sheet: &mut Sheet, chart: &Timeline, styles: &SeriesStyles) {
    let (low, high) = chart.span();
    let values = chart
        .series
        .iter()
        .flat_map(|line| line.y.iter().flatten().copied());
    let y = Axis::of_values(values, &chart.unit, chart.log, 5);
    // Name positions depend on the numbers at the left of the box.
    let numbers = y
        .ticks
        .iter()
        .map(|tick| width(&tick.label))
        .fold(2.0, f64::max)
        * TEXT_SIZE;
    let guess = Frame {
        left: numbers + 16.0,
        right: sheet.width - 20.0,
        top: 0.0,
        bottom: 0.0,
    };
    let (x_guess, _) = Axis::of_time(low, high, 4);
    let placed = placed(&guess, &x_guess, &chart.marks);
    let rows = placed
        .iter()
        .filter_map(|mark| Some(mark.name.as_ref()?.row + 1))
        .max()
        .unwrap_or(0);
    let above = rows as f64 * ROW;
    let frame = vertical(sheet, &y, &chart.y_label, above, HEIGHT);
    let (x, form) = Axis::of_time(low, high, ticks_below(&frame, 7.0));
    let lanes = chart.lanes();
    if lanes.is_empty() {
        bands(sheet, &frame, &x, chart, styles);
    }
    lines(sheet, &frame, (&x, &y), chart, styles);
    marks(sheet, &frame, &placed, (chart, styles));
    let below = strips(sheet, &frame, &x, chart, (&lanes, styles));
    horizontal(sheet, &below, &x, &format!("{} ({form})", chart.x_label));
    if chart
        .series
        .iter()
        .all(|line| line.y.iter().all(Option::is_none))
    {
        nothing(sheet, &frame);
    }
    legend::draw(sheet, &entries(chart, styles));
}

fn bands(sheet: &mut Sheet, frame: &Frame, x: &Axis, chart: &Timeline, styles: &SeriesStyles) {
    for band in &chart.bands {
        let (Some(from), Some(to)) = (x.scale.at(band.from), x.scale.at(band.to)) else {
            continue;
        };
        let (from, to) = (frame.x(from.clamp(0.0, 1.0)), frame.x(to.clamp(0.0, 1.0)));
        let (class, top, name) = (
            styles.band(&band.name, false),
            frame.top,
            escaped(&band.name),
        );
        let (wide, high) = ((to - from).max(1.0), frame.bottom - top);
        sheet.add(format_args!(
            r#"<rect class="{class}" x="{}" y="{}" width="{}" height="{}"><title>{name}</title></rect>"#,
            N(from),
            N(top),
            N(wide),
            N(high)
        ));
    }
}

/// Draws a thin strip of phases for each run below the box.
fn strips(
    sheet: &mut Sheet,
    frame: &Frame,
    x: &Axis,
    chart: &Timeline,
    (lanes, styles): (&[&str], &SeriesStyles),
) -> Frame {
    let mut below = *frame;
    if lanes.is_empty() {
        return below;
    }
    sheet.line(
        "ax",
        (frame.left, frame.bottom),
        (frame.right, frame.bottom),
    );
    below.bottom += 4.0;
    for run in lanes {
        let (class, owner) = (
            styles.run(run).unwrap_or(SeriesStyle::NEUTRAL).class(),
            of_run(run),
        );
        let top = N(below.bottom);
        sheet.add(format_args!(
            r#"<g{owner}><rect class="{class} f" x="{}" y="{top}" width="5" height="4"/>"#,
            N(frame.left - 7.0)
        ));
        for band in chart.bands.iter().filter(|band| band.run == *run) {
            let (Some(from), Some(to)) = (x.scale.at(band.from), x.scale.at(band.to)) else {
                continue;
            };
            let (from, to) = (frame.x(from.clamp(0.0, 1.0)), frame.x(to.clamp(0.0, 1.0)));
            sheet.add(format_args!(
                r#"<rect class="{} st" x="{}" y="{top}" width="{}" height="4"><title>{}</title></rect>"#,
                styles.band(&band.name, true),
                N(from),
                N((to - from).max(1.0)),
                escaped(&band.name)
            ));
        }
        sheet.add(format_args!("</g>"));
        below.bottom += 6.0;
    }
    below
}

fn lines(
    sheet: &mut Sheet,
    frame: &Frame,
    (x, y): (&Axis, &Axis),
    chart: &Timeline,
    styles: &SeriesStyles,
) {
    let buckets = ((frame.right - frame.left) / 2.0) as usize;
    for (line, style) in chart.series.iter().zip(styles.lines(&chart.series)) {
        let y_values: Vec<Option<f64>> = line
            .y
            .iter()
            .map(|value| value.filter(|value| y.scale.at(*value).is_some()))
            .collect();
        let (pieces, _) = thin(&line.x, &y_values, buckets);
        let path = path(frame, (x, y), &pieces);
        if path.is_empty() {
            continue;
        }
        let (class, thick, run, name) = (
            style.class(),
            N(style.thickness()),
            of_run(&line.run),
            escaped(&line.name),
        );
        let dashes = if style.dashes().is_empty() {
            "none"
        } else {
            style.dashes()
        };
        sheet.add(format_args!(
            r#"<path class="{class} l"{run} stroke-width="{thick}" stroke-dasharray="{dashes}" d="{path}"><title>{name}</title></path>"#
        ));
    }
}

fn path(frame: &Frame, (x, y): (&Axis, &Axis), pieces: &[Piece]) -> String {
    let mut path = String::new();
    for piece in pieces {
        let points = piece
            .iter()
            .filter_map(|(px, py)| Some((frame.x(x.scale.at(*px)?), frame.y(y.scale.at(*py)?))));
        for (index, (px, py)) in points.enumerate() {
            write!(
                path,
                "{}{:.1} {:.1}",
                if index == 0 { 'M' } else { 'L' },
                px,
                py
            )
            .unwrap_or_default();
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
    name: Option<Name>,
}

struct Name {
    row: usize,
    x: f64,
    text: String,
}

impl Name {
    /// Pixels above the lowest row.
    fn above(&self) -> f64 {
        let row = self.row as f64;
        row * ROW
    }
}

/// Names go right of their line, else left of it, else they are left out. So is a repeated name of
/// a neighbour.
fn placed<'a>(frame: &Frame, x: &Axis, marks: &'a [Mark]) -> Vec<PlacedMark<'a>> {
    let mut taken: [Vec<(f64, f64)>; ROWS] = Default::default();
    let mut labels: Vec<(f64, String)> = Vec::new();
    let mut sorted: Vec<&Mark> = marks
        .iter()
        .filter(|mark| x.scale.at(mark.at).is_some())
        .collect();
    sorted.sort_by(|a, b| a.at.total_cmp(&b.at));
    let mut put = |mark: &'a Mark| {
        let at = frame.x(x.scale.at(mark.at).unwrap_or(0.0));
        let text = fitted(&mark.name, 22.0);
        let wide = width(&text) * TEXT_SIZE + 6.0;
        let mut name = None;
        if labels
            .iter()
            .any(|(x, labels)| (at - x).abs() < 8.0 && *labels == text)
        {
            return PlacedMark { mark, x: at, name };
        }
        for (row, taken) in taken.iter_mut().enumerate() {
            let fits = |from: f64| {
                from >= frame.left
                    && from + wide <= frame.right + 14.0
                    && taken.iter().all(|(a, b)| from > *b || from + wide < *a)
            };
            if let Some(from) = [at + 1.0, at - 1.0 - wide]
                .into_iter()
                .find(|from| fits(*from))
            {
                taken.push((from, from + wide));
                labels.push((at, text.clone()));
                name = Some(Name {
                    row,
                    x: from + 3.0,
                    text,
                });
                break;
            }
        }
        PlacedMark { mark, x: at, name }
    };
    sorted.into_iter().map(&mut put).collect()
}

fn marks(
    sheet: &mut Sheet,
    frame: &Frame,
    placed: &[PlacedMark<'_>],
    (chart, styles): (&Timeline, &SeriesStyles),
) {
    for mark in placed {
        let style = styles.mark(chart, &mark.mark.run);
        let (x, class, run) = (mark.x, style.class(), of_run(&mark.mark.run));
        sheet.add(format_args!(
            "<g{run}><title>{}</title>",
            escaped(&mark.mark.name)
        ));
        let top = frame.top - 4.0 - mark.name.as_ref().map_or(0.0, Name::above);
        sheet.line(&format!("{class} mk"), (x, top), (x, frame.bottom));
        let (left, right, top, tip) = (N(x - 4.0), N(x + 4.0), N(frame.top), N(frame.top + 6.0));
        sheet.add(format_args!(
            r#"<path class="{class} f" d="M{left} {top}L{right} {top}L{} {tip}z"/></g>"#,
            N(x)
        ));
    }
    // Names come last with a paper-coloured outline, so that no line crosses them.
    for mark in placed {
        let Some(name) = &mark.name else { continue };
        sheet.add(format_args!("<g{}>", of_run(&mark.mark.run)));
        sheet.text(
            "t s halo",
            "start",
            (name.x, frame.top - 5.0 - name.above()),
            &name.text,
        );
        sheet.add(format_args!("</g>"));
    }
}

fn entries(chart: &Timeline, styles: &SeriesStyles) -> Vec<Entry> {
    let of_lines = chart.series.iter().zip(styles.lines(&chart.series));
    let mut entries: Vec<Entry> = of_lines
        .map(|(line, style)| Entry {
            swatch: Swatch::Line(style),
            text: line.name.clone(),
            owner: of_run(&line.run),
        })
        .collect();
    let strips = !chart.lanes().is_empty();
    let mut seen = BTreeSet::new();
    for band in chart.bands.iter().filter(|band| seen.insert(&band.name)) {
        entries.push(Entry {
            swatch: Swatch::Tint(styles.band(&band.name, strips)),
            text: band.name.clone(),
            owner: String::new(),
        });
    }
    entries
}

impl Timeline {
    /// The runs with bands, if several; each gets its own strip.
    pub(in crate::render) fn lanes(&self) -> Vec<&str> {
        let mut runs: Vec<&str> = Vec::new();
        for band in &self.bands {
            if !runs.contains(&band.run.as_str()) {
                runs.push(&band.run);
            }
        }
        if runs.len() > 1 { runs } else { Vec::new() }
    }

    pub(in crate::render) fn span(&self) -> (f64, f64) {
        let of_lines = self.series.iter().flat_map(|line| line.x.iter().copied());
        let of_bands = self.bands.iter().flat_map(|band| [band.from, band.to]);
        let of_marks = self.marks.iter().map(|mark| mark.at);
        let all = of_lines
            .chain(of_bands)
            .chain(of_marks)
            .filter(|second| second.is_finite());
        all.fold(None, |ends: Option<(f64, f64)>, at| {
            Some(ends.map_or((at, at), |(a, b)| (a.min(at), b.max(at))))
        })
        .unwrap_or((0.0, 1.0))
    }
}
