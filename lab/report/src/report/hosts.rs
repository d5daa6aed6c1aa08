//! Runs on several hosts. A turn is the runs that an experiment executes at the same time on one
//! host. A host block is one or more turns on one host with the same label `block`. Arms are
//! compared within host blocks, so the effect of the host cancels.

use super::{
    cells::{bytes, count, estimate_or, missing, number_or, table, text_cell},
    comparability,
    groups::{by_key, distinct},
    measured_run::{AA_SUFFIX, MeasuredRun, MeasuredRuns},
    model::{Block, Caveat, Cell},
    run_metrics::RunMetric,
};
use crate::{
    measure::signal_rates,
    run::{Signal, SystemFacts},
};
use faultline_stats::{arms::RUNS_FOR_A_TEST, hosts as host_stats, summary::mean};
use itertools::{Itertools, chain};

pub enum ComparisonDesign {
    ByRun,
    /// For runs on several hosts. Runs without a host block are left out.
    ByHostBlock,
    Refused(String),
}

/// Experiment, host, and label `block`.
type HostBlock<'s> = (Option<&'s str>, &'s str, &'s str);

fn host_block_of(run: &MeasuredRun) -> Option<HostBlock<'_>> {
    let recording = &run.recording;
    let block = recording.label("block").filter(|block| !block.is_empty());
    Some((recording.label("experiment"), recording.host()?, block?))
}

pub fn comparison_design(runs: &MeasuredRuns, reference: &str, other: &str) -> ComparisonDesign {
    let hosts = [reference, other].map(|arm| {
        let runs = runs.counted_runs_of(arm);
        distinct(runs.filter_map(|run| run.recording.host()))
    });
    if hosts.iter().any(Vec::is_empty) || distinct(hosts.iter().flatten()).len() < 2 {
        return ComparisonDesign::ByRun;
    }
    let [on_reference, on_other] = hosts.each_ref().map(|hosts| hosts.join(", "));
    let [reference_hosts, other_hosts] = hosts;
    if !reference_hosts
        .iter()
        .any(|host| other_hosts.contains(host))
    {
        return ComparisonDesign::Refused(format!(
            "not compared: {reference} ran on {on_reference} only and {other} on {on_other} only, \
             so a difference may be that of the hosts"
        ));
    }
    let common_blocks = pair_values_by_host_block(runs, [reference, other], |_| Some(1.0)).len();
    if common_blocks >= RUNS_FOR_A_TEST {
        return ComparisonDesign::ByHostBlock;
    }
    let both = runs
        .counted_runs_of(reference)
        .chain(runs.counted_runs_of(other));
    let why = match both.filter(|run| host_block_of(run).is_none()).count() {
        0 => String::new(),
        count => format!(" ({count} of their runs lack the label host or block)"),
    };
    ComparisonDesign::Refused(format!(
        "not compared: {reference} (on {on_reference}) and {other} (on {on_other}) have {common_blocks} of \
         the {RUNS_FOR_A_TEST} common blocks that a test needs{why}"
    ))
}

/// Several runs of an arm in a block are averaged.
fn pair_values_by_host_block<'s>(
    runs: &'s MeasuredRuns,
    arms: [&'s str; 2],
    value: impl Fn(&MeasuredRun) -> Option<f64>,
) -> Vec<(f64, f64)> {
    let [reference, other] = arms.map(|arm| {
        by_key(
            runs.counted_runs_of(arm)
                .filter_map(|run| Some((host_block_of(run)?, value(run)?))),
        )
    });
    let pairs = reference.iter().filter_map(|(block, values)| {
        let (_, other_values) = other.iter().find(|(other_block, _)| other_block == block)?;
        Some((mean(values)?, mean(other_values)?))
    });
    pairs.collect()
}

pub fn pair_metric_by_host_block(
    runs: &MeasuredRuns,
    arms: [&str; 2],
    run_metric: &RunMetric,
) -> Vec<(f64, f64)> {
    pair_values_by_host_block(runs, arms, |run| {
        comparability::compared_value(runs, run_metric, run)
    })
}

