use std::collections::BTreeMap;

use anyhow::{Context, Result};
use itertools::Itertools;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, escape_formatter, value::Serde};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::{
    csv,
    style::{SeriesStyle, SeriesStyles, one_line_per_run},
    svg::{self, Surface},
    text::{
        clean, events, fitted, interval_text, numeric_columns, runs_heading, sorted_marks,
        value_text, verdict_kind_text,
    },
};
use crate::model::{
    Band, Block, Cell, Chart, Figure, Line, Report, RunCard, Table, Timeline, rounded,
};

const TEMPLATE: &str = include_str!("../../assets/report.html");
const STYLE: &str = include_str!("../../assets/report.css");
const SCRIPT: &str = include_str!("../../assets/report.js");
const UPLOT: &str = include_str!("../../assets/vendor/uPlot.iife.min.js");
const UPLOT_LICENSE: &str = include_str!("../../assets/vendor/uPlot.LICENSE");
const UPLOT_STYLE: &str = include_str!("../../assets/vendor/uPlot.min.css");

/// Fails only on a broken template.
pub fn page(report: &Report) -> Result<String> {
    let styles = SeriesStyles::of(report);
    let sections = report.sections.iter().map(|section| {
        let blocks = blocks(&section.blocks, &styles);
        json!({ "id": section.id, "title": section.title, "blocks": blocks })
    });
    let arm = |(index, arm)| json!({ "name": arm, "style": style(SeriesStyle::nth(index)) });
    let arms = styles.arms.iter().enumerate().map(arm);
    let runs = report.runs.iter();
    let names = BTreeMap::from_iter(runs.clone().map(|run| (&run.id, &run.name)));
    let run_styles =
        BTreeMap::from_iter(runs.map(|run| (&run.id, style(styles.run_style(&run.id)))));
    let page = json!({
        "title": report.title,
        "subtitle": report.subtitle,
        "verdict": report.verdict,
        "verdict_kind": verdict_kind_text(report),
        "answers": report.answers,
        "overview": blocks(&report.overview, &styles),
        "folds_start_open": report.folds_start_open,
        "caveats": report.caveats,
        "runs_heading": runs_heading(report),
        "runs": report.runs,
        "arms": arms.collect_vec(),
        "styles": run_styles,
        "names": names,
        "common": common_facts(&report.runs),
        "sections": sections.collect_vec(),
        "made_by": report.made_by,
        "style": format!("{UPLOT_STYLE}\n{STYLE}"),
        // The license must go with every copy.
        "uplot": format!("/*\n{UPLOT_LICENSE}\n*/\n{UPLOT}"),
        "script": SCRIPT,
        "data": data_json(report, &styles)?,
    });
    environment()
        .render_str(TEMPLATE, minijinja::Value::from(Serde(page)))
        .context("the page's template")
}

/// Cleans and escapes all texts except those that are marked as safe.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_formatter(|out, state, value| {
        match value.as_str().filter(|_| !value.is_safe()) {
            Some(text) => escape_formatter(out, state, &clean(text).into()),
            None => escape_formatter(out, state, value),
        }
    });
    environment
}

fn style(style: SeriesStyle) -> Value {
    json!({ "class": style.class(), "dash": style.dashes(), "weight": style.thickness() + 0.4 })
}

/// Facts that are equal in all runs. The page shows them once, not on each card.
fn common_facts(runs: &[RunCard]) -> Vec<&(String, String)> {
    let Some((first, others)) = runs.split_first() else {
        return Vec::new();
    };
    let is_common = |fact: &&(String, String)| {
        !others.is_empty() && others.iter().all(|run| run.facts.contains(fact))
    };
    first.facts.iter().filter(is_common).collect()
}

/// Texts up to this length are not wrapped, for example dates with times and names of runs.
const MAX_SHORT_CHARS: usize = 24;

/// Longer tables scroll.
const MAX_SHORT_TABLE_ROWS: usize = 30;

const PERCENT_ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

fn blocks(blocks: &[Block], styles: &SeriesStyles) -> Vec<Value> {
    let block_value = |(next, block): (usize, &Block)| match block {
        Block::Text(text) => json!({ "text": text }),
        Block::Table(table) => json!({ "table": self::table(table) }),
        Block::Figure(figure) => json!({ "figure": self::figure(figure, styles) }),
        Block::Fold(title) => {
            let titles = blocks
                .iter()
                .skip(next)
                .take_while(|block| !matches!(block, Block::Fold(_)))
                .filter_map(|block| match block {
                    Block::Table(table) => Some(table.title.as_str()),
                    Block::Figure(figure) => Some(figure.title.as_str()),
                    Block::Text(_) | Block::Fold(_) => None,
                })
                .join("; ");
            json!({ "fold": title, "titles": titles })
        }
    };
    (1..).zip(blocks).map(block_value).collect()
}

