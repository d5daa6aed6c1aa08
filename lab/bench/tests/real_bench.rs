//! `bench` against a real validator whose accounts are known: five of the sizes of the study of encodings, loaded at genesis.
//! Writes the output to `target/bench-real`.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot prepare its scene fails"
)]

use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::Parser;
use faultline_bench::args::BenchArgs;
use faultline_testkit::{
    Result,
    binaries::{Binaries, SKIP_MESSAGE},
    eventually::{Condition, wait_for},
    ports::PortBlock,
    process::{Program, Running, signal},
    rpc::Rpc,
};
use serde_json::json;
use std::{
    fs,
    path::Path,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

/// The accounts of the study, which `bench encoding` requests by default. This test invents their data.
const ACCOUNTS: [(&str, usize); 5] = [
    ("Po57HwPXoG22SajaQCBn7Zg8hPp15pUTMcTwcr4GhDu", 904),
    ("2uLdBfEax2Gzk3KRGTiWoYQPmXWgSG6g1UDax1T9J6MM", 3232),
    ("4yRzzxU6brZsY9CTZ2Jp9QWhnRftYP6RyZ8FGugVEXN8", 5400),
    ("CXh2s3cJVwJxZBa7q2ur3paKsWrrznZfApmvjQCPQJpc", 7448),
    ("Hij4zmmrdmQ49bfgy63C8VF12EYysjF6WGFeZJpfipCk", 10_136),
];
const PATIENCE: Duration = Duration::from_secs(180);

/// A validator with [`ACCOUNTS`]. Fields are dropped in this order.
struct Node {
    _running: Running,
    url: String,
    _folder: tempfile::TempDir,
    _ports: PortBlock,
}

/// Half of each account is random and half repeats, like addresses and amounts in real accounts.
fn data(size: usize) -> Vec<u8> {
    let mut state = size as u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..size)
        .map(|index| {
            if index % 64 < 32 {
                random()
            } else {
                (index % 64 < 40) as u8 * 7
            }
        })
        .collect()
}

fn start(binaries: &Binaries) -> Result<Node> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ports = PortBlock::claim(20_000)?;
    let mut set: Vec<String> = vec!["--reset".into(), "--quiet".into()];
    for (address, size) in ACCOUNTS {
        let account = json!({"pubkey": address, "account": {
            "lamports": 1_000_000_000_u64, "data": [STANDARD.encode(data(size)), "base64"],
            "owner": bs58::encode([99; 32]).into_string(),
            "executable": false, "rentEpoch": 0, "space": size,
        }});
        let file = folder.path().join(format!("{size}.json"));
        fs::write(&file, account.to_string()).expect("a file of an account");
        set.extend([
            "--account".into(),
            address.to_owned(),
            file.display().to_string(),
        ]);
    }
    let mut named = |name: &str, value: String| set.extend([format!("--{name}"), value]);
    named("ledger", folder.path().join("ledger").display().to_string());
    named("rpc-port", ports.port(10).to_string());
    named("faucet-port", ports.port(12).to_string());
    named("gossip-port", ports.port(1).to_string());
    named(
        "dynamic-port-range",
        format!("{}-{}", ports.port(20), ports.port(60)),
    );
    let environment = vec![("AGAVE_NO_ENFORCE_NOFILE".to_owned(), Some("1".to_owned()))];
    let output = folder.path().join("node.out");
    let mut running = Running::start(&Program {
        path: binaries.test_validator.clone(),
        arguments: set,
        environment,
        output,
    })?;
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], ports.port(10)));
    let rpc = Rpc::new(address);
    wait_for(PATIENCE, "the node is healthy", || {
        running.check()?;
        let slot = rpc
            .call("getHealth", json!([]))
            .and_then(|_| rpc.call("getSlot", json!([{"commitment": "finalized"}])));
        Ok(slot.map_or_else(
            |error| Condition::NotYet(error.to_string()),
            |_| Condition::Ready(()),
        ))
    })?;
    Ok(Node {
        _running: running,
        url: format!("http://{address}"),
        _folder: folder,
        _ports: ports,
    })
}

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: BenchArgs,
}

/// The output of `faultline bench` and its exit code.
fn bench(words: &[&str], saved: &str) -> anyhow::Result<(String, u8)> {
    let cli = Cli::try_parse_from(["bench"].iter().chain(words)).expect("good words");
    let (printed, code) = faultline_bench::run(&cli.args)?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench-real");
    fs::create_dir_all(&folder).expect("target");
    fs::write(folder.join(saved), &printed).expect("target");
    Ok((printed, code))
}

