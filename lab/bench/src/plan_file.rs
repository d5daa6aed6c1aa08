//! `bench run`: requests from a plan file.

mod parser;
#[cfg(test)]
mod tests;

use crate::{
    args::RunArgs,
    compare::comparisons,
    plan::Plan,
    render::{difference_table, latency_table},
    results::{CaseInfo, Results, Sample},
    session,
};
use anyhow::Result;
use faultline_common::args::UsageError;
use faultline_pages::{model::Table, render::plain_table};
use faultline_settings::ConfigError;
use itertools::Itertools;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

const MAX_FILE_BYTES: u64 = 64 << 20;
const ALL_REQUESTS: &str = "all requests";

pub fn run(args: &RunArgs) -> Result<(String, u8)> {
    let (mut plan, ca_file) = read(&args.plan)?;
    plan.max_failure_percent = args.max_failures;
    session::run_subcommand("run", &plan, &args.output, ca_file.as_deref(), |session| {
        // The sizes of answers are not known, and there are no notes.
        session.measure(&plan, &[], Vec::new())
    })
}

fn read(file: &Path) -> Result<(Plan, Option<PathBuf>)> {
    let parsed = match read_file(file) {
        Ok(text) => parser::parse(&text, file),
        Err(why) => Err(vec![ConfigError {
            file: Some(file.to_owned()),
            ..ConfigError::new(why)
        }]),
    };
    parsed.map_err(|mistakes| {
        let head = match mistakes.len() {
            1 => "the plan has a mistake".to_owned(),
            count => format!("the plan has {count} mistakes"),
        };
        UsageError(format!("{head}:\n{}", mistakes.iter().join("\n"))).into()
    })
}

/// Errors do not include the file's name.
fn read_file(file: &Path) -> Result<String, String> {
    match fs::metadata(file) {
        Ok(meta) if !meta.is_file() => return Err("is not a regular file".to_owned()),
        Ok(meta) if meta.len() > MAX_FILE_BYTES => {
            return Err(format!("is larger than {} MiB", MAX_FILE_BYTES >> 20));
        }
        _ => {}
    }
    fs::read_to_string(file).map_err(|error| error.to_string())
}

pub fn all_requests_text(results: &Results) -> String {
    let tables = all_requests_tables(results);
    let Some(latencies) = tables.first() else {
        return String::new();
    };
    let mut out = "=== ALL REQUESTS ===\n\n".to_owned() + &plain_table(latencies);
    if let Some(differences) = tables.get(1) {
        let reference = results.reference_arm();
        out += &format!(
            "\nAgainst {reference}: difference in ms, negative where {reference} is slower\n"
        );
        out += &plain_table(differences);
    }
    out + "\n"
}

/// Latencies, then differences if there are any. Empty if the plan has only one request.
pub fn all_requests_tables(results: &Results) -> Vec<Table> {
    let Some(all) = with_requests_merged(results) else {
        return Vec::new();
    };
    let mut tables = vec![latency_table(
        &all,
        "study-latencies",
        "Latency of all requests",
    )];
    let mut compared = comparisons(&all);
    for one in &mut compared {
        one.rounds = one.rounds.min(results.rounds());
    }
    if !compared.is_empty() {
        tables.push(difference_table(&all, &compared, "study-differences"));
    }
    tables
}

/// Merges the cases of each arm into one. Numbers each pair of round and request as a round, so that
/// arms are compared request by request. `None` if the plan has one request.
fn with_requests_merged(results: &Results) -> Option<Results> {
    if results.requests().len() < 2 {
        return None;
    }
    let arms = &results.header.arms;
    let case_info = |sample: &Sample| &results.cases[sample.case_index];
    let round_and_request =
        |sample: &Sample| (sample.round, case_info(sample).request_label.as_str());
    let rounds: BTreeMap<_, u32> = results
        .samples
        .iter()
        .map(round_and_request)
        .sorted()
        .dedup()
        .zip(0..)
        .collect();
    let merged_sample = |sample: &Sample| {
        Some(Sample {
            case_index: arms.iter().position(|arm| *arm == case_info(sample).arm)?,
            round: rounds[&round_and_request(sample)],
            ..sample.clone()
        })
    };
    let case = |arm: &String| CaseInfo {
        arm: arm.clone(),
        request_label: ALL_REQUESTS.to_owned(),
        answer_bytes: None,
    };
    Some(Results {
        header: results.header.clone(),
        cases: arms.iter().map(case).collect(),
        samples: results.samples.iter().filter_map(merged_sample).collect(),
    })
}
