//! `bench nodes` on two different real nodes under load: a leader and the follower that replays its blocks, with their data folders. Writes
//! the output to `target/bench-real`.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot prepare its scene fails"
)]

use clap::Parser;
use faultline_bench::args::BenchArgs;
use faultline_testkit::{
    Result,
    binaries::{Binaries, SKIP_MESSAGE},
    cluster::{Cluster, ClusterOptions},
    eventually::{Condition, wait_for},
    load::Load,
    rpc::Rpc,
};
use serde_json::{Value, json};
use std::{fs, path::Path, time::Duration};

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: BenchArgs,
}

/// The output of `faultline bench` and its exit code.
fn bench(words: &[&str], saved: &str) -> (String, u8) {
    let cli = Cli::try_parse_from(["bench"].iter().chain(words)).expect("good words");
    let (output, code) = faultline_bench::run(&cli.args).expect("results");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench-real");
    fs::create_dir_all(&folder).expect("target");
    fs::write(folder.join(saved), &output).expect("target");
    (output, code)
}

fn wait_for_common_blocks(rpcs: &[Rpc]) -> Result<()> {
    wait_for(
        Duration::from_secs(180),
        "finalized blocks that both have",
        || {
            let blocks = rpcs.iter().map(|rpc| {
                let first = rpc
                    .call("getFirstAvailableBlock", json!([]))?
                    .as_u64()
                    .unwrap_or(u64::MAX);
                let last = rpc
                    .call("getSlot", json!([{"commitment": "finalized"}]))?
                    .as_u64()
                    .unwrap_or(0);
                Ok(last.saturating_sub(first))
            });
            let blocks = blocks.collect::<Result<Vec<u64>>>()?;
            let enough = blocks.iter().all(|blocks| *blocks > 60);
            Ok(if enough {
                Condition::Ready(())
            } else {
                Condition::NotYet(format!("{blocks:?}"))
            })
        },
    )
}

fn the_blockstore_is_sized_by_level(disk: &Value) {
    assert!(
        disk["total"]["bytes"].as_u64().expect("a size") > 1 << 20,
        "{disk}"
    );
    let blocks = disk["databases"]
        .as_array()
        .unwrap()
        .iter()
        .find(|of| of["path"] == "rocksdb")
        .expect("a blockstore");
    assert!(
        blocks["engine"].as_str().unwrap().starts_with("RocksDB "),
        "{blocks}"
    );
    let of = |part: &Value| part["name"] == "in no level" || part["level"].is_u64();
    assert!(
        blocks["parts"].as_array().unwrap().iter().all(of),
        "{blocks}"
    );
}

#[test]
fn leader_and_follower_responses_match_and_ledgers_are_sized_by_level() -> Result<()> {
    if Binaries::find().is_none() {
        println!("{SKIP_MESSAGE}");
        return Ok(());
    }
    let options = ClusterOptions {
        programs: 16,
        ports_base: 24_000,
        // The leader is a solana-test-validator, which keeps both.
        follower_arguments: [
            "--enable-rpc-transaction-history",
            "--enable-extended-tx-metadata-storage",
        ]
        .map(str::to_owned)
        .into(),
        ..ClusterOptions::default()
    };
    let cluster = Cluster::start(options)?;
    let rpcs = [cluster.leader_rpc(), cluster.follower_rpc()];
    let load = Load::start(rpcs[0].address(), 200, 16)?;
    wait_for_common_blocks(&rpcs)?;
    let urls = rpcs
        .each_ref()
        .map(|rpc| format!("http://{}", rpc.address()));
    let saved = tempfile::tempdir().expect("a temporary folder");
    let [file, page] =
        ["run.flb", "page.html"].map(|name| saved.path().join(name).display().to_string());
    let [leader, follower] =
        [cluster.leader_ledger(), cluster.follower_ledger()].map(|path| path.display().to_string());
    let words = [
        "nodes", &urls[0], &urls[1], "--rounds", "1000", "--data", &leader, "--data", &follower,
        "--out", &file,
    ];
    let (output, code) = bench(&words, "nodes-cluster.txt");
    load.stop();
    assert_eq!(code, 0, "{output}");
    for expected in [
        "=== getBlock ===",
        "=== all methods together ===",
        "Averages by the order",
        "equal to the reference's in all",
    ] {
        assert!(output.contains(expected), "{expected}: {output}");
    }
    let json: Value = serde_json::from_str(
        &bench(&["report", &file, "--format", "json"], "nodes-cluster.json").0,
    )
    .expect("JSON");
    for disk in json["run"]["disks"].as_array().expect("two folders") {
        the_blockstore_is_sized_by_level(disk);
    }
    bench(
        &["report", &file, "--html", &page],
        "nodes-cluster-page.txt",
    );
    let target =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench-real/nodes-cluster.html");
    fs::copy(&page, target).expect("target");
    Ok(())
}
