//! The poller with a scripted node on a real socket.

use super::*;
use crate::{
    admin::TargetLookup,
    rpc::Endpoint,
    tests::{key, target},
    tick::ProcessState,
};
use faultline_agave::{
    PublicKey,
    consensus::{Protocol, Sign},
    rpc::EpochInfo,
};
use faultline_core::{clock::Clock, config, supervisor::WorkerGroup};
use faultline_kernel::HostRoot;
use faultline_metrics::Reading;
use faultline_testkit::mock_node::{MockNode, Reply};
use serde_json::{Value, json};
use std::{
    fmt::Display,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

/// Slot time of the simulated cluster.
const SLOT_TIME: Duration = Duration::from_millis(400);
const ME: ProcessId = ProcessId {
    pid: 7,
    start_ticks: 70,
};
const IDENTITY: &str = "DMz6SsztgBqTVkGc6CTcs4EYSJPUTfqKKwEzHLC7P8sr";
const VOTE: &str = "7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2";
const GENESIS: &str = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG";

fn account(vote: impl Display, node: impl Display, credits: u64) -> Value {
    json!({
        "activatedStake": 2_500_000_000_u64, "commission": 7, "epochCredits": [[4, 1_000, 600], [5, 1_000 + credits, 1_000]],
        "epochVoteAccount": true, "lastVote": 2_158, "nodePubkey": node.to_string(), "rootSlot": 2_127, "votePubkey": vote.to_string()
    })
}

/// Stake accounts: 2.5 SOL activate and 7 SOL deactivate in epoch 5, and one lamport stays.
const STAKES: [&str; 3] = [
    "169JXQ4KktPcvkkQdnhJJXp3qSD3FdTh8",
    "13mofhMmGUcNiHvg1MN18RNjoBNRa8jfM",
    "6HgC8KRBEhXfkeL2dC5fQ6qm5PcMFBfk",
];

/// A voting validator with the full API, at slot 2,160, the 160th of 432 of epoch 5.
fn voting(request: &Value) -> Value {
    let own = request.pointer("/params/0/votePubkey").is_some();
    match request["method"].as_str().unwrap() {
        "getGenesisHash" => json!(GENESIS),
        "getEpochInfo" => {
            json!({"absoluteSlot": 2_160, "blockHeight": 2_100, "epoch": 5, "slotIndex": 160, "slotsInEpoch": 432})
        }
        "getVoteAccounts" if own => {
            json!({"current": [account(VOTE, IDENTITY, 300)], "delinquent": []})
        }
        "getVoteAccounts" => json!({
            "current": [account(key("v2"), key("n2"), 400), account(VOTE, IDENTITY, 300), account(key("v3"), key("n3"), 100)],
            "delinquent": [account(key("v4"), key("n4"), 0)]
        }),
        "getBalance" if request["params"][0] == VOTE => {
            json!({"context": {"slot": 1}, "value": 27_074_400})
        }
        "getBalance" => json!({"context": {"slot": 1}, "value": 1_500_000_000}),
        "getLeaderSchedule" => json!({IDENTITY: [100, 101, 180, 181, 300]}),
        "getBlockProduction" => json!({"context": {"slot": 1}, "value": {
            "byIdentity": {IDENTITY: [2, 1], key("n2").to_string(): [158, 150]}, "range": {"firstSlot": 2_000, "lastSlot": 2_160}
        }}),
        "getClusterNodes" => json!([
            {"pubkey": IDENTITY, "version": "2.1.14", "featureSet": 1}, {"pubkey": key("n2").to_string(), "version": "2.1.15", "featureSet": 1},
            {"pubkey": key("n3").to_string(), "version": "2.0.1", "featureSet": 2}
        ]),
        "getProgramAccounts" => {
            json!(STAKES.map(|data| json!({"account": {"data": [data, "base58"]}})))
        }
        "getVersion" => json!({"solana-core": "2.1.14", "feature-set": 1}),
        "getAgGenesisCert" => Value::Null,
        "getAccountInfo" => json!({"context": {"slot": 1}, "value": null}),
        "getIdentity" => json!({"identity": IDENTITY}),
        "getHealth" => json!("ok"),
        _ => json!(2_160),
    }
}

/// A server without the `refused` methods.
async fn serve(
    answer: impl Fn(&Value) -> Value + Send + Sync + 'static,
    refused: &'static [&'static str],
) -> MockNode {
    serve_node(answer, voting, refused).await
}