/// Ctrl-C in the middle of a long run.
fn interrupted(node: &Node, file: &str) {
    // A signal before the first measurement leaves no results: then the test tries again with a later signal.
    let waits = [1, 2, 4, 8, 16].map(Duration::from_secs);
    let (printed, code) = waits
        .into_iter()
        .find_map(|wait| interrupted_after(node, file, wait))
        .expect("what was measured");
    assert!(
        code == 1 && printed.contains("ended early by SIGINT"),
        "{printed}"
    );
    assert_eq!(
        bench(&["report", file], "again.txt").expect("the file"),
        (printed, 0)
    );
}

fn interrupted_after(node: &Node, file: &str, wait: Duration) -> Option<(String, u8)> {
    let (end, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            // The previous run has installed a handler, so that the signal does not end the test.
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                signal(std::process::id(), "INT").expect("kill");
            }
        });
        let words = [
            "encoding",
            &node.url,
            "--rounds",
            "500000",
            "--warm-up",
            "0",
            "--out",
            file,
        ];
        let measured = bench(&words, "interrupted.txt");
        drop(end);
        measured.ok()
    })
}

/// Over a link of 2 Mbit/s, the difference is the time to transfer the bytes that compression saves.
fn slowed(node: &Node, file: &str) {
    let words = [
        "encoding",
        &node.url,
        "--rounds",
        "15",
        "--warm-up",
        "1",
        "--links",
        "0ms,20ms@2Mbit",
        "--out",
        file,
    ];
    let (table, code) = bench(&words, "encoding-links.txt").expect("results");
    assert!(
        code == 0 && table.contains("(MEAN) - getAccountInfo over +20 ms 2 Mbit/s ==="),
        "{table}"
    );
    let (printed, _) =
        bench(&["report", file, "--format", "json"], "encoding-links.json").expect("results");
    let printed: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    let with = |list: &str, subject: &str, arm: &str| {
        let all = printed[list].as_array().expect(list);
        all.iter()
            .find(|one| one["subject"] == subject && one["arm"] == arm)
            .expect(subject)
            .clone()
    };
    let subject = format!("{} over +20 ms 2 Mbit/s", ACCOUNTS[4].0);
    let received = |arm: &str| {
        with("cells", &subject, arm)["received"]
            .as_f64()
            .expect("bytes")
    };
    let saves = (received("base64") - received("base64+zstd")) * 8.0 / 2e6 * 1e3;
    let difference = with("compared", &subject, "base64+zstd")["mean"]["value"]
        .as_f64()
        .expect("a difference");
    assert!(
        (difference + saves).abs() < 0.5 * saves,
        "{difference} ms, and {saves} ms of bytes less"
    );
    let least = with("cells", &subject, "base64")["latency"]["min"]
        .as_f64()
        .expect("a time");
    assert!(
        least > 20.0 + received("base64") * 8.0 / 2e6 * 1e3,
        "{least}"
    );
}

/// Runs the shipped plans of `bench run`, with fewer rounds, against this node.
fn planned(node: &Node, folder: &Path) {
    for name in ["mix", "encodings"] {
        let ready = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(format!("../../experiments/bench/{name}.toml"));
        let text = fs::read_to_string(ready)
            .expect("a ready plan")
            .replace("http://127.0.0.1:8899", &node.url);
        let text: String = text
            .lines()
            .filter(|line| !line.starts_with("rounds"))
            .map(|line| format!("{line}\n"))
            .collect();
        let file = folder.join(format!("{name}.toml"));
        fs::write(&file, format!("rounds = 200\n{text}")).expect("a plan");
        let (printed, code) = bench(
            // The node may have skipped a slot of the range.
            &["run", &file.display().to_string(), "--max-failures", "5"],
            &format!("run-{name}.txt"),
        )
        .expect("results");
        // Every arm had good answers, and the answers were equal.
        assert!(
            code == 0 && printed.contains("equal to the reference's in all"),
            "{printed}"
        );
    }
}

