//! Asks the cluster whether an identity has stake.
//!
//! One question over plain HTTP, before anything is run: a client of a dozen lines, since nothing else in the lab speaks
//! HTTP. Public clusters speak TLS, so they are not asked, and the answer is that nobody knows.

use super::facts::Stake;
use super::keypair::public_key;
use crate::plan::{Kind, Plan};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Longest wait for a connection, and for each piece of the answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// All vote accounts of mainnet-beta take about a mebibyte.
const LONGEST_ANSWER: u64 = 32 << 20;

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
                accounts.map(|accounts| accounts.stake_of(&identity)).map_err(|why| format!("{url}: {why}"))
            }),
        };
        stakes.insert(lane.name.clone(), stake.map_or_else(Stake::Unknown, Stake::Known));
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
            .fold(0, |sum, account| sum.saturating_add(account.activated_stake))
    }
}

fn vote_accounts(url: &str) -> Result<VoteAccounts, String> {
    let body = post(url, r#"{"jsonrpc":"2.0","id":1,"method":"getVoteAccounts"}"#)?;
    serde_json::from_slice(&body)
        .map(|answer: Answer| answer.result)
        .map_err(|error| format!("its answer is none to getVoteAccounts: {error}"))
}

/// The body of the answer. HTTP/1.0, so that it comes in one piece and ends with the connection.
fn post(url: &str, body: &str) -> Result<Vec<u8>, String> {
    let Some(rest) = url.strip_prefix("http://") else {
        return Err("speaks TLS (https), which this program does not, so it was not asked".to_owned());
    };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let path = if path.is_empty() { "/" } else { path };
    let named = if host.rsplit(']').next().is_some_and(|end| end.contains(':')) {
        host.to_owned()
    } else {
        format!("{host}:80")
    };
    let asked = |error: std::io::Error| error.to_string();
    let address = named.to_socket_addrs().map_err(asked)?.next().ok_or("has no address")?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(asked)?;
    stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_write_timeout(Some(PATIENCE))).map_err(asked)?;
    let head = format!(
        "POST {path} HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes()).map_err(asked)?;
    let mut answer = Vec::new();
    stream.take(LONGEST_ANSWER).read_to_end(&mut answer).map_err(asked)?;
    let split = answer.windows(4).position(|four| four == b"\r\n\r\n").ok_or("its answer is no HTTP")?;
    let head = String::from_utf8_lossy(answer.get(..split).unwrap_or_default()).into_owned();
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(format!("it answers {status:?}"));
    }
    Ok(answer.split_off(split + 4))
}

#[cfg(test)]
mod tests;
