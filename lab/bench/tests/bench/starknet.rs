//! The two methods of the study of nodes, against mock nodes. `fixtures/starknet` has their answers.

use crate::{
    bench,
    mock_node::{Answer, start},
};
use serde_json::{Value, json};
use std::{sync::Arc, thread, time::Duration};

const NOT_FOUND: Answer = Err((24, "Block not found"));
/// The answer of a node with a later specification to positional parameters.
const WRONG: Answer = Err((
    -32602,
    "invalid length 1, expected struct BlockParams with 2 elements",
));

/// Differences between the software of two nodes, and errors of a node.
#[derive(Clone, Copy)]
struct Software {
    status: &'static str,
    /// Value of `continuation_token`.
    token: &'static str,
    blocks_take: Duration,
    events_take: Duration,
    /// Number of a block with a wrong time.
    wrong: Option<u64>,
    behind: u64,
    genesis: &'static str,
}

const JUNO: Software = Software {
    status: "ACCEPTED_ON_L1",
    token: "7-3",
    blocks_take: Duration::from_millis(1),
    events_take: Duration::from_millis(21),
    wrong: None,
    behind: 0,
    genesis: "0x0abc",
};
const PATHFINDER: Software = Software {
    status: "ACCEPTED_ON_L2",
    token: "10",
    blocks_take: Duration::from_millis(21),
    events_take: Duration::from_millis(1),
    // The same number as that of JUNO.
    genesis: "0xABC",
    ..JUNO
};

fn node(software: Software) -> String {
    let known: Value =
        serde_json::from_str(include_str!("../fixtures/starknet/answers.json")).unwrap();
    let known = Arc::new(known);
    start(move |method, params| answer(&known, software, method, params))
}

fn answer(known: &Value, software: Software, method: &str, params: &Value) -> Answer {
    let number = |of: &Value| of["block_number"].as_u64();
    match method {
        "starknet_specVersion" => Ok(known[method].clone()),
        "starknet_blockHashAndNumber" => {
            let mut head = known[method].clone();
            head["block_number"] = json!(number(&head).unwrap() - software.behind);
            Ok(head)
        }
        "starknet_getBlockWithTxHashes" => {
            let block = number(&params["block_id"]).unwrap();
            let hash = match block {
                0 => software.genesis.to_owned(),
                block => format!("0x{block:064x}"),
            };
            Ok(json!({"block_hash": hash, "block_number": block}))
        }
        "starknet_getBlockWithTxs" => {
            let Some(requested) = number(&params["block_id"]) else {
                return WRONG;
            };
            thread::sleep(software.blocks_take);
            let mut block = known[method][requested.to_string()].clone();
            if block.is_null() {
                return NOT_FOUND;
            }
            block["status"] = json!(software.status);
            if software.wrong == Some(requested) {
                block["timestamp"] = json!(1);
            }
            Ok(block)
        }
        "starknet_getEvents" => {
            let filter = &params["filter"];
            let (from, to, chunk) = (
                number(&filter["from_block"]),
                number(&filter["to_block"]),
                filter["chunk_size"].as_u64(),
            );
            let (Some(from), Some(to), Some(chunk)) = (from, to, chunk) else {
                return WRONG;
            };
            thread::sleep(software.events_take);
            let within = |event: &&Value| (from..=to).contains(&number(event).unwrap());
            let events: Vec<&Value> = known["events"]
                .as_array()
                .unwrap()
                .iter()
                .filter(within)
                .collect();
            let some: Vec<&Value> = events.iter().take(chunk as usize).copied().collect();
            let mut result = json!({"events": some});
            if some.len() < events.len() {
                result["continuation_token"] = json!(software.token);
            }
            Ok(result)
        }
        _ => Err((-32601, "Method not found")),
    }
}

