//! One tick's series of the process, the cgroup and the host, for the terminal.

use anyhow::{Context, Result};
use faultline_core::{
    clock::{Clock, DueTick},
    config::Config,
};
use faultline_http::sinks::prometheus::{ConstantLabels, labels};
use faultline_kernel::{HostConstants, HostRoot};
use faultline_metrics::{
    Metric, Problem, Reading, Tick, Value,
    metrics::{daemon as d, host as h, process as p},
};
use faultline_sources::{
    Registry,
    discovery::{Finder, TargetHandle},
    tick::{BuildContext, Ticker},
};
use faultline_text::{clean, counted};
use itertools::Itertools;
use serde_json::json;
use std::{fmt::Write, sync::Arc};

static NO_LABELS: ConstantLabels = Vec::new();

/// Counted since the daemon's start, so that a single tick has no useful value.
const COUNTED_SINCE_START: [&Metric; 9] = [
    &p::RESTARTS,
    &p::ENDS,
    &h::INTERRUPTS,
    &h::SOFTIRQS,
    &h::SOFTIRQS_BY_TYPE,
    &d::TICKS,
    &d::MISSED_TICKS,
    &d::CLOCK_STEPS,
    &d::LATENESS,
];

/// # Errors
/// No process is found (the error names the search), or procfs cannot be read.
pub fn sample(config: &Config) -> Result<Arc<Tick>> {
    let root = config.paths.clone();
    let clock = Clock::start();
    let mut finder = Finder::build(&config.target, root.clone(), clock);
    let target_handle = finder.target_handle.clone();
    if finder.find_once().is_none() {
        let report = target_handle.report();
        let why = clean(&report.problems.iter().join("; "));
        anyhow::bail!(
            "no process was found; looked for {}. {why}",
            report.looking_for
        );
    }
    tick(config, &root, target_handle, clock)
}

pub(super) fn tick(
    config: &Config,
    root: &HostRoot,
    target_handle: TargetHandle,
    clock: Clock,
) -> Result<Arc<Tick>> {
    let mut registry = Registry::default();
    let context = BuildContext {
        config,
        clock,
        root,
        target_handle: &target_handle,
    };
    faultline_sources::register_kernel(&mut registry, &context);
    let host = HostConstants::read(root).context("procfs cannot be read; see paths.procfs")?;
    let mut ticker = Ticker::new(&context, host, registry.samplers, Vec::new());
    Ok(ticker.tick(DueTick {
        number: 1,
        ..DueTick::START
    }))
}

pub fn table(tick: &Tick) -> String {
    let series: Vec<(String, String)> = readings(tick)
        .map(|reading| (name(reading), value(&reading.value)))
        .collect();
    let width = series.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for (name, value) in series {
        let _ = writeln!(out, "{name:width$}  {value}");
    }
    for (source, problem) in problems(tick) {
        let _ = writeln!(out, "# {source}: {}", clean(&problem.to_string()));
    }
    out
}

fn readings(tick: &Tick) -> impl Iterator<Item = &Reading> {
    tick.readings().filter(|reading| {
        let mut since_start = COUNTED_SINCE_START.iter();
        !since_start.any(|metric| std::ptr::eq(*metric, reading.metric))
    })
}

fn problems(tick: &Tick) -> impl Iterator<Item = (&'static str, &Problem)> {
    tick.batches.iter().flat_map(|batch| {
        let source = batch.source.name();
        batch.problems.iter().map(move |problem| (source, problem))
    })
}

pub fn json(tick: &Tick) -> String {
    let series: serde_json::Value = readings(tick)
        .map(|reading| {
            let labels: serde_json::Value = labels(reading, &NO_LABELS)
                .map(|(k, v)| (k, clean(v)))
                .collect();
            let value = match &reading.value {
                Value::Integer(n) => json!(n),
                Value::Real(x) => json!(x),
                Value::Histogram(h) => json!({ "count": h.count(), "sum": h.sum() }),
            };
            json!({ "name": reading.metric.name, "labels": labels, "value": value })
        })
        .collect();
    let problems: serde_json::Value = problems(tick)
        .map(|(source, problem)| json!({ "source": source, "status": problem.kind.name(), "what": clean(&problem.what) }))
        .collect();
    let at = tick.at.unix_seconds();
    format!(
        "{:#}\n",
        json!({ "time": at, "series": series, "problems": problems })
    )
}

fn name(reading: &Reading) -> String {
    let labels = labels(reading, &NO_LABELS)
        .map(|(name, value)| format!("{name}={value:?}"))
        .join(",");
    match labels.as_str() {
        "" => reading.metric.name.to_owned(),
        labels => format!("{}{{{labels}}}", reading.metric.name),
    }
}

fn value(value: &Value) -> String {
    match value {
        Value::Integer(n) => n.to_string(),
        Value::Real(x) => x.to_string(),
        Value::Histogram(h) => format!("{}, {} s", counted(h.count() as f64, "value"), h.sum()),
    }
}
