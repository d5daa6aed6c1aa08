use super::{
    cache::last_capacity,
    comparison::lowercase_first,
    groups::{by_key, distinct},
    hosts,
    model::Caveat,
    pace,
    scalars::{Scalar, scalar},
    subject::{MIN_TIP_SECONDS, RunPart, Subject, Subjects},
};
use crate::run::{ClockStep, Signal};
use faultline_phase::{KEPT_UP, Phase};
use faultline_stats::{
    arms::RUNS_FOR_A_TEST,
    caveat::{self, counts_hits_as_before_4_4, not_interleaved, outliers_of_arm},
    summary::min_values_for,
};
use faultline_text::{counted, moment, number, seconds as duration};
use itertools::Itertools;

pub fn caveats(subjects: &Subjects, primary: &Scalar, same_slots: bool) -> Vec<Caveat> {
    let several = subjects.arms.len() > 1;
    let part = several.then(|| subjects.compared_part());
    let mut caveats = merged_caveats(subjects, recording_caveat);
    caveats.extend(merged_caveats(subjects, clock_set));
    let outliers = outliers(subjects, primary);
    caveats.extend(merged_caveats(subjects, |one| {
        let of_run = outliers.iter().filter(|(id, _)| *id == one.id);
        let outliers = of_run.map(|(_, what)| (what.clone(), OUTLIER_REMEDY));
        outliers.collect::<Vec<_>>()
    }));
    if several {
        caveats.extend(arm_caveats(subjects, same_slots));
    }
    caveats.extend(merged_caveats(subjects, |one| run_caveats(one, part)));
    caveats.extend(merged_caveats(subjects, short_at_tip));
    caveats.extend(merged_caveats(subjects, few_slots));
    caveats.extend(merged_caveats(subjects, |one| {
        executed_nothing(subjects, one)
    }));
    caveats.extend(unreliable(subjects));
    caveats
}

