//! `bench nodes` against two real Starknet nodes of `starknet-devnet`. Writes the output to `target/bench-real`.

#![allow(
    clippy::expect_used,
    reason = "a test that cannot prepare its scene fails"
)]

use clap::Parser;
use faultline_bench::args::BenchArgs;
use faultline_testkit::{
    Result,
    binaries::{NO_STARKNET_MESSAGE, starknet_devnet},
    eventually::{Condition, wait_for},
    ports::PortBlock,
    process::{Program, Running},
    rpc::Rpc,
};
use serde_json::json;
use std::{fs, net::SocketAddr, path::Path, time::Duration};

const DEADLINE: Duration = Duration::from_secs(120);

/// Number of blocks that the first node makes. Each has a transaction with events.
const BLOCKS: u64 = 40;

/// Fields are dropped in this order.
struct Node {
    _running: Running,
    http: SocketAddr,
    url: String,
}

fn start(program: &Path, port: u16, folder: &Path, more: &[&str]) -> Result<Node> {
    let http = SocketAddr::from(([127, 0, 0, 1], port));
    let text = port.to_string();
    let arguments = [
        "--host",
        "127.0.0.1",
        "--port",
        &text,
        "--seed",
        "1",
        "--accounts",
        "1",
    ];
    let mut running = Running::start(&Program {
        path: program.to_owned(),
        arguments: [&arguments, more]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect(),
        environment: Vec::new(),
        output: folder.join(format!("{port}.out")),
    })?;
    wait_for(DEADLINE, "starknet-devnet answers", || {
        running.check()?;
        let requested = Rpc::new(http).call("starknet_blockNumber", json!([]));
        Ok(requested.map_or_else(
            |error| Condition::NotYet(error.to_string()),
            |_| Condition::Ready(()),
        ))
    })?;
    Ok(Node {
        _running: running,
        http,
        url: format!("http://{http}"),
    })
}

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: BenchArgs,
}

#[test]
#[ignore = "asks real nodes; part of .ci/run --long"]
fn the_studys_two_loads_run_on_two_real_nodes_with_equal_responses() -> Result<()> {
    let Some(program) = starknet_devnet() else {
        eprintln!("{NO_STARKNET_MESSAGE}");
        return Ok(());
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ports = PortBlock::claim(20_000)?;
    let archive = ["--state-archive-capacity", "full"];
    let first = start(&program, ports.port(20), folder.path(), &archive)?;
    let rpc = Rpc::new(first.http);
    for block in 0..BLOCKS {
        rpc.call(
            "devnet_mint",
            json!({"address": format!("0x{:x}", block + 1), "amount": 1000}),
        )?;
        rpc.call("devnet_createBlock", json!([]))?;
    }
    let fork = [&archive[..], &["--fork-network", &first.url]].concat();
    let second = start(&program, ports.port(21), folder.path(), &fork)?;
    let words = [
        "bench",
        "nodes",
        &first.url,
        &second.url,
        "--chain",
        "starknet",
        "--rounds",
        "200",
        "--warm-up",
        "5",
    ];
    let cli = Cli::try_parse_from(words).expect("good words");
    let (printed, code) = faultline_bench::run(&cli.args).expect("results");
    let saved = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench-real");
    fs::create_dir_all(&saved).expect("target");
    fs::write(saved.join("starknet.txt"), &printed).expect("target");
    assert_eq!(code, 0, "{printed}");
    for line in [
        "=== starknet_getBlockWithTxs ===".to_owned(),
        "=== starknet_getEvents ===".to_owned(),
        "all nodes have the genesis 0x".to_owned(),
        format!(
            "Answers of {}: equal to the reference's in all 410 comparisons",
            second.url
        ),
    ] {
        assert!(printed.contains(&line), "{line}: {printed}");
    }
    Ok(())
}
