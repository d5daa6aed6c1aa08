use std::collections::BTreeMap;

use anyhow::Context as _;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value, value::Serde};
use serde::Serialize;

use super::style::{DASHES, SeriesStyle, SeriesStyles, WEIGHTS};
use super::text::clean;
use super::{csv, words};
use crate::report::model::{Report, RunCard};

mod block;
mod data;

const TEMPLATE: &str = include_str!("../../assets/report.html");
const STYLE: &str = include_str!("../../assets/report.css");
const SCRIPT: &str = include_str!("../../assets/report.js");
const UPLOT: &str = include_str!("../../assets/vendor/uPlot.iife.min.js");
const UPLOT_LICENCE: &str = include_str!("../../assets/vendor/uPlot.LICENSE");
const UPLOT_STYLE: &str = include_str!("../../assets/vendor/uPlot.min.css");

/// Fails only on a broken template.
pub fn page(report: &Report) -> anyhow::Result<String> {
    let styles = SeriesStyles::of(report);
    let points = data::points_a_line(report);
    let mut blocks = block::Blocks::new(report, &styles, points);
    let sections: Vec<_> = report
        .sections
        .iter()
        .map(|section| blocks.section(section))
        .collect();
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment
        .add_template("report.html", TEMPLATE)
        .context("the page's template")?;
    let template = environment
        .get_template("report.html")
        .context("the page's template")?;
    let view = PageView {
        title: clean(&report.title),
        subtitle: clean(&report.subtitle),
        standing: words::standing(report),
        standing_key: words::standing_key(report),
        headline: clean(&report.verdict.headline),
        points: report
            .verdict
            .points
            .iter()
            .map(|point| clean(point))
            .collect(),
        caveats: caveats(report),
        choice: report.runs.len() > 1,
        arms: arms(report, &styles),
        common: common_facts(&report.runs)
            .into_iter()
            .map(Fact::of)
            .collect(),
        sections,
        cards: words::cards(report),
        made_by: clean(&report.made_by),
        style: format!("{UPLOT_STYLE}\n{STYLE}"),
        // The licence must go with every copy.
        uplot: format!("/*\n{UPLOT_LICENCE}\n*/\n{UPLOT}"),
        script: SCRIPT,
        data: data::script(report, &styles, points)?,
    };
    template
        .render(Value::from(Serde(view)))
        .context("the page's template")
}

#[derive(Debug, Serialize)]
struct PageView {
    title: String,
    subtitle: String,
    standing: &'static str,
    standing_key: &'static str,
    headline: String,
    points: Vec<String>,
    caveats: Vec<CaveatView>,
    choice: bool,
    arms: Vec<ArmView>,
    common: Vec<Fact>,
    sections: Vec<block::SectionView>,
    cards: String,
    made_by: String,
    style: String,
    uplot: String,
    script: &'static str,
    data: String,
}

#[derive(Debug, Serialize)]
struct StyleView {
    class: String,
    dash: &'static str,
    weight: f64,
}

impl From<SeriesStyle> for StyleView {
    fn from(style_view: SeriesStyle) -> Self {
        Self {
            class: style_view.class(),
            dash: DASHES[style_view.dash % DASHES.len()],
            weight: WEIGHTS[style_view.weight % WEIGHTS.len()] + 0.4,
        }
    }
}

#[derive(Debug, Serialize)]
struct Fact {
    name: String,
    value: String,
}

impl Fact {
    fn of((name, value): &(String, String)) -> Self {
        Self {
            name: clean(name),
            value: clean(value),
        }
    }
}

#[derive(Debug, Serialize)]
struct RunView {
    id: String,
    name: String,
    style: StyleView,
    facts: Vec<Fact>,
}

#[derive(Debug, Serialize)]
struct ArmView {
    key: String,
    name: String,
    style: StyleView,
    runs: Vec<RunView>,
}

#[derive(Debug, Serialize)]
struct CaveatView {
    what: String,
    remedy: String,
}

fn caveats(report: &Report) -> Vec<CaveatView> {
    let view = |one: &crate::report::model::Caveat| CaveatView {
        what: clean(&one.what),
        remedy: clean(&one.remedy),
    };
    report.caveats.iter().map(view).collect()
}

fn arms(report: &Report, styles: &SeriesStyles) -> Vec<ArmView> {
    let shared = common_facts(&report.runs);
    let card = |run: &RunCard| RunView {
        id: run.id.clone(),
        name: clean(&run.name),
        style: styles.run(&run.id).unwrap_or(SeriesStyle::NEUTRAL).into(),
        facts: run
            .facts
            .iter()
            .filter(|fact| !shared.contains(fact))
            .map(Fact::of)
            .collect(),
    };
    let arm = |(index, arm): (usize, &String)| ArmView {
        key: clean(arm),
        name: if arm.is_empty() {
            "all runs".to_owned()
        } else {
            clean(arm)
        },
        style: SeriesStyle::nth(index).into(),
        runs: report
            .runs
            .iter()
            .filter(|run| run.arm == *arm)
            .map(card)
            .collect(),
    };
    styles.arms().iter().enumerate().map(arm).collect()
}

fn common_facts(runs: &[RunCard]) -> Vec<&(String, String)> {
    let Some((first, others)) = runs.split_first() else {
        return Vec::new();
    };
    if others.is_empty() {
        return Vec::new();
    }
    first
        .facts
        .iter()
        .filter(|fact| others.iter().all(|run| run.facts.contains(fact)))
        .collect()
}

fn csv_address(table: &crate::report::model::Table) -> String {
    let mut address = "data:text/csv;charset=utf-8,".to_owned();
    for byte in csv::csv(table).bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                address.push(char::from(byte))
            }
            _ => {
                address.push('%');
                address.extend(
                    [byte >> 4, byte & 15]
                        .map(|digit| char::from(b"0123456789ABCDEF"[usize::from(digit)])),
                );
            }
        }
    }
    address
}

fn run_names(report: &Report) -> BTreeMap<&str, String> {
    report
        .runs
        .iter()
        .map(|run| (run.id.as_str(), clean(&run.name)))
        .collect()
}
