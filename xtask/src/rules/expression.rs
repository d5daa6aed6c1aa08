//! The names in a PromQL expression. No parser of the language: promtool checks the grammar, this finds which words are
//! metrics and which labels are asked of them.

use faultline_catalog::{Kind, metrics};
use std::collections::{BTreeMap, BTreeSet};

/// Words of the language that stand where a metric could.
const WORDS: [&str; 16] = [
    "and",
    "or",
    "unless",
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
    "bool",
    "offset",
    "inf",
    "nan",
    "start",
    "end",
    "atan2",
];

/// Words followed by a list of labels in parentheses.
const LISTS: [&str; 6] = [
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
];

/// Labels that Prometheus adds to every series: its own, and that of `grafana/prometheus/targets`.
const ADDED: [&str; 3] = ["job", "instance", "hardware"];

/// What Prometheus makes itself, with the labels beside the target's.
const ITS_OWN: [(&str, &[&str]); 5] = [
    ("up", &[]),
    ("scrape_duration_seconds", &[]),
    ("scrape_samples_scraped", &[]),
    ("prometheus_rule_evaluation_failures_total", &["rule_group"]),
    (
        "ALERTS",
        &["alertname", "alertstate", "severity", "because"],
    ),
];

/// The metrics that may be asked for, each with its labels; `None` if these are not known.
#[derive(Debug)]
pub(crate) struct Names(BTreeMap<String, Option<BTreeSet<&'static str>>>);

/// One word of an expression with what was asked of it.
#[derive(Debug, PartialEq, Eq)]
struct Asked<'a> {
    name: &'a str,
    labels: Vec<&'a str>,
}

impl Names {
    /// Everything the daemon exports, the three series of a histogram by their suffixes, and what Prometheus makes itself.
    pub(crate) fn of_the_catalog() -> Self {
        let mut names = BTreeMap::new();
        for metric in metrics::all() {
            let labels: BTreeSet<&'static str> = metric.labels.iter().copied().collect();
            if let Kind::Histogram(_) = metric.kind {
                for suffix in ["sum", "count"] {
                    names.insert(format!("{}_{suffix}", metric.name), Some(labels.clone()));
                }
                let with_bounds = labels.into_iter().chain(["le"]).collect();
                names.insert(format!("{}_bucket", metric.name), Some(with_bounds));
            } else {
                names.insert(metric.name.to_owned(), Some(labels));
            }
        }
        let its_own = ITS_OWN
            .iter()
            .map(|(name, labels)| ((*name).to_owned(), Some(labels.iter().copied().collect())));
        names.extend(its_own);
        Names(names)
    }

    /// Recording rules, with whatever labels these leave.
    pub(crate) fn record(&mut self, names: impl Iterator<Item = String>) {
        self.0.extend(names.map(|name| (name, None)));
    }

    /// Metrics that do not exist, and labels that these metrics do not have, in words.
    pub(crate) fn wrong_with(&self, expression: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        let found = asked(expression);
        let every: Option<BTreeSet<&str>> = found.iter().try_fold(BTreeSet::new(), |all, asked| {
            let labels = self.0.get(asked.name)?.as_ref()?;
            Some(all.into_iter().chain(labels.iter().copied()).collect())
        });
        if let Some(every) = every {
            let of_none = |label: &&str| !every.contains(*label) && !ADDED.contains(label);
            let of_none = listed(expression).into_iter().filter(of_none);
            wrong.extend(
                of_none.map(|label| format!("no metric of this expression has a label {label}")),
            );
        }
        for asked in found {
            let Some(known) = self.0.get(asked.name) else {
                wrong.push(format!("there is no metric {}", asked.name));
                continue;
            };
            let unknown = |label: &&&str| {
                known.as_ref().is_some_and(|k| !k.contains(**label)) && !ADDED.contains(*label)
            };
            for label in asked.labels.iter().filter(unknown) {
                wrong.push(format!("{} has no label {label}", asked.name));
            }
        }
        wrong
    }