fn figure(figure: &Figure, styles: &SeriesStyles) -> Value {
    let draw = |surface| svg::draw(figure, styles, surface);
    let (timeline, narrow) = match &figure.chart {
        Chart::Timeline(timeline) => (Some(timeline), String::new()),
        _ => (None, draw(Surface::Narrow)),
    };
    let is_long = |line: &Line| line.y.len() > MAX_POINTS;
    let is_thinned = timeline.is_some_and(|timeline| timeline.series.iter().any(is_long));
    let events = timeline.map(|timeline| {
        events(timeline)
            .map(|(at, mark)| json!({ "at": at, "name": mark.name, "run": mark.run }))
            .collect_vec()
    });
    json!({
        "id": figure.id,
        "title": figure.title,
        "caption": figure.caption,
        "thinned": is_thinned,
        "interactive": timeline.is_some(),
        "wide": draw(Surface::Wide),
        "narrow": narrow,
        "events": events,
    })
}

fn table(table: &Table) -> Value {
    let numeric = numeric_columns(table);
    let row = |row: &Vec<Cell>| -> Value {
        row.iter()
            .zip(&numeric)
            .map(|(one, numeric)| cell(one, *numeric))
            .collect()
    };
    let csv = csv::csv(table);
    json!({
        "id": table.id,
        "title": table.title,
        "note": table.note,
        "columns": table.columns,
        "numeric": numeric,
        "rows": table.rows.iter().map(row).collect_vec(),
        // A `data:` address needs no server.
        "csv": format!("data:text/csv;charset=utf-8,{}", utf8_percent_encode(&csv, PERCENT_ENCODED)),
        "long": table.rows.len() > MAX_SHORT_TABLE_ROWS,
    })
}

fn cell(cell: &Cell, numeric: bool) -> Value {
    let (to, mark) = match cell {
        Cell::Linked { to, mark, .. } => (to.as_str(), mark.as_str()),
        _ => ("", ""),
    };
    let text = value_text(cell);
    let class = match (matches!(cell.without_link(), Cell::Missing(_)), numeric) {
        (true, true) => "num missing",
        (true, false) => "missing",
        (false, true) => "num",
        (false, false) if text.chars().count() <= MAX_SHORT_CHARS => "short",
        (false, false) => "",
    };
    json!({ "text": text, "interval": interval_text(cell), "to": to, "mark": mark, "class": class })
}

/// Limits a line on the page, so that a browser opens the page without delay.
const MAX_POINTS: usize = 6_000;

/// JSON without `<`, `>` or `&`, so that no text can end the script element.
fn data_json(report: &Report, styles: &SeriesStyles) -> Result<String> {
    let runs = report
        .runs
        .iter()
        .map(|run| json!({ "id": run.id, "arm": clean(&run.arm), "name": clean(&run.name) }))
        .collect_vec();
    let charts = super::figures(report)
        .filter_map(|one| chart(one, styles))
        .collect_vec();
    let mut text = serde_json::to_string(&json!({ "runs": runs, "charts": charts }))
        .context("the page's data")?;
    for letter in ['<', '>', '&', '\u{2028}', '\u{2029}'] {
        text = text.replace(letter, &format!("\\u{:04x}", u32::from(letter)));
    }
    Ok(text)
}

fn chart(figure: &Figure, styles: &SeriesStyles) -> Option<Value> {
    let Chart::Timeline(timeline) = &figure.chart else {
        return None;
    };
    let line_styles = styles.line_styles(&timeline.series);
    let line = |(line, style): (&Line, SeriesStyle)| {
        let (x, y) = points(timeline, line);
        json!({
            "name": clean(&line.name), "run": line.run, "x": times(&x), "y": y,
            "colour": style.class(), "dash": style.dashes(), "weight": style.thickness(),
        })
    };
    let strip_runs = timeline.strip_runs();
    let is_drawn = |band: &&Band| band.from.is_finite() && band.to.is_finite();
    let bands = timeline.bands.iter().filter(is_drawn).map(|band| {
        let tint = styles.band_class(&band.name, !strip_runs.is_empty());
        json!({
            "from": band.from,
            "to": band.to,
            "name": clean(&band.name),
            "run": band.run,
            "tint": tint
        })
    });
    let strip = |run: &&str| json!({ "run": run, "colour": styles.run_style(run).class() });
    let marks = sorted_marks(timeline).map(|mark| {
        let colour = styles.mark_style(timeline, &mark.run).class();
        json!({
            "at": mark.at,
            "short": fitted(&mark.name, 22.0),
            "run": mark.run,
            "colour": colour
        })
    });
    let (from, to) = timeline.span();
    Some(json!({
        "id": figure.id,
        "x_label": clean(&timeline.x_label),
        "y_label": clean(&timeline.y_label),
        "unit": timeline.unit,
        "log": timeline.log,
        "span": [from, if to > from { to } else { from + 1.0 }],
        "one_line_a_run": one_line_per_run(&timeline.series),
        "lines": timeline.series.iter().zip(line_styles).map(line).collect_vec(),
        "bands": bands.collect_vec(),
        "lanes": strip_runs.iter().map(strip).collect_vec(),
        "marks": marks.collect_vec(),
    }))
}

/// A line's points, without those whose time does not rise.
fn points(timeline: &Timeline, line: &Line) -> (Vec<f64>, Vec<Option<f64>>) {
    let line = line.thinned(MAX_POINTS);
    let mut before = f64::NEG_INFINITY;
    let points = line.x.into_iter().zip(line.y).filter(|(x, _)| {
        let rises = x.is_finite() && *x > before;
        before = if rises { *x } else { before };
        rises
    });
    let is_drawn = |y: &f64| y.is_finite() && (!timeline.log || *y > 0.0);
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
