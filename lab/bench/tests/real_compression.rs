//! `bench compression` over the blocks of a real leader under load. Writes the output to `target/bench-real`.

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
fn bench(words: &[&str], saved_as: &str) -> anyhow::Result<(String, u8)> {
    let cli = Cli::try_parse_from(["bench"].iter().chain(words)).expect("good words");
    let (output, code) = faultline_bench::run(&cli.args)?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench-real");
    fs::create_dir_all(&folder).expect("target");
    fs::write(folder.join(saved_as), &output).expect("target");
    Ok((output, code))
}

/// A leader that gets little CPU time puts them into few blocks.
fn wait_for_transactions(rpc: &Rpc) -> Result<()> {
    wait_for(
        Duration::from_secs(120),
        "finalized transactions in blocks enough",
        || {
            let finalized = |method: &str| rpc.call(method, json!([{"commitment": "finalized"}]));
            let (transactions, slot) = (finalized("getTransactionCount")?, finalized("getSlot")?);
            let enough = transactions.as_u64().is_some_and(|count| count > 800)
                && slot.as_u64().is_some_and(|slot| slot > 40);
            Ok(if enough {
                Condition::Ready(())
            } else {
                Condition::NotYet(format!("{transactions} by slot {slot}"))
            })
        },
    )
}

fn transactions_are_compressed(url: &str, saved_as: &str) {
    let words = [
        "compression",
        url,
        "--pace",
        "0ms",
        "--records",
        "600",
        "--save",
        saved_as,
        "--dictionary",
        "8K",
    ];
    let more = [
        "--codecs",
        "zlib,zstd,zstd-3+dict,lz4,snappy,lzo",
        "--fetch",
        "100",
        "--latencies",
        "0,5ms",
        "--repeats",
        "1",
    ];
    let words: Vec<&str> = words.iter().chain(&more).copied().collect();
    let (output, code) = bench(&words, "compression.txt").expect("results");
    assert_eq!(code, 0, "{output}");
    let first: Vec<&str> = output.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(
        first,
        ["range", "ubytes", "cbytes", "cmp_ratio%", "datapoints"]
    );
    assert!(
        output.contains("600 records, 300 measured") && output.contains("txcount:50"),
        "{output}"
    );
}

/// Reads the saved records and compares their number with the leader's count.
fn saved_transactions_are_the_same(saved_as: &str) {
    let saved = fs::read_to_string(saved_as).expect("what was saved");
    assert_eq!(saved.lines().count(), 600);
    let again = [
        "compression",
        "--files",
        saved_as,
        "--codecs",
        "zlib",
        "--fetch",
        "0",
        "--format",
        "json",
    ];
    let json: Value =
        serde_json::from_str(&bench(&again, "again.json").expect("results").0).expect("JSON");
    let all = json["classes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["range"] == "all")
        .unwrap();
    assert_eq!(all["datapoints"], 600);
    let bytes: usize = saved
        .lines()
        .map(|line| line.trim_end_matches('=').len() * 3 / 4)
        .sum();
    assert!(
        (all["ubytes"].as_f64().unwrap() - bytes as f64 / 600.0).abs() < 1e-6,
        "{all}"
    );
}

fn blocks_are_compressed(url: &str, saved_as: &str) {
    let words = [
        "compression",
        url,
        "--kind",
        "blocks",
        "--pace",
        "0ms",
        "--records",
        "12",
        "--save",
        saved_as,
    ];
    let more = [
        "--codecs",
        "zlib,zstd",
        "--latencies",
        "0",
        "--repeats",
        "1",
        "--format",
        "json",
    ];
    let words: Vec<&str> = words.iter().chain(&more).copied().collect();
    let json: Value =
        serde_json::from_str(&bench(&words, "blocks.json").expect("results").0).expect("JSON");
    // Each block is JSON, and its transactions have much in common.
    assert!(
        json["classes"][0]["cmp_ratio"].as_f64().unwrap() > 30.0,
        "{json}"
    );
    assert_eq!(json["fetch"]["records"], 12);
}

#[test]
fn the_studys_compression_tables_are_produced_from_real_blocks() -> Result<()> {
    if Binaries::find().is_none() {
        println!("{SKIP_MESSAGE}");
        return Ok(());
    }
    let options = ClusterOptions {
        programs: 8,
        ports_base: 22_000,
        ..ClusterOptions::default()
    };
    let cluster = Cluster::start_leader(options)?;
    let rpc = cluster.leader_rpc();
    let load = Load::start(rpc.address(), 200, 8)?;
    wait_for_transactions(&rpc)?;
    load.stop();
    let url = format!("http://{}", rpc.address());
    let saved_as = tempfile::tempdir().expect("a temporary folder");
    let [transactions, blocks] = ["transactions.b64", "blocks.b64"]
        .map(|name| saved_as.path().join(name).display().to_string());

    transactions_are_compressed(&url, &transactions);
    saved_transactions_are_the_same(&transactions);
    blocks_are_compressed(&url, &blocks);
    Ok(())
}
