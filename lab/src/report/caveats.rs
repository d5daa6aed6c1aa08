//! What weakens the conclusions: a closed list, with remedies.

use super::cache::capacity;
use super::model;
use super::subject::{ESTIMATED, Subject, Subjects};
use crate::measure::course::{KEPT_UP, time_in};
use crate::run::Signal;
use faultline_stats::Reliability;
use faultline_stats::arms::RUNS_FOR_A_TEST;
use faultline_stats::caveat::{Caveat, counts_hits_as_before_4_4, not_interleaved};
use std::mem::discriminant;

/// All that apply, what concerns the whole first.
pub(crate) fn caveats(subjects: &Subjects<'_>, same_slots: bool) -> Vec<model::Caveat> {
    let said = |caveat: Caveat| model::Caveat { what: caveat.what(), remedy: caveat.remedy().to_owned() };
    let arms = if subjects.arms.len() > 1 { of_arms(subjects, same_slots) } else { Vec::new() };
    let mut caveats: Vec<model::Caveat> = arms.into_iter().map(said).collect();
    caveats.extend(subjects.all.iter().filter_map(of_recording));
    caveats.extend(subjects.all.iter().flat_map(of_run).map(said));
    caveats.extend(unreliable(subjects).into_iter().map(said));
    caveats
}

fn of_arms(subjects: &Subjects<'_>, same_slots: bool) -> Vec<Caveat> {
    let with = |runs: usize| -> Vec<String> {
        subjects.arms.iter().filter(|arm| subjects.of(arm).count() == runs).cloned().collect()
    };
    let mut found = Vec::new();
    let (one, two) = (with(1), with(2));
    if !one.is_empty() {
        found.push(Caveat::OneRunPerArm { arms: one });
    }
    if !two.is_empty() {
        found.push(Caveat::TooFewRuns { arms: two, needed: RUNS_FOR_A_TEST });
    }
    if !same_slots {
        found.push(load(subjects));
    }
    let versions = distinct(subjects.all.iter().flat_map(|subject| subject.run.facts.versions.iter().cloned()));
    if versions.len() > 1 {
        found.push(Caveat::DifferentVersions { versions: versions.clone() });
    }
    let before: Vec<String> =
        versions.into_iter().filter(|version| counts_hits_as_before_4_4(version) == Some(true)).collect();
    if !before.is_empty() {
        found.push(Caveat::HitsNotComparable { versions: before });
    }
    found.extend(machines(subjects));
    let begun: Vec<(f64, &str)> =
        subjects.all.iter().map(|subject| (subject.run.origin_unix_ns as f64 / 1e9, subject.arm.as_str())).collect();
    found.extend(not_interleaved(&begun));
    found
}

/// The least and the most of the arms' mean TPS.
fn load(subjects: &Subjects<'_>) -> Caveat {
    let means: Vec<f64> = (subjects.arms.iter())
        .filter_map(|arm| {
            let tps: Vec<f64> =
                subjects.of(arm).filter_map(|subject| subject.usual.tps.usual.map(|tps| tps.mean_of_all)).collect();
            (!tps.is_empty()).then(|| tps.iter().sum::<f64>() / tps.len() as f64)
        })
        .collect();
    Caveat::DifferentLoad {
        lowest_tps: means.iter().copied().reduce(f64::min),
        highest_tps: means.iter().copied().reduce(f64::max),
    }
}

fn machines(subjects: &Subjects<'_>) -> Vec<Caveat> {
    let facts = || subjects.all.iter().map(|subject| &subject.run.facts);
    let kernels = distinct(facts().filter_map(|facts| facts.kernel.clone()));
    let processors = distinct(facts().filter_map(|facts| facts.cpu.clone()));
    let memory = distinct(facts().filter_map(|facts| facts.memory).map(|bytes| super::words::bytes(bytes as f64)));
    let differs = |what: &str, all: &[String]| (all.len() > 1).then(|| format!("{what}: {}", all.join(" against ")));
    let differences: Vec<String> =
        [differs("CPU", &processors), differs("memory", &memory)].into_iter().flatten().collect();
    let mut found = Vec::new();
    if !differences.is_empty() {
        found.push(Caveat::DifferentHardware { differences });
    }
    if kernels.len() > 1 {
        found.push(Caveat::DifferentKernel { kernels });
    }
    found
}

