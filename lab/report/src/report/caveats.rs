//! What weakens the conclusions of a report, with remedies.

use super::{
    comparability,
    comparison::lowercase_first,
    groups::{by_key, distinct},
    hosts,
    measured_run::{MIN_TIP_SECONDS, MeasuredRun, MeasuredRuns, RunPart},
    model::Caveat,
    run_metrics::{RunMetric, run_metric},
};
use crate::run::{ClockStep, Signal};
use faultline_phase::{MIN_KEPT_UP_SHARE, Phase};
use faultline_stats::{
    arms::RUNS_FOR_A_TEST,
    caveat::{self, counts_hits_as_before_4_4, find_separate_arms, outliers_of_arm},
    summary::min_values_for,
};
use faultline_status::is_modified_capacity;
use faultline_text::{counted, duration_f64, number, utc};
use itertools::{Itertools, chain};
use std::fmt::Display;

pub fn caveats(runs: &MeasuredRuns, primary: &RunMetric, all_are_paired: bool) -> Vec<Caveat> {
    let several = runs.arms.len() > 1;
    let part = several.then(|| runs.compared_part());
    let outliers = find_outliers(runs, primary);
    let outlier_caveats = merged_caveats(runs, |run| {
        outliers
            .iter()
            .filter(|(id, _)| *id == run.id)
            .map(|(_, what)| (what.clone(), OUTLIER_REMEDY))
            .collect_vec()
    });
    let arm_caveats = several.then(|| arm_caveats(runs, all_are_paired));
    chain!(
        merged_caveats(runs, recording_caveat),
        merged_caveats(runs, clock_step_caveat),
        outlier_caveats,
        arm_caveats.unwrap_or_default(),
        merged_caveats(runs, |run| run_caveats(run, part)),
        merged_caveats(runs, short_tip_caveat),
        merged_caveats(runs, few_slots_caveat),
        merged_caveats(runs, |run| no_execution_caveat(runs, run)),
        unreliable_intervals_caveat(runs),
    )
    .collect()
}

