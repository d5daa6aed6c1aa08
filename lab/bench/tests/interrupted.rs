//! Ctrl-C while records are fetched: the records that were read are saved and measured. The fetch runs in a separate process.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot prepare its scene fails, and a stand-in has threads of its own"
)]

#[path = "bench/mock_node.rs"]
mod mock_node;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::Parser;
use faultline_bench::args::BenchArgs;
use faultline_testkit::process::signal;
use serde_json::json;
use std::{
    fs,
    sync::atomic::{AtomicU64, Ordering},
};

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: BenchArgs,
}

/// Number of blocks for which the node has an answer.
const GOOD: u64 = 30;

#[test]
fn records_read_before_a_signal_or_error_are_saved_and_measured() {
    for (interrupted, why) in [
        (true, "ended early by SIGINT"),
        (
            false,
            "ended early: the node answers -32000: no more; only the 30 records",
        ),
    ] {
        let requested = AtomicU64::new(0);
        let node = mock_node::start(move |method, _| match method {
            "getSlot" => Ok(json!(1000)),
            "getFirstAvailableBlock" => Ok(json!(1)),
            "getBlocks" => Ok(json!((501..=1000).collect::<Vec<u64>>())),
            _ => match requested.fetch_add(1, Ordering::SeqCst) + 1 {
                GOOD if interrupted => {
                    signal(std::process::id(), "INT").expect("kill");
                    Ok(block(GOOD))
                }
                number if number <= GOOD => Ok(block(number)),
                // The tool retries for about a minute. The signal arrives during a wait before a retry.
                _ if interrupted => Err((-32005, "busy")),
                _ => Err((-32000, "no more")),
            },
        });
        let folder = tempfile::tempdir().unwrap();
        let [saved, out] =
            ["kept.b64", "run.flb"].map(|name| folder.path().join(name).display().to_string());
        let words = [
            "bench",
            "compression",
            &node,
            "--codecs",
            "zlib,lz4",
            "--fetch",
            "0",
            "--pace",
            "1ms",
        ];
        let more = ["--save", &saved, "--out", &out];
        let (output, code) =
            faultline_bench::run(&Cli::try_parse_from(words.iter().chain(&more)).unwrap().args)
                .unwrap();
        let read = fs::read_to_string(&saved).unwrap().lines().count();
        assert!(code == 1 && output.contains(why), "{output}");
        assert!(
            output.contains(&format!("{read} records, {read} measured")),
            "{output}"
        );
        assert_eq!(read as u64, GOOD);
        let again = Cli::try_parse_from(["bench", "report", &out]).unwrap();
        assert_eq!(faultline_bench::run(&again.args).unwrap().0, output);
    }
}

fn block(number: u64) -> serde_json::Value {
    let record: Vec<u8> = (0..200)
        .map(|index| {
            if index < 100 {
                7
            } else {
                (index * number % 251) as u8
            }
        })
        .collect();
    json!({"transactions": [{"transaction": [STANDARD.encode(record), "base64"]}]})
}
