//! Compares the document about `bench run` with the program: every key of a plan, and every plan that the document names.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed expectation is a failed test"
)]

use clap::Parser;
use faultline_bench::args::BenchArgs;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: BenchArgs,
}

/// The output of `faultline bench run PLAN --dry-run`.
fn dry_run(plan: &Path) -> anyhow::Result<String> {
    let plan = plan.to_str().expect("a path of text");
    let cli = Cli::try_parse_from(["bench", "run", plan, "--dry-run"]).expect("good words");
    faultline_bench::run(&cli.args).map(|(output, _)| output)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A chapter of a page of `docs`.
fn chapter(page: &str, heading: &str) -> String {
    let text = fs::read_to_string(root().join("docs").join(page)).expect("the document is there");
    let (_, after) = text
        .split_once(&format!("\n## {heading}\n"))
        .unwrap_or_else(|| panic!("{page} has no chapter {heading}"));
    after.split("\n## ").next().unwrap_or(after).to_owned()
}

fn document() -> String {
    chapter("BENCH.md", "bench run")
}

/// A plan with an unknown key in every table. The error lists the known keys.
const UNKNOWN: &str = "qqqqqqqq = 1\n[[arm]]\nqqqqqqqq = 1\nname = 'a'\n[[value]]\nqqqqqqqq = 1\nname = 'v'\n[[request]]\nqqqqqqqq = 1\n";

#[test]
fn the_document_has_every_key_of_a_plan_and_no_other() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let plan = folder.path().join("plan.toml");
    fs::write(&plan, UNKNOWN).expect("a plan");
    let told = dry_run(&plan)
        .expect_err("unknown keys are mistakes")
        .to_string();
    let mut known = BTreeSet::new();
    for line in told.lines() {
        let Some((index, keys)) = line.split_once("qqqqqqqq: unknown key; known here: ") else {
            continue;
        };
        let table = index.rsplit_once(": ").map_or("", |(_, table)| table);
        known.extend(keys.split(", ").map(|key| format!("{table}{key}")));
    }
    for table in ["arm", "value", "request"] {
        assert!(known.remove(table), "{table} is a table: {told}");
    }
    let text = chapter("BENCH-REFERENCE.md", "Keys of a plan");
    let cells = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let written: BTreeSet<String> = cells.map(|(key, _)| key.to_owned()).collect();
    assert!(known.len() > 20, "{known:?}");
    assert_eq!(known, written);
}

#[test]
fn the_document_names_every_shipped_plan_and_each_prints_requests() {
    let text = document();
    let mut plans = 0;
    for entry in fs::read_dir(root().join("experiments/bench")).expect("there are ready plans") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        assert!(
            text.contains(&format!("(../experiments/bench/{name})")),
            "{name} is not in the document"
        );
        let output = dry_run(&path).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        assert!(output.contains(r#""jsonrpc":"2.0""#), "{name}: {output}");
        plans += 1;
    }
    assert!(plans >= 2, "{plans}");
}

#[test]
fn the_example_of_the_document_prints_its_requests() {
    let text = document();
    let example = text
        .split("```toml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("an example");
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("addresses.txt"), "0xaa\n0xbb\n").expect("a file of values");
    let plan = folder.path().join("plan.toml");
    fs::write(&plan, example).expect("a plan");
    let output = dry_run(&plan).unwrap_or_else(|error| panic!("{error:#}"));
    assert!(
        output.contains(r#""method":"eth_getBalance","params":["0x"#)
            && output.contains("SEND wss://node.example"),
        "{output}"
    );
}