/// Texts of one run's caveat. [`merged_caveats`] adds the run's name and the full stop to the text.
type WhatAndRemedy = (String, &'static str);

const MAX_NAMED: usize = 6;

fn merged_caveats<C: IntoIterator<Item = WhatAndRemedy>>(
    runs: &MeasuredRuns,
    caveats_of: impl Fn(&MeasuredRun) -> C,
) -> Vec<Caveat> {
    let by_remedy = by_key(runs.all.iter().flat_map(|run| {
        caveats_of(run)
            .into_iter()
            .map(|(what, remedy)| (remedy, (what, run.name.as_str())))
    }));
    let merged = by_remedy.into_iter().map(|(remedy, caveats)| {
        let by_text = by_key(caveats);
        let mut texts = by_text.iter().take(MAX_NAMED).map(|(what, names)| {
            let names = match names.len() {
                count if count > 1 && count == runs.all.len() => "Every run".to_owned(),
                _ => first_texts(names, "; ", "more run"),
            };
            format!("{names}: {what}")
        });
        let mut texts = texts.join("; ");
        let (named, others) = by_text.split_at(by_text.len().min(MAX_NAMED));
        let is_named = |name: &&&str| named.iter().any(|(_, names)| names.contains(name));
        let other_runs = others.iter().flat_map(|(_, names)| names).unique();
        let unnamed = other_runs.filter(|name| !is_named(name)).count();
        let (count, noun) = match unnamed {
            0 => (others.len(), "more finding"),
            runs => (runs, "more run"),
        };
        if !others.is_empty() {
            texts += &format!("; and {}", counted(count as f64, noun));
        }
        Caveat::new(format!("{texts}."), remedy)
    });
    merged.collect()
}

fn first_texts<T: Display>(texts: &[T], separator: &str, noun: &str) -> String {
    let first = texts.iter().take(MAX_NAMED).join(separator);
    match texts.len().saturating_sub(MAX_NAMED) {
        0 => first,
        more => format!("{first} and {}", counted(more as f64, noun)),
    }
}

fn non_empty(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn arm_caveats(runs: &MeasuredRuns, all_are_paired: bool) -> Vec<Caveat> {
    let arms_with = |run_count| {
        let arms = runs.arms.iter();
        non_empty(
            arms.filter(|arm| runs.runs_of(arm).count() == run_count)
                .join(", "),
        )
    };
    let all = || runs.all.iter();
    let versions = distinct(all().flat_map(|run| &run.recording.facts.versions));
    let old_versions = versions
        .iter()
        .filter(|version| counts_hits_as_before_4_4(version) == Some(true))
        .join(", ");
    let begun = all()
        .map(|run| (run.recording.origin_unix_ns as f64, run.arm.as_str()))
        .collect_vec();
    let in_order = find_separate_arms(&begun).map(|(first, then)| Caveat::new(
        format!(
            "All runs of {first} came before all of {then}: whatever changed meanwhile looks like an effect."
        ),
        "Alternate the arms (A B B A), or randomize their order.",
    ));
    chain!(
        arms_with(1).map(|arms| Caveat::new(
            format!(
                "Arms with a single run ({arms}): the variation between runs is unknown, so they are not tested."
            ),
            "Run each arm at least three times.",
        )),
        arms_with(2).map(|arms| Caveat::new(
            format!(
                "Two runs are too few for a test ({arms}); it needs {RUNS_FOR_A_TEST} in each arm."
            ),
            "Run each arm at least once more.",
        )),
        (!all_are_paired && !runs.has_no_validator()).then(|| different_loads_caveat(runs)),
        (versions.len() > 1).then(|| Caveat::new(
            format!("The runs had different validators: {}.", versions.iter().join(", ")),
            "Use one validator binary for all arms.",
        )),
        non_empty(old_versions).map(|versions| Caveat::new(
            format!(
                "Before 4.4 Agave counts the hits of the program cache in another way ({versions}); hits and hit ratios of these \
                 runs cannot be compared."
            ),
            "Compare misses, evictions and times, or use 4.4 or later in all arms.",
        )),
        comparability::caveats(runs),
        hosts::caveats(runs),
        in_order,
    )
    .collect()
}

fn different_loads_caveat(runs: &MeasuredRuns) -> Caveat {
    let part = runs.compared_part();
    let tps = runs
        .all
        .iter()
        .filter_map(|run| part.numbers(run)?.tps.over_known_seconds);
    let range = tps
        .map(|tps| tps.mean_with_peaks)
        .minmax()
        .into_option()
        .map_or_else(String::new, |(lowest, highest)| {
            let [lowest, highest] = [lowest, highest].map(|tps| number(tps, 0));
            format!(": {lowest} to {highest} transactions per second")
        });
    Caveat::new(
        format!(
            "The runs did not process the same slots, so the network's load differs between them{range}."
        ),
        "Run the arms at the same time on one host, or replay one ledger range, so that slots can be paired.",
    )
}

fn run_caveats(
    run: &MeasuredRun,
    part: Option<RunPart>,
) -> impl Iterator<Item = WhatAndRemedy> + use<> {
    let lifecycle = &run.lifecycle;
    let gaps = lifecycle
        .gaps_before_run_end()
        .map(|gap| gap.seconds())
        .collect_vec();
    let tps = &run.since_first_transaction.tps;
    let unknown = tps.unknown_seconds.filter(|unknown| *unknown > 0);
    chain!(
        (!gaps.is_empty()).then(|| {
            (
                format!(
                    "{} in the recording, {} in all",
                    counted(gaps.len() as f64, "gap"),
                    duration_f64(gaps.iter().sum())
                ),
                "Give the daemon its own core and a disk with free space, and run again.",
            )
        }),
        (lifecycle.restarts > 0).then(|| {
            (
                format!(
                    "the process was restarted {}",
                    counted(lifecycle.restarts as f64, "time")
                ),
                "Find out why, and run again; or look only at the time after the last restart.",
            )
        }),
        consensus_change_caveat(run),
        tip_share_caveat(run, part),
        unknown.map(|unknown| {
            (
                format!(
                    "it is not known whether anything was executed in {} of {} seconds",
                    number(unknown as f64, 0),
                    number((unknown + tps.known_seconds) as f64, 0)
                ),
                "Let the validator push its metrics to the daemon all the time.",
            )
        }),
        cache_capacity_caveat(run),
    )
}

fn consensus_change_caveat(run: &MeasuredRun) -> Option<WhatAndRemedy> {
    let timeline = comparability::consensus_timeline(&run.recording)?;
    (run.recording.consensus.len() > 1).then(|| (
        format!(
            "the consensus changed ({timeline}). Transactions, and what is counted by slot, mean different things before and after"
        ),
        "Read the time series before and after the migration separately, or record again without one.",
    ))
}

fn cache_capacity_caveat(run: &MeasuredRun) -> Option<WhatAndRemedy> {
    let sizes = |signal| run.recording.signal(signal).iter().rev();
    let (observed, configured) = sizes(Signal::ProgramCacheCapacityObserved)
        .zip(sizes(Signal::ProgramCacheCapacityConfigured))
        .find_map(|(observed, configured)| (*observed).zip(*configured))?;
    if observed <= 0.0 || !is_modified_capacity(observed, configured) {
        return None;
    }
    let [observed, configured] = [observed, configured].map(|entries| number(entries, 0));
    Some((
        format!(
            "the evictions of the program cache imply a capacity of {observed} entries, but {configured} are configured"
        ),
        "Check that this binary has the limit that the label says; a cache may also overshoot between two prunings.",
    ))
}

fn unreliable_intervals_caveat(runs: &MeasuredRuns) -> Option<Caveat> {
    let metrics = by_key(runs.all.iter().flat_map(|run| {
        run.unreliable_estimates()
            .map(|(metric, _)| (lowercase_first(metric), run.name.as_str()))
    }));
    let all = runs.all.len();
    let metrics = metrics.iter().map(|(metric, names)| match names.len() {
        _ if all == 1 => metric.clone(),
        n if n == all => format!("{metric} (every run)"),
        n if n > 2 => format!(
            "{metric} ({} of {})",
            number(n as f64, 0),
            counted(all as f64, "run")
        ),
        _ => format!("{metric} ({})", names.join("; ")),
    });
    let unused = match runs.arms.len() {
        0 | 1 => "",
        _ => " The comparison of arms does not use them.",
    };
    non_empty(metrics.collect_vec().join(", ")).map(|metrics| {
        Caveat::new(
            format!("Intervals within runs that cannot be fully trusted: {metrics}.{unused}"),
            "Record longer; the table below the intervals says why for each.",
        )
    })
}

fn short_tip_caveat(run: &MeasuredRun) -> Option<WhatAndRemedy> {
    let seconds = run.from_tip.as_ref()?.window.seconds();
    let kept_up = run.lifecycle.success.passed == Some(true);
    (kept_up && seconds < MIN_TIP_SECONDS).then(|| {
        (
            format!(
                "it was at the tip for only {}, which is too short to show that it keeps up",
                duration_f64(seconds)
            ),
            "Record at least ten minutes at the tip.",
        )
    })
}

fn few_slots_caveat(run: &MeasuredRun) -> Option<WhatAndRemedy> {
    let slots = run
        .since_first_transaction
        .replay_ms
        .iter()
        .flatten()
        .count();
    let needed = min_values_for(0.95);
    (slots > 0 && slots < needed).then(|| {
        (
            format!(
                "{slots} replayed {} too few for a p95 of replay times, which needs {needed}",
                if slots == 1 { "slot is" } else { "slots are" }
            ),
            "Record for longer.",
        )
    })
}

fn no_execution_caveat(runs: &MeasuredRuns, run: &MeasuredRun) -> Option<WhatAndRemedy> {
    let what = "no executed transaction was recorded, so it is in no average of its arm and in no comparison";
    let remedy =
        "See the table of outcomes. In the other tables, the row of this run covers the whole run.";
    (!runs.is_counted(run)).then(|| (what.to_owned(), remedy))
}

fn clock_step_caveat(run: &MeasuredRun) -> Option<WhatAndRemedy> {
    let recording = &run.recording;
    let step = |step: &ClockStep| {
        let at = utc(recording.steady_unix_ns(step.at));
        format!("{} at {at}", super::timeline::clock_step(step))
    };
    let steps = recording.clock_steps.iter().map(step).collect_vec();
    let steps = first_texts(&steps, ", ", "more time");
    non_empty(steps).map(|steps| (
        format!(
            "the wall clock was {steps}; durations and rates are by the monotonic clock, and times of day are shown as if it \
             had not been set"
        ),
        "Synchronize the clock (NTP) before a recording, and let it only slew afterwards.",
    ))
}

fn tip_share_caveat(run: &MeasuredRun, part: Option<RunPart>) -> Option<WhatAndRemedy> {
    let window = run.execution_window?;
    let lifecycle = &run.lifecycle;
    if lifecycle.success.tip_share >= Some(MIN_KEPT_UP_SHARE) {
        return None;
    }
    let has_phases = run.recording.ticks.iter().any(|tick| tick.phase.is_some());
    let tip_seconds = lifecycle.time_in(&run.recording, Phase::AtTip, window);
    if has_phases && tip_seconds <= 0.0 && lifecycle.first_at_tip.is_some() {
        return Some((
            "it was at the tip, but for no measured time".to_owned(),
            "Record for longer after it gets to the tip.",
        ));
    }
    let what = time_at_tip_text(has_phases.then_some(tip_seconds), window.seconds());
    let remedy = match part {
        Some(RunPart::FromTip) => {
            "Read the averages together with the outcome of each run: they include the time after it fell behind."
        }
        Some(_) => "Compare only the time at the tip, or record until every run got there.",
        None => "Read the tables of the time at the tip, or record until it gets there.",
    };
    Some((what, remedy))
}

fn time_at_tip_text(tip_seconds: Option<f64>, window_seconds: f64) -> String {
    match tip_seconds {
        None => "it is not known whether it was at the tip".to_owned(),
        Some(..=0.0) => "it never got to the tip".to_owned(),
        Some(tip_seconds) => format!(
            "at the tip for {} of {}",
            duration_f64(tip_seconds),
            duration_f64(window_seconds)
        ),
    }
}

fn recording_caveat(run: &MeasuredRun) -> Option<WhatAndRemedy> {
    let recording = &run.recording;
    if recording.facts.is_demo {
        let what = "recorded from the daemon's demonstration; the numbers mean nothing";
        return Some((what.to_owned(), "Record a validator."));
    }
    if let Some(from) = &recording.salvaged {
        return Some((
            format!("salvaged from {from}: rows are missing, and it may end before the run did"),
            "Use the whole recording if there is one, or record again.",
        ));
    }
    let what = "the recording was not ended: it is still being written, or was cut off by a kill";
    let remedy =
        "Report again when it has ended; if it was cut off, at most its last second is missing.";
    (!recording.finished && !recording.ticks.is_empty()).then(|| (what.to_owned(), remedy))
}

const OUTLIER_REMEDY: &str =
    "Find out what disturbed the run and repeat it, or exclude the run and state that you did.";

/// Run id and reason of each outlier of an arm, by TPS and the primary metric. Workloads should be
/// equal, so an arm of few runs is compared by TPS with all runs.
fn find_outliers<'s>(runs: &'s MeasuredRuns, primary: &RunMetric) -> Vec<(&'s str, String)> {
    let mut outliers = Vec::new();
    if let Some(tps) = run_metric("tps").filter(|_| !runs.has_no_validator()) {
        let arms = values_by_arm(runs, tps);
        let all = arms
            .iter()
            .flat_map(|(_, runs_of_arm)| runs_of_arm)
            .map(|(_, value)| *value)
            .collect_vec();
        for (_, runs_of_arm) in &arms {
            let find = |arm: &[f64]| outliers_of_arm(arm, &all);
            outliers.extend(describe_outliers(runs, tps, runs_of_arm, find));
        }
    }
    for (arm, runs_of_arm) in values_by_arm(runs, primary) {
        let is_second_of_aa_pair = !runs.arms.iter().any(|listed| listed == arm);
        if primary.id != "tps" && !is_second_of_aa_pair {
            outliers.extend(describe_outliers(
                runs,
                primary,
                &runs_of_arm,
                caveat::outliers,
            ));
        }
    }
    outliers
}

type RunValues<'s> = Vec<(&'s MeasuredRun, f64)>;

