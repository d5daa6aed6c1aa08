//! `faultline bench`: measures the latency of JSON-RPC nodes.
//!
//! A subcommand makes a `plan`. `run` sends its requests over a `connection`, `answer` decodes and
//! `verify` compares the answers. `session` stores and renders the `results`.
//!
//! A study is the publication that a subcommand repeats.

mod answer;
pub mod args;
mod canonical;
mod changes;
mod codec;
mod compare;
mod compression;
mod connection;
mod diff;
mod disk;
mod encoding;
mod endpoint;
mod failure;
mod nodes;
mod page;
mod parquet;
mod plan;
mod plan_file;
mod protocol;
mod render;
mod results;
mod run;
mod session;
mod store;
mod stream;
mod tool_overhead;
mod transport;
mod values;
mod verify;

use anyhow::Result;
use args::{Bench, BenchArgs, Format};
use results::Results;
use store::Stored;

/// Returns the text to print, and the exit code, which is 1 after any problem.
pub fn run(args: &BenchArgs) -> Result<(String, u8)> {
    match &args.command {
        Bench::Encoding(args) => encoding::run(args),
        Bench::Compression(args) => compression::run(args),
        Bench::Nodes(args) => nodes::run(args),
        Bench::Transport(args) => transport::run(args),
        Bench::Run(args) => plan_file::run(args),
        Bench::Report(args) => {
            let text = match store::read(&args.file)? {
                Stored::Compression(outcome) => match (&args.parquet, &args.html) {
                    (Some(path), _) => compression::write_parquet(path, &outcome)?,
                    (None, Some(out)) => page::write(&compression::page(&outcome), out)?,
                    (None, None) => compression::render(&outcome, args.format)?,
                },
                Stored::Requests(results) => match (&args.parquet, &args.html) {
                    (Some(path), _) => parquet::write_requests(path, &results)?,
                    (None, Some(out)) => page::write(&page::report(&results), out)?,
                    (None, None) => render_results(&results, args.format)?,
                },
            };
            Ok((text, 0))
        }
        Bench::Diff(args) => diff::run(args),
    }
}

fn render_results(results: &Results, format: Format) -> Result<String> {
    match format {
        Format::Table => {
            let subcommand_text = match results.header.subcommand.as_str() {
                "nodes" => nodes::study_text,
                "run" => plan_file::all_requests_text,
                "transport" => transport::study_text,
                _ => encoding::study_text,
            };
            Ok(subcommand_text(results) + &render::text(results))
        }
        Format::Json => render::json(results),
        Format::Csv => Ok(render::csv(results)),
    }
}

#[cfg(feature = "fuzzing")]
pub mod fuzzing {
    use crate::store::{self, Stored};
    use std::path::Path;

    /// Application id, and statements that create the tables.
    pub const STORE_SCHEMA: (i32, [&str; 4]) = (store::APPLICATION_ID, store::TABLES);

    pub fn count_samples(path: &Path) -> anyhow::Result<usize> {
        Ok(match store::read::<crate::compression::Outcome>(path)? {
            Stored::Compression(_) => 0,
            Stored::Requests(results) => results.samples.len(),
        })
    }
}
