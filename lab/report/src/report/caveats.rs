mod outliers;

use super::cache::last_capacity;
use super::comparison::lowercase_first;
use super::groups::{by_key, distinct};
use super::hosts;
use super::model::Caveat;
use super::pace;
use super::scalars::Scalar;
use super::subject::{MIN_TIP_SECONDS, RunPart, Subject, Subjects};
use crate::run::{ClockStep, Signal};
use faultline_phase::{KEPT_UP, Phase};
use faultline_stats::arms::RUNS_FOR_A_TEST;
use faultline_stats::caveat::{counts_hits_as_before_4_4, not_interleaved};
use faultline_stats::summary::min_values_for;
use faultline_text::{counted, moment, number};

pub(crate) fn caveats(subjects: &Subjects, primary: &Scalar, same_slots: bool) -> Vec<Caveat> {
    let several = subjects.arms.len() > 1;
    let part = several.then(|| subjects.compared_part());
    let mut caveats = merged_caveats(subjects, recording_caveat);
    caveats.extend(merged_caveats(subjects, clock_set));
    let outliers = outliers::outliers(subjects, primary);
    caveats.extend(merged_caveats(subjects, |one| {
        let of_run = outliers.iter().filter(|(id, _)| *id == one.id);
        let caveat = |(_, what): &(String, String)| RunCaveat::new(one, what, outliers::REMEDY);
        of_run.map(caveat).collect::<Vec<_>>()
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

struct RunCaveat {
    run: String,
    /// Without the run's name and the final full stop.
    what: String,
    remedy: &'static str,
}

impl RunCaveat {
    fn new(subject: &Subject, what: impl Into<String>, remedy: &'static str) -> Self {
        Self {
            run: subject.name.clone(),
            what: what.into(),
            remedy,
        }
    }
}

const MAX_NAMED: usize = 6;

/// Merges equal caveats of several runs.
fn merged_caveats<C: IntoIterator<Item = RunCaveat>>(
    subjects: &Subjects,
    of: impl Fn(&Subject) -> C,
) -> Vec<Caveat> {
    let all = subjects.all.len();
    let singles = subjects.all.iter().flat_map(of);
    let kinds = by_key(singles.map(|one| (one.remedy, (one.what, one.run))));
    let caveat = |(remedy, caveat_text): (&'static str, Vec<(String, String)>)| {
        let caveat_text = by_key(caveat_text);
        let sentence =
            |(what, runs): &(String, Vec<String>)| format!("{}: {what}", listed(runs, all));
        let mut parts: Vec<String> = caveat_text.iter().take(MAX_NAMED).map(sentence).collect();
        if caveat_text.len() > MAX_NAMED {
            parts.push(format!(
                "and {} likewise",
                counted((caveat_text.len() - MAX_NAMED) as f64, "more run")
            ));
        }
        Caveat::new(format!("{}.", parts.join("; ")), remedy)
    };
    kinds.into_iter().map(caveat).collect()
}

/// `all` is the number of all runs.
fn listed(runs: &[String], all: usize) -> String {
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
    let with = |runs: usize| -> Vec<String> {
        subjects
            .arms
            .iter()
            .filter(|arm| subjects.of(arm).count() == runs)
            .cloned()
            .collect()
    };
    let mut found = Vec::new();
    let (one, two) = (with(1), with(2));
    if !one.is_empty() {
        found.push(one_run(&one));
    }
    if !two.is_empty() {
        found.push(too_few_runs(&two));
    }
    if !same_slots && !subjects.is_any_process() {
        found.push(loads_differ(&outliers::tps_of_runs(subjects)));
    }
    let versions = distinct(
        subjects
            .all
            .iter()
            .flat_map(|subject| subject.run.facts.versions.iter().cloned()),
    );
    if versions.len() > 1 {
        found.push(Caveat::new(
            format!(
                "The runs had different validators: {}.",
                versions.join(", ")
            ),
            "Use one validator binary for all arms.",
        ));
    }
    let before: Vec<String> = versions
        .into_iter()
        .filter(|version| counts_hits_as_before_4_4(version) == Some(true))
        .collect();
    if !before.is_empty() {
        found.push(hit_counts_differ(&before));
    }
    found.extend(pace::caveats(subjects));
    found.extend(hosts::caveats(subjects));
    let begun = { subjects.all.iter() }
        .map(|subject| (subject.run.origin_unix_ns as f64, subject.arm.as_str()));
    let begun: Vec<(f64, &str)> = begun.collect();
    found.extend(not_interleaved(&begun).map(|(first, then)| one_after_the_other(first, then)));
    found
}

fn one_run(arms: &[String]) -> Caveat {
    let arms = arms.join(", ");
    Caveat::new(
        format!(
            "Arms with a single run ({arms}): the variation between runs is unknown, so nothing is tested."
        ),
        "Run each arm at least three times.",
    )
}

fn too_few_runs(arms: &[String]) -> Caveat {
    let arms = arms.join(", ");
    Caveat::new(
        format!(
            "Two runs are too few for a test ({arms}); it needs {RUNS_FOR_A_TEST} in each arm."
        ),
        "Run each arm at least once more.",
    )
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

fn hit_counts_differ(versions: &[String]) -> Caveat {
    Caveat::new(
        format!(
            "Before 4.4 Agave counts the hits of the program cache in another way ({}); hits and hit ratios of these runs \
             cannot be compared.",
            versions.join(", ")
        ),
        "Compare misses, evictions and times, or use 4.4 or later in all arms.",
    )
}

fn one_after_the_other(first: &str, then: &str) -> Caveat {
    Caveat::new(
        format!(
            "All runs of {first} came before all of {then}: whatever changed meanwhile looks like an effect."
        ),
        "Alternate the arms (A B B A), or draw their order by lot.",
    )
}

/// A caveat of one run, without its name and the final full stop, and the remedy.
type WhatAndRemedy = (String, &'static str);

fn run_caveats(subject: &Subject, part: Option<RunPart>) -> Vec<RunCaveat> {
    let lifecycle = &subject.lifecycle;
    let gaps: Vec<f64> = lifecycle
        .gaps_of_the_run()
        .map(|gap| gap.seconds())
        .collect();
    let tps = &subject.from_execution.tps;
    let unknown = tps.unknown.filter(|unknown| *unknown > 0);
    let found = [
        (!gaps.is_empty()).then(|| not_watched(&gaps)),
        (lifecycle.restarts > 0).then(|| restarted(lifecycle.restarts)),
        consensus_changed(subject),
        not_at_tip(subject, part),
        unknown.map(|unknown| unknown_seconds(unknown, unknown + tps.known)),
        cache_exceeds_its_size(subject),
    ];
    let found = found.into_iter().flatten();
    found
        .map(|(what, remedy)| RunCaveat::new(subject, what, remedy))
        .collect()
}

fn not_watched(gaps: &[f64]) -> WhatAndRemedy {
    let stretches = times(gaps.len(), "stretch", "stretches");
    (
        format!(
            "{stretches} not watched, {} in all",
            faultline_text::seconds(gaps.iter().sum())
        ),
        "Give the daemon its own core and a disk with free space, and run again.",
    )
}

fn restarted(restarts: usize) -> WhatAndRemedy {
    let restarts = times(restarts, "time", "times");
    (
        format!("the validator was restarted {restarts}"),
        "Find out why, and run again; or look only at the time after the last restart.",
    )
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

fn unknown_seconds(unknown: usize, of: usize) -> WhatAndRemedy {
    (
        format!("of {unknown} of {of} seconds it is not known whether anything was executed"),
        "Let the validator push its metrics to the daemon all the time.",
    )
}

fn cache_exceeds_its_size(subject: &Subject) -> Option<WhatAndRemedy> {
    let size = |signal| last_capacity(&subject.run, signal).map(|entries| entries as u64);
    let configured = size(Signal::CapacityConfigured)?;
    let observed = size(Signal::CapacityObserved).filter(|observed| *observed > configured)?;
    Some(cache_size(configured, observed))
}

fn cache_size(configured: u64, observed: u64) -> WhatAndRemedy {
    (
        format!(
            "the program cache held {observed} entries, more than the {configured} it was meant to have"
        ),
        "Check that this binary has the limit that the label says; a cache may also overshoot between two prunings.",
    )
}

fn times(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// One caveat for all unreliable intervals; the chapter of replay times says why.
fn unreliable(subjects: &Subjects) -> Option<Caveat> {
    let metrics = by_key(subjects.all.iter().flat_map(|subject| {
        let unreliable = subject.unreliable();
        unreliable.map(|(metric, _)| (metric, subject.name.as_str()))
    }));
    let all = subjects.all.len();
    let metric = |(metric, runs): &(&str, Vec<&str>)| match runs.len() {
        _ if all == 1 => lowercase_first(metric),
        n if n == all => format!("{} (every run)", lowercase_first(metric)),
        n if n > 2 => format!("{} ({n} of {all} runs)", lowercase_first(metric)),
        _ => format!("{} ({})", lowercase_first(metric), runs.join("; ")),
    };
    let metrics: Vec<String> = metrics.iter().map(metric).collect();
    (!metrics.is_empty()).then(|| Caveat {
        what: format!(
            "Intervals within runs that cannot be fully trusted: {}.{}",
            metrics.join(", "),
            if subjects.arms.len() > 1 {
                " The comparison of arms does not use them."
            } else {
                ""
            }
        ),
        remedy: "Record longer; the table below the intervals says why for each.".to_owned(),
    })
}

fn short_at_tip(subject: &Subject) -> Option<RunCaveat> {
    subject
        .lifecycle
        .kept_up
        .answer
        .filter(|kept_up| *kept_up)?;
    let seconds = subject.from_tip.as_ref()?.window.seconds();
    (seconds < MIN_TIP_SECONDS).then(|| {
        RunCaveat::new(
            subject,
            format!(
                "it was at the tip for only {}, so that it kept up says little",
                faultline_text::seconds(seconds)
            ),
            "Record at least ten minutes at the tip.",
        )
    })
}

fn few_slots(subject: &Subject) -> Option<RunCaveat> {
    let (slots, needed) = (
        subject.from_execution.replay.iter().flatten().count(),
        min_values_for(0.95),
    );
    (slots > 0 && slots < needed).then(|| {
        RunCaveat::new(
            subject,
            format!(
                "{slots} replayed {} too few for a p95 of replay times, which needs {needed}",
                if slots == 1 { "slot is" } else { "slots are" }
            ),
            "Record for longer.",
        )
    })
}

/// A run that executed nothing while others did.
fn executed_nothing(subjects: &Subjects, subject: &Subject) -> Option<RunCaveat> {
    (!subjects.is_averaged(subject)).then(|| RunCaveat::new(
        subject,
        "no executed transaction was recorded, so it is in no average of its arm and in no comparison",
        "Read what became of it in the table of outcomes; its own row in each table is about the whole run.",
    ))
}

fn clock_set(subject: &Subject) -> Option<RunCaveat> {
    let run = &subject.run;
    let caveat_text = |step: &ClockStep| {
        let at = run.origin_unix_ns.saturating_add((step.at * 1e9) as i64);
        format!("{} at {}", super::timeline::clock_step(step), moment(at))
    };
    let all: Vec<String> = run
        .clock_steps
        .iter()
        .take(MAX_NAMED)
        .map(caveat_text)
        .collect();
    let more = run.clock_steps.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 {
        format!(" and {}", counted(more as f64, "more time"))
    } else {
        String::new()
    };
    (!all.is_empty()).then(|| RunCaveat {
        run: subject.name.clone(),
        what: format!(
            "the wall clock was {}{more}; durations and rates are by the monotonic clock, and times of day after it are by \
             the clock as it was before",
            all.join(", ")
        ),
        remedy: "Synchronise the clock (NTP) before a run, and let it only slew afterwards.",
    })
}

fn not_at_tip(subject: &Subject, part: Option<RunPart>) -> Option<WhatAndRemedy> {
    let window = subject.executing?;
    let lifecycle = &subject.lifecycle;
    if lifecycle.kept_up.share >= Some(KEPT_UP) {
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
    Some((
        at_tip(has_phases.then_some(seconds), window.seconds()),
        remedy,
    ))
}

fn at_tip(at_tip: Option<f64>, seconds: f64) -> String {
    match at_tip {
        None => "it is not known whether it was at the tip".to_owned(),
        Some(at_tip) if at_tip <= 0.0 => "it never got to the tip".to_owned(),
        Some(at_tip) => format!(
            "at the tip for {} of {}",
            faultline_text::seconds(at_tip),
            faultline_text::seconds(seconds)
        ),
    }
}

fn recording_caveat(subject: &Subject) -> Option<RunCaveat> {
    let caveat = |what: &str, remedy| Some(RunCaveat::new(subject, what, remedy));
    if subject.run.facts.demo {
        return caveat(
            "recorded from the daemon's demonstration; the numbers mean nothing",
            "Record a validator.",
        );
    }
    if let Some(from) = &subject.run.salvaged {
        let what =
            format!("salvaged from {from}: rows are missing, and it may end before the run did");
        return caveat(
            &what,
            "Use the whole recording if there is one, or run again.",
        );
    }
    if !subject.run.finished && !subject.run.ticks.is_empty() {
        return caveat(
            "the recording was not ended: it is still being written, or was cut off by a kill",
            "Report again when it has ended; if it was cut off, at most its last second is missing.",
        );
    }
    None
}

#[cfg(test)]
mod tests;
