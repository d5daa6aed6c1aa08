use crate::{
    args::{AGAVE, PoliciesArgs},
    predicted_run::{mean, number_or_dash},
};
use anyhow::Result;
use faultline_cache_prediction::prediction::{Calibration, PredictionInput, threads};
use faultline_cache_sim::{
    Counts, Limit, Policy, Setting, Simulation, Trace,
    cost::{CostModel, compile_times},
    policy::{NAMED_POLICIES, least_misses_by_bytes},
    run::{InitialContent, run_all},
    with_attack,
};
use faultline_common::{output::json, progress::Progress};
use faultline_text::{count, number, size, table};
use itertools::{Itertools, chain};
use serde::Serialize;
use std::collections::HashMap;

/// Percent of the limit up to which a policy fills the cache: 90 as in Agave, and 100.
const DEFAULT_FILLS: [u64; 2] = [90, 100];
/// By default the attack has one transaction for this number of other transactions.
const ATTACK_DIVISOR: usize = 10;
/// `policy` of the row with the lower bound: at a limit in bytes, no policy has fewer misses.
const LOWER_BOUND: &str = "bound";

#[derive(Serialize)]
struct PolicyReport {
    version: String,
    /// Whether each counter is close at the recorded size.
    self_test_passed: bool,
    /// Either this or `bytes` is the limit.
    entries: Option<u64>,
    bytes: Option<u64>,
    /// One-hit programs that the attack adds to each slot.
    attack: usize,
    policies: Vec<PolicyRow>,
}

/// Means of one policy at one fill. Values with the attack exclude the cost of the attack's
/// programs.
#[derive(Serialize)]
struct PolicyRow {
    policy: String,
    fill_percent: u64,
    misses: f64,
    /// Programs compiled; `None` for the lower bound.
    loads: Option<f64>,
    /// Program cache time in replay, summed over threads; `None` for the lower bound and without
    /// recorded times.
    seconds: Option<f64>,
    attacked_misses: f64,
    attacked_seconds: Option<f64>,
}

pub fn run(args: &PoliciesArgs) -> Result<(String, u8)> {
    let input = PredictionInput::read(&args.run, &args.input)?;
    let policies = selected_policies(&args.policy, &input)?;
    let fills = fills(&args.fill_percents);
    let limit = args.bytes.map_or(
        Limit::Entries(args.size.unwrap_or(input.entries)),
        Limit::Bytes,
    );
    let mut progress = Progress::new(1 + (policies.len() * fills.len()) as u64, "simulations");
    let calibration = input.calibrate()?;
    progress.show(1, "");
    let default_attack =
        (input.trace.call_count() / input.trace.slots().len().max(1) / ATTACK_DIVISOR).max(1);
    let attack = args.attack.map_or(Ok(default_attack), usize::try_from)?;
    let comparison = PolicyComparison::new(&input, attack, &calibration)?;
    let mut rows = Vec::new();
    for (name, policy) in &policies {
        let seeds = match policy {
            Policy::Agave(_) => input.simulated_run_count,
            _ => 1,
        };
        for fill in &fills {
            let setting = Setting {
                policy: *policy,
                limit,
                fill_percent: *fill,
                includes_fees_only: input.rules.includes_fees_only,
            };
            rows.push(comparison.row(name, setting, seeds)?);
            progress.show(1 + rows.len() as u64, "");
        }
    }
    drop(progress);
    let (entries, bytes) = match limit {
        Limit::Entries(entries) => (Some(entries), None),
        Limit::Bytes(bytes) => (None, Some(bytes)),
    };
    if let Some(bytes) = bytes {
        for fill in &fills {
            rows.push(comparison.lower_bound_row(bytes, *fill)?);
        }
    }
    let report = PolicyReport {
        version: input.version.clone(),
        self_test_passed: calibration.passes_self_test(),
        entries,
        bytes,
        attack,
        policies: sorted(rows),
    };
    let text = match (args.json, args.csv) {
        (true, _) => json(&report)?,
        (_, true) => csv(&report),
        _ => text_table(&report, &fills),
    };
    Ok((text, u8::from(!report.self_test_passed)))
}

fn fills(given: &[u64]) -> Vec<u64> {
    let mut fills = given.to_vec();
    if fills.is_empty() {
        fills.extend(DEFAULT_FILLS);
    }
    fills.sort_unstable();
    fills.dedup();
    fills
}

