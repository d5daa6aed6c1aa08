//! Refuses voting validators: stopping one costs its owner and the cluster.

use super::{Findings, HostFacts, Stake};
use crate::plan::{Cluster, Kind, Lane, Plan, Severity};

const OPTIONS: [&str; 2] = ["--vote-account", "--authorized-voter"];
const NO_STAKE: &str =
    "use an identity without stake (solana-keygen new); if that is intended, pass --i-vote";

pub fn check(plan: &Plan, facts: &HostFacts, i_vote: bool, findings: &mut Findings) {
    if plan.workload.kind != Kind::Validator || i_vote {
        return;
    }
    for section in vote_accounts(plan) {
        findings.refuse(
            format!(
                "{section} sets a vote account, and each run stops and restarts this validator"
            ),
            "remove it, even if --no-voting is set; if the validator must vote, pass --i-vote",
        );
    }
    let others = other_identities(plan);
    for section in &others {
        findings.refuse(
            format!("{section} names another identity than the one whose stake is checked"),
            "set `identity` to that file, and pass \"{identity}\" to the command; if it may vote, pass --i-vote",
        );
    }
    if !others.is_empty() {
        return;
    }
    for lane in &plan.lanes {
        // An invalid keypair is refused elsewhere.
        let unusable = |file| matches!(facts.files.get(file), Some(Err(_)));
        if !lane.identity.as_ref().is_some_and(unusable) {
            stake(plan, lane, facts.stakes.get(&lane.name), findings);
        }
    }
}

fn stake(plan: &Plan, lane: &Lane, stake: Option<&Stake>, findings: &mut Findings) {
    let identity_name = plan.with_lane_name("the identity", lane);
    match stake {
        None => {}
        Some(Stake::Known(0)) if passes_identity(plan, lane) => {}
        Some(Stake::Known(0)) => findings.warn(
            format!("{identity_name} has no stake, but the command does not name it: the validator may use another one"),
            "pass \"{identity}\" to the command; a start script also finds it in FAULTLINE_IDENTITY",
        ),
        Some(Stake::Votes) => findings.refuse(
            format!("{identity_name} has a vote account that votes, without active stake yet"),
            NO_STAKE,
        ),
        Some(Stake::Known(lamports)) => {
            let sol = lamports / 1_000_000_000;
            findings.refuse(
                format!("{identity_name} has a stake of {sol} SOL ({lamports} lamports): it votes for others"),
                NO_STAKE,
            );
        }
        Some(Stake::Unknown(why)) => {
            // On a private cluster nothing is at stake, so an unknown stake is a warning. If the plan
            // names a node, that node must answer.
            let workload = &plan.workload;
            let own = workload.cluster == Some(Cluster::Localnet) && workload.cluster_rpc.is_none();
            findings.add(
                if own { Severity::Warn } else { Severity::Refuse },
                format!("cannot determine whether {identity_name} has stake: {why}"),
                "set workload.identity, and workload.cluster_rpc to a node that answers, as in \"https://HOST\"; \
                 if you know what is at stake, pass --i-vote",
            );
        }
    }
}

/// Whether each arm uses the identity whose stake was checked.
fn passes_identity(plan: &Plan, lane: &Lane) -> bool {
    let Some(file) = &lane.identity else {
        return true;
    };
    let file = file.display().to_string();
    let named = |texts: Vec<&String>| {
        let mut words = texts.into_iter().flat_map(|text| words(text));
        words.any(|word| word == "{identity}" || word == file)
    };
    let every_arm = || plan.arms.iter().all(|arm| named(arm.texts()));
    named(plan.workload.texts()) || (!plan.arms.is_empty() && every_arm())
}

fn other_identities(plan: &Plan) -> Vec<String> {
    let own = |word: &str| {
        let files = plan.lanes.iter().filter_map(|lane| lane.identity.as_ref());
        word == "{identity}"
            || files
                .into_iter()
                .any(|file| file.display().to_string() == word)
    };
    sections(plan, |texts| {
        let all: Vec<&str> = texts.iter().flat_map(|text| words(text)).collect();
        { all.windows(2) }.any(|pair| matches!(pair[0], "--identity" | "-i") && !own(pair[1]))
    })
}

fn sections(plan: &Plan, matches: impl Fn(&[&String]) -> bool) -> Vec<String> {
    let arms = plan
        .arms
        .iter()
        .map(|arm| (format!("arm {:?}", arm.name), arm.texts()));
    std::iter::once(("workload".to_owned(), plan.workload.texts()))
        .chain(arms)
        .filter(|(_, texts)| matches(texts))
        .map(|(section, _)| section)
        .collect()
}

/// `--option=value` counts as two words.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_end = |c: char| c.is_whitespace() || matches!(c, '=' | '"' | '\'' | ';' | '(' | ')');
    text.split(is_end).filter(|word| !word.is_empty())
}

fn vote_accounts(plan: &Plan) -> Vec<String> {
    let sets = |word: &&String| OPTIONS.iter().any(|option| has_option(word, option));
    sections(plan, |texts| texts.iter().any(sets))
}

/// As a whole word: `--x`, `--x=1`, `"--x",`; not `--x-y`.
fn has_option(text: &str, option: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_'))
        .any(|word| word == option)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_matched_only_as_a_separate_word() {
        for text in [
            "--x",
            "a --x=1",
            "[\"--x\", \"k\"]",
            "(--x)",
            "'--x'",
            "é--x",
        ] {
            assert!(has_option(text, "--x"), "{text}");
        }
        for text in ["--x-y", "--xy", "--no--x", "---x", "x", ""] {
            assert!(!has_option(text, "--x"), "{text}");
        }
    }
}
