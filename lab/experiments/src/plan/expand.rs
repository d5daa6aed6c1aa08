//! Replaces placeholders such as `{ledger}` by the values of a run.

use super::{Arm, Lane, Plan};
use itertools::Itertools;
use std::{collections::BTreeMap, path::Path};

pub struct Expanded {
    pub command: Vec<String>,
    /// With each placeholder as a variable for scripts, such as `FAULTLINE_LEDGER`. The runner adds
    /// `SOLANA_METRICS_CONFIG` and, if missing, the user's variables, `PATH` and `LANG`.
    pub environment: BTreeMap<String, String>,
}

#[derive(Debug)]
pub struct PlaceholderError {
    /// In `[[arm]]`, not in `[workload]`.
    pub is_in_arm: bool,
    pub message: String,
}

/// Each becomes several words, so it must be a word of the command by itself.
const LIST_PLACEHOLDERS: [&str; 3] = ["entrypoints", "known_validators", "arguments"];

/// `run` is the replicate within the arm, not the unique number of the run.
const VALUE_PLACEHOLDERS: [&str; 12] = [
    "ledger",
    "accounts",
    "snapshots",
    "identity",
    "rpc_port",
    "gossip_port",
    "port_range",
    "binary",
    "cache_entries",
    "arm",
    "run",
    "run_folder",
];

pub fn is_placeholder_variable(variable: &str) -> bool {
    VALUE_PLACEHOLDERS
        .iter()
        .chain(&LIST_PLACEHOLDERS)
        .any(|name| variable == variable_of(name))
}

fn variable_of(placeholder: &str) -> String {
    format!("FAULTLINE_{}", placeholder.to_uppercase())
}

/// Fails with the first error of each text that has one.
pub fn expand(
    plan: &Plan,
    arm: &Arm,
    lane: &Lane,
    run_folder: &Path,
    replicate: u32,
) -> Result<Expanded, Vec<PlaceholderError>> {
    let mut placeholders = Placeholders {
        values: placeholder_values(plan, arm, lane, run_folder, replicate),
        errors: Vec::new(),
    };
    let workload = &plan.workload;
    let location = format!("arguments of arm {:?}", arm.name);
    let arguments = arm.arguments.iter();
    let lists = [
        repeat_option("--entrypoint", &workload.entrypoints),
        repeat_option("--known-validator", &workload.known_validators),
        arguments
            .map(|text| placeholders.fill(text, true, &location))
            .collect(),
    ];
    let command = expand_command(&workload.command, &lists, &mut placeholders);
    let mut environment = BTreeMap::new();
    let location = format!("environment of arm {:?}", arm.name);
    for (variables, is_in_arm, location) in [
        (&workload.environment, false, "workload.environment"),
        (&arm.environment, true, &location),
    ] {
        for (name, text) in variables {
            environment.insert(name.clone(), placeholders.fill(text, is_in_arm, location));
        }
    }
    if !placeholders.errors.is_empty() {
        return Err(placeholders.errors);
    }
    let values = placeholders
        .values
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    let lists = lists.map(|words| words.join(" "));
    for (name, value) in values.chain(LIST_PLACEHOLDERS.into_iter().zip(lists)) {
        environment.insert(variable_of(name), value);
    }
    if let Some(entries) = arm.program_cache_entries {
        environment.insert(workload.program_cache_variable.clone(), entries.to_string());
    }
    Ok(Expanded {
        command,
        environment,
    })
}

/// By placeholder. `None` if the plan gives no value.
type Values = BTreeMap<&'static str, Option<String>>;

struct Placeholders {
    values: Values,
    errors: Vec<PlaceholderError>,
}

impl Placeholders {
    fn fill(&mut self, text: &str, is_in_arm: bool, location: &str) -> String {
        fill(text, &self.values).unwrap_or_else(|error| {
            let message = format!("{location}: {error}");
            self.errors.push(PlaceholderError { is_in_arm, message });
            String::new()
        })
    }
}

/// `lists` are the words of [`LIST_PLACEHOLDERS`]. Without `{arguments}`, the arm's arguments come
/// last.
fn expand_command(
    words: &[String],
    lists: &[Vec<String>; 3],
    placeholders: &mut Placeholders,
) -> Vec<String> {
    let mut command = Vec::new();
    for word in words {
        match LIST_PLACEHOLDERS
            .iter()
            .position(|name| *word == format!("{{{name}}}"))
        {
            Some(index) => command.extend_from_slice(&lists[index]),
            None => command.push(placeholders.fill(word, false, "workload.command")),
        }
    }
    if !words.iter().any(|word| word == "{arguments}") {
        let [.., arguments] = lists;
        command.extend_from_slice(arguments);
    }
    command
}

fn placeholder_values(
    plan: &Plan,
    arm: &Arm,
    lane: &Lane,
    run_folder: &Path,
    replicate: u32,
) -> Values {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let port = |port: u16| port.to_string();
    let ports = lane
        .port_range
        .map(|(first, last)| format!("{first}-{last}"));
    let binary = arm.binary.as_ref().or(plan.workload.binary.as_ref());
    let entries = arm.program_cache_entries.map(|entries| entries.to_string());
    BTreeMap::from([
        ("ledger", Some(path(&lane.ledger))),
        ("accounts", lane.accounts.as_deref().map(path)),
        ("snapshots", lane.snapshots.as_deref().map(path)),
        ("identity", lane.identity.as_deref().map(path)),
        ("rpc_port", lane.rpc_port.map(port)),
        ("gossip_port", lane.gossip_port.map(port)),
        ("port_range", ports),
        ("binary", binary.map(|binary| path(binary))),
        ("cache_entries", entries),
        ("arm", Some(arm.name.clone())),
        ("run", Some(replicate.to_string())),
        ("run_folder", Some(path(run_folder))),
    ])
}

fn repeat_option(name: &str, values: &[String]) -> Vec<String> {
    values
        .iter()
        .flat_map(|value| [name.to_owned(), value.clone()])
        .collect()
}

/// `{{` and `}}` are literal braces.
fn fill(text: &str, values: &Values) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(brace) = rest.find(['{', '}']) {
        let (before, from_brace) = rest.split_at(brace);
        out += before;
        if let Some(after) = from_brace.strip_prefix("{{") {
            out.push('{');
            rest = after;
        } else if let Some(after) = from_brace.strip_prefix('}') {
            out.push('}');
            rest = after.strip_prefix('}').unwrap_or(after);
        } else if let Some((name, after)) = from_brace[1..].split_once('}') {
            out += find_value(name, values)?;
            rest = after;
        } else {
            return Err(format!(
                "{text:?} has a {{ that is not closed; write {{{{ for a brace"
            ));
        }
    }
    Ok(out + rest)
}

fn find_value<'v>(name: &str, values: &'v Values) -> Result<&'v str, String> {
    if LIST_PLACEHOLDERS.contains(&name) {
        return Err(format!(
            "{{{name}}} becomes several words: let it be a word of the command by itself"
        ));
    }
    match values.get(name) {
        Some(Some(value)) => Ok(value),
        Some(None) => Err(format!(
            "{{{name}}} is used, but {name} is not given for every arm and lane"
        )),
        None => {
            let known = values.keys().copied().chain(LIST_PLACEHOLDERS).join(", ");
            Err(format!(
                "{{{name}}} stands for nothing; write {{{{ for a brace. Known: {known}"
            ))
        }
    }
}

#[cfg(test)]
mod tests;
