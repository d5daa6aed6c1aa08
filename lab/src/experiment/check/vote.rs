//! Experiments are for validators that do not vote: stopping a validator with stake costs its owner and the cluster.

use super::Findings;
use super::facts::{Facts, Stake};
use crate::experiment::plan::{Kind, Plan};
use std::collections::BTreeMap;

/// Options of a validator that votes.
const OPTIONS: [&str; 2] = ["--vote-account", "--authorized-voter"];

pub(super) fn check(plan: &Plan, facts: &Facts, i_vote: bool, found: &mut Findings) {
    if plan.workload.kind != Kind::Validator {
        return;
    }
    let meant = "take it out; if this validator shall vote, say --i-vote";
    if !i_vote {
        for place in places(plan, facts) {
            found.refuse(format!("{place} sets a vote account, and each run stops and restarts this validator"), meant);
        }
    }
    for lane in &plan.lanes {
        let who = match plan.lanes.len() {
            0 | 1 => "the identity".to_owned(),
            _ => format!("the identity of lane {:?}", lane.name),
        };
        match facts.stakes.get(&lane.name) {
            Some(Stake::Known(0)) | None => {}
            Some(Stake::Known(lamports)) if !i_vote => {
                let sol = lamports / 1_000_000_000;
                found.refuse(
                    format!("{who} has a stake of {sol} SOL ({lamports} lamports): it votes for others"),
                    "use an identity without stake (solana-keygen new); if it is meant, say --i-vote",
                );
            }
            Some(Stake::Known(_)) => {}
            Some(Stake::Unknown(why)) => found.warn(
                format!("nobody could say whether {who} has stake: {why}"),
                "make sure that it has none; workload.cluster_rpc names a node to ask",
            ),
        }
    }
}

/// Where a vote account is set.
fn places(plan: &Plan, facts: &Facts) -> Vec<String> {
    let mut places = Vec::new();
    // A variable may hold a whole list of options for a script.
    let set = |words: &[String], variables: &BTreeMap<String, String>| {
        words.iter().any(|word| is_option(word))
            || variables.values().flat_map(|value| value.split_whitespace()).any(is_option)
    };
    if set(&plan.workload.command, &plan.workload.environment) {
        places.push("workload".to_owned());
    }
    for arm in plan.arms.iter().filter(|arm| set(&arm.arguments, &arm.environment)) {
        places.push(format!("arm {:?}", arm.name));
    }
    for (file, text) in &facts.scripts {
        let code = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        if code.flat_map(str::split_whitespace).any(|word| is_option(word.trim_matches(['"', '\'']))) {
            places.push(format!("the script {}", file.display()));
        }
    }
    places
}

fn is_option(word: &str) -> bool {
    OPTIONS.iter().any(|option| word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('=')))
}