    /// Words of a text that look like a metric of ours and are none.
    pub(crate) fn unknown_words<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let words = text.split(|c: char| !is_name(c)).filter(|word| {
            let ours = ["agave_", "faultline_", "instance:"]
                .iter()
                .any(|prefix| word.starts_with(prefix));
            ours && !word.ends_with('_')
        });
        words.filter(|word| !self.0.contains_key(*word)).collect()
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// Every word in the place of a metric, with the labels in the braces behind it.
fn asked(expression: &str) -> Vec<Asked<'_>> {
    let mut found: Vec<Asked<'_>> = Vec::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        match first {
            '"' | '\'' | '`' => rest = after_string(rest, first),
            '#' => rest = rest.split_once('\n').map_or("", |(_, after)| after),
            '[' => rest = rest.split_once(']').map_or("", |(_, after)| after),
            '{' => {
                let (labels, after) = matchers(rest.get(1..).unwrap_or_default());
                if let Some(last) = found.last_mut() {
                    last.labels.extend(labels);
                }
                rest = after;
            }
            c if is_name(c) => {
                let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
                let (word, after) = rest.split_at(end);
                rest = after;
                if LISTS.contains(&word) && after.trim_start().starts_with('(') {
                    rest = after.split_once(')').map_or("", |(_, after)| after);
                } else if is_metric(word, after) {
                    found.push(Asked {
                        name: word,
                        labels: Vec::new(),
                    });
                }
            }
            c => rest = rest.get(c.len_utf8()..).unwrap_or_default(),
        }
    }
    found
}

/// The labels in lists: those by which series are grouped and matched.
fn listed(expression: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        match first {
            '"' | '\'' | '`' => rest = after_string(rest, first),
            '#' => rest = rest.split_once('\n').map_or("", |(_, after)| after),
            c if is_name(c) => {
                let (word, after) = rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
                rest = after;
                if LISTS.contains(&word)
                    && let Some((list, after)) = after
                        .trim_start()
                        .strip_prefix('(')
                        .and_then(|list| list.split_once(')'))
                {
                    found.extend(
                        list.split(',')
                            .map(str::trim)
                            .filter(|label| !label.is_empty()),
                    );
                    rest = after;
                }
            }
            c => rest = rest.get(c.len_utf8()..).unwrap_or_default(),
        }
    }
    found
}

/// Not a number or duration, not a word of the language, not a function or aggregation.
fn is_metric(word: &str, after: &str) -> bool {
    let after = after.trim_start();
    let called = after.starts_with('(')
        || ["by", "without"]
            .iter()
            .any(|list| begins_with_word(after, list));
    !word.starts_with(|c: char| c.is_ascii_digit())
        && !WORDS.contains(&word.to_ascii_lowercase().as_str())
        && !called
}

fn begins_with_word(text: &str, word: &str) -> bool {
    text.strip_prefix(word)
        .is_some_and(|after| !after.starts_with(is_name))
}

/// The names of the labels before the closing brace, and what is behind it.
fn matchers(mut rest: &str) -> (Vec<&str>, &str) {
    let mut labels = Vec::new();
    while let Some(first) = rest.chars().next() {
        match first {
            '}' => return (labels, rest.get(1..).unwrap_or_default()),
            '"' | '\'' | '`' => rest = after_string(rest, first),
            c if is_name(c) => {
                let (word, after) = rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
                labels.push(word);
                rest = after;
            }
            c => rest = rest.get(c.len_utf8()..).unwrap_or_default(),
        }
    }
    (labels, rest)
}

/// What is behind a string that begins with `quote`.
fn after_string(text: &str, quote: char) -> &str {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' if quote != '`' => escaped = true,
            c if c == quote => return text.get(at + c.len_utf8()..).unwrap_or_default(),
            _ => {}
        }
    }
    ""
}

#[cfg(test)]
mod tests;
