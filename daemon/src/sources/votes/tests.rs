//! Against a scripted node on a real socket.

use super::*;
use crate::clock::Clock;
use crate::config;
use crate::sources::admin::{Asked, WhomToAsk};
use crate::sources::rpc::Endpoint;
use crate::sources::scripted::{Reply, Server};
use crate::supervisor::Stage;
use faultline_catalog::Reading;
use serde_json::{Value, json};
use std::time::Duration;

const ME: ProcessId = ProcessId { pid: 7, start_ticks: 70 };
const IDENTITY: &str = "DMz6SsztgBqTVkGc6CTcs4EYSJPUTfqKKwEzHLC7P8sr";
const VOTE: &str = "7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2";
const GENESIS: &str = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG";

fn account(vote: &str, node: &str, credits: u64) -> Value {
    json!({
        "activatedStake": 2_500_000_000_u64, "commission": 7, "epochCredits": [[4, 1_000, 600], [5, 1_000 + credits, 1_000]],
        "epochVoteAccount": true, "lastVote": 2_158, "nodePubkey": node, "rootSlot": 2_127, "votePubkey": vote
    })
}

/// A voting validator with the full API, at slot 2,160, the 160th of 432 of epoch 5.
fn voting(request: &Value) -> Value {
    let own = request.pointer("/params/0/votePubkey").is_some();
    match request["method"].as_str().unwrap() {
        "getGenesisHash" => json!(GENESIS),
        "getEpochInfo" => {
            json!({"absoluteSlot": 2_160, "blockHeight": 2_100, "epoch": 5, "slotIndex": 160, "slotsInEpoch": 432})
        }
        "getVoteAccounts" if own => json!({"current": [account(VOTE, IDENTITY, 300)], "delinquent": []}),
        "getVoteAccounts" => json!({
            "current": [account("v2", "n2", 400), account(VOTE, IDENTITY, 300), account("v3", "n3", 100)],
            "delinquent": [account("v4", "n4", 0)]
        }),
        "getBalance" if request["params"][0] == VOTE => json!({"context": {"slot": 1}, "value": 27_074_400}),
        "getBalance" => json!({"context": {"slot": 1}, "value": 1_500_000_000}),
        "getLeaderSchedule" => json!({IDENTITY: [100, 101, 180, 181, 300]}),
        "getBlockProduction" => json!({"context": {"slot": 1}, "value": {
            "byIdentity": {IDENTITY: [2, 1], "n2": [158, 150]}, "range": {"firstSlot": 2_000, "lastSlot": 2_160}
        }}),
        "getClusterNodes" => json!([
            {"pubkey": IDENTITY, "version": "2.1.14", "featureSet": 1}, {"pubkey": "n2", "version": "2.1.15", "featureSet": 1},
            {"pubkey": "n3", "version": "2.0.1", "featureSet": 2}
        ]),
        "getVersion" => json!({"solana-core": "2.1.14", "feature-set": 1}),
        "getIdentity" => json!({"identity": IDENTITY}),
        "getHealth" => json!("ok"),
        _ => json!(2_160),
    }
}