fn tables_are_the_studys(printed: &str) {
    let lines: Vec<&str> = printed.lines().collect();
    for (table, first) in [("(MEAN)", 0), ("(P95)", 10)] {
        assert!(lines[first].contains(table), "{printed}");
        for (row, size) in lines[first + 4..]
            .iter()
            .zip(ACCOUNTS.map(|(_, size)| size))
        {
            let mut cells = row.split_whitespace();
            assert_eq!(cells.next(), Some(size.to_string().as_str()), "{printed}");
            let numbers: Vec<f64> = cells
                .by_ref()
                .take(3)
                .map(|cell| cell.parse().unwrap())
                .collect();
            // Four digits are printed.
            let rounded = 0.002_f64.max(numbers[0] / 1_000.0);
            assert!(
                (numbers[0] - numbers[1]).abs() - numbers[2] < rounded && numbers[0] > 0.0,
                "{row}"
            );
            assert!(
                ["Base64", "Zstd"].contains(&cells.next_back().unwrap()),
                "{row}"
            );
        }
    }
}

/// base64 sends four thirds of the account; zstd finds the half that repeats.
fn compression_saves_bytes(printed: &str) {
    let received = |arm: &str| -> f64 {
        let section = printed.split("Where the time is spent").nth(1).unwrap();
        let row = section
            .lines()
            .find(|line| line.starts_with(&format!("{arm} ")) && line.contains("10,136"))
            .unwrap();
        row.split_whitespace()
            .last()
            .unwrap()
            .replace(',', "")
            .parse()
            .unwrap()
    };
    assert!(
        (13_516.0..14_200.0).contains(&received("base64")),
        "{printed}"
    );
    assert!(
        (6_000.0..9_500.0).contains(&received("base64+zstd")),
        "{printed}"
    );
}

fn a_node_is_compared_with_itself(node: &Node) {
    let (twice, code) = bench(
        &["nodes", &node.url, &node.url, "--rounds", "300"],
        "nodes.txt",
    )
    .expect("results");
    assert_eq!(code, 0, "{twice}");
    for expected in [
        "=== getBlock ===",
        "=== all methods together ===",
        "Send getBlock to ",
        "version 2.",
        "equal to the",
    ] {
        assert!(twice.contains(expected), "{expected}: {twice}");
    }
}

fn transports_write_and_read(node: &Node) {
    let words = [
        "transport",
        &node.url,
        "--rounds",
        "2",
        "--warm-up",
        "0",
        "--in-a-row",
        "2",
    ];
    let (printed, code) = bench(&words, "transport-solana.txt").expect("results");
    assert!(
        code == 0 && printed.contains("Solana, version 2."),
        "{printed}"
    );
    for scenario in [
        "SINGLE WRITE",
        "2 WRITES IN A ROW",
        "SINGLE READ",
        "2 READS IN A ROW",
    ] {
        assert!(
            printed.contains(&format!("=== {scenario} ===\n\nhttp: ")),
            "{printed}"
        );
    }
}

#[test]
fn encodings_of_real_accounts_give_equal_bytes_and_study_tables() -> Result<()> {
    let Some(binaries) = Binaries::find() else {
        println!("{SKIP_MESSAGE}");
        return Ok(());
    };
    let node = start(&binaries)?;
    let saved = tempfile::tempdir().expect("a temporary folder");
    let file = saved.path().join("run.flb").display().to_string();
    let words = ["encoding", &node.url, "--rounds", "1000", "--out", &file];
    let (printed, code) = bench(&words, "encoding.txt").expect("results");
    assert_eq!(code, 0, "{printed}");
    tables_are_the_studys(&printed);
    assert!(
        printed.contains("equal to the reference's in all"),
        "{printed}"
    );
    compression_saves_bytes(&printed);
    assert_eq!(
        bench(&["report", &file], "again.txt").expect("the file"),
        (printed, 0)
    );
    let (same, code) = bench(&["diff", &file, &file], "diff.txt").expect("two files");
    assert!(
        code == 0 && same.contains("no change established"),
        "{same}"
    );
    let open = ["encoding", &node.url, "--rounds", "40", "--rate", "100"];
    let (open, code) = bench(&open, "open.txt").expect("results");
    assert!(
        code == 0 && open.contains("open loop, 100.0 a second"),
        "{open}"
    );
    interrupted(
        &node,
        &saved.path().join("interrupted.flb").display().to_string(),
    );

    a_node_is_compared_with_itself(&node);
    slowed(
        &node,
        &saved.path().join("slowed.flb").display().to_string(),
    );
    transports_write_and_read(&node);
    planned(&node, saved.path());
    let nothing = bs58::encode([7; 32]).into_string();
    let missing = bench(
        &["encoding", &node.url, "--accounts", &nothing],
        "missing.txt",
    );
    let missing = missing.expect_err("no such account").to_string();
    assert!(missing.contains("has no account"), "{missing}");
    Ok(())
}
