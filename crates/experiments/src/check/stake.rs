//! Asks the cluster whether an identity has stake.
//!
//! One question over plain HTTP, before anything is run. Public clusters speak TLS, so they are not asked, and the answer is that nobody knows.

use super::facts::Stake;
use super::keypair::public_key;
use crate::http;
use crate::plan::{Kind, Plan};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Longest wait for a connection, and for each piece of the answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// The stake of each lane's identity, by the lane's name; nothing for a plan whose workload is no validator.
pub(super) fn ask(plan: &Plan) -> BTreeMap<String, Stake> {
    if plan.workload.kind != Kind::Validator {
        return BTreeMap::new();
    }
    let mut answer = None;
    let mut stakes = BTreeMap::new();
    for lane in &plan.lanes {
        let stake = match (&lane.identity, &plan.workload.cluster_rpc) {
            (None, _) => Err("the plan names no identity".to_owned()),
            (Some(_), None) => Err("the plan names no workload.cluster_rpc".to_owned()),
            (Some(file), Some(url)) => public_key(file).and_then(|identity| {
                let accounts = answer.get_or_insert_with(|| vote_accounts(url)).as_ref();
                accounts
                    .map(|accounts| accounts.stake_of(&identity))
                    .map_err(|why| format!("{url}: {why}"))
            }),
        };
        stakes.insert(
            lane.name.clone(),
            stake.map_or_else(Stake::Unknown, Stake::Known),
        );
    }
    stakes
}

#[derive(Debug, Deserialize)]
struct Answer {
    result: VoteAccounts,
}

/// The result of `getVoteAccounts`.
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
    fn stake_of(&self, identity: &str) -> u64 {
        let all = self.current.iter().chain(&self.delinquent);
        all.filter(|account| account.node_pubkey == identity)
            .fold(0, |sum, account| {
                sum.saturating_add(account.activated_stake)
            })
    }
}

fn vote_accounts(url: &str) -> Result<VoteAccounts, String> {
    let body = http::post(
        url,
        r#"{"jsonrpc":"2.0","id":1,"method":"getVoteAccounts"}"#,
        PATIENCE,
    )?;
    serde_json::from_slice(&body)
        .map(|answer: Answer| answer.result)
        .map_err(|error| format!("its answer is none to getVoteAccounts: {error}"))
}

#[cfg(test)]
mod tests;