const NO_RATIO: &str =
    "a value is not above 0, there are fewer than two blocks, or all have the same ratio";

/// For arms that are compared within host blocks.
pub fn table_of_hosts(
    runs: &MeasuredRuns,
    [reference, other]: [&str; 2],
    primary: &RunMetric,
    margin: f64,
) -> Option<Block> {
    let pairs = pair_metric_by_host_block(runs, [reference, other], primary);
    let by_host = by_key(runs.counted_runs_of(reference).filter_map(|run| {
        let value = comparability::compared_value(runs, primary, run)?;
        Some((run.recording.host()?, value))
    }));
    let (first, first_values) = by_host.first()?;
    let unit = &*comparability::compared_unit(primary, runs.compare_rates);
    let ratio = format!("Ratio to {first}");
    let note = format!(
        "{}, {reference}. The ratios of hosts are those of geometric means. Their intervals include how single runs vary, estimated from \
         the ratios of arms within blocks. A/A: the second run of an arm divided by its first, within blocks.",
        comparability::compared_title(primary, runs.compare_rates)
    );
    let mut table = table(
        "hosts",
        "How different the hosts are",
        &[("Host", ""), ("Runs", ""), ("Mean", unit), (&ratio, "")],
        &note,
    );
    for (host, values) in &by_host {
        let ratio = host_stats::host_ratio(first_values, values, &pairs).filter(|_| host != first);
        let reason = if host == first {
            "ratios are to this host"
        } else {
            NO_RATIO
        };
        table.rows.push(vec![
            text_cell(host),
            count(values.len()),
            number_or(mean(values), primary.decimals, "not recorded"),
            estimate_or(ratio.map(|ratio| ratio.value_and_ends()), 3, reason),
        ]);
    }
    for arm in &runs.arms {
        let pairs = pair_metric_by_host_block(runs, [arm, &format!("{arm}{AA_SUFFIX}")], primary);
        if pairs.is_empty() {
            continue;
        }
        let ratio = host_stats::compare(&pairs, margin).ratio;
        table.rows.push(vec![
            Cell::Text(format!("{arm} against itself (A/A)")),
            count(pairs.len()),
            missing("this row has only a ratio of two runs"),
            estimate_or(ratio.map(|ratio| ratio.value_and_ends()), 3, NO_RATIO),
        ]);
    }
    Some(Block::Table(table))
}

pub fn caveats(runs: &MeasuredRuns) -> Vec<Caveat> {
    let memory = |facts: &SystemFacts| Some(bytes(facts.memory_bytes? as f64));
    let machines = [
        ("CPU", hosts_by_value(runs, |facts| facts.cpu.clone())),
        ("memory", hosts_by_value(runs, memory)),
    ]
    .into_iter()
    .filter_map(|(fact, values)| Some(format!("{fact}: {}", values?)))
    .join("; ");
    let machines = (!machines.is_empty()).then(|| {
        Caveat::new(
            format!("The runs were on different machines: {machines}."),
            "Use one machine for all arms, or swap the machines between arms.",
        )
    });
    let kernels = hosts_by_value(runs, |facts| facts.kernel.clone()).map(|kernels| {
        Caveat::new(
            format!("The runs had different kernels: {kernels}."),
            "Boot the same kernel for all arms.",
        )
    });
    chain!(runs_without_host_block(runs), machines, kernels).collect()
}

fn runs_without_host_block(runs: &MeasuredRuns) -> Option<Caveat> {
    let arms = runs.arms.iter();
    let counted_runs = arms.flat_map(|arm| runs.counted_runs_of(arm)).collect_vec();
    let hosts = distinct(counted_runs.iter().filter_map(|run| run.recording.host()));
    let names = counted_runs
        .iter()
        .filter(|run| host_block_of(run).is_none())
        .map(|run| &run.name)
        .join(", ");
    (hosts.len() > 1 && !names.is_empty()).then(|| {
        Caveat::new(
            format!(
                "On several hosts, only runs with the labels host and block are compared. These \
                 lack one: {names}."
            ),
            "Run all arms of a block on one host, with the labels host and block.",
        )
    })
}

