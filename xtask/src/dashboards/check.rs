//! What a dashboard must have, and may only name.

use super::dashboard::{Choices, Dashboard};
use super::panel::{Panel, letter};
use crate::rules;
use crate::rules::expression::Names;
use crate::run::read;
use anyhow::Context;
use serde::Deserialize;
use std::path::Path;

/// Why panels show nothing, for the tests that look.
const REASONS: &str = "grafana/render/without-data.json";

const DATA_SOURCES: &str = "grafana/provisioning/datasources/faultline.yml";
const SCRAPES: &str = "grafana/prometheus/prometheus.yml";

/// Units that are used: Grafana's own names, or a suffix.
const UNITS: [&str; 8] = ["none", "short", "bytes", "Bps", "s", "percentunit", "bool_yes_no", "suffix:"];

/// A description shorter than this says nothing.
const FEW_WORDS: usize = 6;

/// Adds everything that is wrong with the dashboards.
pub(super) fn all(root: &Path, dashboards: &[Dashboard], broken: &mut Vec<String>) -> anyhow::Result<()> {
    let names = rules::names(root)?;
    for dashboard in dashboards {
        for panel in dashboard.panels() {
            let who = format!("{}, panel {:?}", dashboard.uid, panel.title);
            let mut wrong = of_panel(panel, &names);
            wrong.extend(links(root, panel, dashboards));
            broken.extend(wrong.into_iter().map(|what| format!("{who}: {what}")));
        }
        broken.extend(of_dashboard(dashboard, &names).into_iter().map(|what| format!("{}: {what}", dashboard.uid)));
    }
    provisioning(root, broken)?;
    reasons(root, dashboards, broken)
}