fn selected_policies(names: &[String], input: &PredictionInput) -> Result<Vec<(String, Policy)>> {
    let recorded_policy = || {
        (
            format!("agave {}", input.version),
            Policy::Agave(input.rules),
        )
    };
    if names.is_empty() {
        let others = NAMED_POLICIES.map(|(name, policy)| (name.to_owned(), policy));
        return Ok(chain!([recorded_policy()], others).collect());
    }
    let mut policies = Vec::new();
    for name in names {
        let policy = if name == AGAVE {
            recorded_policy()
        } else {
            (name.clone(), name.parse()?)
        };
        if !policies.contains(&policy) {
            policies.push(policy);
        }
    }
    Ok(policies)
}

struct PolicyComparison<'a> {
    input: &'a PredictionInput,
    attacked: Trace,
    compile_us: &'a [u64],
    attacked_compile_us: Vec<u64>,
    model: Option<CostModel>,
    /// Counts of the attack's own transactions.
    attack_counts: Counts,
}

impl<'a> PolicyComparison<'a> {
    fn new(
        input: &'a PredictionInput,
        attack_per_slot: usize,
        calibration: &'a Calibration,
    ) -> Result<Self> {
        let attacked = with_attack(&input.trace, attack_per_slot)?;
        let attack_count = (attack_per_slot * input.counted_slots()) as u64;
        // `with_attack` appends its programs. All have the same size.
        let attack_program_bytes = attacked
            .programs()
            .last()
            .and_then(|program| program.bytes)
            .unwrap_or(0);
        let loaded_bytes = attack_count.saturating_mul(attack_program_bytes);
        let compile_us = calibration.compile_us.as_slice();
        let model = calibration.fit.as_ref().map(|fit| fit.model);
        // Without a model the attack's programs take the mean compile time.
        let mean_us = compile_us.iter().sum::<u64>() / compile_us.len().max(1) as u64;
        let mut padded = compile_us.to_vec();
        padded.resize(attacked.programs().len(), mean_us);
        let attacked_compile_us = model.map_or(padded, |model| compile_times(&attacked, &model));
        let attack_compile_us = attacked_compile_us
            .last()
            .copied()
            .unwrap_or(0)
            .saturating_mul(attack_count);
        let attack_counts = Counts {
            transactions: attack_count,
            misses: attack_count,
            loads: attack_count,
            loaded_bytes,
            compile_us: attack_compile_us,
            ..Counts::default()
        };
        Ok(PolicyComparison {
            input,
            attacked,
            compile_us,
            attacked_compile_us,
            model,
            attack_counts,
        })
    }

    fn row(&self, name: &str, setting: Setting, seeds: u64) -> Result<PolicyRow> {
        let plain = self.simulate(&self.input.trace, self.compile_us, setting, seeds)?;
        let attacked = self.simulate(&self.attacked, &self.attacked_compile_us, setting, seeds)?;
        let seconds = |trace: &Trace, runs: &[Counts], attack_counts: &Counts| {
            let model = self.model?;
            Some(
                (mean(runs, |counts| model.time_us(trace, counts))
                    - model.time_us(trace, attack_counts))
                    * 1e-6,
            )
        };
        Ok(PolicyRow {
            policy: name.to_owned(),
            fill_percent: setting.fill_percent,
            misses: mean(&plain, |c| c.misses as f64),
            loads: Some(mean(&plain, |c| c.loads as f64)),
            seconds: seconds(&self.input.trace, &plain, &Counts::default()),
            attacked_misses: mean(&attacked, |c| c.misses as f64)
                - self.attack_counts.misses as f64,
            attacked_seconds: seconds(&self.attacked, &attacked, &self.attack_counts),
        })
    }

    fn simulate(
        &self,
        trace: &Trace,
        compile_us: &[u64],
        setting: Setting,
        seeds: u64,
    ) -> Result<Vec<Counts>> {
        let simulations = (1..=seeds)
            .map(|seed| Simulation {
                trace,
                setting,
                initial_content: InitialContent::Empty,
                first_slot: self.input.first_slot,
                compile_us,
                seed,
            })
            .collect_vec();
        Ok(run_all(&simulations, threads())?
            .into_iter()
            .map(|outcome| outcome.counts)
            .collect())
    }

    fn lower_bound_row(&self, bytes: u64, fill: u64) -> Result<PolicyRow> {
        let capacity = bytes / 100 * fill + bytes % 100 * fill / 100;
        let input = self.input;
        let min_misses = |trace| {
            let includes_fees_only = input.rules.includes_fees_only;
            least_misses_by_bytes(trace, capacity, input.first_slot, includes_fees_only)
        };
        Ok(PolicyRow {
            policy: LOWER_BOUND.to_owned(),
            fill_percent: fill,
            misses: min_misses(&input.trace)? as f64,
            loads: None,
            seconds: None,
            attacked_misses: min_misses(&self.attacked)?.saturating_sub(self.attack_counts.misses)
                as f64,
            attacked_seconds: None,
        })
    }
}