/// Values and the hosts that have them: `A (n1, n2) against B (n3)`. `None` unless values differ.
fn hosts_by_value(
    runs: &MeasuredRuns,
    value: impl Fn(&SystemFacts) -> Option<String>,
) -> Option<String> {
    let recordings = runs.all.iter().map(|run| &run.recording);
    let values = by_key(
        recordings.filter_map(|recording| Some((value(&recording.facts)?, recording.host()))),
    );
    let texts = values.iter().map(|(value, hosts)| {
        let hosts = distinct(hosts.iter().flatten()).into_iter().join(", ");
        match hosts.as_str() {
            "" => value.clone(),
            hosts => format!("{value} ({hosts})"),
        }
    });
    (values.len() > 1).then(|| texts.collect_vec().join(" against "))
}

/// Runs of a turn wait unequally if their shares of time differ by more than this, and by a factor
/// above 1.5.
const MIN_SHARE_DIFFERENCE: f64 = 0.01;

/// Runs of a turn share disks. Warns if they waited for I/O unequally, or if a wait is unknown.
pub fn io_pressure_caveats(runs: &MeasuredRuns) -> Vec<Caveat> {
    let all = runs.all.iter();
    let mut turns = by_key(all.filter_map(|run| Some((turn_key(run)?, run))));
    turns.retain(|(_, runs_of_turn)| runs_of_turn.len() > 1);
    turns.sort_by_key(|(key, _)| *key);
    let (mut unequal_turns, mut unknown_turns) = (Vec::new(), 0);
    for ((.., turn), runs_of_turn) in &turns {
        let shares: Option<Vec<f64>> = runs_of_turn.iter().map(|run| io_wait_share(run)).collect();
        let Some((min, max)) = shares.and_then(|shares| shares.into_iter().minmax().into_option())
        else {
            unknown_turns += 1;
            continue;
        };
        if max - min > MIN_SHARE_DIFFERENCE && max > 1.5 * min {
            unequal_turns.push(format!(
                "turn {turn}: {:.1} to {:.1} % of the time",
                100.0 * min,
                100.0 * max
            ));
        }
    }
    let unequal = (!unequal_turns.is_empty()).then(|| {
        Caveat::new(
            format!(
                "Runs at the same time did not wait for I/O equally long ({}).",
                unequal_turns.join("; ")
            ),
            "Give the runs of a turn separate devices (one for each lane), or set the same I/O limits in every arm.",
        )
    });
    let unknown = (unknown_turns > 0).then(|| {
        Caveat::new(
            format!(
                "It is not known whether runs at the same time waited for I/O equally long: {unknown_turns} of {} turns.",
                turns.len()
            ),
            "Use a host with cgroup v2: its kernel reports pressure per cgroup.",
        )
    });
    chain!(unequal, unknown).collect()
}

fn io_wait_share(run: &MeasuredRun) -> Option<f64> {
    let run_seconds = run.lifecycle.run_end;
    let share_recorded_by_experiment = || {
        let seconds = run
            .recording
            .experiment_outcome
            .as_ref()?
            .io_stall_seconds?;
        (run_seconds > 0.0).then(|| seconds / run_seconds)
    };
    signal_rates(
        &run.recording,
        Signal::IoSome,
        run.since_first_transaction.window,
    )
    .mean()
    .or_else(share_recorded_by_experiment)
}

/// Experiment, length of the label `turn`, and the label. The length sorts turn 10 after turn 9.
fn turn_key(run: &MeasuredRun) -> Option<(&str, usize, &str)> {
    let experiment = run.recording.label("experiment").unwrap_or_default();
    let turn = run.recording.label("turn")?;
    Some((experiment, turn.len(), turn))
}

#[cfg(test)]
mod tests;
