//! Checks Prometheus rules against the catalog and the runbooks: metrics and labels must exist, and
//! every alert needs severity, runbook and tests.

pub mod expression;
pub mod vector_labels;

use crate::run::{files_below, has_extension, read};
use anyhow::{Context, Result};
use expression::{KnownMetrics, result_labels};
use itertools::Itertools;
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

pub const RULES: &str = "grafana/prometheus/rules";
const TESTS: &str = "grafana/prometheus/tests";
pub const RUNBOOKS: &str = "docs/runbooks";

pub const RUNBOOK_URL: &str = "https://faultline.example/docs/runbooks/";

const SEVERITIES: [&str; 3] = ["page", "ticket", "info"];

#[derive(Deserialize)]
struct RuleFile {
    groups: Vec<Group>,
}

impl RuleFile {
    fn rules(self) -> impl Iterator<Item = Rule> {
        self.groups.into_iter().flat_map(|group| group.rules)
    }
}

#[derive(Deserialize)]
struct Group {
    rules: Vec<Rule>,
}

#[derive(Default, Deserialize)]
struct Rule {
    record: Option<String>,
    alert: Option<String>,
    expr: String,
    #[serde(rename = "for")]
    for_duration: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct TestFile {
    tests: Vec<Test>,
}

#[derive(Deserialize)]
struct Test {
    #[serde(default)]
    alert_rule_test: Vec<Case>,
}

#[derive(Debug, Deserialize)]
struct Case {
    alertname: String,
    #[serde(default)]
    exp_alerts: Vec<Expected>,
}

#[derive(Debug, Deserialize)]
struct Expected {
    exp_labels: BTreeMap<String, String>,
}

pub fn check(root: &Path, violations: &mut Vec<String>) -> Result<()> {
    let rules = all_rules(root)?;
    let cases = parse_all::<TestFile>(root, TESTS)?
        .into_iter()
        .flat_map(|file| file.tests)
        .flat_map(|test| test.alert_rule_test)
        .collect_vec();
    let metrics = known_metrics_with(&rules);
    for rule in &rules {
        check_rule(rule, &metrics, violations);
    }
    let alerts: BTreeSet<&str> = rules
        .iter()
        .filter_map(|rule| rule.alert.as_deref())
        .collect();
    let runbooks = files_with_extension(root, RUNBOOKS, "md")?;
    for file in &runbooks {
        let text = read(root, file)?;
        for word in metrics.unknown_metrics(&text) {
            violations.push(format!("{}: there is no metric {word}", file.display()));
        }
        for what in queries(&text).flat_map(|query| metrics.expression_errors(query)) {
            violations.push(format!("{}: {what}", file.display()));
        }
    }
    check_runbooks(&alerts, &runbooks, violations);
    check_tests(&rules, &cases, violations);
    Ok(())
}

pub fn expressions(root: &Path, file: &Path) -> Result<Vec<String>> {
    Ok(parse::<RuleFile>(root, file)?
        .rules()
        .map(|rule| rule.expr)
        .collect())
}

pub fn known_metrics(root: &Path) -> Result<KnownMetrics> {
    Ok(known_metrics_with(&all_rules(root)?))
}

fn known_metrics_with(rules: &[Rule]) -> KnownMetrics {
    let mut metrics = KnownMetrics::from_catalog();
    metrics.add_with_unknown_labels(rules.iter().filter_map(|rule| rule.record.clone()));
    metrics
}

fn all_rules(root: &Path) -> Result<Vec<Rule>> {
    Ok(parse_all::<RuleFile>(root, RULES)?
        .into_iter()
        .flat_map(RuleFile::rules)
        .collect())
}

pub fn files_with_extension(root: &Path, folder: &str, extension: &str) -> Result<Vec<PathBuf>> {
    let mut files = files_below(root, Path::new(folder))?;
    files.retain(|file| has_extension(file, extension));
    Ok(files)
}

fn parse_all<T: serde::de::DeserializeOwned>(root: &Path, folder: &str) -> Result<Vec<T>> {
    files_with_extension(root, folder, "yml")?
        .iter()
        .map(|file| parse(root, file))
        .collect()
}

pub fn parse<T: serde::de::DeserializeOwned>(root: &Path, file: &Path) -> Result<T> {
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(&read(root, file)?, options)
        .with_context(|| file.display().to_string())
}

fn queries(text: &str) -> impl Iterator<Item = &str> {
    text.split("```promql\n")
        .skip(1)
        .filter_map(|after| after.split("```").next())
        .flat_map(str::lines)
}

fn check_record_labels(name: &str, rule: &Rule) -> Option<String> {
    let Some(implied) = vector_labels::labels_of_record(name) else {
        return Some(format!(
            "{name}: the part before the first colon is not known, so neither are the record's labels"
        ));
    };
    let mut result = result_labels(&rule.expr)?;
    result.extend(rule.labels.keys().cloned());
    let list = |labels: &BTreeSet<String>| labels.iter().join(", ");
    (implied != result).then(|| {
        format!(
            "{name}: the labels are {}, but the name implies {}",
            list(&result),
            list(&implied)
        )
    })
}

fn check_rule(rule: &Rule, metrics: &KnownMetrics, violations: &mut Vec<String>) {
    let rule_name = rule
        .alert
        .as_deref()
        .or(rule.record.as_deref())
        .unwrap_or("a rule without a name");
    violations.extend(
        metrics
            .errors_with_aggregation(&rule.expr)
            .into_iter()
            .map(|what| format!("{rule_name}: {what}")),
    );
    violations.extend(
        rule.record
            .as_deref()
            .and_then(|name| check_record_labels(name, rule)),
    );
    let Some(alert) = &rule.alert else { return };
    if !SEVERITIES.contains(&rule.labels.get("severity").map_or("", String::as_str)) {
        violations.push(format!(
            "{alert}: the label severity must be one of {}",
            SEVERITIES.join(", ")
        ));
    }
    if rule.for_duration.is_none() {
        violations.push(format!(
            "{alert}: `for` is missing; 0m fires the alert at once"
        ));
    }
    for annotation in ["summary", "description"] {
        if rule
            .annotations
            .get(annotation)
            .map_or("", |text| text.trim())
            .is_empty()
        {
            violations.push(format!("{alert}: the annotation {annotation} is missing"));
        }
    }
    let expected_url = format!("{RUNBOOK_URL}{alert}.md");
    if rule.annotations.get("runbook_url") != Some(&expected_url) {
        violations.push(format!("{alert}: runbook_url must be {expected_url}"));
    }
}

fn check_runbooks(alerts: &BTreeSet<&str>, runbooks: &[PathBuf], violations: &mut Vec<String>) {
    let runbook_names: BTreeSet<&str> = runbooks
        .iter()
        .filter_map(|file| file.file_stem()?.to_str())
        .filter(|name| *name != "README")
        .collect();
    violations.extend(
        alerts
            .difference(&runbook_names)
            .map(|alert| format!("{alert}: {RUNBOOKS}/{alert}.md is missing")),
    );
    violations.extend(
        runbook_names
            .difference(alerts)
            .map(|name| format!("{RUNBOOKS}/{name}.md: there is no alert {name}")),
    );
}

/// Every alert needs two test cases: in one it fires with the labels of its rule, in the other it
/// does not. A case of an unknown alert is an error, because promtool counts it as not firing.
fn check_tests(rules: &[Rule], cases: &[Case], violations: &mut Vec<String>) {
    for rule in rules {
        let Some(alert) = &rule.alert else { continue };
        let cases_of_alert = || cases.iter().filter(|case| case.alertname == *alert);
        let fires = |case: &Case| {
            case.exp_alerts.iter().any(|expected| {
                rule.labels
                    .iter()
                    .all(|l| expected.exp_labels.get(l.0) == Some(l.1))
            })
        };
        if !cases_of_alert().any(fires) {
            violations.push(format!(
                "{alert}: it fires in no case of {TESTS} with the labels {:?}",
                rule.labels
            ));
        }
        if !cases_of_alert().any(|case| case.exp_alerts.is_empty()) {
            violations.push(format!("{alert}: it fires in every case of {TESTS}"));
        }
    }
    for Case { alertname, .. } in cases {
        if !rules
            .iter()
            .any(|rule| rule.alert.as_ref() == Some(alertname))
        {
            violations.push(format!("{TESTS}: there is no alert {alertname}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_metrics::Source;

    fn rule(alert: &str) -> Rule {
        let annotations = [
            ("summary", "s"),
            ("description", "d"),
            ("runbook_url", &format!("{RUNBOOK_URL}{alert}.md")),
        ];
        Rule {
            alert: Some(alert.to_owned()),
            expr: "max by (job, instance) (agave_up) == 0".to_owned(),
            for_duration: Some("5m".to_owned()),
            labels: BTreeMap::from([("severity".to_owned(), "page".to_owned())]),
            annotations: annotations
                .map(|(name, text)| (name.to_owned(), text.to_owned()))
                .into(),
            ..Rule::default()
        }
    }

    fn case(alert: &str, fires: bool) -> Case {
        let exp_labels = BTreeMap::from([("severity".to_owned(), "page".to_owned())]);
        let exp_alerts = if fires {
            vec![Expected { exp_labels }]
        } else {
            Vec::new()
        };
        Case {
            alertname: alert.to_owned(),
            exp_alerts,
        }
    }

    fn wrong_with(rule: &Rule) -> String {
        let mut violations = Vec::new();
        check_rule(rule, &KnownMetrics::from_catalog(), &mut violations);
        violations.join("\n")
    }

    #[test]
    fn the_alert_rules_of_this_repository_are_valid() {
        let mut violations = Vec::new();
        check(&crate::root(), &mut violations).unwrap();
        assert!(violations.is_empty(), "{}", violations.join("\n"));
    }

    /// Sources that [`SOURCE_ALERT`] does not name, with the reason.
    const SOURCES_WITHOUT_ALERT: &[(Source, &str)] = &[
        (Source::Target, "AgaveDown"),
        (Source::Datapoints, "FaultlinePushStopped"),
        (Source::Conclusions, "it is always up"),
        (Source::Daemon, "it is always up"),
    ];

    const SOURCE_ALERT: &str = "FaultlineSourceDown";

    #[test]
    fn every_source_that_can_fail_has_an_alert() {
        let rules = all_rules(&crate::root()).unwrap();
        let of_sources = rules
            .iter()
            .filter(|rule| rule.alert.as_deref() == Some(SOURCE_ALERT));
        let mut with_alert = BTreeSet::new();
        for rule in of_sources {
            for after in rule.expr.split("{source=").skip(1) {
                let names = after.split('"').nth(1).unwrap();
                with_alert.extend(names.split('|'));
            }
        }
        let is_exempt = |source: &Source| SOURCES_WITHOUT_ALERT.iter().any(|(s, _)| s == source);
        let can_fail: BTreeSet<&str> = Source::ALL
            .iter()
            .filter(|source| !is_exempt(source))
            .map(|source| source.name())
            .collect();
        assert_eq!(
            with_alert, can_fail,
            "add the source to the expression of {SOURCE_ALERT} (left), or to SOURCES_WITHOUT_ALERT"
        );
    }

    #[test]
    fn the_page_of_alerts_names_every_alert() {
        const PAGE: &str = "docs/ALERTS.md";
        let text = read(&crate::root(), Path::new(PAGE)).unwrap();
        let (_, seen) = text
            .split_once("## Alerts that tests have seen fire")
            .unwrap();
        let is_letter = |letter: char| letter.is_ascii_alphanumeric();
        let named: BTreeSet<&str> = seen.split(|letter| !is_letter(letter)).collect();
        for alert in all_rules(&crate::root())
            .unwrap()
            .iter()
            .filter_map(|rule| rule.alert.as_deref())
        {
            assert!(
                named.contains(alert),
                "{PAGE} does not say what has evaluated {alert}"
            );
        }
    }

    #[test]
    fn promtool_evaluates_all_groups_in_the_order_of_their_files() {
        let root = crate::root();
        for file in files_with_extension(&root, TESTS, "yml").unwrap() {
            let test: serde_json::Value = parse(&root, &file).unwrap();
            let rule_files = test["rule_files"].as_array().unwrap();
            if rule_files.len() == 1 {
                continue;
            }
            let mut groups = Vec::new();
            for rules in rule_files {
                let path = Path::new(TESTS).join(rules.as_str().unwrap());
                let rules: serde_json::Value = parse(&root, &path).unwrap();
                let names = rules["groups"].as_array().unwrap().iter();
                groups.extend(names.map(|group| group["name"].clone()));
            }
            let order = test["group_eval_order"].as_array();
            assert_eq!(
                order,
                Some(&groups),
                "group_eval_order of {}",
                file.display()
            );
        }
    }

    #[test]
    fn an_alert_without_required_annotations_is_reported() {
        assert_eq!(wrong_with(&rule("A")), "");
        let mut bad = rule("A");
        bad.labels.clear();
        assert!(wrong_with(&bad).contains("severity"));
        let mut bad = rule("A");
        bad.for_duration = None;
        assert!(wrong_with(&bad).contains("`for`"));
        let mut bad = rule("A");
        bad.annotations.insert(
            "runbook_url".to_owned(),
            "https://elsewhere.example/A.md".to_owned(),
        );
        assert!(wrong_with(&bad).contains("runbook_url"));
        let mut bad = rule("A");
        bad.annotations.remove("description");
        assert!(wrong_with(&bad).contains("description"));
    }

    #[test]
    fn a_rule_with_the_labels_of_its_target_is_found() {
        let mut bad = rule("A");
        bad.expr = "agave_up == 0".to_owned();
        assert!(wrong_with(&bad).contains("the result has the labels of the target"));
        bad.expr = "max by (job, instance) (agave_up) == 0 and on (job, instance) up".to_owned();
        assert!(wrong_with(&bad).contains("an operand has the labels of the target"));
    }

    #[test]
    fn a_recording_rule_yields_the_labels_of_its_name() {
        let record = |name: &str, expr: &str| {
            wrong_with(&Rule {
                record: Some(name.to_owned()),
                expr: expr.to_owned(),
                ..Rule::default()
            })
        };
        let by_level = "max by (job, instance, level) (agave_memory_level_limit_bytes)";
        assert_eq!(record("instance_level:x:max", by_level), "");
        assert!(record("instance:x:max", by_level).contains("the labels are instance, job, level"));
        assert!(record("instance:x:max", "agave_up").contains("the labels of the target"));
        assert!(record("fleet:x:max", by_level).contains("before the first colon is not known"));
    }

    #[test]
    fn the_queries_of_a_runbook_page_are_its_code_block_lines() {
        let text = "Look:\n\n```promql\na\nb > 1\n```\n\n```sh\nc\n```\n\n```promql\nd\n```\n";
        assert_eq!(queries(text).collect::<Vec<_>>(), ["a", "b > 1", "d"]);
    }

    #[test]
    fn every_alert_has_a_runbook_and_vice_versa() {
        let mut violations = Vec::new();
        check_runbooks(
            &BTreeSet::from(["A", "B"]),
            &["r/B.md".into(), "r/C.md".into(), "r/README.md".into()],
            &mut violations,
        );
        assert_eq!(violations.len(), 2, "{violations:?}");
        assert!(violations[0].starts_with("A: "), "{violations:?}");
        assert!(violations[1].contains("C.md"), "{violations:?}");
    }

    #[test]
    fn each_alert_requires_a_firing_and_a_quiet_test_case() {
        let missing = |cases: &[Case]| {
            let mut violations = Vec::new();
            check_tests(&[rule("A")], cases, &mut violations);
            violations.join("\n")
        };
        assert_eq!(missing(&[case("A", true), case("A", false)]), "");
        assert!(missing(&[case("A", true)]).contains("in every case"));
        assert!(missing(&[case("A", false)]).contains("fires in no case"));
        assert!(
            missing(&[case("A", true), case("A", false), case("B", false)]).contains("no alert B")
        );
    }

    #[test]
    fn a_second_rule_of_an_alert_needs_its_own_test_case() {
        let mut second = rule("A");
        second
            .labels
            .insert("because".to_owned(), "level".to_owned());
        let mut violations = Vec::new();
        check_tests(
            &[rule("A"), second],
            &[case("A", true), case("A", false)],
            &mut violations,
        );
        assert_eq!(violations.len(), 1, "{violations:?}");
        assert!(violations[0].contains("level"), "{violations:?}");
    }
}