/// Sorts policies by their misses at the first fill, the most first. The lower bound is last. Fills
/// ascend.
fn sorted(mut rows: Vec<PolicyRow>) -> Vec<PolicyRow> {
    let misses_at_first_fill: HashMap<String, f64> = rows
        .iter()
        .rev()
        .map(|row| (row.policy.clone(), row.misses))
        .collect();
    rows.sort_by(|a, b| {
        let most_first =
            misses_at_first_fill[&b.policy].total_cmp(&misses_at_first_fill[&a.policy]);
        (a.policy == LOWER_BOUND)
            .cmp(&(b.policy == LOWER_BOUND))
            .then(most_first)
    });
    rows
}

fn rows_of<'a>(report: &'a PolicyReport, name: &'a str) -> impl Iterator<Item = &'a PolicyRow> {
    report.policies.iter().filter(move |row| row.policy == name)
}

fn text_table(report: &PolicyReport, fills: &[u64]) -> String {
    let mut names = report
        .policies
        .iter()
        .map(|row| row.policy.as_str())
        .collect_vec();
    names.dedup();
    let least = match report.bytes {
        Some(_) => LOWER_BOUND,
        None => "min",
    };
    let min_misses = rows_of(report, least)
        .next()
        .map(|row| row.misses)
        .filter(|min_misses| *min_misses > 0.0);
    let rows = names.iter().map(|name| cells(report, name, min_misses));
    let column_heads = column_heads(report.bytes.is_some(), fills);
    let column_heads = column_heads.iter().map(String::as_str).collect_vec();
    let limit = match (report.entries, report.bytes) {
        (_, Some(bytes)) => format!("{} of code", size(bytes)),
        (entries, _) => format!("{} entries", count(entries.unwrap_or(0))),
    };
    let mut text = format!(
        "Misses with {limit}. \"at N %\": a policy fills the cache up to this share of the limit. The ratio is at the lowest share. \
         \"attacked\": the misses with {} one-hit programs in each block, which are not counted themselves\n\n{}",
        count(report.attack as u64),
        table(&column_heads, rows.collect()),
    );
    if report.bytes.is_some() {
        text += "\nNo policy has fewer misses than the bound, and perhaps every policy has more. MIN is optimal only for a limit in entries, \
                 so here it is a policy like the others.\n";
    }
    if !report.self_test_passed {
        text += "\nThe counters at the recorded size are not predicted within 10 %: see `faultline cache predict`.\n";
    }
    text
}

/// `min_misses` are the misses of the lower bound for a limit in bytes, else of MIN.
fn cells(report: &PolicyReport, name: &str, min_misses: Option<f64>) -> Vec<String> {
    let mut cells = vec![name.to_owned()];
    cells.extend(rows_of(report, name).map(|row| number(row.misses, 0)));
    let first = rows_of(report, name).next();
    let times_min = min_misses
        .zip(first)
        .map(|(min_misses, row)| row.misses / min_misses);
    cells.push(number_or_dash(times_min, 2));
    cells.extend(rows_of(report, name).map(|row| number_or_dash(row.seconds, 2)));
    cells.extend(rows_of(report, name).map(|row| number(row.attacked_misses, 0)));
    cells
}

fn column_heads(in_bytes: bool, fills: &[u64]) -> Vec<String> {
    let at_each_fill = |prefix: &str| {
        let mut column_heads = fills
            .iter()
            .map(|fill| format!("at {fill} %"))
            .collect_vec();
        if let Some(first) = column_heads.first_mut() {
            first.insert_str(0, prefix);
        }
        column_heads
    };
    let ratio_head = if in_bytes {
        "misses / bound"
    } else {
        "misses / MIN"
    };
    [
        vec!["policy".to_owned()],
        at_each_fill("misses "),
        vec![ratio_head.to_owned()],
        at_each_fill("cache time, s: "),
        at_each_fill("attacked: "),
    ]
    .concat()
}

fn csv(report: &PolicyReport) -> String {
    let mut text =
        "policy,fill_percent,misses,loads,seconds,attacked_misses,attacked_seconds\n".to_owned();
    let or_empty = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    for row in &report.policies {
        let [loads, seconds, attacked_seconds] =
            [row.loads, row.seconds, row.attacked_seconds].map(or_empty);
        text += &format!(
            "{},{},{},{loads},{seconds},{},{attacked_seconds}\n",
            row.policy, row.fill_percent, row.misses, row.attacked_misses
        );
    }
    text
}
