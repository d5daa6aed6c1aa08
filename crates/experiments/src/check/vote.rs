//! Experiments are for validators that do not vote: stopping a validator with stake costs its owner and the cluster.

use super::Findings;
use super::code::{has_option, units};
use super::facts::{HostFacts, Stake};
use crate::plan::{Kind, Plan};
use std::collections::BTreeSet;
use std::path::Path;

/// Options of a validator that votes.
const OPTIONS: [&str; 2] = ["--vote-account", "--authorized-voter"];
/// The same in a configuration file in TOML.
const KEY: &str = "vote_account_path";
/// Programs whose arguments are more than options.
const SHELLS: [&str; 12] = [
    "sh",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "fish",
    "env",
    "sudo",
    "su",
    "perl",
    "ruby",
    "systemd-run",
];
/// Files and words that a finding names.
const NAMED: usize = 8;

pub(super) fn check(plan: &Plan, facts: &HostFacts, i_vote: bool, found: &mut Findings) {
    if plan.workload.kind != Kind::Validator || i_vote {
        return;
    }
    let places = places(plan, facts);
    for place in &places {
        found.refuse(
            format!("{place} sets a vote account, and each run stops and restarts this validator"),
            "remove it, even if --no-voting is set; if the validator must vote, pass --i-vote",
        );
    }
    stakes(plan, facts, found);
    if places.is_empty() {
        scripts(plan, facts, found);
    }
}

fn stakes(plan: &Plan, facts: &HostFacts, found: &mut Findings) {
    for lane in &plan.lanes {
        let who = match plan.lanes.len() {
            0 | 1 => "the identity".to_owned(),
            _ => format!("the identity of lane {:?}", lane.name),
        };
        // That its file is none is said already.
        if lane
            .identity
            .as_ref()
            .is_some_and(|file| matches!(facts.files.get(file), Some(Err(_))))
        {
            continue;
        }
        match facts.stakes.get(&lane.name) {
            Some(Stake::Known(0)) | None => {}
            Some(Stake::Known(lamports)) => {
                let sol = lamports / 1_000_000_000;
                found.refuse(
                    format!("{who} has a stake of {sol} SOL ({lamports} lamports): it votes for others"),
                    "use an identity without stake (solana-keygen new); if it is meant, say --i-vote",
                );
            }
            Some(Stake::Unknown(why)) => found.warn(
                format!("cannot determine whether {who} has stake: {why}"),
                "make sure that it has none: name it in identity, and a node to ask in workload.cluster_rpc, as in \
                 \"https://HOST\"; or look yourself, and say --i-vote knowing",
            ),
        }
    }
}

/// What a script starts can be found out only so far.
fn scripts(plan: &Plan, facts: &HostFacts, found: &mut Findings) {
    let vouched = plan
        .lanes
        .iter()
        .all(|lane| matches!(facts.stakes.get(&lane.name), Some(Stake::Known(_))));
    let shell = |file: &Path| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        SHELLS.contains(&name.as_ref()) || name.starts_with("python")
    };
    let started = facts
        .programs
        .values()
        .flatten()
        .any(|file| shell(file) || facts.scripts.contains_key(file));
    if vouched || !(started || facts.scripts.values().any(|text| text.starts_with("#!"))) {
        return;
    }
    let mut looked: Vec<String> = vec!["the plan's words".to_owned()];
    looked.extend(facts.scripts.keys().map(|file| file.display().to_string()));
    let mut what = format!(
        "the command is a script, and no vote account was found in {}",
        some(&looked)
    );
    if !facts.unfollowed.is_empty() {
        let words: Vec<String> = facts.unfollowed.iter().cloned().collect();
        what += &format!("; not looked at: {}", some(&words));
    }
    what +=
        "; values that other programs set, or that a script builds at run time, were not checked";
    found.warn(
        what,
        "look through what it starts for --vote-account; or name identity and workload.cluster_rpc, so that its \
         stake can be asked",
    );
}

/// The first of a list, and how many more there are.
fn some(all: &[String]) -> String {
    let named = all
        .iter()
        .take(NAMED)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    match all.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Where a vote account is set.
fn places(plan: &Plan, facts: &HostFacts) -> BTreeSet<String> {
    let mut places = BTreeSet::new();
    let mut look = |place: String, sets: bool| sets.then(|| places.insert(place));
    let workload = &plan.workload;
    let shared = workload.command.iter().chain(workload.environment.values());
    look(
        "workload".to_owned(),
        shared.into_iter().any(|text| sets(text)),
    );
    for arm in &plan.arms {
        let mut own = arm.arguments.iter().chain(arm.environment.values());
        look(format!("arm {:?}", arm.name), own.any(|text| sets(text)));
    }
    for (file, text) in &facts.scripts {
        look(format!("the script {}", file.display()), sets(text));
        let is_toml = file.extension().is_some_and(|ending| ending == "toml");
        look(
            format!("the file {}", file.display()),
            is_toml && units(text).iter().any(|unit| has_key(unit)),
        );
    }
    places
}

/// Whether a word, a script or what may be options for one sets a vote account; comments do not.
fn sets(text: &str) -> bool {
    units(text)
        .iter()
        .any(|unit| OPTIONS.iter().any(|option| has_option(unit, option)))
}

fn has_key(unit: &str) -> bool {
    let value = unit
        .strip_prefix(KEY)
        .and_then(|rest| rest.trim_start().strip_prefix('='));
    value.is_some_and(|value| !value.trim().trim_matches(['"', '\'']).is_empty())
}
