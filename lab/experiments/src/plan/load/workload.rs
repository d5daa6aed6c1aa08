use super::{
    super::{Cluster, Lane, Slurm, Workload},
    PlanFolder, default_plan, word,
};
use faultline_agave::PublicKey;
use faultline_runner::isolation::CpuSet;
use faultline_settings::{Table, distinct, several, size, text, within};
use std::collections::BTreeMap;
use toml::de::DeValue;

/// Allowed in `[workload]` if there is only one lane.
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

pub fn workload(table: &mut Table<'_>, plan_folder: &PlanFolder) -> Workload {
    let mut workload = default_plan().workload;
    table.set("kind", &mut workload.kind, word);
    workload.command = table
        .need("command", |v| command(v, plan_folder))
        .unwrap_or_default();
    workload.user = table.take("user", text);
    workload.working_folder = table.take("working_folder", |v| plan_folder.path(v));
    workload.environment = environment(table, "environment");
    workload.open_files = table.take("open_files", |v| within(v, 1..=u64::MAX >> 1));
    workload.binary = table.take("binary", |v| plan_folder.path(v));
    table.set("cache_variable", &mut workload.cache_variable, |v| {
        variable(&text(v)?)
    });
    workload.cluster = table.take("cluster", word);
    workload.cluster_rpc = table.take("cluster_rpc", |v| url(text(v)?));
    let nodes = workload.cluster.map(Cluster::nodes);
    let public = |list: Option<&[&str]>| {
        list.into_iter()
            .flatten()
            .map(|text| (*text).to_owned())
            .collect()
    };
    let entrypoints = table.take("entrypoints", |v| distinct(v, |v| host_and_port(text(v)?)));
    workload.entrypoints =
        entrypoints.unwrap_or_else(|| public(nodes.map(|nodes| nodes.entrypoints)));
    let known = table.take("known_validators", |v| {
        distinct(v, |v| public_key(text(v)?))
    });
    workload.known_validators =
        known.unwrap_or_else(|| public(nodes.map(|nodes| nodes.known_validators)));
    workload
}

fn command(value: &DeValue<'_>, plan_folder: &PlanFolder) -> Result<Vec<String>, String> {
    let mut words = several(value, argument)?;
    let Some(program) = words.first_mut() else {
        return Err("is empty: name the program".to_owned());
    };
    if program.is_empty() {
        return Err("its first word is empty: name the program".to_owned());
    }
    *program = plan_folder.program(program).to_string_lossy().into_owned();
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

/// Values may be empty.
pub fn environment(table: &mut Table<'_>, key: &'static str) -> BTreeMap<String, String> {
    table
        .every(key, |name, value| Ok((variable(name)?, argument(value)?)))
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
        "{name:?} is no name of a variable: letters, digits and _ are taken"
    ))
}

fn host_and_port(text: String) -> Result<String, String> {
    let good = text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && !host.starts_with('-') && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if good {
        Ok(text)
    } else {
        Err(format!(
            "{text:?} is not HOST:PORT, as in \"127.0.0.1:8001\""
        ))
    }
}

fn public_key(text: String) -> Result<String, String> {
    if text.parse::<PublicKey>().is_ok() {
        Ok(text)
    } else {
        Err(format!("{text:?} is no public key of a validator"))
    }
}

fn url(text: String) -> Result<String, String> {
    let rest = text
        .strip_prefix("http://")
        .or_else(|| text.strip_prefix("https://"));
    if rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace)) {
        return Ok(text);
    }
    Err(format!(
        "{text:?} is no address, as \"http://127.0.0.1:8899\" is"
    ))
}

pub fn single_lane(table: &mut Table<'_>, plan_folder: &PlanFolder) -> Option<Lane> {
    if table.missing(&LANE_KEYS).len() == LANE_KEYS.len() {
        // Registers the keys as known.
        for key in LANE_KEYS {
            table.entry(key);
        }
        return None;
    }
    Some(Lane {
        name: "main".to_owned(),
        line: LANE_KEYS.iter().find_map(|key| table.line_of(key)),
        ..lane(table, plan_folder)
    })
}

/// Reads `[[lane]]`. `lanes` has the one of `[workload]`.
pub fn lanes(top: &mut Table<'_>, plan_folder: &PlanFolder, lanes: &mut Vec<Lane>) {
    if let (Some(only), true) = (lanes.first(), top.has("lane")) {
        top.errors().push(
            only.line,
            "workload: with [[lane]] its folders and ports stand there, not here",
        );
    }
    top.tables("lane", |table| {
        let name = table.need("name", |v| plain_name(text(v)?));
        lanes.push(Lane {
            name: name.unwrap_or_default(),
            line: table.line(),
            ..lane(table, plan_folder)
        });
    });
}

fn lane(table: &mut Table<'_>, plan_folder: &PlanFolder) -> Lane {
    let path = |v: &DeValue<'_>| plan_folder.path(v);
    Lane {
        ledger: table.need("ledger", path).unwrap_or_default(),
        accounts: table.take("accounts", path),
        snapshots: table.take("snapshots", path),
        identity: table.take("identity", path),
        rpc_port: table.take("rpc_port", |v| within(v, 1..=u16::MAX)),
        gossip_port: table.take("gossip_port", |v| within(v, 1..=u16::MAX)),
        port_range: table.take("port_range", |v| port_range(&text(v)?)),
        cpus: table.take("cpus", |v| CpuSet::parse(&text(v)?)),
        ..Lane::default()
    }
}

/// Used as a label and in file names.
pub fn plain_name(text: String) -> Result<String, String> {
    if text.len() <= 60 && !text.chars().any(char::is_control) && text.trim() == text {
        return Ok(text);
    }
    Err(format!(
        "{text:?}: a name has 1 to 60 bytes, on one line, without a blank at its ends"
    ))
}

fn port_range(text: &str) -> Result<(u16, u16), String> {
    let ports = text
        .split_once('-')
        .and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    ports
        .filter(|(first, last)| *first > 0 && first < last)
        .ok_or_else(|| format!("{text:?} is no range of ports, as \"8002-8040\" is"))
}

/// The options of the experiment itself.
const RESERVED_OPTIONS: [&str; 4] = ["--array", "--mem", "--job-name", "--no-requeue"];

pub fn slurm(table: &mut Table<'_>) -> Slurm {
    Slurm {
        memory: table.take("memory", size),
        constraint: table.take("constraint", |v| quotable(text(v)?)),
        exclude: table.take("exclude", |v| quotable(text(v)?)),
        options: table
            .take("options", |v| several(v, |v| option(text(v)?)))
            .unwrap_or_default(),
    }
}

/// For a quoted word in a line of a script.
fn quotable(text: String) -> Result<String, String> {
    if text.contains(['"', '\n', '\\']) {
        return Err(format!(
            "{text:?} has a quote, a backslash or a line end; leave it out"
        ));
    }
    Ok(text)
}

fn option(text: String) -> Result<String, String> {
    if RESERVED_OPTIONS
        .iter()
        .any(|reserved| text.starts_with(reserved))
    {
        return Err(format!(
            "{text:?} is the experiment's own option; leave it out"
        ));
    }
    if text.starts_with("--") && !text.contains('\n') {
        return Ok(text);
    }
    Err(format!(
        "{text:?} is no option; say it as in \"--partition=lab\""
    ))
}
