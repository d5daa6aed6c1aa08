use super::Moment;
use crate::page::Page;
use faultline_catalog::metrics::{cgroup, daemon, process, validator};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) at: Moment,
    pub(crate) what: String,
}

/// Differences from the previous page; the most important one is last.
pub(super) fn between(
    before: Option<&Page>,
    page: &Page,
    silent_since: Option<Moment>,
    at: Moment,
) -> Vec<String> {
    let Some(before) = before else {
        return Vec::new();
    };
    let mut events = Vec::new();
    if let Some(since) = silent_since {
        let silent = at.uptime.saturating_sub(since.uptime);
        events.push(format!(
            "faultlined is back after {}",
            faultline_text::time(Duration::from_secs(silent.as_secs()))
        ));
    }
    let differs = |metric| matches!((before.get(metric, &[]), page.get(metric, &[])), (Some(was), Some(is)) if was != is);
    if differs(&daemon::SELF_START_TIME) {
        events.push("faultlined was started anew".to_owned());
    }
    match (phase(before), phase(page)) {
        (was, Some(is)) if was != Some(is) => {
            events.push(format!("phase: {}", is.replace('_', " ")))
        }
        (Some(_), None) => events.push("phase: not known".to_owned()),
        _ => {}
    }
    match (before.flag(&process::UP, &[]), page.flag(&process::UP, &[])) {
        (Some(true), Some(false)) => events.push("the validator is gone".to_owned()),
        (Some(false), Some(true)) => events.push("a validator is followed".to_owned()),
        _ if differs(&process::START_TIME) => {
            events.push("the validator was started anew".to_owned())
        }
        _ => {}
    }
    let rose =
        |was: Option<f64>, is: Option<f64>| matches!((was, is), (Some(was), Some(is)) if is > was);
    for (reason, restarts) in page.by_label(&process::RESTARTS, "reason") {
        if rose(before.get(&process::RESTARTS, &[reason]), Some(restarts)) {
            events.push(format!(
                "restart of the validator: {}",
                reason.replace('_', " ")
            ));
        }
    }
    if rose(
        before.get(&cgroup::EVENTS, &["oom_kill"]),
        page.get(&cgroup::EVENTS, &["oom_kill"]),
    ) {
        events.push("OOM kill in the validator's cgroup".to_owned());
    }
    events
}

pub(crate) fn phase(page: &Page) -> Option<&str> {
    page.by_label(&validator::PHASE, "phase")
        .find(|(_, flag)| *flag == 1.0)
        .map(|(phase, _)| phase)
}
