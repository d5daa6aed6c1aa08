//! Every key of the manifest is optional.

use faultline_recording::{ProcessRow, SessionRow};
use serde_json::Value;

/// From the first session and the first identified process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SystemFacts {
    /// The recording is of the built-in demo validator: its numbers mean nothing.
    pub demo: bool,
    /// In reading order.
    pub host: Vec<(&'static str, String)>,
    pub validator: Vec<(&'static str, String)>,
    pub cpu: Option<String>,
    pub kernel: Option<String>,
    /// In bytes.
    pub memory: Option<u64>,
    /// As in the manifest.
    pub drives: Vec<Value>,
    pub mounts: Vec<Value>,
    pub interfaces: Vec<Value>,
    pub versions: Vec<String>,
}

impl SystemFacts {
    pub(super) fn of(sessions: &[SessionRow], processes: &[ProcessRow]) -> SystemFacts {
        let nothing = Value::Null;
        let session = sessions
            .first()
            .map_or(&nothing, |session| &session.manifest);
        // A wrapper command is seen before the validator.
        let validator_row = processes
            .iter()
            .find(|process| process.manifest["validator"].is_object())
            .or(processes.last());
        let process = validator_row.map_or(&nothing, |process| &process.manifest);
        let host = &session["host"];
        let mut versions: Vec<String> = processes
            .iter()
            .filter_map(|process| version(&process.manifest))
            .collect();
        versions.dedup();
        SystemFacts {
            demo: session["demo"] == Value::Bool(true)
                || session["daemon"]["demo"] == Value::Bool(true),
            host: host_facts(session),
            validator: validator_facts(process),
            cpu: json_text(&host["cpu"]["model"]),
            kernel: json_text(&host["kernel"]["release"]),
            memory: host["memory"]["total_bytes"].as_u64(),
            drives: list(&host["disks"]).cloned().collect(),
            mounts: list(&process["folders"]).cloned().collect(),
            interfaces: list(&host["network"]).cloned().collect(),
            versions,
        }
    }
}

fn version(process: &Value) -> Option<String> {
    json_text(&process["validator"]["version"])
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// `None` for other types and empty values.
pub(crate) fn json_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(if *flag { "yes" } else { "no" }.to_owned()),
        _ => None,
    }
}

fn host_facts(session: &Value) -> Vec<(&'static str, String)> {
    let host = &session["host"];
    let (cpu, memory, kernel) = (&host["cpu"], &host["memory"], &host["kernel"]);
    let bytes = |value: &Value| value.as_u64().map(faultline_text::bytes);
    let mhz = |value: &Value| value.as_f64().map(|mhz| format!("{:.2} GHz", mhz / 1000.0));
    let facts = [
        ("Host", json_text(&host["name"])),
        ("System", json_text(&host["system"])),
        ("Kernel", json_text(&kernel["release"])),
        ("CPU", json_text(&cpu["model"])),
        ("Sockets", json_text(&cpu["sockets"])),
        ("Cores", json_text(&cpu["cores"])),
        ("Threads", json_text(&cpu["threads"])),
        ("Base clock", mhz(&cpu["base_mhz"])),
        ("Highest clock", mhz(&cpu["max_mhz"])),
        ("Governor", json_text(&cpu["governor"])),
        ("Memory", bytes(&memory["total_bytes"])),
        (
            "NUMA nodes",
            memory["numa"]
                .as_array()
                .map(|nodes| nodes.len().to_string()),
        ),
        ("Swap", bytes(&memory["swap_total_bytes"])),
        ("Swappiness", json_text(&memory["swappiness"])),
        (
            "Transparent huge pages",
            json_text(&memory["transparent_hugepages"]),
        ),
        ("Most mappings", json_text(&memory["max_map_count"])),
        ("Cgroup version", json_text(&kernel["cgroup"])),
        ("Pressure information", json_text(&kernel["pressure"])),
        ("Clock source", json_text(&session["clock"]["source"])),
        (
            "Clock synchronised",
            json_text(&session["clock"]["synchronised"]),
        ),
    ];
    facts
        .into_iter()
        .filter_map(|(name, fact)| Some((name, fact?)))
        .collect()
}

fn validator_facts(process: &Value) -> Vec<(&'static str, String)> {
    let validator = &process["validator"];
    let arguments = list(&process["arguments"])
        .filter_map(Value::as_str)
        .collect::<Vec<_>>()
        .join(" ");
    let environment = &process["environment"]["values"];
    let facts = [
        (
            "Program",
            json_text(&process["exe"]).or_else(|| json_text(&process["comm"])),
        ),
        ("Version", json_text(&validator["version"])),
        ("Client", json_text(&validator["client"])),
        ("Identity", json_text(&validator["identity"])),
        (
            "SHA-256 of the program",
            json_text(&process["binary"]["sha256"]),
        ),
        ("Arguments", (!arguments.is_empty()).then_some(arguments)),
        ("RUST_LOG", json_text(&environment["RUST_LOG"])),
        (
            "AGAVE_PROGRAM_CACHE_ENTRIES",
            json_text(&environment["AGAVE_PROGRAM_CACHE_ENTRIES"]),
        ),
        ("Cgroup", json_text(&process["cgroup"])),
    ];
    facts
        .into_iter()
        .filter_map(|(name, fact)| Some((name, fact?)))
        .collect()
}
