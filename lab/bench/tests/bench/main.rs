//! `bench` against stand-ins for nodes, whose answers are known: pages, and chains of which no node is at hand.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot prepare its scene fails, and a stand-in has threads of its own"
)]

mod compression;
mod failures;
mod killed;
mod mock_node;
mod page;
mod starknet;

use clap::Parser;
use faultline_bench::args::BenchArgs;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: BenchArgs,
}

/// What `faultline bench` would print, and its exit code.
fn bench(words: &[&str]) -> anyhow::Result<(String, u8)> {
    let cli = Cli::try_parse_from(["bench"].iter().chain(words)).expect("good words");
    faultline_bench::run(&cli.args)
}