fn distinct(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

fn of_run(subject: &Subject<'_>) -> Vec<Caveat> {
    let run = subject.name.clone();
    let course = &subject.measured.course;
    let mut found = Vec::new();
    if !course.gaps.is_empty() {
        let seconds = course.gaps.iter().map(|gap| gap.seconds()).sum();
        found.push(Caveat::DaemonGaps { run: run.clone(), gaps: course.gaps.len(), seconds });
    }
    if course.restarts > 0 {
        found.push(Caveat::Restarts { run: run.clone(), restarts: course.restarts });
    }
    found.extend(not_at_tip(subject));
    if let Some(unknown) = subject.usual.tps.unknown.filter(|unknown| *unknown > 0) {
        found.push(Caveat::UnknownSeconds { run: run.clone(), unknown, of: unknown + subject.usual.tps.known });
    }
    let sizes = [Signal::CapacityConfigured, Signal::CapacityObserved].map(|signal| capacity(subject.run, signal));
    if let [Some(configured), Some(observed)] = sizes
        && observed > configured
    {
        let (configured, observed) = (configured as u64, observed as u64);
        found.push(Caveat::CacheSizeObserved { run: run.clone(), configured, observed });
    }
    found
}

/// Intervals that do not keep their promise, those of several runs for the same reason together.
fn unreliable(subjects: &Subjects<'_>) -> Vec<Caveat> {
    let mut found: Vec<(&str, Reliability, Vec<&str>)> = Vec::new();
    for (place, metric) in ESTIMATED.into_iter().enumerate() {
        for subject in &subjects.all {
            let estimate = subject.estimates.get(place).copied().flatten();
            let Some(why) = estimate.map(|estimate| estimate.reliable).filter(|why| !why.is_reliable()) else {
                continue;
            };
            match found.iter_mut().find(|(known, same, _)| *known == metric && discriminant(same) == discriminant(&why))
            {
                Some((_, worst, runs)) => {
                    runs.push(&subject.name);
                    *worst = worse(*worst, why);
                }
                None => found.push((metric, why, vec![&subject.name])),
            }
        }
    }
    let caveat = |(metric, why, runs): (&str, Reliability, Vec<&str>)| Caveat::UnreliableInterval {
        run: runs.join("; "),
        metric: metric.to_owned(),
        why,
    };
    found.into_iter().map(caveat).collect()
}

/// Of two runs that are too short, the one that is worth less.
fn worse(a: Reliability, b: Reliability) -> Reliability {
    match (a, b) {
        (Reliability::TooShort { n_eff: one }, Reliability::TooShort { n_eff: other }) => {
            Reliability::TooShort { n_eff: one.min(other) }
        }
        (a, _) => a,
    }
}

fn not_at_tip(subject: &Subject<'_>) -> Option<Caveat> {
    let window = subject.measured.windows.executing?;
    if subject.measured.course.kept_up.share.is_some_and(|share| share >= KEPT_UP) {
        return None;
    }
    let told = subject.run.ticks.iter().any(|tick| tick.phase.is_some());
    let seconds = time_in(subject.run, |tick| window.holds(tick.at) && tick.phase.as_deref() == Some("at_tip"));
    Some(Caveat::NotAtTip {
        run: subject.name.clone(),
        seconds_at_tip: told.then_some(seconds),
        seconds: window.seconds(),
    })
}

fn of_recording(subject: &Subject<'_>) -> Option<model::Caveat> {
    let name = &subject.name;
    let caveat = |what: String, remedy: &str| Some(model::Caveat { what, remedy: remedy.to_owned() });
    if subject.run.facts.demo {
        return caveat(
            format!("{name}: recorded from the daemon's demonstration; the numbers mean nothing."),
            "Record a validator.",
        );
    }
    if !subject.run.finished && !subject.run.ticks.is_empty() {
        return caveat(
            format!("{name}: the recording was not ended: it is still being written, or was cut off by a kill."),
            "Report again when it has ended; if it was cut off, at most its last second is missing.",
        );
    }
    None
}
