use super::queries::{self, DATA_SOURCE_VARIABLE, legend_errors, replace_variables};
use crate::{
    rules::{self, expression::KnownMetrics},
    run::read,
};
use anyhow::{Context, Result};
use itertools::Itertools;
use serde::Deserialize;
use serde_json::Value;
use std::{collections::BTreeSet, path::Path};

/// Panels that the render tests accept without data, with the reasons.
const NO_DATA_REASONS: &str = "grafana/render/without-data.json";

const DATA_SOURCES: &str = "grafana/provisioning/datasources/faultline.yml";
const SCRAPES: &str = "grafana/prometheus/prometheus.yml";

/// Allowed panels: those that can be rendered without a Grafana server.
const PANEL_KINDS: [&str; 5] = ["timeseries", "stat", "bargauge", "table", "state-timeline"];

/// Allowed units: these names of Grafana, and `suffix:TEXT`.
const UNITS: [&str; 7] = [
    "none",
    "short",
    "bytes",
    "Bps",
    "s",
    "percentunit",
    "bool_yes_no",
];

const TITLE_PREFIX: &str = "Faultline / ";

const MIN_WORDS: usize = 6;

const ACTION_SEPARATOR: &str = "\n\n**What to do:** ";

#[derive(Deserialize)]
pub struct Dashboard {
    pub uid: String,
    title: String,
    #[serde(default)]
    annotations: Value,
    links: Vec<Link>,
    templating: Templating,
    panels: Vec<Panel>,
}

#[derive(Deserialize)]
struct Templating {
    list: Vec<Variable>,
}

