//! Refuses validators that vote or have stake: stopping one costs its owner and the cluster.

use super::{Findings, Stake};
use crate::plan::{Cluster, Lane, Plan, Severity, Workload, WorkloadKind};
use faultline_client::rpc::{RetryPolicy, Rpc};
use itertools::{Itertools, chain};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// Public RPC nodes limit the rate of requests.
pub const RETRY_POLICY: RetryPolicy = RetryPolicy {
    max_tries: 3,
    first_wait: Duration::from_millis(500),
    answer_timeout: Duration::from_secs(10),
};

/// A keypair file has 64 numbers in JSON.
const MAX_KEYPAIR_BYTES: u64 = 4096;
const KEYPAIR_LENGTH: usize = 64;
const VOTE_OPTIONS: [&str; 2] = ["--vote-account", "--authorized-voter"];
const STAKE_REMEDY: &str =
    "use an identity without stake (solana-keygen new); if that is intended, pass --i-vote";

pub fn check(
    plan: &Plan,
    stakes: &BTreeMap<String, Stake>,
    path_checks: &BTreeMap<PathBuf, Result<(), String>>,
    findings: &mut Findings,
) {
    if plan.workload.kind != WorkloadKind::Validator {
        return;
    }
    let sets_voter = |text: &&String| VOTE_OPTIONS.iter().any(|option| has_option(text, option));
    for section in matching_sections(plan, |texts| texts.iter().any(sets_voter)) {
        findings.refuse(
            format!(
                "{section} sets a vote account or its voter, and each run stops and restarts this validator"
            ),
            "remove it, even if --no-voting is set; if the validator must vote, pass --i-vote",
        );
    }
    let unchecked = matching_sections(plan, |texts| names_other_identity(plan, texts));
    for section in &unchecked {
        findings.refuse(
            format!("{section} names another identity than the one whose stake is checked"),
            "set `identity` to that file, and pass \"{identity}\" to the command; if it may vote, pass --i-vote",
        );
    }
    if !unchecked.is_empty() {
        return;
    }
    for lane in &plan.lanes {
        // An invalid keypair is refused elsewhere.
        let is_invalid = |file| matches!(path_checks.get(file), Some(Err(_)));
        if let Some(stake) = stakes.get(&lane.name)
            && !lane.identity.as_ref().is_some_and(is_invalid)
        {
            check_stake(plan, lane, stake, findings);
        }
    }
}

fn check_stake(plan: &Plan, lane: &Lane, stake: &Stake, findings: &mut Findings) {
    let identity_name = plan.with_lane_name("the identity", lane);
    match stake {
        Stake::Known(0) if is_identity_passed(plan, lane) => {}
        Stake::Known(0) => findings.warn(
            format!(
                "{identity_name} has no stake, but the command does not name it: the validator may use another one"
            ),
            "pass \"{identity}\" to the command; a start script also finds it in FAULTLINE_IDENTITY",
        ),
        Stake::NotYetActive => findings.refuse(
            format!("{identity_name} has a vote account that votes, without active stake yet"),
            STAKE_REMEDY,
        ),
        Stake::Known(lamports) => {
            let sol = lamports / 1_000_000_000;
            findings.refuse(
                format!(
                    "{identity_name} has a stake of {sol} SOL ({lamports} lamports), which cannot vote while the validator is stopped"
                ),
                STAKE_REMEDY,
            );
        }
        Stake::Unknown(why) => {
            let workload = &plan.workload;
            // Stake on a private cluster has no value. But a node that the plan names must answer.
            let severity = match (workload.cluster, &workload.cluster_rpc) {
                (Some(Cluster::Localnet), None) => Severity::Warn,
                _ => Severity::Refuse,
            };
            findings.add(
                severity,
                format!("cannot determine whether {identity_name} has stake: {why}"),
                "set workload.identity, and workload.cluster_rpc to a node that answers, as in \"https://HOST\"; \
                 if you accept that a validator with stake may be stopped, pass --i-vote",
            );
        }
    }
}

/// Whether every command names the lane's identity; true without one.
fn is_identity_passed(plan: &Plan, lane: &Lane) -> bool {
    let Some(file) = &lane.identity else {
        return true;
    };
    let file = file.display().to_string();
    let has_identity = |texts: Vec<&String>| {
        texts
            .into_iter()
            .flat_map(|text| words(text))
            .any(|word| word == "{identity}" || word == file)
    };
    let every_arm = || {
        plan.arms
            .iter()
            .all(|arm| has_identity(arm.unexpanded_texts()))
    };
    has_identity(plan.workload.unexpanded_texts()) || (!plan.arms.is_empty() && every_arm())
}

fn names_other_identity(plan: &Plan, texts: &[&String]) -> bool {
    let is_checked = |word| {
        word == "{identity}"
            || plan
                .lanes
                .iter()
                .filter_map(|lane| lane.identity.as_ref())
                .any(|file| file.display().to_string() == word)
    };
    texts
        .iter()
        .flat_map(|text| words(text))
        .tuple_windows()
        .any(|(option, value)| matches!(option, "--identity" | "-i") && !is_checked(value))
}

