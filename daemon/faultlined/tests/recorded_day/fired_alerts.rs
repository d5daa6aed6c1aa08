//! Times at which alerts would have fired. Their expressions are queried at each moment at which
//! Prometheus evaluates their rule.

use crate::faults::Fault;
use faultline_testkit::{
    Result,
    prometheus::{Prometheus, Rule},
};
use std::{collections::BTreeMap, fmt};

/// One alert that fired.
#[derive(Debug, Clone, PartialEq)]
pub struct FiredAlert {
    pub alert: String,
    pub severity: String,
    pub because: String,
    pub instance: String,
    /// Hours after the begin of the day.
    pub from: f64,
    pub to: f64,
}

impl fmt::Display for FiredAlert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            alert,
            severity,
            because,
            instance,
            from,
            to,
        } = self;
        write!(
            f,
            "{instance}: {alert} {severity} {because} from {from:.3} h to {to:.3} h"
        )
    }
}

/// Every time for which an alert's expression held without a break for longer than its `for`.
pub fn all(prometheus: &Prometheus, rules: &[Rule], day: [i64; 2]) -> Result<Vec<FiredAlert>> {
    let mut fired = Vec::new();
    for rule in rules.iter().filter(|rule| rule.is_alert) {
        fired.extend(of_rule(prometheus, rule, day, &[])?);
    }
    Ok(fired)
}

/// Like `all` for one rule, which is not evaluated in the pauses.
pub fn of_rule(
    prometheus: &Prometheus,
    rule: &Rule,
    [begin, end]: [i64; 2],
    pauses: &[[i64; 2]],
) -> Result<Vec<FiredAlert>> {
    let mut fired = Vec::new();
    let paused = |one: f64, next: f64| {
        let within = pauses.iter().map(|pause| pause.map(|end| end as f64 / 1e3));
        let shared = within.map(|[begin, end]| (end.min(next) - begin.max(one)).max(0.0));
        shared.sum::<f64>()
    };
    let day = (begin as f64 / 1e3, end as f64 / 1e3);
    for (labels, moments) in moments(prometheus, rule, day)? {
        let label = |name: &str| {
            let label = rule.labels.get(name).or_else(|| labels.get(name));
            label.cloned().unwrap_or_default()
        };
        let hour = |moment: f64| (moment - day.0) / 3_600.0;
        let without_a_break =
            moments.chunk_by(|one, next| next - one < 1.5 * rule.interval + paused(*one, *next));
        let times = without_a_break.filter_map(|times| Some((*times.first()?, *times.last()?)));
        fired.extend(
            times
                .filter(|(from, to)| to - from >= rule.for_seconds)
                .map(|(from, to)| FiredAlert {
                    alert: rule.name.clone(),
                    severity: label("severity"),
                    because: label("because"),
                    instance: label("instance"),
                    from: hour(from + rule.for_seconds),
                    to: hour(to),
                }),
        );
    }
    Ok(fired)
}

/// The moments at which an expression holds, by its labels. Several queries, each for a part of the
/// time, because a long one takes too long.
fn moments(
    prometheus: &Prometheus,
    rule: &Rule,
    (begin, end): (f64, f64),
) -> Result<BTreeMap<BTreeMap<String, String>, Vec<f64>>> {
    let mut all: BTreeMap<_, Vec<f64>> = BTreeMap::new();
    let mut from = begin;
    while from < end {
        // A multiple of every interval. So all queries use the moments of a single query.
        let next = from + 4.0 * 3_600.0;
        let to = end.min(next - rule.interval);
        for (labels, values) in
            prometheus.samples_in_range(&rule.expression, (from, to), rule.interval as u32)?
        {
            all.entry(labels)
                .or_default()
                .extend(values.iter().map(|(time, _)| time));
        }
        from = next;
    }
    Ok(all)
}

/// Fails if alerts of a healthy node fired.
pub fn assert_quiet(fired: &[FiredAlert], instance: &str) {
    let loud = fired.iter().filter(|one| one.instance == instance);
    assert_eq!(
        loud.map(ToString::to_string).collect::<Vec<_>>(),
        [""; 0],
        "{instance}"
    );
}

/// Fails if a fault lacks one of its alerts, or if an alert fired that no fault explains.
pub fn assert_explained<'a>(
    fired: &[FiredAlert],
    instance: &str,
    faults: impl Iterator<Item = &'a Fault>,
) {
    let faults: Vec<&Fault> = faults.collect();
    let of_node: Vec<&FiredAlert> = fired
        .iter()
        .filter(|one| one.instance == instance)
        .collect();
    for one in &of_node {
        println!("{one}");
    }
    let is_of = |one: &FiredAlert, fault: &Fault| {
        fault.alerts.contains(&(&*one.alert, &*one.severity))
            && one.from >= fault.at
            && one.to <= fault.at + fault.hours + fault.after
    };
    let of_none = of_node
        .iter()
        .filter(|one| !faults.iter().any(|fault| is_of(one, fault)));
    assert_eq!(
        of_none.map(ToString::to_string).collect::<Vec<_>>(),
        [""; 0],
        "no fault of {instance} explains it"
    );
    for fault in faults {
        for alert in fault.alerts {
            let has = of_node
                .iter()
                .any(|one| is_of(one, fault) && (&*one.alert, &*one.severity) == *alert);
            assert!(has, "{}: no {alert:?}", fault.what);
        }
    }
}