#[derive(Deserialize)]
struct Variable {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    query: Value,
    #[serde(default)]
    multi: bool,
    #[serde(default, rename = "includeAll")]
    include_all: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Link {
    title: String,
    url: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Panel {
    #[serde(rename = "type")]
    kind: String,
    title: String,
    description: String,
    datasource: Value,
    targets: Vec<Query>,
    field_config: Value,
    links: Vec<Link>,
    panels: Vec<Value>,
    transformations: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Query {
    ref_id: String,
    expr: String,
    legend_format: String,
    datasource: Value,
}

impl Dashboard {
    fn panels(&self) -> impl Iterator<Item = &Panel> {
        self.panels.iter().filter(|panel| panel.kind != "row")
    }

    /// The PromQL of all panels and annotations.
    fn expressions(&self) -> impl Iterator<Item = &str> {
        let of_panels = self
            .panels()
            .flat_map(|panel| &panel.targets)
            .map(|query| &query.expr);
        of_panels.map(String::as_str).chain(
            self.annotations()
                .map(|one| &one["expr"])
                .filter_map(Value::as_str),
        )
    }

    fn annotations(&self) -> impl Iterator<Item = &Value> {
        elements(&self.annotations["list"])
    }

    /// The same text for all dashboards: one instance has `=` where several have `=~`.
    fn comparable_annotations(&self) -> String {
        self.annotations
            .to_string()
            .replace(r#"=~\"$instance\""#, r#"=\"$instance\""#)
    }

    fn link(&self) -> Link {
        let title = self.title.trim_start_matches(TITLE_PREFIX).to_owned();
        Link {
            title,
            url: format!("/d/{}", self.uid),
        }
    }
}

impl Panel {
    /// Values of the field property `id`: those of overrides, then the default, if it is not nested.
    fn property(&self, id: &'static str) -> impl Iterator<Item = &Value> {
        let overridden = elements(&self.field_config["overrides"])
            .flat_map(|field_override| elements(&field_override["properties"]))
            .filter(move |property| property["id"] == id);
        let default = &self.field_config["defaults"][id];
        overridden
            .map(|property| &property["value"])
            .chain([default])
    }

    fn urls(&self) -> impl Iterator<Item = &str> {
        let of_values = self.property("links").flat_map(elements);
        self.links
            .iter()
            .map(|link| link.url.as_str())
            .chain(of_values.filter_map(|link| link["url"].as_str()))
    }

    fn shows_threshold(&self) -> bool {
        let mut thresholds = self.property("thresholds");
        thresholds.any(|value| elements(&value["steps"]).count() > 1)
            || self
                .property("custom.lineStyle")
                .any(|value| !value.is_null())
    }
}

fn elements(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub fn check_all(
    root: &Path,
    dashboards: &[Dashboard],
    violations: &mut Vec<String>,
) -> Result<()> {
    let metrics = rules::known_metrics(root)?;
    for dashboard in dashboards {
        for panel in dashboard.panels() {
            let location = format!("{}, panel {:?}", dashboard.uid, panel.title);
            let mut panel_violations = check_panel(panel, &metrics);
            panel_violations.extend(check_links(root, panel, dashboards));
            violations.extend(
                panel_violations
                    .into_iter()
                    .map(|what| format!("{location}: {what}")),
            );
        }
        let mut dashboard_violations = check_dashboard(dashboard, &metrics);
        let others = dashboards
            .iter()
            .filter(|other| other.uid != dashboard.uid)
            .map(Dashboard::link);
        if others.collect::<BTreeSet<_>>() != dashboard.links.iter().cloned().collect() {
            dashboard_violations
                .push("its links must be exactly one to each other dashboard".to_owned());
        }
        if let Some(first) = dashboards.first()
            && dashboard.comparable_annotations() != first.comparable_annotations()
        {
            dashboard_violations.push(format!(
                "its annotations differ from those of {}",
                first.uid
            ));
        }
        violations.extend(
            dashboard_violations
                .into_iter()
                .map(|what| format!("{}: {what}", dashboard.uid)),
        );
    }
    check_provisioning(root, violations)?;
    check_no_data_reasons(root, dashboards, violations)
}

/// Grafana computes `$__rate_interval` as four times `timeInterval` of the data source, which must
/// be the scrape interval.
fn check_provisioning(root: &Path, violations: &mut Vec<String>) -> Result<()> {
    let sources: Value = rules::parse(root, Path::new(DATA_SOURCES))?;
    let scrapes: Value = rules::parse(root, Path::new(SCRAPES))?;
    let interval = scrapes["global"]["scrape_interval"]
        .as_str()
        .context(SCRAPES)?;
    let mut sources = elements(&sources["datasources"]).peekable();
    sources.peek().context(DATA_SOURCES)?;
    if sources.any(|source| source["jsonData"]["timeInterval"] != interval) {
        violations.push(format!(
            "{DATA_SOURCES}: timeInterval must be {interval}, the scrape interval of {SCRAPES}"
        ));
    }
    Ok(())
}

fn check_no_data_reasons(
    root: &Path,
    dashboards: &[Dashboard],
    violations: &mut Vec<String>,
) -> Result<()> {
    let all: Value =
        serde_json::from_str(&read(root, Path::new(NO_DATA_REASONS))?).context(NO_DATA_REASONS)?;
    for frequency in ["always", "sometimes"] {
        for (name, panels) in all[frequency].as_object().into_iter().flatten() {
            let uid = format!("faultline-{name}");
            let dashboard = dashboards.iter().find(|dashboard| dashboard.uid == uid);
            for (panel, _) in panels.as_object().into_iter().flatten() {
                let mut known = dashboard.into_iter().flat_map(Dashboard::panels);
                if !known.any(|known| matches_panel(known, panel)) {
                    violations.push(format!(
                        "{NO_DATA_REASONS}: {name} has no panel or query {panel:?}"
                    ));
                }
            }
        }
    }
    Ok(())
}

/// `name` is the title of the panel, or the title and the letter of a query.
fn matches_panel(panel: &Panel, name: &str) -> bool {
    panel.title == name
        || panel
            .targets
            .iter()
            .any(|query| name == format!("{} {}", panel.title, query.ref_id))
}

fn check_dashboard(dashboard: &Dashboard, metrics: &KnownMetrics) -> Vec<String> {
    let mut violations = Vec::new();
    let mut titles = BTreeSet::new();
    for Panel { title, .. } in dashboard.panels() {
        if !titles.insert(title) {
            violations.push(format!("two panels are called {title:?}"));
        }
    }
    violations.extend(
        dashboard
            .panels
            .iter()
            .filter(|panel| !panel.panels.is_empty())
            .map(|row| {
                format!(
                    "the row {:?} is collapsed: expand it and save again",
                    row.title
                )
            }),
    );
    let variables = &dashboard.templating.list;
    let is_multiple = |name: &str| {
        let mut multiple = variables.iter().filter(|one| one.multi || one.include_all);
        multiple.any(|one| one.name == name)
    };
    for variable in variables.iter().filter(|variable| variable.kind == "query") {
        violations.extend(match choices_expression(variable) {
            Some(expression) => {
                let mut errors = metrics.errors_with_aggregation(&replace_variables(&expression));
                errors.extend(queries::variable_errors(&expression, is_multiple));
                errors
            }
            None => vec![format!(
                "${}: neither label_values(SERIES, LABEL) nor query_result(EXPRESSION)",
                variable.name
            )],
        });
    }
    let has = |name: &str| variables.iter().any(|variable| variable.name == name);
    violations.extend(
        ["datasource", "cluster", "instance"]
            .into_iter()
            .filter(|name| !has(name))
            .map(|name| format!("it has no variable {name}")),
    );
    if !dashboard.title.starts_with(TITLE_PREFIX) {
        violations.push(format!("its title does not start with {TITLE_PREFIX:?}"));
    }
    if !dashboard.panels().any(Panel::shows_threshold) {
        violations.push("no panel draws a threshold".to_owned());
    }
    violations.extend(check_annotations(dashboard, metrics));
    for expression in dashboard.expressions() {
        for name in named_variables(expression) {
            if !name.starts_with("__") && !has(name) {
                violations.push(format!("there is no variable ${name} in {expression}"));
            }
        }
        violations.extend(queries::variable_errors(expression, is_multiple));
    }
    violations
}

/// Annotations are the events that a dashboard marks in its panels.
fn check_annotations(dashboard: &Dashboard, metrics: &KnownMetrics) -> Vec<String> {
    let mut violations = Vec::new();
    if dashboard.annotations().next().is_none() {
        violations.push("it has no annotations".to_owned());
    }
    for annotation in dashboard.annotations() {
        let text = |key: &str| annotation[key].as_str().unwrap_or_default();
        let expression = replace_variables(text("expr"));
        let mut found = metrics.errors_with_aggregation(&expression);
        found.extend(legend_errors(text("titleFormat"), &expression));
        if annotation["datasource"]["uid"] != DATA_SOURCE_VARIABLE {
            found.push(format!("its data source is not {DATA_SOURCE_VARIABLE}"));
        }
        let name = text("name");
        violations.extend(
            found
                .into_iter()
                .map(|what| format!("annotation {name:?}: {what}")),
        );
    }
    violations
}

/// An expression that groups by the label of the choices, so that the check of queries reports a
/// label that the metric lacks. `None` for other functions, and for `label_values(LABEL)`.
fn choices_expression(variable: &Variable) -> Option<String> {
    let query = variable.query["query"].as_str()?.strip_suffix(')')?;
    if let Some(inside) = query.strip_prefix("label_values(") {
        let (series, label) = inside.rsplit_once(", ")?;
        return Some(format!("group by ({label}) ({series})"));
    }
    query.strip_prefix("query_result(").map(str::to_owned)
}

fn named_variables(text: &str) -> Vec<&str> {
    text.split('$')
        .skip(1)
        .filter_map(|after| {
            after
                .trim_start_matches('{')
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .next()
        })
        .collect()
}

fn check_panel(panel: &Panel, metrics: &KnownMetrics) -> Vec<String> {
    let mut violations = Vec::new();
    let kind = panel.kind.as_str();
    if !PANEL_KINDS.contains(&kind) {
        violations.push(format!("panels of the kind {kind:?} are not allowed"));
    }
    let (explanation, action) = panel
        .description
        .split_once(ACTION_SEPARATOR)
        .unwrap_or((&panel.description, ""));
    if action.is_empty() || format!("{explanation} {action}").split_whitespace().count() < MIN_WORDS
    {
        violations.push("the description must say what the panel shows and what to do".to_owned());
    }
    for text in [explanation, action]
        .into_iter()
        .filter(|text| !text.ends_with(['.', '?']))
    {
        violations.push(format!("{text:?} must end with a period or question mark"));
    }
    let unit = &panel.field_config["defaults"]["unit"];
    let unit = unit.as_str().unwrap_or_default();
    if !UNITS.contains(&unit) && !unit.starts_with("suffix:") {
        violations.push(format!("the unit {unit:?} is not allowed"));
    }
    if names_threshold(action) && !panel.shows_threshold() {
        violations.push(format!(
            "the panel does not draw the threshold of its action: {action:?}"
        ));
    }
    if panel.targets.is_empty() {
        violations.push("it has no query".to_owned());
    }
    if panel
        .targets
        .iter()
        .map(|query| &query.datasource)
        .chain([&panel.datasource])
        .any(|source| source["uid"] != DATA_SOURCE_VARIABLE)
    {
        violations.push(format!("its data source is not {DATA_SOURCE_VARIABLE}"));
    }
    violations.extend(check_overrides(panel));
    for query in &panel.targets {
        let expression = replace_variables(&query.expr);
        violations.extend(metrics.errors_with_aggregation(&expression));
        if expression.contains("vector(") {
            violations.push(format!(
                "vector() shows absent data as a value: {}",
                query.expr
            ));
        }
        violations.extend(legend_errors(&query.legend_format, &expression));
    }
    violations
}

/// Grafana ignores an override of a field that does not exist.
fn check_overrides(panel: &Panel) -> Vec<String> {
    let columns = panel
        .transformations
        .iter()
        .filter_map(|transformation| transformation["options"]["renameByName"].as_object())
        .flat_map(|names| names.values().filter_map(Value::as_str))
        .collect_vec();
    let mut violations = Vec::new();
    for field_override in elements(&panel.field_config["overrides"]) {
        let matcher = &field_override["matcher"];
        let name = matcher["options"].as_str().unwrap_or_default();
        if matcher["id"] != "byName" {
            violations.push(format!("an override must match by name: {matcher}"));
        } else if !columns.contains(&name)
            && !panel
                .targets
                .iter()
                .any(|query| can_match_legend(name, &query.legend_format))
        {
            violations.push(format!("no series has the name of the override {name:?}"));
        }
    }
    violations
}

/// Whether a series of `legend` can have `name`, with any text from the first label to the last.
fn can_match_legend(name: &str, legend: &str) -> bool {
    let Some((before, labels)) = legend.split_once("{{") else {
        return name == legend;
    };
    let (_, after) = labels.rsplit_once("}}").unwrap_or_default();
    let value = name
        .strip_prefix(before)
        .and_then(|rest| rest.strip_suffix(after));
    value.is_some_and(|value| !value.is_empty())
}

/// Whether the words name a threshold for action: `Above 80 %`.
fn names_threshold(words: &str) -> bool {
    let words = words.split_whitespace().collect_vec();
    words.windows(2).any(|pair| {
        let [before, number] = pair else { return false };
        ["above", "below", "than"].contains(&before.to_ascii_lowercase().as_str())
            && number.starts_with(|c: char| c.is_ascii_digit())
    })
}

fn check_links(root: &Path, panel: &Panel, dashboards: &[Dashboard]) -> Vec<String> {
    let mut violations = Vec::new();
    for Link { url, .. } in &panel.links {
        let runbook = url.strip_prefix(rules::RUNBOOK_URL);
        let dashboard = url
            .strip_prefix("/d/")
            .and_then(|rest| rest.split('?').next());
        let known = runbook.is_some_and(|page| root.join(rules::RUNBOOKS).join(page).is_file())
            || dashboard.is_some_and(|uid| dashboards.iter().any(|dashboard| dashboard.uid == uid));
        if !known {
            violations.push(format!("there is no runbook and no dashboard {url}"));
        }
    }
    for url in panel.urls() {
        violations.extend(
            queries::unencoded(url)
                .into_iter()
                .map(|value| format!("write ${{{value}:percentencode}} in {url}")),
        );
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn good() -> Value {
        let source = json!({ "type": "prometheus", "uid": DATA_SOURCE_VARIABLE });
        json!({
            "type": "stat",
            "title": "A",
            "description": "Whether one is followed.\n\n**What to do:** Start one.",
            "datasource": source,
            "targets": [{ "refId": "A", "expr": UP, "legendFormat": "", "datasource": source }],
            "fieldConfig": { "defaults": { "unit": "none" }, "overrides": [] },
            "links": [{ "title": "Runbook: AgaveDown", "url": format!("{}AgaveDown.md", rules::RUNBOOK_URL) }],
        })
    }

    const UP: &str = "max by (job, instance) (agave_up)";

    fn asking(expression: &str, legend: &str) -> Value {
        let mut panel = good();
        panel["targets"][0]["expr"] = json!(expression);
        panel["targets"][0]["legendFormat"] = json!(legend);
        panel
    }

    fn with(folder: &str, value: Value) -> Value {
        let mut panel = good();
        *panel.pointer_mut(folder).unwrap() = value;
        panel
    }

    fn panel_errors(panel: Value) -> String {
        let root = crate::root();
        let metrics = rules::known_metrics(&root).unwrap();
        let panel: Panel = serde_json::from_value(panel).unwrap();
        let mut wrong = check_panel(&panel, &metrics);
        wrong.extend(check_links(&root, &panel, &[dashboard("fleet")]));
        wrong.join("\n")
    }

    fn dashboard(name: &str) -> Dashboard {
        serde_json::from_str(
            &read(
                &crate::root(),
                Path::new(&format!("grafana/dashboards/{name}.json")),
            )
            .unwrap(),
        )
        .unwrap()
    }

    #[test]
    fn the_dashboards_of_this_repository_are_valid() {
        super::super::check(&crate::root()).unwrap();
    }

    #[test]
    fn a_panel_description_without_what_to_do_is_reported() {
        assert_eq!(panel_errors(good()), "");
        assert!(
            panel_errors(with(
                "/description",
                json!("Whether one is followed by it.")
            ))
            .contains("what to do")
        );
        assert!(
            panel_errors(with("/fieldConfig/defaults/unit", json!("")))
                .contains("the unit \"\" is not allowed")
        );
        assert!(panel_errors(with("/targets", json!([]))).contains("it has no query"));
    }

    #[test]
    fn an_unsupported_panel_or_own_data_source_is_reported() {
        assert!(panel_errors(with("/type", json!("heatmap"))).contains("of the kind \"heatmap\""));
        assert!(panel_errors(with("/datasource/uid", json!("P1809"))).contains("data source"));
        assert!(
            panel_errors(with("/targets/0/datasource/uid", json!("P1809"))).contains("data source")
        );
    }

    #[test]
    fn names_referenced_by_a_panel_must_exist() {
        assert!(panel_errors(asking("agave_upp", "")).contains("no metric agave_upp"));
        assert!(panel_errors(asking("max by (pool) (agave_up)", "")).contains("pool"));
        assert!(panel_errors(asking("max by (job) (agave_up)", "{{pool}}")).contains("pool"));
        assert!(
            panel_errors(asking("agave_up or vector(0)", ""))
                .contains("shows absent data as a value")
        );
        assert_eq!(
            panel_errors(asking(
                "instance:agave_memory_headroom:bytes",
                "{{instance}}"
            )),
            ""
        );
    }

    #[test]
    fn a_threshold_in_a_panel_description_is_drawn_in_the_panel() {
        let told = |changes: &[(&str, Value)]| {
            let mut panel = asking(UP, "up");
            panel["description"] =
                json!("A share.\n\n**What to do:** Above 80 %: start another one.");
            for (name, value) in changes {
                panel["fieldConfig"][name] = value.clone();
            }
            panel_errors(panel)
        };
        let steps = |count: usize| json!({ "unit": "none", "thresholds": { "steps": vec![json!({}); count] } });
        assert!(told(&[]).contains("does not draw the threshold"));
        assert_eq!(told(&[("defaults", steps(2))]), "");
        assert_eq!(
            told(&[(
                "overrides",
                json!([{
                    "matcher": { "id": "byName", "options": "up" },
                    "properties": [{ "id": "custom.lineStyle", "value": {} }]
                }])
            )]),
            ""
        );
        assert!(told(&[("defaults", steps(1))]).contains("does not draw the threshold"));
        assert!(
            names_threshold("More than 1,000 a second.")
                && !names_threshold("A new version far above: hold.")
        );
    }

    #[test]
    fn the_cpu_of_the_daemon_is_red_where_its_alert_fires() {
        let rules = read(
            &crate::root(),
            Path::new("grafana/prometheus/rules/faultline.alerts.yml"),
        );
        assert!(
            rules
                .unwrap()
                .contains("faultline_cpu:rate15m[4m]) > 0.01\n")
        );
        let dashboard = dashboard("daemon");
        let panel = dashboard
            .panels()
            .find(|panel| panel.title == "CPU")
            .unwrap();
        assert_eq!(
            panel.field_config["defaults"]["thresholds"]["steps"][2],
            json!({ "color": "red", "value": 0.01 })
        );
        assert!(panel.description.contains("Above 1 %: the runbook."));
    }

    #[test]
    fn an_override_is_of_a_series_that_a_query_shows() {
        let told = |legend: &str, name: &str| {
            let mut panel = asking(UP, legend);
            let matcher = json!({ "id": "byName", "options": name });
            panel["fieldConfig"]["overrides"] = json!([{ "matcher": matcher, "properties": [] }]);
            panel["transformations"] = json!([{ "options": { "renameByName": { "job": "Job" } } }]);
            panel_errors(panel)
        };
        for (legend, name) in [
            ("up", "up"),
            ("{{instance}}", "v1"),
            ("of {{instance}}, {{job}}!", "of v1, x!"),
            ("", "Job"),
        ] {
            assert_eq!(told(legend, name), "", "{legend}");
        }
        for (legend, name) in [
            ("up", "down"),
            ("of {{instance}}", "v1"),
            ("of {{instance}}", "of "),
            ("", "job"),
        ] {
            assert!(
                told(legend, name).contains("no series has the name"),
                "{legend}"
            );
        }
    }

    #[test]
    fn every_dashboard_has_variables_and_draws_a_threshold() {
        let metrics = rules::known_metrics(&crate::root()).unwrap();
        let wrong = |change: fn(&mut Dashboard)| {
            let mut dashboard = dashboard("daemon");
            change(&mut dashboard);
            check_dashboard(&dashboard, &metrics).join("\n")
        };
        assert_eq!(wrong(|_| ()), "");
        assert!(
            wrong(|it| it.templating.list.retain(|v| v.name != "cluster"))
                .contains("it has no variable cluster")
        );
        assert!(wrong(|it| it.panels.clear()).contains("no panel draws a threshold"));
        assert!(wrong(|it| it.title = "Daemon".into()).contains("does not start with"));
        let asks = |query: &str| Variable {
            name: "x".into(),
            kind: "query".into(),
            query: json!({ "query": query }),
            multi: false,
            include_all: false,
        };
        assert_eq!(
            choices_expression(&asks("label_values(a{b=\"c\"}, d)")).unwrap(),
            "group by (d) (a{b=\"c\"})"
        );
        assert_eq!(
            choices_expression(&asks("query_result(count by (d) (a))")).unwrap(),
            "count by (d) (a)"
        );
        assert_eq!(choices_expression(&asks("metrics(a)")), None);
    }

    #[test]
    fn annotations_that_differ_between_dashboards_are_reported() {
        let wrong = |change: fn(&mut Value)| {
            let mut both = ["fleet", "host"].map(dashboard);
            change(&mut both[1].annotations["list"]);
            let mut violations = Vec::new();
            check_all(&crate::root(), &both, &mut violations).unwrap();
            let differs = |what: &&String| what.contains("its annotations differ");
            violations.iter().filter(differs).count()
        };
        assert_eq!(wrong(|_| ()), 0);
        for change in [
            (|list| *list = json!([])) as fn(&mut Value),
            |list| list[0]["enable"] = json!(false),
            |list| list[0]["expr"] = json!("max(up)"),
        ] {
            assert_eq!(wrong(change), 1);
        }
    }

    #[test]
    fn a_dashboard_link_must_have_an_existing_target() {
        assert!(
            panel_errors(with(
                "/links/0/url",
                json!(format!("{}AgaveSleepy.md", rules::RUNBOOK_URL))
            ))
            .contains("AgaveSleepy")
        );
        assert!(
            panel_errors(with("/links/0/url", json!("/d/faultline-moon?x")))
                .contains("faultline-moon")
        );
        assert_eq!(
            panel_errors(with("/links/0/url", json!("/d/faultline-fleet?x"))),
            ""
        );
        let mut violations = Vec::new();
        check_all(
            &crate::root(),
            &[dashboard("daemon"), dashboard("fleet")],
            &mut violations,
        )
        .unwrap();
        assert!(
            violations
                .iter()
                .any(|what| what.starts_with("faultline-fleet: its links")),
            "{violations:?}"
        );
    }

    #[test]
    fn an_undefined_dashboard_variable_is_reported() {
        assert_eq!(
            named_variables(r#"a{b=~"${job:regex}"}[$__range] $x-$y_z"#),
            ["job", "__range", "x", "y_z"]
        );
        let mut dashboard = dashboard("fleet");
        let metrics = rules::known_metrics(&crate::root()).unwrap();
        assert_eq!(check_dashboard(&dashboard, &metrics), Vec::<String>::new());
        dashboard.templating.list.pop();
        assert!(
            check_dashboard(&dashboard, &metrics)
                .iter()
                .any(|what| what.contains("$instance"))
        );
    }
}