fn matching_sections(plan: &Plan, matches: impl Fn(&[&String]) -> bool) -> Vec<String> {
    let arms = plan
        .arms
        .iter()
        .map(|arm| (format!("arm {:?}", arm.name), arm.unexpanded_texts()));
    let workload = ("workload".to_owned(), plan.workload.unexpanded_texts());
    chain!([workload], arms)
        .filter(|(_, texts)| matches(texts))
        .map(|(section, _)| section)
        .collect()
}

/// `--option=value` and `-iFILE` count as two words, but not `-iu` of sudo.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_end = |c: char| c.is_whitespace() || matches!(c, '=' | '"' | '\'' | ';' | '(' | ')');
    text.split(is_end)
        .flat_map(|word| match word.strip_prefix("-i") {
            Some(file) if file.contains(['/', '{', '.']) => ["-i", file],
            _ => [word, ""],
        })
        .filter(|word| !word.is_empty())
}

/// True also for `--x=1` and `"--x",`, not for `--x-y`.
fn has_option(text: &str, option: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_'))
        .any(|word| word == option)
}

/// By lane, which has the identity of one run. Empty if the workload is no validator.
pub fn request_stakes(plan: &Plan, retry_policy: RetryPolicy) -> BTreeMap<String, Stake> {
    let workload = &plan.workload;
    let mut stakes = BTreeMap::new();
    if workload.kind != WorkloadKind::Validator {
        return stakes;
    }
    let mut accounts = None;
    for lane in &plan.lanes {
        let mut request_stake = || {
            let file = lane.identity.as_ref().ok_or("the plan names no identity")?;
            let url = node_url(workload).ok_or("the plan names no workload.cluster_rpc")?;
            let identity = public_key(file)?;
            let genesis = workload
                .cluster
                .and_then(Cluster::public_cluster)
                .map(|public| public.genesis_hash);
            match accounts.get_or_insert_with(|| vote_accounts(url, genesis, retry_policy)) {
                Ok(accounts) => Ok(accounts.stake_of(&identity)),
                Err(why) => Err(why.clone()),
            }
        };
        let stake = request_stake().unwrap_or_else(Stake::Unknown);
        stakes.insert(lane.name.clone(), stake);
    }
    stakes
}

fn node_url(workload: &Workload) -> Option<&str> {
    workload
        .cluster_rpc
        .as_deref()
        .or_else(|| Some(workload.cluster?.public_cluster()?.rpc))
}

#[derive(Debug, Deserialize)]
struct VoteAccounts {
    current: Vec<VoteAccount>,
    delinquent: Vec<VoteAccount>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct VoteAccount {
    node_pubkey: String,
    activated_stake: u64,
}

impl VoteAccounts {
    /// Delegated stake becomes active with the next epoch. Until then the account votes with a
    /// stake of 0.
    fn stake_of(&self, identity: &str) -> Stake {
        let is_identity = |account: &&VoteAccount| account.node_pubkey == identity;
        let stake = (self.current.iter().chain(&self.delinquent))
            .filter(is_identity)
            .map(|account| account.activated_stake)
            .fold(0, u64::saturating_add);
        match stake {
            0 if self.current.iter().any(|account| is_identity(&account)) => Stake::NotYetActive,
            stake => Stake::Known(stake),
        }
    }
}

/// Errors contain only host and port of `url`, because the rest may be an access key.
fn vote_accounts(
    url: &str,
    genesis: Option<&str>,
    retry_policy: RetryPolicy,
) -> Result<VoteAccounts, String> {
    let rpc = Rpc::new(url, None, retry_policy).map_err(|error| format!("{error:#}"))?;
    if let Some(genesis) = genesis {
        let node_genesis: String = request(&rpc, "getGenesisHash")?;
        if node_genesis != genesis {
            return Err(format!(
                "the node is of another cluster: its genesis hash is {node_genesis}, not {genesis}"
            ));
        }
    }
    let accounts: VoteAccounts = request(&rpc, "getVoteAccounts")?;
    if accounts.current.is_empty() && accounts.delinquent.is_empty() {
        return Err("the node knows no vote account of its cluster".to_owned());
    }
    Ok(accounts)
}

fn request<T: DeserializeOwned>(rpc: &Rpc, method: &str) -> Result<T, String> {
    let result = rpc
        .call(method, &json!([]))
        .map_err(|error| error.to_string())?;
    result.ok_or_else(|| format!("{method}: the result is null"))
}

pub fn check_keypair(file: &Path) -> Result<(), String> {
    let invalid = |_| "is no keypair as solana-keygen writes it".to_owned();
    public_key(file).map(drop).map_err(invalid)
}

/// Errors never include the file's content.
fn public_key(file: &Path) -> Result<String, String> {
    let path = file.display();
    let read_error = |error| format!("{path}: {error}");
    let no_keypair = || format!("{path} is no keypair as solana-keygen writes it");
    let meta = fs::metadata(file).map_err(read_error)?;
    if !meta.is_file() || meta.len() > MAX_KEYPAIR_BYTES {
        return Err(no_keypair());
    }
    let text = fs::read(file).map_err(read_error)?;
    let keypair: Vec<u8> = serde_json::from_slice(&text).map_err(|_| no_keypair())?;
    if keypair.len() != KEYPAIR_LENGTH {
        return Err(no_keypair());
    }
    Ok(bs58::encode(&keypair[KEYPAIR_LENGTH / 2..]).into_string())
}

#[cfg(test)]
mod tests;