/// A server, with `refused` methods that it does not have.
async fn serve(answer: impl Fn(&Value) -> Value + Send + Sync + 'static, refused: &'static [&'static str]) -> Server {
    let one = move |request: &Value| match refused.contains(&request["method"].as_str().unwrap()) {
        true => {
            json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
        }
        false => json!({"jsonrpc": "2.0", "id": request["id"], "result": answer(request)}),
    };
    Server::start(move |_, body| match body.as_array() {
        Some(requests) => Reply::json(&requests.iter().map(&one).collect::<Vec<_>>().into()),
        None => Reply::json(&one(body)),
    })
    .await
}

struct Running {
    handle: Handle,
    stage: Stage,
}

impl Running {
    fn start(port: u16, vote_account: Option<&str>) -> Running {
        let (interval, timeout) = (Duration::from_millis(20), Duration::from_secs(20));
        let rpc =
            config::Rpc { interval, timeout, url: Some(format!("http://127.0.0.1:{port}")), ..Default::default() };
        let validator =
            config::Validator { enabled: true, vote_account: vote_account.map(str::to_owned), interval, timeout };
        let whom = || -> WhomToAsk { Box::new(|| Some(Asked { process: ME, rpc_port: None, ledger: None })) };
        let clock = Clock::start();
        let poller = rpc::Poller::new(&rpc, clock, whom(), Latest::default());
        let votes = Poller::new(&validator, clock, Endpoint::new(&rpc, whom(), Latest::default(), poller.handle()));
        let handle = votes.handle();
        let mut stage = Stage::new("test", &tokio::runtime::Handle::current());
        stage.task("rpc", |stop| poller.run(stop));
        stage.task("votes", |stop| votes.run(stop));
        Running { handle, stage }
    }

    /// After so many rounds.
    async fn known(&self, rounds: u64) -> Known {
        for _ in 0..4_000 {
            if let Some(known) = self.handle.0.get().filter(|known| known.rounds >= rounds) {
                return (*known).clone();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{rounds} rounds do not end");
    }

    async fn end(self) {
        assert!(self.stage.end(Duration::from_secs(20)).await.is_empty());
    }
}

/// Name, labels and value of each reading.
fn told(known: &Known, slot: Option<u64>) -> Vec<(String, f64)> {
    let mut readings: Vec<Reading> = Vec::new();
    known.readings(slot, known.at, &mut readings);
    let name = |reading: &Reading| {
        let labels: Vec<&str> = reading.labels.iter().map(|label| label.as_str()).collect();
        format!("{} {}", reading.metric.name.trim_start_matches("agave_"), labels.join(" "))
    };
    readings.iter().map(|reading| (name(reading), reading.value.number().unwrap())).collect()
}

fn of(told: &[(String, f64)], name: &str) -> Option<f64> {
    told.iter().find(|(known, _)| known.trim_end() == name).map(|(_, value)| *value)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_voting_validator_is_told_whole() {
    let server = serve(voting, &[]).await;
    let running = Running::start(server.port(), None);
    let known = running.known(1).await;
    let told = told(&known, Some(2_170));
    for (name, value) in [
        ("cluster_info devnet EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG", 1.0),
        ("epoch", 5.0),
        ("epoch_progress_ratio", 170.0 / 432.0),
        ("epoch_remaining_seconds", 262.0 * 0.4),
        ("delinquent", 0.0),
        ("vote_slot last_vote", 2_158.0),
        ("vote_distance_slots last_vote", 2.0),
        ("vote_distance_slots root", 33.0),
        ("vote_credits this_epoch", 300.0),
        ("vote_credits previous_epoch", 400.0),
        ("vote_credits_rank", 2.0),
        ("vote_credits_of_best_ratio", 0.75),
        ("vote_commission_ratio", 0.07),
        ("stake_sol active", 2.5),
        ("balance_sol identity", 1.5),
        ("balance_sol vote", 0.027_074_4),
        ("leader_slots assigned", 5.0),
        ("leader_slots passed", 2.0),
        ("leader_slots skipped", 1.0),
        ("cluster_leader_slots passed", 160.0),
        ("cluster_leader_slots skipped", 9.0),
        ("next_leader_slot_seconds", 10.0 * 0.4),
        ("restart_window_seconds", 131.0 * 0.4),
        ("restart_window_begins_seconds", 131.0 * 0.4),
        ("cluster_version_stake_ratio newer", 0.25),
        ("cluster_version_stake_ratio unknown", 0.25),
        ("cluster_feature_set_stake_ratio same", 0.5),
    ] {
        assert_eq!(of(&told, name), Some(value), "{name}: {told:#?}");
    }
    assert!(known.up && known.problems.is_empty(), "{:?}", known.problems);
    assert_eq!(running.handle.cluster(ME).as_deref(), Some("devnet"));
    let asked = |known: &Server, method: &str| known.bodies().iter().filter(|body| body["method"] == method).count();
    running.known(11).await;
    assert_eq!([asked(&server, "getGenesisHash"), asked(&server, "getLeaderSchedule")], [1, 1]);
    assert!(asked(&server, "getClusterNodes") <= 3 && asked(&server, "getBlockProduction") <= 5);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_that_does_not_vote_and_has_the_minimal_api_tells_epoch_and_cluster() {
    let silent = |request: &Value| match request["method"].as_str().unwrap() {
        "getVoteAccounts" => json!({"current": [account("v2", "n2", 400)], "delinquent": []}),
        "getLeaderSchedule" => json!({}),
        _ => voting(request),
    };
    let server = serve(silent, &["getBlockProduction", "getClusterNodes", "getMaxShredInsertSlot"]).await;
    let running = Running::start(server.port(), None);
    let known = running.known(6).await;
    let told = told(&known, None);
    assert_eq!((of(&told, "epoch"), of(&told, "balance_sol identity")), (Some(5.0), Some(1.5)));
    assert_eq!(of(&told, "leader_slots assigned"), Some(0.0));
    let not = [
        "delinquent",
        "vote_credits this_epoch",
        "balance_sol vote",
        "leader_slots passed",
        "next_leader_slot_seconds",
    ];
    assert!(not.iter().all(|name| of(&told, name).is_none()), "{told:#?}");
    assert!(known.up);
    let problems: Vec<String> = known.problems.iter().map(ToString::to_string).collect();
    assert!(problems.iter().all(|problem| problem.contains("--full-rpc-api")) && problems.len() == 2, "{problems:?}");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_configured_account_counts_and_a_delinquent_one_is_told() {
    let late = |request: &Value| match request["method"].as_str().unwrap() {
        "getVoteAccounts" => json!({"current": [], "delinquent": [account("other", "n9", 0)]}),
        _ => voting(request),
    };
    let server = serve(late, &[]).await;
    let running = Running::start(server.port(), Some("other"));
    let told = told(&running.known(1).await, None);
    assert_eq!((of(&told, "delinquent"), of(&told, "vote_credits this_epoch")), (Some(1.0), Some(0.0)));
    assert_eq!(of(&told, "vote_credits_rank"), None, "nobody earned anything");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn garbage_is_a_problem_of_its_question_alone_and_answers_age() {
    let odd = |request: &Value| match request["method"].as_str().unwrap() {
        "getBalance" => json!({"value": -1}),
        "getGenesisHash" => json!("<script>"),
        "getLeaderSchedule" => Value::Null,
        _ => voting(request),
    };
    let server = serve(odd, &[]).await;
    let running = Running::start(server.port(), None);
    let known = running.known(1).await;
    let fresh = told(&known, Some(u64::MAX));
    assert_eq!((of(&fresh, "delinquent"), of(&fresh, "balance_sol identity")), (Some(0.0), None));
    assert_eq!(of(&fresh, "epoch_remaining_seconds"), Some(0.0), "a slot beyond the epoch");
    assert!(!fresh.iter().any(|(name, _)| name.contains("script")));
    let problems = known.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    assert!(problems.contains("getBalance: ") && !problems.contains("getVoteAccounts"), "{problems}");
    let mut old = Vec::new();
    let hour = Stamp { uptime: known.at.uptime + Duration::from_secs(3_600), ..known.at };
    known.readings(None, hour, &mut old);
    assert!(old.is_empty(), "{old:?}");
    running.end().await;
}