/// Includes the second runs of A/A pairs as arms of their own.
fn values_by_arm<'s>(
    runs: &'s MeasuredRuns,
    run_metric: &RunMetric,
) -> Vec<(&'s str, RunValues<'s>)> {
    let counted_runs = runs.all.iter().filter(|run| runs.is_counted(run));
    by_key(counted_runs.filter_map(|run| {
        let value = comparability::compared_value(runs, run_metric, run)?;
        Some((run.arm.as_str(), (run, value)))
    }))
}

fn describe_outliers<'s>(
    runs: &MeasuredRuns,
    run_metric: &RunMetric,
    runs_of_arm: &[(&'s MeasuredRun, f64)],
    find: impl Fn(&[f64]) -> Vec<usize>,
) -> Vec<(&'s str, String)> {
    let values = runs_of_arm.iter().map(|(_, value)| *value).collect_vec();
    let outliers = find(&values);
    let (outlying, usual): (Vec<_>, Vec<_>) = runs_of_arm
        .iter()
        .enumerate()
        .partition(|(index, _)| outliers.contains(index));
    let (low, high) = usual
        .iter()
        .map(|(_, (_, value))| *value)
        .minmax()
        .into_option()
        .unwrap_or_default();
    let title = lowercase_first(&comparability::compared_title(
        run_metric,
        runs.compare_rates,
    ));
    let unit = comparability::compared_unit(run_metric, runs.compare_rates);
    let sentences = outlying.into_iter().map(|(_, (run, value))| {
        let [value, low, high] =
            [*value, low, high].map(|value| number(value, usize::from(run_metric.decimals)));
        let what = format!(
            "{title} {value} {unit} where the others of its arm have {low} to {high} {unit}, so it is an outlier"
        );
        (run.id.as_str(), what)
    });
    sentences.collect()
}

#[cfg(test)]
mod tests;