/// The same with other responses to batches, which the source `rpc` sends.
async fn serve_node(
    answer: impl Fn(&Value) -> Value + Send + Sync + 'static,
    batches: impl Fn(&Value) -> Value + Send + Sync + 'static,
    refused: &'static [&'static str],
) -> MockNode {
    let one = move |answer: &dyn Fn(&Value) -> Value, request: &Value| match refused
        .contains(&request["method"].as_str().unwrap())
    {
        true => {
            json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
        }
        false => match answer(request) {
            Value::Object(answer) if answer.contains_key("error") => {
                json!({"jsonrpc": "2.0", "id": request["id"], "error": answer["error"]})
            }
            answer => json!({"jsonrpc": "2.0", "id": request["id"], "result": answer}),
        },
    };
    MockNode::start(move |_, body| match body.as_array() {
        Some(requests) => Reply::json(
            &requests
                .iter()
                .map(|request| one(&batches, request))
                .collect::<Vec<_>>()
                .into(),
        ),
        None => Reply::json(&one(&answer, body)),
    })
    .unwrap()
}

struct Running {
    handle: Handle,
    workers: WorkerGroup,
}

impl Running {
    fn start(port: u16, vote_account: Option<PublicKey>) -> Self {
        Self::start_with(port, vote_account, None)
    }

    /// Starts the poller for a validator whose arguments name a vote account.
    fn start_with(port: u16, vote_account: Option<PublicKey>, argument: Option<PublicKey>) -> Self {
        let (interval, timeout) = (Duration::from_millis(20), Duration::from_secs(20));
        let rpc = config::Rpc {
            interval,
            timeout,
            url: Some(format!("http://127.0.0.1:{port}")),
            ..Default::default()
        };
        let config = config::Votes {
            enabled: true,
            vote_account,
            scans_stakes: true,
            interval,
            timeout,
        };
        let lookup = || -> TargetLookup {
            Box::new(move || {
                let mut target = target(ME, None);
                target.validator.as_mut().unwrap().vote_account = argument;
                Some(Arc::new(target))
            })
        };
        let clock = Clock::start();
        let poller = rpc::Poller::new(&rpc, clock, lookup(), Latest::default());
        let votes = Poller::new(
            &config,
            clock,
            Endpoint::new(&rpc, lookup(), Latest::default(), poller.handle.clone()),
        );
        let handle = votes.handle.clone();
        let mut workers = WorkerGroup::new("test", &tokio::runtime::Handle::current());
        workers.task("rpc", |stop| poller.run(stop));
        workers.task("votes", |stop| votes.run(stop));
        Self { handle, workers }
    }

