//! What a mock of Alpenglow answers has the keys and types of what the release's own code wrote.

#![allow(
    clippy::expect_used,
    reason = "a test that cannot read its fixtures fails"
)]

use faultline_agave::rpc::{CreditUnit, VoteAccounts};
use faultline_mock_validator::{GENESIS_SLOT, NodeState, Protocol};
use serde_json::{Map, Value, json};
use std::{collections::BTreeSet, path::Path, time::Duration};

const IDENTITY: &str = "DemoFauLtLine1111111111111111111111111111111";
const SLOTS_IN_EPOCH: u64 = 432_000;

fn node(slot: u64, behind: u64) -> NodeState {
    NodeState {
        protocol: Protocol::Alpenglow,
        slot_time: Duration::from_millis(200),
        identity: IDENTITY.to_owned(),
        rpc_address: Some("127.0.0.1:8899".to_owned()),
        started: Duration::ZERO,
        is_running: true,
        progress: json!("Running"),
        slot,
        tip: slot + behind,
        transactions: 7,
        voters: 6,
    }
}

fn fixture(file: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/fixtures/alpenglow");
    let text = std::fs::read_to_string(folder.join(file)).expect(file);
    serde_json::from_str(&text).expect(file)
}

/// Keys and types. An array has one shape for each of its elements' shapes; one of numbers also has its length, but for the
/// bitmap, whose length depends on the cluster. Keys that are addresses count as one.
fn shape(value: &Value) -> Value {
    match value {
        Value::Null => json!("null"),
        Value::Bool(_) => json!("bool"),
        Value::Number(number) if number.is_u64() => json!("whole"),
        Value::Number(_) => json!("real"),
        Value::String(_) => json!("text"),
        Value::Array(all) if !all.is_empty() && all.iter().all(Value::is_number) => {
            json!(format!("{} numbers", all.len()))
        }
        Value::Array(all) => {
            let shapes: BTreeSet<String> = all.iter().map(|one| shape(one).to_string()).collect();
            json!(shapes)
        }
        Value::Object(fields) => {
            let name = |key: &str| match key {
                _ if key.len() >= 32 && !key.contains('_') => "address".to_owned(),
                _ => key.to_owned(),
            };
            let mut shapes: Map<String, Value> = { fields.iter() }
                .map(|(key, value)| (name(key), shape(value)))
                .collect();
            if shapes.contains_key("bitmap") {
                shapes.insert("bitmap".to_owned(), json!("numbers"));
            }
            Value::Object(shapes)
        }
    }
}

fn answer(node: &NodeState, method: &str, params: &Value) -> Value {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    serde_json::from_str(&node.answer_http(request.to_string().as_bytes())).expect(method)
}

#[test]
fn mock_responses_have_the_releases_keys_and_types() {
    let vote_accounts = answer(&node(GENESIS_SLOT + 9, 0), "getVoteAccounts", &json!([]));
    let vote_account = &vote_accounts["result"]["current"][5]["votePubkey"];
    for (phase, slot) in [
        ("migration-epoch", GENESIS_SLOT + 100_000),
        ("next-epoch", 2 * SLOTS_IN_EPOCH + 100_000),
        ("later", 9 * SLOTS_IN_EPOCH + 100_000),
    ] {
        for (file, method, params) in [
            ("getAgGenesisCert", "getAgGenesisCert", json!([])),
            ("getBalance-identity", "getBalance", json!([IDENTITY])),
            (
                "getBalance-vote-account",
                "getBalance",
                json!([vote_account]),
            ),
            ("getBlockProduction", "getBlockProduction", json!([])),
            ("getEpochInfo", "getEpochInfo", json!([])),
            ("getGenesisHash", "getGenesisHash", json!([])),
            ("getHealth", "getHealth", json!([])),
            ("getIdentity", "getIdentity", json!([])),
            (
                "getSlot-processed",
                "getSlot",
                json!([{"commitment": "processed"}]),
            ),
            (
                "getSlot-confirmed",
                "getSlot",
                json!([{"commitment": "confirmed"}]),
            ),
            ("getSlot-finalized", "getSlot", json!([])),
            ("getVersion", "getVersion", json!([])),
        ] {
            let expected = shape(&fixture(&format!("{phase}/{file}.json")));
            let found = shape(&answer(&node(slot, 0), method, &params));
            assert_eq!(found, expected, "{phase}: {file}");
        }
        let mut expected = fixture(&format!("{phase}/getVoteAccounts.json"));
        let found = answer(&node(slot, 0), "getVoteAccounts", &json!([]));
        // The mock has no delinquent validator.
        expected["result"]["delinquent"] = json!([]);
        assert_eq!(shape(&found), shape(&expected), "{phase}");
    }
}

