//! Solana nodes of a chain that began a few slots ago. The second node is three slots ahead.

use crate::{
    bench,
    mock_node::{Answer, start},
};
use serde_json::json;

fn node(newest: u64) -> String {
    start(move |method, params| -> Answer {
        Ok(match method {
            "getSlot" => json!(newest),
            "getFirstAvailableBlock" => json!(0),
            "getVersion" => json!({"solana-core": "3.0.0"}),
            "getGenesisHash" => json!("genesis"),
            "getBlock" => json!({"blockhash": "hash"}),
            "getBlockTime" => json!(1_700_000_000),
            "getBlocksWithLimit" => {
                let [first, limit] = [0, 1].map(|index| params[index].as_u64().unwrap());
                json!(Vec::from_iter(first..(first + limit).min(newest + 1)))
            }
            _ => return Err((-32601, "Method not found")),
        })
    })
}

fn compare(newest: u64, more: &[&str]) -> anyhow::Result<(String, u8)> {
    let nodes = [node(newest), node(newest + 3)];
    let words = ["nodes", &nodes[0], &nodes[1], "--rounds", "30", "--methods"];
    bench(&[&words, more].concat())
}

#[test]
fn blocks_that_are_not_final_are_never_compared() {
    let left_out = "getBlocksWithLimit is left out: no slot of the range is at least 150 below 60, the newest finalized slot that all nodes have; repeat it later, or with earlier --slots";
    let (output, code) = compare(60, &["getBlockTime,getBlocksWithLimit"]).unwrap();
    assert!(code == 0 && output.contains(left_out), "{output}");
    assert!(!output.contains("=== getBlocksWithLimit ==="), "{output}");
    let alone = compare(60, &["getBlocksWithLimit"])
        .unwrap_err()
        .to_string();
    assert_eq!(alone, format!("nothing was measured: {left_out}"));
    for slots in [&[][..], &["--slots", "0:5"], &["--slots", "40:5000"]] {
        let (output, code) = compare(200, &[&["getBlocksWithLimit"], slots].concat()).unwrap();
        let measured = "=== getBlocksWithLimit ===";
        assert!(
            code == 0 && output.contains(measured),
            "{slots:?}: {output}"
        );
    }
}
