//! Reads `[workload]`, `[[lane]]` and `[slurm]` of a plan. A lane is the folders, ports and CPUs of
//! one run.

use super::{
    super::{Cluster, Lane, SlurmOptions, Workload},
    BaseFolder, cpus, variant,
};
use faultline_agave::PublicKey;
use faultline_settings::{Table, array, distinct, size, text, whole_number_within};
use std::collections::BTreeMap;
use toml::de::DeValue;

/// Name of the environment variable from which the validators that `scripts/install-agave` builds
/// read the capacity of their program cache.
const DEFAULT_CACHE_VARIABLE: &str = "AGAVE_PROGRAM_CACHE_ENTRIES";

/// Keys of a lane. With a single lane, they may be in `[workload]` instead of `[[lane]]`.
const LANE_KEYS: [&str; 8] = [
    "ledger",
    "accounts",
    "snapshots",
    "identity",
    "rpc_port",
    "gossip_port",
    "port_range",
    "cpus",
];

pub fn read_workload(table: &mut Table<'_>, base_folder: &BaseFolder) -> Workload {
    let path = |v: &DeValue<'_>| base_folder.path(v);
    let mut workload = Workload {
        kind: table.read("kind", variant).unwrap_or_default(),
        command: table
            .read_required("command", |v| command(v, base_folder))
            .unwrap_or_default(),
        user: table.read("user", text),
        current_dir: table.read("working_folder", path),
        environment: environment(table, "environment"),
        open_files: table.read("open_files", |v| whole_number_within(v, 1..=u64::MAX >> 1)),
        binary: table.read("binary", path),
        program_cache_variable: table
            .read("cache_variable", |v| variable(&text(v)?))
            .unwrap_or_else(|| DEFAULT_CACHE_VARIABLE.to_owned()),
        cluster: table.read("cluster", variant),
        cluster_rpc: table.read("cluster_rpc", url),
        ..Workload::default()
    };
    let public_cluster = workload.cluster.and_then(Cluster::public_cluster);
    let to_strings = |list: Option<&[&str]>| {
        let list = list.unwrap_or_default().iter();
        list.map(|text| (*text).to_owned()).collect()
    };
    workload.entrypoints = table
        .read("entrypoints", |v| distinct(v, host_and_port))
        .unwrap_or_else(|| to_strings(public_cluster.map(|cluster| cluster.entrypoints)));
    workload.known_validators = table
        .read("known_validators", |v| distinct(v, public_key))
        .unwrap_or_else(|| to_strings(public_cluster.map(|cluster| cluster.known_validators)));
    workload
}

fn command(value: &DeValue<'_>, base_folder: &BaseFolder) -> Result<Vec<String>, String> {
    let mut words = array(value, argument)?;
    let Some(program) = words.first_mut() else {
        return Err("is empty: name the program".to_owned());
    };
    if program.is_empty() {
        return Err("its first word is empty: name the program".to_owned());
    }
    *program = base_folder.program(program).to_string_lossy().into_owned();
    Ok(words)
}

/// A text that may be empty.
pub fn argument(value: &DeValue<'_>) -> Result<String, String> {
    if value.as_str() == Some("") {
        Ok(String::new())
    } else {
        text(value)
    }
}

pub fn environment(table: &mut Table<'_>, key: &'static str) -> BTreeMap<String, String> {
    table
        .read_entries(key, |name, value| Ok((variable(name)?, argument(value)?)))
        .into_iter()
        .collect()
}

pub fn variable(name: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !name.is_empty()
        && name.chars().all(is_allowed)
        && !name.starts_with(|c: char| c.is_ascii_digit())
    {
        return Ok(name.to_owned());
    }
    Err(format!(
        "{name:?} is not the name of a variable: only letters, digits and _ are allowed, and no digit first"
    ))
}

fn host_and_port(value: &DeValue<'_>) -> Result<String, String> {
    let text = text(value)?;
    match text.rsplit_once(':') {
        Some((host, port))
            if !host.is_empty()
                && !host.starts_with('-')
                && port.parse::<u16>().is_ok_and(|port| port > 0) =>
        {
            Ok(text)
        }
        _ => Err(format!(
            "{text:?} is not HOST:PORT, as in \"127.0.0.1:8001\""
        )),
    }
}

fn public_key(value: &DeValue<'_>) -> Result<String, String> {
    let text = text(value)?;
    match text.parse::<PublicKey>() {
        Ok(_) => Ok(text),
        Err(_) => Err(format!("{text:?} is not a public key")),
    }
}

