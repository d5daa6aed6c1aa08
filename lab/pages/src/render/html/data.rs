use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::super::{
    style::{SeriesStyle, SeriesStyles, each_run_once},
    text::{clean, fitted},
    words::sorted_marks,
};
use crate::model::{Chart, Figure, Line, Report, Timeline, rounded};

/// Maximum number of points of a line on the page, so that a browser opens it at once.
pub const MAX_POINTS: usize = 6_000;

/// JSON without `<`, `>` or `&`, so that no text can break out of it.
pub fn script(report: &Report, styles: &SeriesStyles) -> Result<String> {
    let runs: Vec<Value> = report
        .runs
        .iter()
        .map(|run| json!({ "id": run.id, "arm": clean(&run.arm), "name": clean(&run.name) }))
        .collect();
    let figures = super::super::figures(report);
    let charts: Vec<Value> = figures.filter_map(|one| chart(one, styles)).collect();
    let text = serde_json::to_string(&json!({ "runs": runs, "charts": charts }))
        .context("the page's data")?;
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                safe.push_str(&format!("\\u{:04x}", u32::from(letter)));
            }
            letter => safe.push(letter),
        }
    }
    Ok(safe)
}

fn chart(figure: &Figure, styles: &SeriesStyles) -> Option<Value> {
    let Chart::Timeline(timeline) = &figure.chart else {
        return None;
    };
    let line_styles = styles.lines(&timeline.series);
    let lines = timeline
        .series
        .iter()
        .zip(line_styles)
        .map(|(line, style)| {
            let (x, y) = points(timeline, line);
            json!({
                "name": clean(&line.name), "run": line.run, "x": times(&x), "y": y,
                "colour": style.class(), "dash": style.dashes(), "weight": style.thickness(),
            })
        });
    let lanes = timeline.lanes();
    let bands = timeline.bands.iter().filter(|band| band.from.is_finite() && band.to.is_finite()).map(|band| {
        json!({ "from": band.from, "to": band.to, "name": clean(&band.name), "run": band.run, "tint": styles.band(&band.name, !lanes.is_empty()) })
    });
    let colour = |run: &str| styles.run(run).unwrap_or(SeriesStyle::NEUTRAL).class();
    let lanes = lanes
        .iter()
        .map(|run| json!({ "run": run, "colour": colour(run) }));
    let marks = sorted_marks(timeline).into_iter().map(|mark| {
        let colour = styles.mark(timeline, &mark.run).class();
        json!({ "at": mark.at, "short": fitted(&mark.name, 22.0), "run": mark.run, "colour": colour })
    });
    let (from, to) = timeline.span();
    Some(json!({
        "id": figure.id,
        "x_label": clean(&timeline.x_label),
        "y_label": clean(&timeline.y_label),
        "unit": timeline.unit,
        "log": timeline.log,
        "span": [from, if to > from { to } else { from + 1.0 }],
        "one_line_a_run": each_run_once(&timeline.series),
        "lines": lines.collect::<Vec<_>>(),
        "bands": bands.collect::<Vec<_>>(),
        "lanes": lanes.collect::<Vec<_>>(),
        "marks": marks.collect::<Vec<_>>(),
    }))
}

/// The points of a line, by rising time.
fn points(timeline: &Timeline, line: &Line) -> (Vec<f64>, Vec<Option<f64>>) {
    let line = line.thinned(MAX_POINTS);
    let is_drawn = |y: &f64| y.is_finite() && (!timeline.log || *y > 0.0);
    let mut before = f64::NEG_INFINITY;
    let points = line.x.into_iter().zip(line.y).filter(|(x, _)| {
        let rises = x.is_finite() && *x > before;
        before = if rises { *x } else { before };
        rises
    });
    points.map(|(x, y)| (x, y.filter(is_drawn))).unzip()
}

fn times(x: &[f64]) -> Value {
    match x {
        [first, second, ..]
            if x.windows(2)
                .all(|pair| rounded(pair[1] - pair[0], 3) == rounded(second - first, 3)) =>
        {
            json!({ "from": first, "step": rounded(second - first, 3), "count": x.len() })
        }
        x => json!(x),
    }
}
