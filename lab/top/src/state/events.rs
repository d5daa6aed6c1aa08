//! What happened between two answers.

use super::Moment;
use faultline_status::{Figure, Status};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub at: Moment,
    pub what: String,
}

/// Events by the differences from the previous answer; the most important one is last.
pub fn changes(
    before: &Status,
    status: &Status,
    silent_since: Option<Moment>,
    at: Moment,
) -> Vec<String> {
    let mut events = Vec::new();
    if let Some(since) = silent_since {
        let silent = at.uptime.saturating_sub(since.uptime);
        events.push(format!(
            "faultlined is back after {}",
            faultline_text::time(Duration::from_secs(silent.as_secs()))
        ));
    }
    let both = |figure| before.figure(figure).zip(status.figure(figure));
    let differs = |figure| both(figure).is_some_and(|(was, is)| was != is);
    if differs(Figure::DaemonStart) {
        events.push("faultlined was started anew".to_owned());
    }
    match (&before.target.phase, &status.target.phase) {
        (was, Some(is)) if was.as_ref() != Some(is) => {
            events.push(format!("phase: {}", is.replace('_', " ")))
        }
        (Some(_), None) => events.push("phase: not known".to_owned()),
        _ => {}
    }
    match (before.target.is_followed, status.target.is_followed) {
        (Some(true), Some(false)) => events.push("the validator is gone".to_owned()),
        (Some(false), Some(true)) => events.push("a validator is followed".to_owned()),
        _ if differs(Figure::ProcessStart) => {
            events.push("the validator was started anew".to_owned())
        }
        _ => {}
    }
    for (reason, restarts) in &status.target.restarts {
        let was = before.target.restarts.get(reason);
        if was.is_some_and(|was| restarts > was) {
            events.push(format!(
                "restart of the validator: {}",
                reason.replace('_', " ")
            ));
        }
    }
    if both(Figure::OomKills).is_some_and(|(was, is)| is > was) {
        events.push("OOM kill in the validator's cgroup".to_owned());
    }
    events
}
