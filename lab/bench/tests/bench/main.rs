//! `bench` against mock nodes with known answers: pages, and chains for which no real node is available.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot prepare its input fails, and a mock node has its own threads"
)]

mod compression;
mod dry_run;
mod failures;
mod killed;
mod mock_node;
mod page;
mod starknet;
mod young_chain;

use clap::Parser;
use faultline_bench::args::BenchArgs;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: BenchArgs,
}

/// The output of `faultline bench` and its exit code.
fn bench(words: &[&str]) -> anyhow::Result<(String, u8)> {
    let cli = Cli::try_parse_from(["bench"].iter().chain(words)).expect("good words");
    faultline_bench::run(&cli.args)
}
