//! `bench` against a real development chain of geth (`scripts/install-geth`). Writes the output to `target/bench-real`.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot prepare its scene fails"
)]

use clap::Parser;
use faultline_bench::args::BenchArgs;
use faultline_testkit::{
    Result,
    binaries::{NO_GETH_MESSAGE, geth},
    eventually::{Condition, wait_for},
    ports::PortBlock,
    process::{Program, Running, signal},
    rpc::Rpc,
};
use serde_json::{Value, json};
use std::{fs, net::SocketAddr, path::Path, time::Duration};

/// By `bench transport` in 40 rounds and one of warm-up, over one transport.
const WRITES: u64 = 41 * 31;
const PATIENCE: Duration = Duration::from_secs(60);

/// A node that answers over HTTP and WebSocket. Fields are dropped in this order.
struct Node {
    running: Running,
    http: SocketAddr,
    url: String,
    websocket: String,
    _ports: PortBlock,
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Starts geth with a data folder. `more` has the options that select the chain.
fn start(program: &Path, data: &Path, more: &[&str]) -> Result<Node> {
    let ports = PortBlock::claim(20_000)?;
    let mut set = words(&["--nodiscover", "--ipcdisable", "--http", "--ws"]);
    set.extend(words(more));
    let mut named = |name: &str, value: String| set.extend([format!("--{name}"), value]);
    named("datadir", data.display().to_string());
    named("http.port", ports.port(10).to_string());
    named("ws.port", ports.port(11).to_string());
    named("authrpc.port", ports.port(12).to_string());
    named("port", "0".to_owned());
    named("maxpeers", "0".to_owned());
    named("verbosity", "2".to_owned());
    let output = data.with_extension("out");
    let program = Program {
        path: program.to_owned(),
        arguments: set,
        environment: Vec::new(),
        output,
    };
    let mut running = Running::start(&program)?;
    let http = SocketAddr::from(([127, 0, 0, 1], ports.port(10)));
    wait_for(PATIENCE, "geth answers", || {
        running.check()?;
        let requested = Rpc::new(http).call("eth_blockNumber", json!([]));
        Ok(requested.map_or_else(
            |error| Condition::NotYet(error.to_string()),
            |_| Condition::Ready(()),
        ))
    })?;
    let (url, websocket) = (
        format!("http://{http}"),
        format!("ws://127.0.0.1:{}", ports.port(11)),
    );
    Ok(Node {
        running,
        http,
        url,
        websocket,
        _ports: ports,
    })
}

/// Waits until a program ends with success.
fn ended(running: &mut Running) -> Result<()> {
    wait_for(PATIENCE, "geth ends", || {
        Ok(running
            .exit_status()?
            .map_or(Condition::NotYet("not yet".to_owned()), Condition::Ready))
    })
    .map(|status| assert!(status.success(), "{status}"))
}

/// The output of a command of geth.
fn geth_prints(program: &Path, data: &Path, command: &[&str]) -> Result<String> {
    let mut arguments = vec![
        "--datadir".to_owned(),
        data.display().to_string(),
        "--verbosity".to_owned(),
        "1".to_owned(),
    ];
    arguments.extend(words(command));
    let output = data.with_extension(format!("{}.out", command[0].trim_start_matches('-')));
    let of = Program {
        path: program.to_owned(),
        arguments,
        environment: Vec::new(),
        output: output.clone(),
    };
    ended(&mut Running::start(&of)?)?;
    Ok(fs::read_to_string(output).expect("what geth printed"))
}

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: BenchArgs,
}

/// The output of `faultline bench` and its exit code.
fn bench(words: &[&str], saved: &str) -> (String, u8) {
    let cli = Cli::try_parse_from(["bench"].iter().chain(words)).expect("good words");
    let (said, code) = faultline_bench::run(&cli.args).expect("results");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench-real");
    fs::create_dir_all(&folder).expect("target");
    fs::write(folder.join(saved), &said).expect("target");
    (said, code)
}

