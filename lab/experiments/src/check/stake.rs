use super::Stake;
use crate::plan::{Kind, Plan, Workload};
use faultline_client::rpc::{RetryPolicy, Rpc};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;
use std::{collections::BTreeMap, fs, path::Path, time::Duration};

/// Public nodes limit requests.
pub const RETRY_POLICY: RetryPolicy = RetryPolicy {
    most: 3,
    first_wait: Duration::from_millis(500),
    patience: Duration::from_secs(10),
};

/// Maximum size of a keypair file, which has 64 numbers in JSON.
const MAX_KEYPAIR_BYTES: u64 = 4096;

pub fn ask(plan: &Plan, retry_policy: RetryPolicy) -> BTreeMap<String, Stake> {
    if plan.workload.kind != Kind::Validator {
        return BTreeMap::new();
    }
    let mut answer = None;
    let mut stakes = BTreeMap::new();
    for lane in &plan.lanes {
        let stake = match (&lane.identity, node_url(&plan.workload)) {
            (None, _) => Err("the plan names no identity".to_owned()),
            (Some(_), None) => Err("the plan names no workload.cluster_rpc".to_owned()),
            (Some(file), Some(url)) => public_key(file).and_then(|identity| {
                let genesis = plan
                    .workload
                    .cluster
                    .and_then(|cluster| cluster.nodes().genesis_hash);
                let accounts =
                    answer.get_or_insert_with(|| vote_accounts(url, genesis, retry_policy));
                match accounts {
                    Ok(accounts) => Ok(accounts.of(&identity)),
                    Err(why) => Err(why.clone()),
                }
            }),
        };
        stakes.insert(lane.name.clone(), stake.unwrap_or_else(Stake::Unknown));
    }
    stakes
}

fn node_url(workload: &Workload) -> Option<&str> {
    workload
        .cluster_rpc
        .as_deref()
        .or_else(|| workload.cluster?.nodes().rpc)
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
    /// Delegated stake becomes active with the next epoch. Until then the account votes with a stake of 0.
    fn of(&self, identity: &str) -> Stake {
        let is_identity = |account: &&VoteAccount| account.node_pubkey == identity;
        let stake = (self.current.iter().chain(&self.delinquent))
            .filter(is_identity)
            .fold(0_u64, |sum, account| {
                sum.saturating_add(account.activated_stake)
            });
        match stake {
            0 if self.current.iter().any(|account| is_identity(&account)) => Stake::Votes,
            stake => Stake::Known(stake),
        }
    }
}

/// Errors only include host and port: the rest may be a key.
fn vote_accounts(
    url: &str,
    genesis: Option<&str>,
    retry_policy: RetryPolicy,
) -> Result<VoteAccounts, String> {
    let rpc = Rpc::new(url, None, retry_policy).map_err(|error| format!("{error:#}"))?;
    if let Some(genesis) = genesis {
        let found: String = result(&rpc, "getGenesisHash")?;
        if found != genesis {
            return Err(format!(
                "the node is of another cluster: its genesis hash is {found}, not {genesis}"
            ));
        }
    }
    let accounts: VoteAccounts = result(&rpc, "getVoteAccounts")?;
    if accounts.current.is_empty() && accounts.delinquent.is_empty() {
        return Err("the node knows no vote account of its cluster".to_owned());
    }
    Ok(accounts)
}

fn result<T: DeserializeOwned>(rpc: &Rpc, method: &str) -> Result<T, String> {
    let result = rpc
        .ask(method, &json!([]))
        .map_err(|error| error.to_string())?;
    result.ok_or_else(|| format!("{method}: the result is null"))
}

pub fn check_keypair(file: &Path) -> Result<(), String> {
    public_key(file)
        .map(drop)
        .map_err(|_| "is no keypair as solana-keygen writes it".to_owned())
}

/// Errors never include the file's content.
fn public_key(file: &Path) -> Result<String, String> {
    let no_keypair = || {
        format!(
            "{} is no keypair as solana-keygen writes it",
            file.display()
        )
    };
    let meta = fs::metadata(file).map_err(|error| format!("{}: {error}", file.display()))?;
    if !meta.is_file() || meta.len() > MAX_KEYPAIR_BYTES {
        return Err(no_keypair());
    }
    let text = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let bytes: Vec<u8> = serde_json::from_slice(&text).map_err(|_| no_keypair())?;
    match bytes.split_at_checked(32) {
        Some((_, public)) if public.len() == 32 => Ok(bs58::encode(public).into_string()),
        _ => Err(no_keypair()),
    }
}

#[cfg(test)]
mod tests;
