use anyhow::Context as _;
use serde_json::{Number, Value, json};

use super::super::style::{SeriesStyle, SeriesStyles, each_run_once};
use super::super::text::{clean, fitted};
use super::super::thin::{Piece, thin};
use crate::report::model::{Block, Chart, Figure, Report, Timeline};

/// Points in one page, so that a browser opens it quickly.
const POINTS: usize = 600_000;

pub(super) fn points_a_line(report: &Report) -> usize {
    let lines: usize = timelines(report)
        .map(|(_, timeline)| timeline.series.len())
        .sum();
    (POINTS / lines.max(1)).clamp(1_600, 12_000)
}

/// JSON without `<`, `>` or `&`, so that no text can break out of it.
pub(super) fn script(
    report: &Report,
    styles: &SeriesStyles,
    points: usize,
) -> anyhow::Result<String> {
    let runs: Vec<Value> = report
        .runs
        .iter()
        .map(|run| json!({ "id": run.id, "arm": clean(&run.arm), "name": clean(&run.name) }))
        .collect();
    let charts: Vec<Value> = timelines(report)
        .map(|(figure, one)| chart(figure, one, styles, points))
        .collect();
    let text = serde_json::to_string(&json!({ "runs": runs, "charts": charts }))
        .context("the page's data")?;
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => safe.push_str("\\u003c"),
            '>' => safe.push_str("\\u003e"),
            '&' => safe.push_str("\\u0026"),
            '\u{2028}' => safe.push_str("\\u2028"),
            '\u{2029}' => safe.push_str("\\u2029"),
            letter => safe.push(letter),
        }
    }
    Ok(safe)
}

fn timelines(report: &Report) -> impl Iterator<Item = (&Figure, &Timeline)> {
    report
        .sections
        .iter()
        .flat_map(|section| &section.blocks)
        .filter_map(|block| match block {
            Block::Figure(figure) => match &figure.chart {
                Chart::Timeline(timeline) => Some((figure, timeline)),
                _ => None,
            },
            _ => None,
        })
}

fn chart(figure: &Figure, timeline: &Timeline, styles: &SeriesStyles, points: usize) -> Value {
    let lines: Vec<Value> = timeline
        .series
        .iter()
        .zip(styles.lines(&timeline.series))
        .map(|(line, style)| {
            let positive = |value: &f64| !timeline.log || *value > 0.0;
            let y: Vec<Option<f64>> = line.y.iter().map(|value| value.filter(positive)).collect();
            let (x, y) = arrays(&thin(&line.x, &y, points / 4).0);
            json!({
                "name": clean(&line.name), "run": line.run, "x": x, "y": y,
                "colour": style.class(), "dash": style.dashes(), "weight": style.thickness(),
            })
        })
        .collect();
    let strips = !timeline.lanes().is_empty();
    let bands = timeline.bands.iter().filter(|band| band.from.is_finite() && band.to.is_finite()).map(|band| {
        json!({ "from": band.from, "to": band.to, "name": clean(&band.name), "run": band.run, "tint": styles.band(&band.name, strips) })
    });
    let lanes = timeline
        .lanes()
        .into_iter()
        .map(|run| json!({ "run": run, "colour": colour(styles, run) }));
    let mut marks: Vec<_> = timeline
        .marks
        .iter()
        .filter(|mark| mark.at.is_finite())
        .collect();
    marks.sort_by(|a, b| a.at.total_cmp(&b.at));
    let marks = marks.into_iter().map(|mark| {
        let colour = styles.mark(timeline, &mark.run).class();
        json!({ "at": mark.at, "short": fitted(&mark.name, 22.0), "run": mark.run, "colour": colour })
    });
    let (from, to) = timeline.span();
    json!({
        "id": figure.id,
        "x_label": clean(&timeline.x_label),
        "y_label": clean(&timeline.y_label),
        "unit": timeline.unit,
        "log": timeline.log,
        "span": [from, if to > from { to } else { from + 1.0 }],
        "one_line_a_run": each_run_once(&timeline.series),
        "lines": lines,
        "bands": bands.collect::<Vec<_>>(),
        "lanes": lanes.collect::<Vec<_>>(),
        "marks": marks.collect::<Vec<_>>(),
    })
}

fn colour(styles: &SeriesStyles, run: &str) -> String {
    styles.run(run).unwrap_or(SeriesStyle::NEUTRAL).class()
}

/// Whole ms and six digits, more than a screen shows. A `null` separates two pieces.
fn arrays(pieces: &[Piece]) -> (Value, Vec<Value>) {
    let mut times: Vec<i64> = Vec::new();
    let mut values = Vec::new();
    for piece in pieces {
        if let (Some(last), Some((next, _))) = (times.last().copied(), piece.first()) {
            let next = milliseconds(*next);
            // The midpoint, or a moment after the last point.
            times.push(last.midpoint(next).max(last + 1));
            values.push(Value::Null);
        }
        for (at, value) in piece {
            let at = milliseconds(*at);
            if times.last().is_none_or(|last| at > *last) {
                times.push(at);
                values.push(six_digits(*value));
            }
        }
    }
    (spaced(&times), values)
}

fn spaced(times: &[i64]) -> Value {
    match times {
        [first, second, ..]
            if times
                .windows(2)
                .all(|pair| pair[1] - pair[0] == second - first) =>
        {
            json!({ "from": first, "step": second - first, "count": times.len() })
        }
        times => json!({ "ms": times }),
    }
}

fn six_digits(value: f64) -> Value {
    let rounded: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    if rounded.fract() == 0.0 && rounded.abs() < 9e15 {
        return Value::from(whole(rounded));
    }
    Number::from_f64(rounded).map_or(Value::Null, Value::Number)
}

fn milliseconds(seconds: f64) -> i64 {
    // JavaScript numbers are not exact integers beyond this.
    whole((seconds * 1000.0).round().clamp(-9e15, 9e15))
}

fn whole(value: f64) -> i64 {
    value as i64
}