/// A plan sends a mix of requests for blocks over HTTP and a WebSocket. The answers are equal.
fn planned(node: &Node, folder: &Path) {
    let arm = |name: &str, url: &str| {
        format!("[[arm]]\nname = {name:?}\nurl = {url:?}\ntransport = {name:?}\n")
    };
    let arms = [
        arm("http", &node.url),
        arm("http-new", &node.url),
        arm("websocket", &node.websocket),
    ]
    .concat();
    let requests = r#"
[[value]]
name = "block"
from = 1
to = 1000
hex = true
[[request]]
method = "eth_getBlockByNumber"
params = '["{block}", true]'
weight = 2
[[request]]
method = "eth_getBlockReceipts"
params = '["{block}"]'
"#;
    let file = folder.join("plan.toml");
    fs::write(&file, format!("rounds = 300\n{arms}{requests}")).expect("a plan");
    let (said, code) = bench(&["run", &file.display().to_string()], "run-geth.txt");
    assert!(
        code == 0 && said.starts_with("=== ALL REQUESTS ==="),
        "{said}"
    );
    for arm in ["http-new", "websocket"] {
        assert!(
            said.contains(&format!(
                "Answers of {arm}: equal to the reference's in all 320 comparisons"
            )),
            "{said}"
        );
    }
}