    /// The facts after this many rounds.
    async fn vote_facts(&self, rounds: u32) -> VoteFacts {
        for _ in 0..4_000 {
            if let Some(vote_facts) = self
                .handle
                .facts()
                .filter(|vote_facts| vote_facts.rounds >= rounds && vote_facts.is_complete)
            {
                return (*vote_facts).clone();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{rounds} rounds do not end");
    }

    async fn end(self) {
        assert!(self.workers.end(Duration::from_secs(20)).await.is_empty());
    }
}

/// The processed bank at a slot of epoch 5, or of a later one.
fn epoch_info(slot: u64) -> EpochInfo {
    let (epoch, slot_index) = (5 + (slot - 2_000) / 432, (slot - 2_000) % 432);
    serde_json::from_value(json!({"absoluteSlot": slot, "blockHeight": slot, "epoch": epoch, "slotIndex": slot_index, "slotsInEpoch": 432}))
        .unwrap()
}

/// Name, labels and value of each reading.
fn readings_of(vote_facts: &VoteFacts, newest: Option<EpochInfo>) -> Vec<(String, f64)> {
    readings_with_tip(vote_facts, newest, true)
}

fn readings_with_tip(
    vote_facts: &VoteFacts,
    newest: Option<EpochInfo>,
    is_near_tip: bool,
) -> Vec<(String, f64)> {
    readings_with(vote_facts, (newest, is_near_tip), Some(Protocol::Tower))
}

fn readings_with(
    vote_facts: &VoteFacts,
    (newest, is_near_tip): (Option<EpochInfo>, bool),
    protocol: Option<Protocol>,
) -> Vec<(String, f64)> {
    let reading_context = ReadingContext {
        newest_epoch_info: newest,
        is_near_tip,
        slot_time: Some(SLOT_TIME),
        protocol,
        was_far_behind_at_response: false,
    };
    readings_from(vote_facts, reading_context)
}

fn readings_from(vote_facts: &VoteFacts, reading_context: ReadingContext) -> Vec<(String, f64)> {
    let mut output = SourceOutput::default();
    vote_facts.add_readings(reading_context, vote_facts.polled_at, &mut output);
    let name = |reading: &Reading| {
        let labels: Vec<&str> = reading
            .label_values
            .iter()
            .map(|label| label.as_str())
            .collect();
        format!(
            "{} {}",
            reading.metric.name.trim_start_matches("agave_"),
            labels.join(" ")
        )
    };
    { output.readings.iter() }
        .map(|reading| (name(reading), reading.value.number().unwrap()))
        .collect()
}

fn of(readings: &[(String, f64)], name: &str) -> Option<f64> {
    readings
        .iter()
        .find(|(series, _)| series.trim_end() == name)
        .map(|(_, value)| *value)
}

fn every_figure_is_exported(vote_facts: &VoteFacts) {
    let readings = readings_of(vote_facts, Some(epoch_info(2_170)));
    for (name, value) in [
        (
            "cluster_info devnet EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG",
            1.0,
        ),
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
        ("stake_sol activating", 2.5),
        ("stake_sol deactivating", 7.0),
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
        assert_eq!(of(&readings, name), Some(value), "{name}: {readings:#?}");
    }
}

fn the_next_epoch_has_no_figures_of_the_last(vote_facts: &VoteFacts) {
    let next = readings_of(vote_facts, Some(epoch_info(2_440)));
    let of_next =
        ["epoch", "epoch_progress_ratio", "vote_credits this_epoch"].map(|name| of(&next, name));
    assert_eq!(
        of_next,
        [Some(6.0), Some(8.0 / 432.0), Some(300.0)],
        "credits of the epoch of the request"
    );
    let leads = [
        "leader_slots assigned",
        "leader_slots passed",
        "next_leader_slot_seconds",
    ]
    .map(|name| of(&next, name));
    assert_eq!(leads, [None; 3], "of another epoch");
    assert_eq!(
        of(&next, "stake_sol activating"),
        None,
        "it has become active"
    );
}

fn times_need_the_slot_time_and_the_tip(vote_facts: &VoteFacts) {
    let without = readings_from(
        vote_facts,
        ReadingContext {
            newest_epoch_info: Some(epoch_info(2_170)),
            is_near_tip: true,
            ..ReadingContext::default()
        },
    );
    assert!(of(&without, "epoch").is_some());
    assert_eq!(
        ["epoch_remaining_seconds", "next_leader_slot_seconds"].map(|name| of(&without, name)),
        [None; 2],
        "the slot time is not known"
    );
    let far = readings_with_tip(vote_facts, Some(epoch_info(2_170)), false);
    let leads = [
        "leader_slots assigned",
        "next_leader_slot_seconds",
        "restart_window_seconds",
        "restart_window_begins_seconds",
    ];
    assert_eq!(
        leads.map(|name| of(&far, name)),
        [Some(5.0), None, None, None],
        "not while it catches up"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_voting_validator_reports_all_vote_metrics() {
    let server = serve(voting, &[]).await;
    let running = Running::start(server.port(), None);
    let vote_facts = running.vote_facts(2).await;
    every_figure_is_exported(&vote_facts);
    assert!(
        vote_facts.up && vote_facts.problems.is_empty(),
        "{:?}",
        vote_facts.problems
    );
    assert_eq!(vote_facts.cluster(), Some("devnet"));
    the_next_epoch_has_no_figures_of_the_last(&vote_facts);
    times_need_the_slot_time_and_the_tip(&vote_facts);
    running.vote_facts(35).await;
    check_request_counts(&server);
    running.end().await;
}

/// Checks the numbers of requests after 35 rounds.
fn check_request_counts(server: &MockNode) {
    let requests = |node: &MockNode, method: &str| {
        node.bodies()
            .iter()
            .filter(|body| body["method"] == method)
            .count()
    };
    let once = ["getGenesisHash", "getLeaderSchedule", "getProgramAccounts"]
        .map(|method| requests(server, method));
    assert_eq!(once, [1; 3]);
    assert!(
        requests(server, "getClusterNodes") <= 5 && requests(server, "getBlockProduction") <= 9
    );
    let has = |of: &str, params: Value| {
        server
            .bodies()
            .iter()
            .any(|body| body["method"] == of && body["params"] == params)
    };
    assert!(has(
        "getBlockProduction",
        json!([{"commitment": "confirmed"}])
    ));
    let own =
        json!([{"commitment": "processed", "votePubkey": VOTE, "keepUnstakedDelinquents": true}]);
    assert!(has("getVoteAccounts", own));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_non_voting_minimal_api_node_reports_epoch_and_cluster() {
    let silent = |request: &Value| match request["method"].as_str().unwrap() {
        "getVoteAccounts" => {
            json!({"current": [account(key("v2"), key("n2"), 400)], "delinquent": []})
        }
        // The response since 4.4. Earlier versions return an empty object.
        "getLeaderSchedule" => json!({"error": {
            "code": -32022,
            "message": format!("Node {IDENTITY} was not in the leader schedule for specified epoch")
        }}),
        _ => voting(request),
    };
    let server = serve(
        silent,
        &[
            "getBlockProduction",
            "getClusterNodes",
            "getMaxShredInsertSlot",
        ],
    )
    .await;
    let running = Running::start(server.port(), None);
    let vote_facts = running.vote_facts(6).await;
    let readings = readings_of(&vote_facts, None);
    assert_eq!(
        (
            of(&readings, "epoch"),
            of(&readings, "balance_sol identity")
        ),
        (Some(5.0), Some(1.5))
    );
    assert_eq!(of(&readings, "leader_slots assigned"), Some(0.0));
    let not = [
        "delinquent",
        "vote_credits this_epoch",
        "balance_sol vote",
        "leader_slots passed",
        "next_leader_slot_seconds",
    ];
    assert!(
        not.iter().all(|name| of(&readings, name).is_none()),
        "{readings:#?}"
    );
    assert!(vote_facts.up);
    let problems: Vec<String> = vote_facts
        .problems
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(
        problems
            .iter()
            .all(|problem| problem.contains("--full-rpc-api"))
            && problems.len() == 2,
        "{problems:?}"
    );
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn values_of_a_former_vote_account_are_dropped() {
    let has_account = Arc::new(AtomicBool::new(true));
    let shared = Arc::clone(&has_account);
    let answers = move |request: &Value| match request["method"].as_str().unwrap() {
        "getVoteAccounts" if !shared.load(Ordering::Relaxed) => {
            json!({"current": [account(key("v2"), key("n2"), 400)], "delinquent": []})
        }
        _ => voting(request),
    };
    let server = serve(answers, &[]).await;
    let running = Running::start(server.port(), None);
    let of_account = [
        "delinquent",
        "balance_sol vote",
        "stake_sol active",
        "stake_sol activating",
    ];
    let before = running.vote_facts(2).await;
    let readings = readings_of(&before, None);
    assert!(
        of_account.iter().all(|name| of(&readings, name).is_some()),
        "{readings:#?}"
    );
    has_account.store(false, Ordering::Relaxed);
    let after = running.vote_facts(before.rounds + 7).await;
    assert_eq!(after.vote_account, None);
    let readings = readings_of(&after, None);
    assert_eq!(of_account.map(|name| of(&readings, name)), [None; 4]);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_configured_vote_account_is_used_and_delinquency_reported() {
    let late = |request: &Value| match request["method"].as_str().unwrap() {
        "getVoteAccounts" => {
            json!({"current": [], "delinquent": [account(key("other"), key("n9"), 0)]})
        }
        _ => voting(request),
    };
    let server = serve(late, &[]).await;
    let running = Running::start(server.port(), Some(key("other")));
    let readings = readings_of(&running.vote_facts(1).await, None);
    assert_eq!(
        (
            of(&readings, "delinquent"),
            of(&readings, "vote_credits this_epoch")
        ),
        (Some(1.0), Some(0.0))
    );
    assert_eq!(
        of(&readings, "vote_credits_rank"),
        None,
        "nobody earned anything"
    );
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_method_that_is_not_offered_is_one_problem() {
    let server = serve(voting, &["getLeaderSchedule", "getBlockProduction"]).await;
    let running = Running::start(server.port(), None);
    let vote_facts = running.vote_facts(6).await;
    let problems = vote_facts.problems.iter().map(ToString::to_string);
    let problems: Vec<String> = problems
        .filter(|text| text.contains("getLeaderSchedule"))
        .collect();
    assert_eq!(problems.len(), 1, "{problems:?}");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_invalid_response_affects_only_its_request_and_responses_age() {
    let odd = |request: &Value| match request["method"].as_str().unwrap() {
        "getBalance" => json!({"value": -1}),
        "getGenesisHash" => json!("<script>"),
        "getLeaderSchedule" => Value::Null,
        _ => voting(request),
    };
    let server = serve(odd, &[]).await;
    let running = Running::start(server.port(), None);
    let vote_facts = running.vote_facts(1).await;
    let fresh = readings_of(&vote_facts, None);
    assert_eq!(
        (of(&fresh, "delinquent"), of(&fresh, "balance_sol identity")),
        (Some(0.0), None)
    );
    assert!(!fresh.iter().any(|(name, _)| name.contains("script")));
    let problems = vote_facts
        .problems
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ");
    assert!(
        problems.matches("getBalance: ").count() == 1 && !problems.contains("getVoteAccounts"),
        "{problems}"
    );
    let mut old = SourceOutput::default();
    let hour = Stamp {
        uptime: vote_facts.polled_at.uptime + Duration::from_secs(3_600),
        ..vote_facts.polled_at
    };
    vote_facts.add_readings(ReadingContext::default(), hour, &mut old);
    assert!(old.readings.is_empty(), "{old:?}");
    running.end().await;
}

/// Two vote accounts of the identity: one that votes, and an abandoned one with more stake.
fn moved(request: &Value) -> Value {
    let mut old = account(key("was"), IDENTITY, 10);
    old["activatedStake"] = 9_000_000_000_u64.into();
    old["lastVote"] = 1_000.into();
    match (
        request["method"].as_str(),
        request.pointer("/params/0/votePubkey"),
    ) {
        (Some("getVoteAccounts"), Some(account)) if *account == VOTE => voting(request),
        (Some("getVoteAccounts"), Some(_)) => json!({"current": [], "delinquent": [old]}),
        (Some("getVoteAccounts"), None) => {
            json!({"current": [account(VOTE, IDENTITY, 300)], "delinquent": [old]})
        }
        _ => voting(request),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_voting_account_is_chosen_unless_arguments_name_another() {
    for (argument, delinquent, stake) in [
        (None, 0.0, 2.5),
        (Some(key("was")), 1.0, 9.0),
        (Some(key("xe")), 0.0, 2.5),
    ] {
        let server = serve(moved, &[]).await;
        let running = Running::start_with(server.port(), None, argument);
        let readings = readings_of(&running.vote_facts(1).await, None);
        assert_eq!(
            of(&readings, "delinquent"),
            Some(delinquent),
            "{argument:?}"
        );
        assert_eq!(
            of(&readings, "stake_sol active"),
            Some(stake),
            "{argument:?}"
        );
        running.end().await;
    }
}

fn votes_sampler(handle: Handle) -> VotesSampler {
    VotesSampler {
        handle,
        rpc: rpc::Handle::default(),
        intake: Intake::new(&config::Datapoints::default()),
        near_tip_at_arrival: None,
        round_requested_for: None,
    }
}

#[test]
fn without_rounds_the_source_is_not_up() {
    let at = |seconds| Stamp {
        uptime: Duration::from_secs(seconds),
        ..Stamp::default()
    };
    let handle = Handle::default();
    handle.publish(&VoteFacts {
        process: ME,
        poll_interval: Duration::from_secs(60),
        polled_at: at(100),
        up: true,
        ..VoteFacts::default()
    });
    let mut sampler = votes_sampler(handle);
    let is_up = [101, 280, 281].map(|second| {
        let context = SampleContext {
            now: at(second),
            target: Some(&target(ME, None)),
            root: &HostRoot::default(),
            host: &crate::tests::host_constants(),
            boot_time: &Ok(0),
            process_state: &ProcessState::default(),
        };
        sampler.sample(&context).up
    });
    assert_eq!(is_up, [true, true, false]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn delinquency_and_distances_are_absent_when_the_node_is_far_behind() {
    let server = serve(voting, &[]).await;
    let running = Running::start(server.port(), None);
    let vote_facts = running.vote_facts(1).await;
    let reading_context = ReadingContext {
        was_far_behind_at_response: true,
        ..ReadingContext::default()
    };
    let readings = readings_from(&vote_facts, reading_context);
    let withheld = [
        "delinquent",
        "vote_distance_slots last_vote",
        "vote_distance_slots root",
    ];
    assert_eq!(withheld.map(|name| of(&readings, name)), [None; 3]);
    assert_eq!(of(&readings, "vote_slot last_vote"), Some(2_158.0));
    let mut votes = votes_sampler(running.handle.clone());
    assert!(votes.was_far_behind_at_response(&vote_facts, Some(false)));
    assert!(
        votes.was_far_behind_at_response(&vote_facts, Some(true)),
        "the answer is the same"
    );
    let mut later = vote_facts.clone();
    let own = vote_facts.own_account(vote_facts.polled_at).unwrap();
    later.own_account.set(
        own,
        Stamp {
            uptime: vote_facts.polled_at.uptime + Duration::from_secs(60),
            ..vote_facts.polled_at
        },
    );
    assert!(!votes.was_far_behind_at_response(&later, Some(true)));
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn only_a_missing_field_of_the_own_validator_is_reported() {
    let without = |of: &'static str| {
        move |request: &Value| {
            let mut answer = voting(request);
            let lists = ["/current/0", "/current/1", "/delinquent/0"];
            if request["method"] == "getVoteAccounts" {
                for entry in lists {
                    let Some(entry) = answer.pointer_mut(entry) else {
                        continue;
                    };
                    let is_own = entry["nodePubkey"] == IDENTITY;
                    if is_own == (of == "own") {
                        entry["commission"] = Value::Null;
                    }
                }
            }
            answer
        }
    };
    let server = serve(without("others"), &[]).await;
    let running = Running::start(server.port(), None);
    let vote_facts = running.vote_facts(1).await;
    let all = readings_of(&vote_facts, None);
    assert!(vote_facts.problems.is_empty(), "{:?}", vote_facts.problems);
    assert_eq!(of(&all, "vote_commission_ratio"), Some(0.07));
    assert_eq!(of(&all, "vote_credits_rank"), Some(2.0));
    running.end().await;
    let server = serve(without("own"), &[]).await;
    let running = Running::start(server.port(), None);
    let vote_facts = running.vote_facts(1).await;
    let all = readings_of(&vote_facts, None);
    assert_eq!(of(&all, "vote_commission_ratio"), None);
    assert_eq!(of(&all, "vote_credits this_epoch"), Some(300.0));
    let words: Vec<String> = vote_facts
        .problems
        .iter()
        .map(ToString::to_string)
        .collect();
    let expected =
        format!("broken: getVoteAccounts: vote account {VOTE} has no readable commission");
    assert_eq!(words, [expected]);
    running.end().await;
}

/// True for a request of all vote accounts, which takes a node the longest.
fn is_of_all(request: &Value) -> bool {
    request["method"] == "getVoteAccounts" && request.pointer("/params/0/votePubkey").is_none()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn without_a_response_voting_is_unknown_and_all_accounts_are_requeried() {
    let requests = AtomicUsize::new(0);
    let late = move |request: &Value| match is_of_all(request)
        && requests.fetch_add(1, Ordering::Relaxed) < 2
    {
        true => json!("busy"),
        false => voting(request),
    };
    let server = serve(late, &[]).await;
    let running = Running::start(server.port(), None);
    let first = running.vote_facts(1).await;
    assert!(
        first.rounds > 2 || (!first.up && first.cluster_votes.received_at().is_none()),
        "{first:?}"
    );
    let vote_facts = running.vote_facts(3).await;
    assert!(
        vote_facts.up && of(&readings_of(&vote_facts, None), "delinquent") == Some(0.0),
        "{:?}",
        vote_facts.problems
    );
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_configured_vote_account_is_requested_alone_and_reported_if_unknown() {
    let busy = |request: &Value| {
        if is_of_all(request) {
            json!("busy")
        } else {
            voting(request)
        }
    };
    let server = serve(busy, &[]).await;
    let running = Running::start(server.port(), VOTE.parse().ok());
    let vote_facts = running.vote_facts(1).await;
    assert!(
        vote_facts.up && of(&readings_of(&vote_facts, None), "delinquent") == Some(0.0),
        "{:?}",
        vote_facts.problems
    );
    running.end().await;
    let server = serve(voting, &[]).await;
    let running = Running::start(server.port(), Some(key("mistyped")));
    let vote_facts = running.vote_facts(1).await;
    let problems = vote_facts
        .problems
        .iter()
        .map(ToString::to_string)
        .collect::<String>();
    assert!(
        !vote_facts.up && problems.contains("knows no vote account Demo111"),
        "{problems}"
    );
    assert_eq!(
        vote_facts
            .own_account(vote_facts.polled_at)
            .map(|own| own.is_some()),
        Some(false)
    );
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_unknown_epoch_does_not_make_the_vote_account_unknown() {
    let no_epoch = |request: &Value| {
        if request["method"] == "getEpochInfo" {
            json!("busy")
        } else {
            voting(request)
        }
    };
    let server = serve(no_epoch, &[]).await;
    let running = Running::start(server.port(), None);
    let vote_facts = running.vote_facts(1).await;
    assert!(
        vote_facts.up && vote_facts.own_account.received_at().is_none(),
        "{vote_facts:?}"
    );
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn stake_accounts_are_scanned_only_at_tip_and_delayed_after_failures() {
    let scans = |server: &MockNode| {
        server
            .bodies()
            .iter()
            .filter(|body| body["method"] == "getProgramAccounts")
            .count()
    };
    let behind = |request: &Value| match request["method"].as_str() {
        Some("getMaxShredInsertSlot") => json!(9_000),
        _ => voting(request),
    };
    let server = serve_node(voting, behind, &[]).await;
    let running = Running::start(server.port(), None);
    running.vote_facts(4).await;
    assert_eq!(scans(&server), 0);
    running.end().await;
    let busy = |request: &Value| {
        if request["method"] == "getProgramAccounts" {
            json!(7)
        } else {
            voting(request)
        }
    };
    let server = serve(busy, &[]).await;
    let running = Running::start(server.port(), None);
    let vote_facts = running.vote_facts(35).await;
    assert_eq!(scans(&server), 1);
    assert!(
        vote_facts
            .stake_scan_due
            .is_some_and(|due| due > vote_facts.polled_at.uptime + Duration::from_secs(3_600))
    );
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_own_votes_are_published_before_slower_responses() {
    let result =
        |request: &Value| json!({"jsonrpc": "2.0", "id": request["id"], "result": voting(request)});
    let server = MockNode::start(move |_, body| match body.as_array() {
        Some(requests) => Reply::json(&requests.iter().map(result).collect::<Vec<_>>().into()),
        None if body["method"] == "getBalance" => Reply::Never,
        None => Reply::json(&result(body)),
    })
    .unwrap();
    let running = Running::start(server.port(), None);
    let mut facts = None;
    for _ in 0..2_000 {
        facts = running.handle.facts();
        if facts.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let facts = facts.expect("published facts");
    assert!(!facts.is_complete && facts.own_account(facts.polled_at).flatten().is_some());
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn both_publications_of_the_first_round_are_one_poll() {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    let server = serve(
        move |request| {
            if request["method"] == "getBalance" {
                released.lock().unwrap().recv().ok();
            }
            voting(request)
        },
        &[],
    )
    .await;
    let running = Running::start(server.port(), None);
    let early = loop {
        match running.handle.facts() {
            Some(facts) => break facts,
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    // Two balances are requested. The next round waits for its first one.
    (0..2).for_each(|_| release.send(()).unwrap());
    let complete = running.vote_facts(1).await;
    drop(release);
    running.end().await;
    assert!(!early.is_complete && complete.rounds == 1);
    assert_eq!(
        early.polled_at, complete.polled_at,
        "the sampler would count the problems twice"
    );
}

/// A vote account in epoch 5. In epoch 4, that of the migration, it earned credits, then lamports.
fn migrated(vote: impl Display, node: impl Display, tower: u64, lamports: [u64; 2]) -> Value {
    const M: u64 = u64::MAX;
    let [before, now] = lamports;
    let end = tower + before;
    json!({
        "activatedStake": 2_500_000_000_u64, "commission": 7, "epochCredits": [[4, tower, 0], [M, M, M], [4, end, tower], [5, end + now, end]],
        "epochVoteAccount": true, "lastVote": 2_158 - now % 10, "nodePubkey": node.to_string(), "rootSlot": 2_157 - now % 10, "votePubkey": vote.to_string()
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn after_the_migration_lamports_are_not_credits() {
    let answers = |request: &Value| match request["method"].as_str().unwrap() {
        "getVoteAccounts" => json!({"current": [
            migrated(VOTE, IDENTITY, 300, [7_000, 5_000_000_008]), migrated(key("v2"), key("n2"), 400, [8_000, 10_000_000_000])
        ], "delinquent": []}),
        _ => voting(request),
    };
    let server = serve(
        answers,
        &[
            "getAgGenesisCert",
            "getAccountInfo",
            "getBlockProduction",
            "getClusterNodes",
            "getProgramAccounts",
        ],
    )
    .await;
    let running = Running::start(server.port(), None);
    let vote_facts = running.vote_facts(2).await;
    let consensus = vote_facts.consensus().unwrap();
    assert_eq!(
        (consensus.protocol, consensus.sign),
        (Protocol::Alpenglow, Sign::CreditsMarker)
    );
    let problems: String = vote_facts
        .problems
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(
        !problems.contains("getAgGenesisCert") && !problems.contains("getAccountInfo"),
        "{problems}"
    );
    let readings = readings_with(
        &vote_facts,
        (Some(epoch_info(2_170)), true),
        Some(Protocol::Alpenglow),
    );
    for (name, value) in [
        ("vote_credits this_epoch", None),
        ("vote_credits previous_epoch", Some(300.0)),
        ("vote_credits_rank", None),
        ("vote_credits_of_best_ratio", None),
        ("vote_distance_slots last_vote", None),
        ("vote_distance_slots root", None),
        ("vote_slot last_vote", Some(2_150.0)),
        ("vote_slot root", None),
        ("vote_reward_lamports this_epoch", Some(5_000_000_008.0)),
        ("vote_reward_lamports previous_epoch", Some(7_000.0)),
        ("vote_reward_per_stake_of_best_ratio", Some(0.500_000_000_8)),
        ("certificate_distance_slots reward", Some(8.0)),
        ("certificate_distance_slots finalization", Some(8.0)),
    ] {
        assert_eq!(of(&readings, name), value, "{name}: {readings:#?}");
    }
    running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn with_unknown_consensus_credits_have_no_unit_until_the_gate_proves_tower() {
    let server = serve(voting, &["getAccountInfo"]).await;
    let running = Running::start(server.port(), None);
    let vote_facts = running.vote_facts(2).await;
    assert_eq!(
        vote_facts.consensus(),
        None,
        "a certificate of null is no proof"
    );
    let readings = readings_with(&vote_facts, (Some(epoch_info(2_170)), true), None);
    let credits = [
        "vote_credits this_epoch",
        "vote_credits_rank",
        "vote_reward_lamports this_epoch",
    ];
    assert_eq!(credits.map(|name| of(&readings, name)), [None; 3]);
    assert_eq!(of(&readings, "vote_distance_slots last_vote"), Some(2.0));
    running.end().await;
    let server = serve(voting, &["getAgGenesisCert"]).await;
    let running = Running::start(server.port(), None);
    let consensus = running.vote_facts(2).await.consensus().unwrap();
    assert_eq!(
        (consensus.protocol, consensus.sign),
        (Protocol::Tower, Sign::FeatureGate)
    );
    running.end().await;
}