#[test]
fn mock_validator_responses_match_the_real_release() {
    let slot = 2 * SLOTS_IN_EPOCH;
    let health = answer(&node(slot, 841), "getHealth", &json!([]));
    assert_eq!(health, fixture("variants/getHealth-behind.json"));
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "validatorAdmissionTicketStatus"});
    for (voters, file) in [(6, "admitted"), (0, "without-vote-account")] {
        let node = NodeState {
            voters,
            ..node(slot, 0)
        };
        let answer: Value = serde_json::from_str(&node.answer_admin(&request)).expect("JSON");
        let expected = fixture(&format!("admin/validatorAdmissionTicketStatus-{file}.json"));
        assert_eq!(shape(&answer), shape(&expected), "{file}");
    }
}

#[test]
fn mock_votes_and_commitment_follow_the_processed_slot_like_the_release() {
    let later = fixture("later/getVoteAccounts.json");
    let processed = fixture("later/getSlot-processed.json")["result"]
        .as_u64()
        .expect("a slot");
    let distances = |accounts: &Value, processed: u64| {
        let current = accounts["result"]["current"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let of = |key: &str| -> BTreeSet<u64> {
            let slots = current.iter().filter_map(|account| account[key].as_u64());
            slots
                .map(|slot| processed - slot)
                .filter(|distance| *distance < 4)
                .collect()
        };
        (of("lastVote"), of("rootSlot"))
    };
    let slot = 2 * SLOTS_IN_EPOCH;
    let found = answer(&node(slot, 0), "getVoteAccounts", &json!([]));
    assert_eq!(distances(&found, slot), distances(&later, processed));
    for commitment in ["confirmed", "finalized"] {
        let params = json!([{"commitment": commitment}]);
        let expected = fixture(&format!("later/getSlot-{commitment}.json"))["result"].clone();
        let found = answer(&node(processed, 0), "getSlot", &params)["result"].clone();
        assert_eq!(found, expected, "{commitment}");
    }
}

/// As the migration ages, its marker moves through the five entries of an answer and leaves it.
#[test]
fn rewards_of_an_epoch_stay_the_same_while_the_marker_ages() {
    let migration = GENESIS_SLOT / SLOTS_IN_EPOCH;
    let mut marked = Vec::new();
    let mut whole = Vec::new();
    for epoch in migration..migration + 7 {
        let node = node(epoch * SLOTS_IN_EPOCH + 100_000, 0);
        let answer = answer(&node, "getVoteAccounts", &json!([]))["result"].to_string();
        let accounts: VoteAccounts = serde_json::from_str(&answer).expect("vote accounts");
        let identity = IDENTITY.parse().expect("a key");
        let all = accounts.all();
        let (own, _) = all
            .filter(|(account, _)| account.node_pubkey == Some(identity))
            .last()
            .expect("the own account");
        let unit = CreditUnit::Lamports {
            migration_epoch: own.migration_epoch(),
        };
        marked.push(own.migration_epoch());
        assert!(own.reward_lamports(epoch, unit) > Some(0), "{epoch}");
        assert_eq!(own.credits(epoch, unit).is_some(), epoch == migration);
        whole.extend((epoch > migration + 1).then(|| own.reward_lamports(epoch - 1, unit)));
    }
    assert_eq!(marked[..4], [Some(migration); 4]);
    assert_eq!(marked[4..], [None; 3]);
    // A lamport is lost where sums are rounded.
    let lamports: Vec<u64> = whole.into_iter().flatten().collect();
    assert_eq!(lamports.len(), 5);
    let differs = |pair: &[u64]| pair[0].abs_diff(pair[1]) > 2_000;
    assert!(!lamports.windows(2).any(differs), "{lamports:?}");
}