#[derive(Debug, Deserialize)]
struct DataSources {
    datasources: Vec<DataSource>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DataSource {
    json_data: JsonData,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonData {
    time_interval: String,
}

#[derive(Debug, Deserialize)]
struct Scrapes {
    global: Global,
}

#[derive(Debug, Deserialize)]
struct Global {
    scrape_interval: String,
}

/// `$__rate_interval` is four times what the data source is told: it must be the interval of the scrapes.
fn provisioning(root: &Path, broken: &mut Vec<String>) -> anyhow::Result<()> {
    let sources: DataSources = rules::parse(root, Path::new(DATA_SOURCES))?;
    let scrapes: Scrapes = rules::parse(root, Path::new(SCRAPES))?;
    let interval = scrapes.global.scrape_interval;
    if sources.datasources.iter().any(|source| source.json_data.time_interval != interval) {
        broken.push(format!("{DATA_SOURCES}: timeInterval must be {interval}, the scrape interval of {SCRAPES}"));
    }
    Ok(())
}

/// Why a panel or a query shows nothing: what is named must be there.
fn reasons(root: &Path, dashboards: &[Dashboard], broken: &mut Vec<String>) -> anyhow::Result<()> {
    let all: serde_json::Value = serde_json::from_str(&read(root, Path::new(REASONS))?).context(REASONS)?;
    for which in ["always", "sometimes"] {
        for (name, panels) in all[which].as_object().into_iter().flatten() {
            let dashboard = dashboards.iter().find(|dashboard| dashboard.uid == format!("faultline-{name}"));
            for (panel, reason) in panels.as_object().into_iter().flatten() {
                let known = dashboard.is_some_and(|dashboard| dashboard.panels().any(|known| is_of(known, panel)));
                if !known {
                    broken.push(format!("{REASONS}: {name} has no panel or query {panel:?}"));
                }
                if reason.as_str().is_none_or(|reason| reason.trim().is_empty()) {
                    broken.push(format!("{REASONS}: {name}, {panel}: no reason"));
                }
            }
        }
    }
    Ok(())
}

/// Whether the words are a panel's title, or it and the letter of one of its queries.
fn is_of(panel: &Panel, words: &str) -> bool {
    let letters = (0..panel.queries.len()).map(letter);
    panel.title == words || letters.into_iter().any(|letter| words == format!("{} {letter}", panel.title))
}

fn of_dashboard(dashboard: &Dashboard, names: &Names) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut titles: Vec<&str> = dashboard.panels().map(|panel| panel.title).collect();
    titles.sort_unstable();
    let twice = titles.windows(2).filter(|pair| pair.first() == pair.last()).filter_map(|pair| pair.first());
    wrong.extend(twice.map(|title| format!("two panels are called {title:?}")));
    for variable in &dashboard.variables {
        // As a label that is asked for, so that it must be one of the metric's.
        wrong.extend(match variable.choices {
            Choices::Labels { of: by, label, .. } | Choices::Found { by, label, .. } => {
                names.wrong_with(&format!("count by ({label}) ({by})"))
            }
            Choices::These(_) => Vec::new(),
        });
    }
    // The data source is above each.
    let missing =
        ["cluster", "instance"].into_iter().filter(|name| !dashboard.variables.iter().any(|v| v.name == *name));
    wrong.extend(missing.map(|name| format!("nobody can choose a {name}")));
    if !dashboard.panels().any(Panel::shows_a_bound) {
        wrong.push("no panel shows from where on a value is bad".to_owned());
    }
    let known = |name: &str| {
        name.starts_with("__") || name == "datasource" || dashboard.variables.iter().any(|known| known.name == name)
    };
    for query in dashboard.panels().flat_map(|panel| &panel.queries) {
        let unknown = variables(&query.expression).into_iter().filter(|name| !known(name));
        wrong.extend(unknown.map(|name| format!("there is no variable ${name} in {}", query.expression)));
    }
    wrong
}

/// Names behind a dollar.
fn variables(text: &str) -> Vec<&str> {
    let name = |after: &'_ str| after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
    text.split('$').skip(1).filter_map(|after| after.get(..name(after))).collect()
}

fn of_panel(panel: &Panel, names: &Names) -> Vec<String> {
    let mut wrong = Vec::new();
    if format!("{} {}", panel.shows, panel.act).split_whitespace().count() < FEW_WORDS {
        wrong.push("it does not say what it shows and what to do".to_owned());
    }
    for text in [panel.shows, panel.act].into_iter().filter(|text| !text.ends_with(['.', '?'])) {
        wrong.push(format!("no sentence: {text:?}"));
    }
    if !UNITS.iter().any(|unit| panel.unit == *unit || panel.unit.starts_with("suffix:")) {
        wrong.push(format!("{:?} is no unit that is used here", panel.unit));
    }
    if tells_a_bound(panel.act) && !panel.shows_a_bound() {
        wrong.push(format!("it tells a bound and does not show it: {:?}", panel.act));
    }
    if panel.queries.is_empty() {
        wrong.push("it asks nothing".to_owned());
    }
    for query in &panel.queries {
        let expression = plain(&query.expression);
        wrong.extend(names.wrong_with(&expression));
        if expression.contains("vector(") {
            wrong.push(format!("absent is not zero: {}", query.expression));
        }
        // Labels that the legend shows must be there to be shown.
        let shown = query.legend.split("{{").skip(1).filter_map(|after| after.split("}}").next());
        for label in shown {
            wrong.extend(names.wrong_with(&format!("count by ({label}) ({expression})")));
        }
    }
    wrong
}

/// Whether the words name a number from which on something is to be done: `Above 80 %`.
fn tells_a_bound(words: &str) -> bool {
    let words: Vec<&str> = words.split_whitespace().collect();
    words.windows(2).any(|pair| {
        let [before, number] = pair else { return false };
        ["above", "below", "than"].contains(&before.to_ascii_lowercase().as_str())
            && number.starts_with(|c: char| c.is_ascii_digit())
    })
}

/// An expression with durations where Grafana's variables stand.
fn plain(expression: &str) -> String {
    ["$__rate_interval", "$__range", "$__interval", "$earlier"]
        .iter()
        .fold(expression.to_owned(), |text, variable| text.replace(variable, "5m"))
}

fn links(root: &Path, panel: &Panel, dashboards: &[Dashboard]) -> Vec<String> {
    let mut wrong = Vec::new();
    for alert in &panel.runbooks {
        if !root.join(rules::RUNBOOKS).join(format!("{alert}.md")).is_file() {
            wrong.push(format!("there is no runbook {alert}"));
        }
    }
    if let Some(uid) = panel.leads_to
        && !dashboards.iter().any(|dashboard| dashboard.uid == uid)
    {
        wrong.push(format!("there is no dashboard {uid}"));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::super::panel::stat;
    use super::*;

    fn good() -> Panel {
        stat("A")
            .ask("agave_up{@}", "")
            .unit("none")
            .says("Whether one is followed.", "Start one.")
            .runbook("AgaveDown")
    }

    fn wrong_with(panel: &Panel) -> String {
        let root = crate::root();
        let names = rules::names(&root).unwrap();
        let mut wrong = of_panel(panel, &names);
        wrong.extend(links(&root, panel, &super::super::all()));
        wrong.join("\n")
    }

    #[test]
    fn the_dashboards_of_this_tree_are_in_order() {
        super::super::check(&crate::root()).unwrap();
    }

    #[test]
    fn a_panel_that_leaves_its_reader_alone_is_found() {
        assert_eq!(wrong_with(&good()), "");
        assert!(wrong_with(&good().says("", "")).contains("what to do"));
        assert!(wrong_with(&good().unit("")).contains("no unit"));
        assert!(
            wrong_with(&stat("A").unit("none").says("Whether one is followed.", "Start one.")).contains("asks nothing")
        );
    }

    #[test]
    fn what_a_panel_names_must_be_there() {
        assert!(wrong_with(&good().ask("agave_upp{@}", "")).contains("no metric agave_upp"));
        assert!(wrong_with(&good().ask("sum by (pool) (agave_up{@})", "")).contains("pool"));
        assert!(wrong_with(&good().ask("agave_up{@}", "{{pool}}")).contains("pool"));
        assert!(wrong_with(&good().ask("agave_up{@} or vector(0)", "")).contains("absent is not zero"));
        assert_eq!(wrong_with(&good().ask("instance:agave_memory_headroom:bytes{@}", "{{instance}}")), "");
    }

    #[test]
    fn a_bound_that_is_told_is_shown() {
        let told = |panel: Panel| wrong_with(&panel.says("Whether one is followed.", "Above 80 %: start another one."));
        assert!(told(good()).contains("tells a bound"));
        assert_eq!(told(good().steps("green", &[(0.8, "red")])), "");
        assert_eq!(told(good().limit("limit", "red")), "");
        assert!(told(good().steps("green", &[])).contains("tells a bound"));
        assert!(tells_a_bound("More than 1,000 a second.") && !tells_a_bound("A new version far above: hold."));
    }

    #[test]
    fn every_dashboard_lets_its_reader_choose_and_shows_a_bound() {
        let names = rules::names(&crate::root()).unwrap();
        let wrong = |change: fn(&mut Dashboard)| {
            let mut dashboard = super::super::daemon::dashboard();
            change(&mut dashboard);
            of_dashboard(&dashboard, &names).join("\n")
        };
        assert_eq!(wrong(|_| ()), "");
        assert!(wrong(|dashboard| dashboard.variables.retain(|v| v.name != "cluster")).contains("choose a cluster"));
        assert!(wrong(|dashboard| dashboard.sections.clear()).contains("from where on a value is bad"));
    }

    #[test]
    fn a_link_must_lead_somewhere() {
        assert!(wrong_with(&good().runbook("AgaveSleepy")).contains("no runbook AgaveSleepy"));
        assert!(wrong_with(&good().more("faultline-moon")).contains("no dashboard faultline-moon"));
    }

    #[test]
    fn a_variable_that_the_dashboard_does_not_have_is_found() {
        assert_eq!(variables(r#"a{b=~"$job"}[$__range] $x-$y_z"#), ["job", "__range", "x", "y_z"]);
        let mut dashboard = super::super::fleet::dashboard();
        let names = rules::names(&crate::root()).unwrap();
        assert_eq!(of_dashboard(&dashboard, &names), Vec::<String>::new());
        dashboard.variables.pop();
        assert!(of_dashboard(&dashboard, &names).iter().any(|what| what.contains("$instance")));
    }
}