/// A caveat of one run, without its name and the final full stop, and the remedy.
type WhatAndRemedy = (String, &'static str);

const MAX_NAMED: usize = 6;

/// Merges equal caveats of several runs.
fn merged_caveats<C: IntoIterator<Item = WhatAndRemedy>>(
    subjects: &Subjects,
    of: impl Fn(&Subject) -> C,
) -> Vec<Caveat> {
    let all = subjects.all.len();
    let singles = subjects
        .all
        .iter()
        .flat_map(|subject| of(subject).into_iter().map(|one| (one, &*subject.name)));
    let kinds = by_key(singles.map(|((what, remedy), run)| (remedy, (what, run))));
    let caveat = |(remedy, runs): (&'static str, Vec<(String, &str)>)| {
        let by_text = by_key(runs);
        let sentence =
            |(what, runs): &(String, Vec<&str>)| format!("{}: {what}", listed(runs, all));
        let mut parts: Vec<String> = by_text.iter().take(MAX_NAMED).map(sentence).collect();
        if by_text.len() > MAX_NAMED {
            parts.push(format!(
                "and {} likewise",
                counted((by_text.len() - MAX_NAMED) as f64, "more run")
            ));
        }
        Caveat::new(format!("{}.", parts.join("; ")), remedy)
    };
    kinds.into_iter().map(caveat).collect()
}

/// `all` is the number of all runs.
fn listed(runs: &[&str], all: usize) -> String {
    if all > 1 && runs.len() == all {
        return "Every run".to_owned();
    }
    if runs.len() > MAX_NAMED {
        return format!(
            "{} and {}",
            runs[..MAX_NAMED].join("; "),
            counted((runs.len() - MAX_NAMED) as f64, "more run")
        );
    }
    runs.join("; ")
}

fn arm_caveats(subjects: &Subjects, same_slots: bool) -> Vec<Caveat> {
    let joined = |names: Vec<&str>| (!names.is_empty()).then(|| names.join(", "));
    let with = |runs: usize| {
        let arms = subjects.arms.iter().map(String::as_str);
        joined(
            arms.filter(|arm| subjects.of(arm).count() == runs)
                .collect(),
        )
    };
    let all = subjects.all.iter();
    let versions = distinct(all.clone().flat_map(|one| &one.run.facts.versions));
    let versions: Vec<&str> = versions.into_iter().map(String::as_str).collect();
    let before = versions
        .iter()
        .copied()
        .filter(|version| counts_hits_as_before_4_4(version) == Some(true));
    let begun: Vec<(f64, &str)> = all
        .map(|one| (one.run.origin_unix_ns as f64, one.arm.as_str()))
        .collect();
    let caveats = [
        with(1).map(|arms| Caveat::new(
            format!("Arms with a single run ({arms}): the variation between runs is unknown, so nothing is tested."),
            "Run each arm at least three times.",
        )),
        with(2).map(|arms| Caveat::new(
            format!("Two runs are too few for a test ({arms}); it needs {RUNS_FOR_A_TEST} in each arm."),
            "Run each arm at least once more.",
        )),
        (!same_slots && !subjects.has_no_validator())
            .then(|| loads_differ(&tps_of_runs(subjects))),
        (versions.len() > 1).then(|| Caveat::new(
            format!("The runs had different validators: {}.", versions.join(", ")),
            "Use one validator binary for all arms.",
        )),
        joined(before.collect()).map(|versions| Caveat::new(
            format!(
                "Before 4.4 Agave counts the hits of the program cache in another way ({versions}); hits and hit ratios of these \
                 runs cannot be compared."
            ),
            "Compare misses, evictions and times, or use 4.4 or later in all arms.",
        )),
    ];
    let in_order = not_interleaved(&begun).map(|(first, then)| Caveat::new(
        format!("All runs of {first} came before all of {then}: whatever changed meanwhile looks like an effect."),
        "Alternate the arms (A B B A), or draw their order by lot.",
    ));
    let caveats = caveats.into_iter().flatten().chain(pace::caveats(subjects));
    caveats
        .chain(hosts::caveats(subjects))
        .chain(in_order)
        .collect()
}

fn loads_differ(tps: &[f64]) -> Caveat {
    let [lowest, highest] = [f64::min, f64::max].map(|end| tps.iter().copied().reduce(end));
    let range = lowest
        .zip(highest)
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
    subject: &Subject,
    part: Option<RunPart>,
) -> impl Iterator<Item = WhatAndRemedy> + use<> {
    let lifecycle = &subject.lifecycle;
    let gaps: Vec<f64> = lifecycle
        .gaps_of_the_run()
        .map(|gap| gap.seconds())
        .collect();
    let tps = &subject.from_execution.tps;
    let unknown = tps.unknown.filter(|unknown| *unknown > 0);
    let caveats = [
        (!gaps.is_empty()).then(|| {
            (
                format!(
                    "{} not watched, {} in all",
                    times(gaps.len(), "stretch", "stretches"),
                    duration(gaps.iter().sum())
                ),
                "Give the daemon its own core and a disk with free space, and run again.",
            )
        }),
        (lifecycle.restarts > 0).then(|| {
            (
                format!(
                    "the validator was restarted {}",
                    times(lifecycle.restarts, "time", "times")
                ),
                "Find out why, and run again; or look only at the time after the last restart.",
            )
        }),
        consensus_changed(subject),
        not_at_tip(subject, part),
        unknown.map(|unknown| {
            (
                format!(
                    "of {unknown} of {} seconds it is not known whether anything was executed",
                    unknown + tps.known
                ),
                "Let the validator push its metrics to the daemon all the time.",
            )
        }),
        cache_exceeds_its_size(subject),
    ];
    caveats.into_iter().flatten()
}

fn consensus_changed(subject: &Subject) -> Option<WhatAndRemedy> {
    let protocols = pace::protocols(&subject.run)?;
    (subject.run.consensus.len() > 1).then(|| (
        format!(
            "the consensus changed ({protocols}). Transactions, and what is counted by slot, mean different things before and after"
        ),
        "Read the time series before and after the migration apart, or record again without one.",
    ))
}

fn cache_exceeds_its_size(subject: &Subject) -> Option<WhatAndRemedy> {
    let size = |signal| last_capacity(&subject.run, signal).map(|entries| entries as u64);
    let configured = size(Signal::CapacityConfigured)?;
    let observed = size(Signal::CapacityObserved).filter(|observed| *observed > configured)?;
    Some((
        format!(
            "the program cache held {observed} entries, more than the {configured} it was meant to have"
        ),
        "Check that this binary has the limit that the label says; a cache may also overshoot between two prunings.",
    ))
}

fn times(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// One caveat for all unreliable intervals; the chapter of replay times says why.
fn unreliable(subjects: &Subjects) -> Option<Caveat> {
    let metrics = by_key(subjects.all.iter().flat_map(|subject| {
        let unreliable = subject.unreliable_estimates();
        unreliable.map(|(metric, _)| (metric, subject.name.as_str()))
    }));
    let all = subjects.all.len();
    let metric = |(metric, runs): &(&str, Vec<&str>)| match runs.len() {
        _ if all == 1 => lowercase_first(metric),
        n if n == all => format!("{} (every run)", lowercase_first(metric)),
        n if n > 2 => format!("{} ({n} of {all} runs)", lowercase_first(metric)),
        _ => format!("{} ({})", lowercase_first(metric), runs.join("; ")),
    };
    let metrics = metrics.iter().map(metric).join(", ");
    let unused = match subjects.arms.len() {
        0 | 1 => "",
        _ => " The comparison of arms does not use them.",
    };
    (!metrics.is_empty()).then(|| {
        Caveat::new(
            format!("Intervals within runs that cannot be fully trusted: {metrics}.{unused}"),
            "Record longer; the table below the intervals says why for each.",
        )
    })
}

fn short_at_tip(subject: &Subject) -> Option<WhatAndRemedy> {
    subject
        .lifecycle
        .success
        .answer
        .filter(|success| *success)?;
    let seconds = subject.from_tip.as_ref()?.window.seconds();
    (seconds < MIN_TIP_SECONDS).then(|| {
        (
            format!(
                "it was at the tip for only {}, so that it kept up says little",
                duration(seconds)
            ),
            "Record at least ten minutes at the tip.",
        )
    })
}

fn few_slots(subject: &Subject) -> Option<WhatAndRemedy> {
    let slots = subject.from_execution.replay.iter().flatten().count();
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

/// A run that executed nothing while others did.
fn executed_nothing(subjects: &Subjects, subject: &Subject) -> Option<WhatAndRemedy> {
    let what = "no executed transaction was recorded, so it is in no average of its arm and in no comparison";
    let remedy = "Read what became of it in the table of outcomes; its own row in each table is about the whole run.";
    (!subjects.is_averaged(subject)).then(|| (what.to_owned(), remedy))
}

fn clock_set(subject: &Subject) -> Option<WhatAndRemedy> {
    let run = &subject.run;
    let step = |step: &ClockStep| {
        let at = run.origin_unix_ns.saturating_add((step.at * 1e9) as i64);
        format!("{} at {}", super::timeline::clock_step(step), moment(at))
    };
    let steps = run.clock_steps.iter().take(MAX_NAMED);
    let all = steps.map(step).join(", ");
    let more = match run.clock_steps.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {}", counted(more as f64, "more time")),
    };
    (!all.is_empty()).then(|| (
        format!(
            "the wall clock was {all}{more}; durations and rates are by the monotonic clock, and times of day after it are by \
             the clock as it was before"
        ),
        "Synchronise the clock (NTP) before a run, and let it only slew afterwards.",
    ))
}

fn not_at_tip(subject: &Subject, part: Option<RunPart>) -> Option<WhatAndRemedy> {
    let window = subject.executing?;
    let lifecycle = &subject.lifecycle;
    if lifecycle.success.share >= Some(KEPT_UP) {
        return None;
    }
    let has_phases = subject.run.ticks.iter().any(|tick| tick.phase.is_some());
    let seconds = lifecycle.time_in(&subject.run, Phase::AtTip, window);
    let remedy = match part {
        Some(RunPart::FromTip) => {
            "Read the averages together with what became of each run: they take the time off the tip as it was."
        }
        Some(_) => "Compare only the time at the tip, or record until every run got there.",
        None => "Read the tables of the time at the tip, or record until it gets there.",
    };
    let what = at_tip(has_phases.then_some(seconds), window.seconds());
    Some((what, remedy))
}

fn at_tip(at_tip: Option<f64>, seconds: f64) -> String {
    match at_tip {
        None => "it is not known whether it was at the tip".to_owned(),
        Some(at_tip) if at_tip <= 0.0 => "it never got to the tip".to_owned(),
        Some(at_tip) => format!(
            "at the tip for {} of {}",
            duration(at_tip),
            duration(seconds)
        ),
    }
}

fn recording_caveat(subject: &Subject) -> Option<WhatAndRemedy> {
    let run = &subject.run;
    if run.facts.demo {
        let what = "recorded from the daemon's demonstration; the numbers mean nothing";
        return Some((what.to_owned(), "Record a validator."));
    }
    if let Some(from) = &run.salvaged {
        return Some((
            format!("salvaged from {from}: rows are missing, and it may end before the run did"),
            "Use the whole recording if there is one, or run again.",
        ));
    }
    let what = "the recording was not ended: it is still being written, or was cut off by a kill";
    let remedy =
        "Report again when it has ended; if it was cut off, at most its last second is missing.";
    (!run.finished && !run.ticks.is_empty()).then(|| (what.to_owned(), remedy))
}

const OUTLIER_REMEDY: &str =
    "Find out what disturbed the run and repeat it, or exclude the run and state that you did.";

/// Each run's mean transactions per second over the part that is compared.
fn tps_of_runs(subjects: &Subjects) -> Vec<f64> {
    let part = subjects.compared_part();
    let tps = subjects
        .all
        .iter()
        .filter_map(|subject| part.of(subject)?.tps.all_known);
    tps.map(|tps| tps.mean_of_all).collect()
}

/// Run id and reason of each outlier within its arm, by load and by the primary metric.
fn outliers(subjects: &Subjects, primary: &Scalar) -> Vec<(String, String)> {
    let mut outliers = Vec::new();
    if let Some(load) = scalar("tps").filter(|_| !subjects.has_no_validator()) {
        let arms = distinct(subjects.all.iter().map(|subject| subject.arm.as_str()));
        let arms: Vec<_> = arms
            .into_iter()
            .map(|arm| known(subjects, load, arm))
            .collect();
        let all: Vec<f64> = arms.iter().flatten().map(|(_, value)| *value).collect();
        let find = |arm: &[f64]| outliers_of_arm(arm, &all);
        let of_arm = |arm: &Vec<_>| outliers_in(subjects, load, arm, find);
        outliers.extend(arms.iter().flat_map(of_arm));
    }
    for arm in subjects.arms.iter().filter(|_| primary.id != "tps") {
        let known = known(subjects, primary, arm);
        outliers.extend(outliers_in(subjects, primary, &known, caveat::outliers));
    }
    outliers
}

fn known<'s>(subjects: &'s Subjects, scalar: &Scalar, arm: &'s str) -> Vec<(&'s Subject, f64)> {
    let value = |subject| pace::compared_value(subjects, scalar, subject);
    let runs = subjects.averaged_runs(arm);
    runs.filter_map(|subject| Some((subject, value(subject)?)))
        .collect()
}

fn outliers_in(
    subjects: &Subjects,
    scalar: &Scalar,
    known: &[(&Subject, f64)],
    find: impl Fn(&[f64]) -> Vec<usize>,
) -> Vec<(String, String)> {
    let values: Vec<f64> = known.iter().map(|(_, value)| *value).collect();
    let outliers = find(&values);
    let usual = (0..)
        .zip(&values)
        .filter(|(index, _)| !outliers.contains(index));
    let usual = usual.map(|(_, value)| *value);
    let [low, high] = [f64::min, f64::max].map(|end| usual.clone().reduce(end).unwrap_or(0.0));
    let text = |value| number(value, usize::from(scalar.decimals));
    let what = |index: usize| {
        let (subject, value) = known.get(index)?;
        let title = lowercase_first(scalar.title);
        let (value, low, high) = (text(*value), text(low), text(high));
        let unit = pace::unit(scalar, subjects.per_second);
        let others = format!(
            "{title} {value} {unit} where the others of its arm have {low} to {high} {unit}"
        );
        Some((subject.id.clone(), format!("{others}, so it is an outlier")))
    };
    outliers.into_iter().filter_map(what).collect()
}

#[cfg(test)]
mod tests;