fn url(value: &DeValue<'_>) -> Result<String, String> {
    let text = text(value)?;
    let rest = text
        .strip_prefix("http://")
        .or_else(|| text.strip_prefix("https://"));
    if rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace)) {
        return Ok(text);
    }
    Err(format!(
        "{text:?} is not a URL; write it as in \"http://127.0.0.1:8899\""
    ))
}

pub fn read_single_lane(table: &mut Table<'_>, base_folder: &BaseFolder) -> Option<Lane> {
    if table.missing(&LANE_KEYS).len() == LANE_KEYS.len() {
        // Marks the keys as known, so that a misspelled one gets a suggestion.
        for key in LANE_KEYS {
            table.entry(key);
        }
        return None;
    }
    Some(Lane {
        name: "main".to_owned(),
        line: LANE_KEYS.iter().find_map(|key| table.line_of(key)),
        ..read_lane(table, base_folder)
    })
}

/// Reads `[[lane]]`. If `[workload]` has keys of a lane, `lanes` already contains that lane.
pub fn read_lanes(top: &mut Table<'_>, base_folder: &BaseFolder, lanes: &mut Vec<Lane>) {
    if let (Some(only), true) = (lanes.first(), top.has("lane")) {
        top.errors().push(
            only.line,
            "workload: the plan has a [[lane]], so set folders, ports and CPUs in [[lane]], not in [workload]",
        );
    }
    top.tables("lane", |table| {
        let name = table.read_required("name", plain_name);
        lanes.push(Lane {
            name: name.unwrap_or_default(),
            line: table.first_key_line(),
            ..read_lane(table, base_folder)
        });
    });
}

fn read_lane(table: &mut Table<'_>, base_folder: &BaseFolder) -> Lane {
    let path = |v: &DeValue<'_>| base_folder.path(v);
    let port = |v: &DeValue<'_>| whole_number_within(v, 1..=u16::MAX);
    Lane {
        ledger: table.read_required("ledger", path).unwrap_or_default(),
        accounts: table.read("accounts", path),
        snapshots: table.read("snapshots", path),
        identity: table.read("identity", path),
        rpc_port: table.read("rpc_port", port),
        gossip_port: table.read("gossip_port", port),
        port_range: table.read("port_range", port_range),
        cpus: table.read("cpus", cpus),
        ..Lane::default()
    }
}

/// A name for labels and file names.
pub fn plain_name(value: &DeValue<'_>) -> Result<String, String> {
    check_plain_name(text(value)?)
}

pub fn check_plain_name(name: String) -> Result<String, String> {
    if name.len() <= 60 && !name.chars().any(char::is_control) && name.trim() == name {
        return Ok(name);
    }
    Err(format!(
        "{name:?}: a name has 1 to 60 bytes, is on one line, and neither begins nor ends with a blank"
    ))
}

fn port_range(value: &DeValue<'_>) -> Result<(u16, u16), String> {
    let text = text(value)?;
    let ports = text
        .split_once('-')
        .and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    ports
        .filter(|(first, last)| *first > 0 && first < last)
        .ok_or_else(|| format!("{text:?} is not a range of ports; write it as in \"8002-8040\""))
}

/// Options of `sbatch` that the experiment sets itself, and the opposite of its `--requeue`.
const RESERVED_OPTIONS: [&str; 4] = ["--array", "--mem", "--job-name", "--no-requeue"];

pub fn read_slurm(table: &mut Table<'_>) -> SlurmOptions {
    SlurmOptions {
        memory: table.read("memory", size),
        constraint: table.read("constraint", quotable),
        exclude: table.read("exclude", quotable),
        options: table
            .read("options", |v| array(v, sbatch_option))
            .unwrap_or_default(),
    }
}

/// A text that needs no escapes between double quotes in a line of a script.
fn quotable(value: &DeValue<'_>) -> Result<String, String> {
    let text = text(value)?;
    if text.contains(['"', '\n', '\\']) {
        return Err(format!(
            "{text:?} has a quote, a backslash or a line end; leave it out"
        ));
    }
    Ok(text)
}

fn sbatch_option(value: &DeValue<'_>) -> Result<String, String> {
    let text = text(value)?;
    if RESERVED_OPTIONS
        .iter()
        .any(|option| text.starts_with(option))
    {
        return Err(format!(
            "{text:?} is an option that the experiment sets itself; leave it out"
        ));
    }
    if text.starts_with("--") && !text.contains('\n') {
        return Ok(text);
    }
    Err(format!(
        "{text:?} is not an option; write it as in \"--partition=lab\""
    ))
}
