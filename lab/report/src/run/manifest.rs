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
    pub memory: Option<u64>,
    pub drives: Vec<Drive>,
    pub mounts: Vec<Mount>,
    pub interfaces: Vec<Interface>,
    pub versions: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Drive {
    pub name: String,
    pub model: Option<String>,
    pub size: Option<u64>,
    pub rotational: Option<bool>,
    pub scheduler: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Mount {
    pub what: String,
    pub path: String,
    pub source: Option<String>,
    pub disk: Option<String>,
    pub file_system: Option<String>,
    pub options: Option<String>,
    pub size: Option<u64>,
    /// When the process was found.
    pub free: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Interface {
    pub name: String,
    pub speed: Option<u64>,
    pub state: Option<String>,
}

impl SystemFacts {
    pub(super) fn of(sessions: &[SessionRow], processes: &[ProcessRow]) -> SystemFacts {
        let nothing = Value::Null;
        let session = sessions
            .first()
            .map_or(&nothing, |session| &session.manifest);
        // A wrapper command is seen before the validator.
        let commands = processes
            .iter()
            .find(|process| process.manifest["validator"].is_object())
            .or(processes.last());
        let process = commands.map_or(&nothing, |process| &process.manifest);
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
            cpu: words(&host["cpu"]["model"]),
            kernel: words(&host["kernel"]["release"]),
            memory: host["memory"]["total_bytes"].as_u64(),
            drives: list(&host["disks"]).map(drive).collect(),
            mounts: list(&process["folders"]).map(mount).collect(),
            interfaces: list(&host["network"]).map(interface).collect(),
            versions,
        }
    }
}

fn version(process: &Value) -> Option<String> {
    words(&process["validator"]["version"])
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// `None` for other types and empty values.
fn words(value: &Value) -> Option<String> {
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
        ("Host", words(&host["name"])),
        ("System", words(&host["system"])),
        ("Kernel", words(&kernel["release"])),
        ("CPU", words(&cpu["model"])),
        ("Sockets", words(&cpu["sockets"])),
        ("Cores", words(&cpu["cores"])),
        ("Threads", words(&cpu["threads"])),
        ("Base clock", mhz(&cpu["base_mhz"])),
        ("Highest clock", mhz(&cpu["max_mhz"])),
        ("Governor", words(&cpu["governor"])),
        ("Memory", bytes(&memory["total_bytes"])),
        (
            "NUMA nodes",
            memory["numa"]
                .as_array()
                .map(|nodes| nodes.len().to_string()),
        ),
        ("Swap", bytes(&memory["swap_total_bytes"])),
        ("Swappiness", words(&memory["swappiness"])),
        (
            "Transparent huge pages",
            words(&memory["transparent_hugepages"]),
        ),
        ("Most mappings", words(&memory["max_map_count"])),
        ("Cgroup version", words(&kernel["cgroup"])),
        ("Pressure information", words(&kernel["pressure"])),
        ("Clock source", words(&session["clock"]["source"])),
        (
            "Clock synchronised",
            words(&session["clock"]["synchronised"]),
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
            words(&process["exe"]).or_else(|| words(&process["comm"])),
        ),
        ("Version", words(&validator["version"])),
        ("Client", words(&validator["client"])),
        ("Identity", words(&validator["identity"])),
        (
            "SHA-256 of the program",
            words(&process["binary"]["sha256"]),
        ),
        ("Arguments", (!arguments.is_empty()).then_some(arguments)),
        ("RUST_LOG", words(&environment["RUST_LOG"])),
        (
            "AGAVE_PROGRAM_CACHE_ENTRIES",
            words(&environment["AGAVE_PROGRAM_CACHE_ENTRIES"]),
        ),
        ("Cgroup", words(&process["cgroup"])),
    ];
    facts
        .into_iter()
        .filter_map(|(name, fact)| Some((name, fact?)))
        .collect()
}

fn drive(disk: &Value) -> Drive {
    Drive {
        name: words(&disk["name"]).unwrap_or_default(),
        model: words(&disk["model"]),
        size: disk["bytes"].as_u64(),
        rotational: disk["rotational"].as_bool(),
        scheduler: words(&disk["scheduler"]),
    }
}

fn mount(folder: &Value) -> Mount {
    let mount = &folder["mount"];
    let options = [
        words(&mount["options"]),
        words(&mount["file_system_options"]),
    ];
    let options = options.into_iter().flatten().collect::<Vec<_>>().join(",");
    Mount {
        what: words(&folder["what"]).unwrap_or_default(),
        path: words(&folder["path"]).unwrap_or_default(),
        source: words(&mount["source"]),
        disk: words(&mount["disk"]),
        file_system: words(&mount["file_system"]),
        options: (!options.is_empty()).then_some(options),
        size: mount["bytes"].as_u64(),
        free: mount["free_bytes"].as_u64(),
    }
}

fn interface(net: &Value) -> Interface {
    Interface {
        name: words(&net["name"]).unwrap_or_default(),
        speed: net["speed_mbit"].as_u64(),
        state: words(&net["state"]),
    }
}
