//! Checks the names of metrics and labels in a PromQL expression.

use super::vector_labels;
use faultline_metrics::{Kind, metrics};
use promql_parser::{
    label::{Labels, Matcher, Matchers},
    parser::{BinaryExpr, Expr, LabelModifier, MatrixSelector, VectorMatchCardinality, parse},
    util::visitor::{ExprVisitor, walk_expr},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
};

/// Labels that are not in the catalog. Prometheus adds the first two, the files in
/// `grafana/prometheus/targets` add `hardware`, and an agent adds `site` and `host`.
const TARGET_LABELS: [&str; 5] = ["job", "instance", "hardware", "site", "host"];

/// Metrics of Prometheus and of `grafana/prometheus/fleet/hosts.yml`, with their labels except
/// `TARGET_LABELS`.
const PROMETHEUS_METRICS: [(&str, &[&str]); 6] = [
    ("up", &[]),
    ("scrape_duration_seconds", &[]),
    ("scrape_samples_scraped", &[]),
    ("prometheus_rule_evaluation_failures_total", &["rule_group"]),
    (
        "ALERTS",
        &["alertname", "alertstate", "severity", "because"],
    ),
    ("fleet_host_expected", &[]),
];

/// Labels by metric; `None` if the labels are unknown.
pub struct KnownMetrics(BTreeMap<String, Option<BTreeSet<&'static str>>>);

struct UsedMetric {
    name: String,
    labels: Vec<String>,
}

#[derive(Default)]
struct UsedNames {
    metrics: Vec<UsedMetric>,
    modifier_labels: Vec<String>,
}

impl KnownMetrics {
    pub fn from_catalog() -> Self {
        let mut names = BTreeMap::new();
        for metric in metrics::exported() {
            let labels = BTreeSet::from_iter(metric.label_names.iter().copied());
            if let Kind::Histogram(_) = metric.kind {
                for suffix in ["sum", "count"] {
                    names.insert(format!("{}_{suffix}", metric.name), Some(labels.clone()));
                }
                names.insert(
                    format!("{}_bucket", metric.name),
                    Some(labels.into_iter().chain(["le"]).collect()),
                );
            } else {
                names.insert(metric.name.to_owned(), Some(labels));
            }
        }
        let prometheus_metrics = PROMETHEUS_METRICS
            .iter()
            .map(|(name, labels)| ((*name).to_owned(), Some(labels.iter().copied().collect())));
        names.extend(prometheus_metrics);
        Self(names)
    }

    pub fn add_with_unknown_labels(&mut self, names: impl Iterator<Item = String>) {
        self.0.extend(names.map(|name| (name, None)));
    }

    pub fn expression_errors(&self, expression: &str) -> Vec<String> {
        match parse(expression) {
            Ok(parsed) => self.unknown_name_errors(&used_names(&parsed)),
            Err(error) => vec![format!("not valid PromQL: {error}: {expression}")],
        }
    }

    /// For rules and dashboards: [`Self::expression_errors`], and an error for each operand or
    /// result that is not aggregated by named labels.
    pub fn errors_with_aggregation(&self, expression: &str) -> Vec<String> {
        let mut errors = self.expression_errors(expression);
        if let Ok(parsed) = parse(expression) {
            errors.extend(vector_labels::label_errors(&parsed));
        }
        errors
    }

    fn unknown_name_errors(&self, used_names: &UsedNames) -> Vec<String> {
        let mut errors = Vec::new();
        let labels_of_any: Option<BTreeSet<&str>> =
            used_names
                .metrics
                .iter()
                .try_fold(BTreeSet::new(), |all, metric| {
                    Some(
                        all.into_iter()
                            .chain(self.0.get(&metric.name)?.as_ref()?.iter().copied())
                            .collect(),
                    )
                });
        if let Some(labels_of_any) = labels_of_any {
            for label in used_names.modifier_labels.iter().map(String::as_str) {
                if !labels_of_any.contains(label) && !TARGET_LABELS.contains(&label) {
                    errors.push(format!("no metric of this expression has a label {label}"));
                }
            }
        }
        for UsedMetric { name, labels } in &used_names.metrics {
            let Some(known) = self.0.get(name) else {
                errors.push(format!("there is no metric {name}"));
                continue;
            };
            for label in labels.iter().map(String::as_str) {
                let is_known = known.as_ref().is_none_or(|known| known.contains(label));
                if !is_known && !TARGET_LABELS.contains(&label) {
                    errors.push(format!("{name} has no label {label}"));
                }
            }
        }
        errors
    }

    pub fn unknown_metrics<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let words = text.split(|c: char| !is_name_char(c)).filter(|word| {
            let has_prefix = ["agave_", "faultline_", "instance:"]
                .iter()
                .any(|prefix| word.starts_with(prefix));
            has_prefix && !word.ends_with('_')
        });
        words.filter(|word| !self.0.contains_key(*word)).collect()
    }
}

pub fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// `None` if the result is a scalar or has target labels, or if the expression is not PromQL.
pub fn result_labels(expression: &str) -> Option<BTreeSet<String>> {
    vector_labels::result_labels(&parse(expression).ok()?)
}

pub fn all_matchers(matchers: &Matchers) -> impl Iterator<Item = &Matcher> {
    matchers
        .or_matchers
        .iter()
        .flatten()
        .chain(&matchers.matchers)
}

pub fn for_each(expression: &Expr, visit: impl FnMut(&Expr)) {
    struct Visitor<F>(F);
    impl<F: FnMut(&Expr)> ExprVisitor for Visitor<F> {
        type Error = Infallible;

        fn pre_visit(&mut self, expression: &Expr) -> Result<bool, Infallible> {
            (self.0)(expression);
            Ok(true)
        }
    }
    let Ok(_) = walk_expr(&mut Visitor(visit), expression);
}

fn used_names(expression: &Expr) -> UsedNames {
    let mut used_names = UsedNames::default();
    for_each(expression, |part| used_names.add(part));
    used_names
}

impl UsedNames {
    fn add(&mut self, expression: &Expr) {
        match expression {
            Expr::VectorSelector(selector)
            | Expr::MatrixSelector(MatrixSelector { vs: selector, .. }) => {
                self.metrics.push(UsedMetric {
                    name: selector.name.clone().unwrap_or_default(),
                    labels: all_matchers(&selector.matchers)
                        .map(|matcher| matcher.name.clone())
                        .collect(),
                });
            }
            Expr::Aggregate(aggregate) => self.add_modifier(aggregate.modifier.as_ref()),
            Expr::Binary(BinaryExpr {
                modifier: Some(modifier),
                ..
            }) => {
                self.add_modifier(modifier.matching.as_ref());
                if let VectorMatchCardinality::ManyToOne(extra)
                | VectorMatchCardinality::OneToMany(extra) = &modifier.card
                {
                    self.add_modifier_labels(extra);
                }
            }
            _ => {}
        }
    }

    fn add_modifier_labels(&mut self, labels: &Labels) {
        self.modifier_labels.extend(labels.labels.iter().cloned());
    }

    fn add_modifier(&mut self, modifier: Option<&LabelModifier>) {
        if let Some(modifier) = modifier {
            self.add_modifier_labels(modifier.labels());
        }
    }
}

#[cfg(test)]
mod tests;
