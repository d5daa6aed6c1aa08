use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use minijinja::{AutoEscape, Environment, UndefinedBehavior, escape_formatter, value::Serde};
use serde_json::{Value, json};

use super::{
    style::{SeriesStyle, SeriesStyles},
    text::clean,
    words,
};
use crate::model::{Report, RunCard};

mod block;
mod data;

const TEMPLATE: &str = include_str!("../../assets/report.html");
const STYLE: &str = include_str!("../../assets/report.css");
const SCRIPT: &str = include_str!("../../assets/report.js");
const UPLOT: &str = include_str!("../../assets/vendor/uPlot.iife.min.js");
const UPLOT_LICENCE: &str = include_str!("../../assets/vendor/uPlot.LICENSE");
const UPLOT_STYLE: &str = include_str!("../../assets/vendor/uPlot.min.css");

/// Fails only on a broken template.
pub fn page(report: &Report) -> Result<String> {
    let styles = SeriesStyles::of(report);
    let sections = report.sections.iter().map(|section| {
        let blocks = block::blocks(&section.blocks, &styles);
        json!({ "id": section.id, "title": section.title, "blocks": blocks })
    });
    let arms = styles.arms().iter().enumerate();
    let arms = arms.map(|(nth, arm)| json!({ "name": arm, "style": style(SeriesStyle::nth(nth)) }));
    let styles_of_runs: BTreeMap<&str, Value> = report
        .runs
        .iter()
        .map(|run| {
            (
                run.id.as_str(),
                style(styles.run(&run.id).unwrap_or(SeriesStyle::NEUTRAL)),
            )
        })
        .collect();
    let names: BTreeMap<&str, &str> = report
        .runs
        .iter()
        .map(|run| (run.id.as_str(), run.name.as_str()))
        .collect();
    let page = json!({
        "title": report.title,
        "subtitle": report.subtitle,
        "verdict": report.verdict,
        "standing": words::standing(report),
        "answers": report.answers,
        "overview": block::blocks(&report.overview, &styles),
        "unfolded": report.unfolded,
        "caveats": report.caveats,
        "cards": words::cards(report),
        "runs": report.runs,
        "arms": arms.collect::<Vec<_>>(),
        "styles": styles_of_runs,
        "names": names,
        "common": common_facts(&report.runs),
        "sections": sections.collect::<Vec<_>>(),
        "made_by": report.made_by,
        "style": format!("{UPLOT_STYLE}\n{STYLE}"),
        // The licence must go with every copy.
        "uplot": format!("/*\n{UPLOT_LICENCE}\n*/\n{UPLOT}"),
        "script": SCRIPT,
        "data": data::script(report, &styles)?,
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

/// Facts that all runs share word by word: shown once rather than on each card.
fn common_facts(runs: &[RunCard]) -> Vec<&(String, String)> {
    let Some((first, others)) = runs.split_first() else {
        return Vec::new();
    };
    let is_common = |fact: &&(String, String)| {
        !others.is_empty() && others.iter().all(|run| run.facts.contains(fact))
    };
    first.facts.iter().filter(is_common).collect()
}
