//! Every key of the manifest is optional.

use faultline_recording::{ProcessRow, SessionRow};
use itertools::Itertools;
use serde_json::Value;

/// Facts of the host come from the first session. Facts of the validator come from the first
/// process that the daemon identified as a validator. Without one, they come from the last process.
#[derive(Debug, Clone, Default)]
pub struct SystemFacts {
    /// The numbers of a demo mean nothing.
    pub is_demo: bool,
    /// In the order of the report.
    pub host: Vec<(&'static str, String)>,
    pub validator: Vec<(&'static str, String)>,
    pub cpu: Option<String>,
    pub kernel: Option<String>,
    pub memory_bytes: Option<u64>,
    /// JSON objects as in the manifest.
    pub drives: Vec<Value>,
    pub folders: Vec<Value>,
    pub interfaces: Vec<Value>,
    /// Versions of all processes, in order.
    pub versions: Vec<String>,
}

impl SystemFacts {
    pub(super) fn of(sessions: &[SessionRow], processes: &[ProcessRow]) -> Self {
        let session = sessions
            .first()
            .map_or(&Value::Null, |session| &session.manifest);
        // A wrapper command is seen before the validator.
        let process = processes
            .iter()
            .find(|process| process.manifest["validator"].is_object())
            .or(processes.last())
            .map_or(&Value::Null, |process| &process.manifest);
        let host = &session["host"];
        let mut versions = processes
            .iter()
            .filter_map(|process| json_text(&process.manifest["validator"]["version"]))
            .collect_vec();
        versions.dedup();
        Self {
            is_demo: session["demo"] == Value::Bool(true)
                || session["daemon"]["demo"] == Value::Bool(true),
            host: facts(session, &HOST_FACTS),
            validator: facts(process, &VALIDATOR_FACTS),
            cpu: json_text(&host["cpu"]["model"]),
            kernel: json_text(&host["kernel"]["release"]),
            memory_bytes: host["memory"]["total_bytes"].as_u64(),
            drives: list(&host["disks"]).cloned().collect(),
            folders: list(&process["folders"]).cloned().collect(),
            interfaces: list(&host["network"]).cloned().collect(),
            versions,
        }
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub fn json_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(if *flag { "yes" } else { "no" }.to_owned()),
        _ => None,
    }
}

/// Title, path in the manifest, and how the value is shown.
type FactRow = (&'static str, &'static str, fn(&Value) -> Option<String>);

const HOST_FACTS: [FactRow; 20] = [
    ("Host", "/host/name", json_text),
    ("System", "/host/system", json_text),
    ("Kernel", "/host/kernel/release", json_text),
    ("CPU", "/host/cpu/model", json_text),
    ("Sockets", "/host/cpu/sockets", json_text),
    ("Cores", "/host/cpu/cores", json_text),
    ("Threads", "/host/cpu/threads", json_text),
    ("Base clock", "/host/cpu/base_mhz", gigahertz),
    ("Highest clock", "/host/cpu/max_mhz", gigahertz),
    ("Governor", "/host/cpu/governor", json_text),
    ("Memory", "/host/memory/total_bytes", bytes),
    ("NUMA nodes", "/host/memory/numa", |nodes| {
        Some(nodes.as_array()?.len().to_string())
    }),
    ("Swap", "/host/memory/swap_total_bytes", bytes),
    ("Swappiness", "/host/memory/swappiness", json_text),
    (
        "Transparent huge pages",
        "/host/memory/transparent_hugepages",
        json_text,
    ),
    ("Memory map limit", "/host/memory/max_map_count", json_text),
    ("Cgroup version", "/host/kernel/cgroup", json_text),
    ("Pressure information", "/host/kernel/pressure", json_text),
    ("Clock source", "/clock/source", json_text),
    ("Clock synchronized", "/clock/synchronised", json_text),
];

const VALIDATOR_FACTS: [FactRow; 10] = [
    ("Program", "/exe", json_text),
    ("Program", "/comm", json_text),
    ("Version", "/validator/version", json_text),
    ("Client", "/validator/client", json_text),
    ("Identity", "/validator/identity", json_text),
    ("SHA-256 of the program", "/binary/sha256", json_text),
    ("Arguments", "/arguments", |words| {
        let words = list(words).filter_map(Value::as_str).join(" ");
        Some(words).filter(|words| !words.is_empty())
    }),
    ("RUST_LOG", "/environment/values/RUST_LOG", json_text),
    (
        "AGAVE_PROGRAM_CACHE_ENTRIES",
        "/environment/values/AGAVE_PROGRAM_CACHE_ENTRIES",
        json_text,
    ),
    ("Cgroup", "/cgroup", json_text),
];

/// Of rows with the same title, the first with a value counts.
fn facts(manifest: &Value, rows: &[FactRow]) -> Vec<(&'static str, String)> {
    let fact = |(title, path, text): &FactRow| Some((*title, text(manifest.pointer(path)?)?));
    let mut facts = rows.iter().filter_map(fact).collect_vec();
    facts.dedup_by_key(|(title, _)| *title);
    facts
}

fn bytes(value: &Value) -> Option<String> {
    value.as_u64().map(faultline_text::bytes)
}

fn gigahertz(value: &Value) -> Option<String> {
    value.as_f64().map(|mhz| format!("{:.2} GHz", mhz / 1000.0))
}
