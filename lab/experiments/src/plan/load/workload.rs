use super::super::{Cluster, Kind, Lane, Workload};
use super::{PlanFolder, SourceLines, default_plan};
use faultline_agave::PublicKey;
use faultline_runner::isolation::CpuSet;
use faultline_settings::{Table, choice, distinct, several, text, within};
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

pub(super) fn workload(t: &mut Table<'_>, plan_folder: &PlanFolder) -> Workload {
    let mut w = default_plan().workload;
    t.set("kind", &mut w.kind, |v| {
        choice(
            v,
            &[("validator", Kind::Validator), ("replay", Kind::Replay)],
        )
    });
    w.command = t
        .need("command", |v| command(v, plan_folder))
        .unwrap_or_default();
    w.user = t.take("user", text);
    w.working_folder = t.take("working_folder", |v| plan_folder.path(v));
    w.environment = environment(t, "environment");
    w.open_files = t.take("open_files", |v| within(v, 1..=u64::MAX >> 1));
    w.binary = t.take("binary", |v| plan_folder.path(v));
    t.set("cache_variable", &mut w.cache_variable, |v| {
        variable(&text(v)?)
    });
    let clusters = [
        ("mainnet-beta", Cluster::MainnetBeta),
        ("testnet", Cluster::Testnet),
        ("devnet", Cluster::Devnet),
        ("localnet", Cluster::Localnet),
    ];
    w.cluster = t.take("cluster", |v| choice(v, &clusters));
    w.cluster_rpc = t.take("cluster_rpc", |v| url(text(v)?));
    let nodes = w.cluster.map(Cluster::nodes);
    let public = |list: Option<&[&str]>| {
        let list = list.into_iter().flatten();
        list.map(|text| (*text).to_owned()).collect()
    };
    let entrypoints = t.take("entrypoints", |v| distinct(v, |v| host_and_port(text(v)?)));
    w.entrypoints = entrypoints.unwrap_or_else(|| public(nodes.map(|nodes| nodes.entrypoints)));
    let known = t.take("known_validators", |v| {
        distinct(v, |v| public_key(text(v)?))
    });
    w.known_validators = known.unwrap_or_else(|| public(nodes.map(|nodes| nodes.known_validators)));
    w
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

/// May be empty.
pub(super) fn argument(value: &DeValue<'_>) -> Result<String, String> {
    if value.as_str() == Some("") {
        Ok(String::new())
    } else {
        text(value)
    }
}

/// Values may be empty.
pub(super) fn environment(t: &mut Table<'_>, key: &'static str) -> BTreeMap<String, String> {
    t.every(key, |name, value| Ok((variable(name)?, argument(value)?)))
        .into_iter()
        .collect()
}

pub(super) fn variable(name: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !name.is_empty() && name.chars().all(fits) && !name.starts_with(|c: char| c.is_ascii_digit())
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

pub(super) fn single_lane(
    t: &mut Table<'_>,
    plan_folder: &PlanFolder,
) -> Option<(Lane, Option<usize>)> {
    let line = LANE_KEYS.iter().find_map(|key| t.line_of(key));
    let has_lane_keys = LANE_KEYS.iter().any(|key| t.has(key));
    if !has_lane_keys {
        // Registers the keys as known.
        for key in LANE_KEYS {
            t.entry(key);
        }
        return None;
    }
    Some((
        Lane {
            name: "main".to_owned(),
            ..lane(t, plan_folder)
        },
        line,
    ))
}

pub(super) fn lanes(
    top: &mut Table<'_>,
    plan_folder: &PlanFolder,
    single: Option<(Lane, Option<usize>)>,
    (lanes, source_lines): (&mut Vec<Lane>, &mut SourceLines),
) {
    if let (Some((_, line)), true) = (&single, top.has("lane")) {
        top.errors().push(
            *line,
            "workload: with [[lane]] its folders and ports stand there, not here",
        );
    }
    if let Some((lane, line)) = single {
        lanes.push(lane);
        source_lines.lanes.push(line);
    }
    top.tables("lane", |t| {
        let name = t.need("name", |v| plain_name(text(v)?)).unwrap_or_default();
        source_lines.lanes.push(t.line());
        lanes.push(Lane {
            name,
            ..lane(t, plan_folder)
        });
    });
}

fn lane(t: &mut Table<'_>, plan_folder: &PlanFolder) -> Lane {
    Lane {
        name: String::new(),
        ledger: t
            .need("ledger", |v| plan_folder.path(v))
            .unwrap_or_default(),
        accounts: t.take("accounts", |v| plan_folder.path(v)),
        snapshots: t.take("snapshots", |v| plan_folder.path(v)),
        identity: t.take("identity", |v| plan_folder.path(v)),
        rpc_port: t.take("rpc_port", |v| within(v, 1..=u16::MAX)),
        gossip_port: t.take("gossip_port", |v| within(v, 1..=u16::MAX)),
        port_range: t.take("port_range", |v| port_range(&text(v)?)),
        cpus: t.take("cpus", |v| CpuSet::parse(&text(v)?)),
    }
}

/// Used as a label and in file names.
pub(super) fn plain_name(text: String) -> Result<String, String> {
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