#[test]
#[ignore = "needs geth (scripts/install-geth): .ci/run --long, or cargo test -p faultline-bench --test real_geth -- --ignored"]
fn http_and_websocket_write_and_read_the_same_on_a_real_chain() -> Result<()> {
    let Some(program) = geth() else {
        println!("{NO_GETH_MESSAGE}");
        return Ok(());
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let node = start(&program, &folder.path().join("data"), &["--dev"])?;
    let file = folder.path().join("run.flb").display().to_string();
    let words = [
        "transport",
        &node.url,
        "--websocket",
        &node.websocket,
        "--rounds",
        "40",
        "--out",
        &file,
    ];
    let (said, code) = bench(&words, "transport-geth.txt");
    // Each read over every transport returned the written value: otherwise there are failures.
    assert!(
        code == 0 && !said.contains("not what was written"),
        "{said}"
    );
    every_transport_has_a_mean(&said);
    // Only one transport connects within the measured time.
    let json = bench(
        &["report", &file, "--format", "json"],
        "transport-geth.json",
    )
    .0;
    let json: Value = serde_json::from_str(&json).expect("JSON");
    for cell in json["cells"].as_array().expect("cells") {
        let connects = cell["phases"][1].as_f64().expect("a mean") > 0.0;
        assert_eq!(connects, cell["arm"] == "http-new", "{cell}");
    }
    assert_eq!(bench(&["report", &file], "transport-again.txt"), (said, 0));
    the_chain_has_every_write(&node, &json);
    planned(&node, folder.path());
    Ok(())
}

fn every_transport_has_a_mean(said: &str) {
    for scenario in [
        "SINGLE WRITE",
        "30 WRITES IN A ROW",
        "SINGLE READ",
        "30 READS IN A ROW",
    ] {
        let part = said
            .split(&format!("=== {scenario} ==="))
            .nth(1)
            .expect(scenario);
        for arm in ["http: ", "http-new: ", "websocket: "] {
            let line = part
                .lines()
                .find_map(|line| line.strip_prefix(arm))
                .expect(arm);
            let mean: f64 = line
                .trim_end_matches(" ms")
                .replace(',', "")
                .parse()
                .expect("a mean");
            assert!(mean > 0.0, "{said}");
        }
    }
}

fn the_chain_has_every_write(node: &Node, json: &Value) {
    // An independent reader: the contract holds the number of the last write. One round of 41 is a warm-up, and in each every way writes 31 times.
    let writes = WRITES * json["run"]["arms"].as_array().expect("arms").len() as u64;
    let call =
        |method: &str, params: Value| Rpc::new(node.http).call(method, params).expect(method);
    let block = call("eth_getBlockByNumber", json!(["0x1", true]));
    let receipt = call(
        "eth_getTransactionReceipt",
        json!([block["transactions"][0]["hash"]]),
    );
    let stored = call(
        "eth_getStorageAt",
        json!([receipt["contractAddress"], "0x0", "latest"]),
    );
    assert_eq!(stored.as_str(), Some(format!("0x{writes:064x}").as_str()));
    let sent = call(
        "eth_getTransactionCount",
        json!([block["transactions"][0]["from"], "latest"]),
    );
    assert_eq!(
        sent.as_str(),
        Some(format!("{:#x}", writes + 1).as_str()),
        "and the deployment"
    );
}

/// Makes a chain with a development node. Returns the paths of its genesis and of its exported blocks.
fn write_a_chain(program: &Path, folder: &Path) -> Result<[String; 2]> {
    let made = folder.join("made");
    let mut maker = start(program, &made, &["--dev"])?;
    let write = [
        "transport",
        &maker.url,
        "--websocket",
        &maker.websocket,
        "--rounds",
        "3",
        "--in-a-row",
        "20",
    ];
    assert_eq!(bench(&write, "chain-geth.txt").1, 0);
    signal(maker.running.pid(), "TERM")?;
    ended(&mut maker.running)?;
    let genesis = folder.join("genesis.json");
    let printed = geth_prints(program, &made, &["dumpgenesis"])?;
    fs::write(
        &genesis,
        printed
            .lines()
            .find(|line| line.starts_with('{'))
            .expect("a genesis"),
    )
    .expect("a file");
    let chain = folder.join("chain.rlp").display().to_string();
    geth_prints(program, &made, &["export", &chain])?;
    Ok([genesis.display().to_string(), chain])
}

fn database_has_all_tables(disk: &Value, engine: &str, data: &Path) {
    let database = disk["databases"]
        .as_array()
        .unwrap()
        .iter()
        .find(|of| of["path"] == "geth/chaindata")
        .expect("chaindata");
    assert_eq!(
        (&database["engine"], &database["problems"]),
        (&json!(engine), &json!([])),
        "{database}"
    );
    // An independent count: files of tables in the folder of a node that writes nothing more.
    let files = fs::read_dir(data.join("geth/chaindata"))
        .expect("a folder")
        .flatten();
    let tables = files.filter(|file| {
        file.path()
            .extension()
            .is_some_and(|end| end == "sst" || end == "ldb")
    });
    let bytes: u64 = tables
        .map(|file| file.metadata().expect("a file").len())
        .sum();
    let parts = database["parts"].as_array().unwrap();
    assert_eq!(
        parts
            .iter()
            .map(|part| part["bytes"].as_u64().unwrap())
            .sum::<u64>(),
        bytes,
        "{database}"
    );
}

#[test]
#[ignore = "needs geth (scripts/install-geth): .ci/run --long, or cargo test -p faultline-bench --test real_geth -- --ignored"]
fn two_storage_engines_with_the_same_chain_give_equal_responses() -> Result<()> {
    let Some(program) = geth() else {
        println!("{NO_GETH_MESSAGE}");
        return Ok(());
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [genesis, chain] = write_a_chain(&program, folder.path())?;
    let mut nodes = Vec::new();
    for engine in ["leveldb", "pebble"] {
        let data = folder.path().join(engine);
        geth_prints(&program, &data, &["--db.engine", engine, "init", &genesis])?;
        geth_prints(&program, &data, &["import", &chain])?;
        nodes.push(start(&program, &data, &["--networkid", "1337"])?);
    }
    let [first, second] = nodes.as_slice() else {
        unreachable!("two engines")
    };
    let [one, other] =
        ["leveldb", "pebble"].map(|engine| folder.path().join(engine).display().to_string());
    let file = folder.path().join("run.flb").display().to_string();
    let words = [
        "nodes",
        &first.url,
        &second.url,
        "--chain",
        "evm",
        "--rounds",
        "1000",
        "--out",
        &file,
    ];
    let (said, code) = bench(
        &[&words, ["--data", &one, "--data", &other].as_slice()].concat(),
        "nodes-geth.txt",
    );
    assert_eq!(code, 0, "{said}");
    let json = bench(&["report", &file, "--format", "json"], "nodes-geth.json").0;
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let disks = json["run"]["disks"].as_array().unwrap();
    for (disk, (engine, data)) in disks.iter().zip([("LevelDB", &one), ("Pebble", &other)]) {
        database_has_all_tables(disk, engine, Path::new(data));
    }
    for expected in [
        "=== eth_getBlockByNumber ===",
        "=== all methods together ===",
        "version Geth/v1.",
        "equal to the reference's in all",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    Ok(())
}
