//! The recording's metadata: the machine, the system, the process and its limits.
//!
//! Read once per session and once per process, never on a tick. [`redact`] removes secrets. The
//! validator's private keys and configuration files are never read. A missing JSON key means
//! unknown, none or disabled.

mod binary;
mod collector;
mod host;
mod process;
pub mod redact;

pub use binary::{BinaryDigest, hash_file};
pub use collector::{ManifestCollector, ProcessManifest, ReportedFacts};

use faultline_core::config::{Config, TargetSelector};
use faultline_kernel::{HostRoot, hardware::Hardware, parse::pid};
use faultline_text::path as path_text;
use serde_json::{Value, json};

/// The session's manifest: `host`, `clock`, `daemon`, `demo`, and `problems` if something was
/// unreadable. `clock_offset_ns` is the wall clock minus `CLOCK_MONOTONIC` in nanoseconds.
/// `version` is that of the daemon. `is_demo`: the target is the built-in mock validator.
pub fn session(
    root: &HostRoot,
    config: &Config,
    clock_offset_ns: i64,
    version: &str,
    is_demo: bool,
) -> Value {
    let mut hardware = Hardware::read(root);
    host::replace_with_sysinfo(root, &mut hardware);
    without_nulls(json!({
        "host": host::describe(root, &hardware),
        "clock": without_nulls(json!({
            "realtime_minus_monotonic_ns": clock_offset_ns,
            "source": hardware.clock_source,
            "synchronised": hardware.clock_synchronized,
        })),
        "daemon": daemon(root, config, version),
        "demo": is_demo,
        "problems": messages(&hardware.problems),
    }))
}

fn daemon(root: &HostRoot, config: &Config, version: &str) -> Value {
    let (method, value) = match &config.target.selector {
        TargetSelector::Scan => ("scan", None),
        TargetSelector::Pid(pid) => ("pid", Some(pid.to_string())),
        TargetSelector::ProcessTree(pid) => ("process_tree", Some(pid.to_string())),
        TargetSelector::Ledger(ledger) => ("ledger", Some(path_text(ledger))),
        TargetSelector::Unit(unit) => ("unit", Some(unit.clone())),
        TargetSelector::ProcessName(name) => ("process_name", Some(name.clone())),
    };
    let seconds = |is_enabled: bool, interval: std::time::Duration| {
        is_enabled.then_some(interval.as_secs_f64())
    };
    let max_open_files = root.read_proc("self/limits", pid::max_open_files).ok();
    without_nulls(json!({
        "version": version,
        "pid": std::process::id(),
        "max_open_files": max_open_files.flatten(),
        "target_by": method,
        "target": value,
        "interval_seconds": config.sampling.interval.as_secs_f64(),
        "threads_interval_seconds": seconds(config.threads.enabled, config.threads.interval),
        "rpc_interval_seconds": seconds(config.rpc.enabled, config.rpc.interval),
        "pushes": config.ingest.enabled,
        "log": config.log.is_some(),
        "forward": config.forward.is_some(),
        "phase": {
            "at_tip_slots": config.phase.at_tip_slots,
            "at_tip_seconds": config.phase.at_tip_for.as_secs_f64(),
            "behind_slots": config.phase.behind_slots,
            "behind_seconds": config.phase.behind_for.as_secs_f64(),
        },
    }))
}

fn without_nulls(mut object: Value) -> Value {
    if let Some(entries) = object.as_object_mut() {
        entries.retain(|_, value| !value.is_null());
    }
    object
}

fn insert_some(to: &mut Value, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        to[key] = value.into();
    }
}

fn shortened(text: &str, cut_after_bytes: usize) -> String {
    let mut ends = text.char_indices().map(|(index, _)| index);
    match ends.find(|end| *end >= cut_after_bytes) {
        Some(end) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

fn messages(problems: &[impl ToString]) -> Option<Vec<String>> {
    (!problems.is_empty()).then(|| problems.iter().map(ToString::to_string).collect())
}

#[cfg(test)]
mod tests;