#[test]
fn two_nodes_are_compared_and_each_method_routed_to_the_faster() {
    let (juno, pathfinder) = (node(JUNO), node(PATHFINDER));
    let words = [
        "nodes",
        &juno,
        &pathfinder,
        "--chain",
        "starknet",
        "--rounds",
        "60",
        "--warm-up",
        "2",
    ];
    let (output, code) = bench(&words).unwrap();
    assert_eq!(code, 0, "{output}");
    for method in [
        "starknet_getBlockWithTxs",
        "starknet_getEvents",
        "all methods together",
    ] {
        let part = output
            .split(&format!("=== {method} ==="))
            .nth(1)
            .expect(method);
        let requests = if method == "all methods together" {
            120
        } else {
            60
        };
        assert!(
            part.contains(&format!("Total time for {requests} requests to {juno}: ")),
            "{output}"
        );
        assert!(part.contains("Averages by the order"), "{output}");
    }
    // Each node is 20 ms faster for one of the methods.
    assert!(
        output.contains(&format!(
            "Send starknet_getBlockWithTxs to {juno}, which saves "
        )),
        "{output}"
    );
    assert!(
        output.contains(&format!(
            "Send starknet_getEvents to {pathfinder}, which saves "
        )),
        "{output}"
    );
    for note in [
        "version 0.8.1, block 11, 0 behind the newest",
        "all nodes have the genesis 0xabc",
        "all nodes have the block 11 with the hash 0xb",
    ] {
        assert!(output.contains(note), "{note}: {output}");
    }
    // The answers differ only in fields in which nodes may differ.
    assert!(
        output.contains(&format!(
            "Answers of {pathfinder}: equal to the reference's in all 124 comparisons"
        )),
        "{output}"
    );
}

#[test]
fn differing_responses_are_listed_and_a_node_far_behind_is_refused() {
    let (juno, wrong) = (
        node(JUNO),
        node(Software {
            wrong: Some(4),
            ..PATHFINDER
        }),
    );
    let words = [
        "nodes",
        &juno,
        &wrong,
        "--chain",
        "starknet",
        "--rounds",
        "60",
        "--methods",
        "starknet_getBlockWithTxs",
    ];
    let (output, code) = bench(&words).unwrap();
    assert_eq!(code, 1, "{output}");
    let listed =
        r#""params":{"block_id":{"block_number":4}}: timestamp is 1 instead of 1700000120"#;
    assert!(
        output.contains(&format!("  {wrong}, ")) && output.contains(listed),
        "{output}"
    );
    let late = node(Software {
        behind: 11,
        ..PATHFINDER
    });
    let refused = bench(&["nodes", &juno, &late, "--chain", "starknet"])
        .unwrap_err()
        .to_string();
    assert!(refused.contains("is 11 blocks behind"), "{refused}");
}

#[test]
fn nodes_of_different_chains_are_not_compared() {
    let other = Software {
        genesis: "0xdef",
        ..PATHFINDER
    };
    let (juno, other) = (node(JUNO), node(other));
    let refused = bench(&["nodes", &juno, &other, "--chain", "starknet"]).unwrap_err();
    let expected = format!(
        "{juno} and {other} are of different chains, so nothing was measured: \
         starknet_getBlockWithTxHashes for block 0 gives 0xabc and 0xdef"
    );
    assert_eq!(refused.to_string(), expected);
}

#[test]
fn nodes_whose_blocks_differ_are_not_compared() {
    let block = |hash: &'static str| {
        start(move |method, _| match method {
            "getSlot" => Ok(json!(100)),
            "getFirstAvailableBlock" => Ok(json!(1)),
            "getVersion" => Ok(json!({"solana-core": "2.1.14"})),
            "getGenesisHash" => Ok(json!("genesis")),
            "getBlock" => Ok(json!({"blockhash": hash})),
            _ => Err((-32601, "Method not found")),
        })
    };
    let (one, other) = (block("one"), block("other"));
    let refused = bench(&["nodes", &one, &other]).unwrap_err().to_string();
    assert!(
        refused.contains("are of different chains") && refused.contains("getBlock for block 100"),
        "{refused}"
    );
}
