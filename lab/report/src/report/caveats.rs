use super::cache::capacity;
use super::cells::duration;
use super::comparison::lower;
use super::groups::{by_key, distinct};
use super::model;
use super::pace;
use super::subject::Part;
use super::subject::{LONG_ENOUGH, Subject, Subjects};
use crate::run::{ClockStep, Signal};
use faultline_phase::{KEPT_UP, Phase};
use faultline_stats::arms::RUNS_FOR_A_TEST;
use faultline_stats::caveat::{Caveat, counts_hits_as_before_4_4, not_interleaved};
use faultline_stats::summary::{fewest_for, mean};
use faultline_text::moment;

pub(crate) fn caveats(subjects: &Subjects<'_>, same_slots: bool) -> Vec<model::Caveat> {
    let several = subjects.arms.len() > 1;
    let part = several.then(|| subjects.compared());
    let together = |of: &dyn Fn(&Subject<'_>) -> Vec<RunCaveat>| {
        let singles = subjects.all.iter().flat_map(of);
        together(singles.collect(), subjects.all.len())
    };
    let mut caveats = together(&|one| of_recording(one).into_iter().collect());
    caveats.extend(together(&|one| clock_set(one).into_iter().collect()));
    if several {
        let of_arms = of_arms(subjects, same_slots).into_iter();
        caveats.extend(of_arms.map(|caveat| model::Caveat::new(caveat.what(), caveat.remedy())));
    }
    caveats.extend(together(&|one| of_run(one, part)));
    caveats.extend(together(&|one| shortly(one).into_iter().collect()));
    caveats.extend(together(&|one| few_slots(one).into_iter().collect()));
    caveats.extend(together(&|one| idle(subjects, one).into_iter().collect()));
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
    fn new(subject: &Subject<'_>, what: impl Into<String>, remedy: &'static str) -> Self {
        Self {
            run: subject.name.clone(),
            what: what.into(),
            remedy,
        }
    }
}

const NAMED: usize = 6;

/// Merges equal caveats of several runs.
fn together(singles: Vec<RunCaveat>, all: usize) -> Vec<model::Caveat> {
    let singles = singles.into_iter();
    let kinds = by_key(singles.map(|one| (one.remedy, (one.what, one.run))));
    let caveat = |(remedy, caveat_text): (&'static str, Vec<(String, String)>)| {
        let caveat_text = by_key(caveat_text);
        let sentence =
            |(what, runs): &(String, Vec<String>)| format!("{}: {what}", listed(runs, all));
        let mut parts: Vec<String> = caveat_text.iter().take(NAMED).map(sentence).collect();
        if caveat_text.len() > NAMED {
            parts.push(format!(
                "and {} more runs likewise",
                caveat_text.len() - NAMED
            ));
        }
        model::Caveat::new(format!("{}.", parts.join("; ")), remedy)
    };
    kinds.into_iter().map(caveat).collect()
}

/// `all` is the number of all runs.
fn listed(runs: &[String], all: usize) -> String {
    if all > 1 && runs.len() == all {
        return "Every run".to_owned();
    }
    if runs.len() > NAMED {
        return format!(
            "{} and {} more runs",
            runs[..NAMED].join("; "),
            runs.len() - NAMED
        );
    }
    runs.join("; ")
}

fn of_arms(subjects: &Subjects<'_>, same_slots: bool) -> Vec<Caveat> {
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
        found.push(Caveat::OneRunPerArm { arms: one });
    }
    if !two.is_empty() {
        found.push(Caveat::TooFewRuns {
            arms: two,
            needed: RUNS_FOR_A_TEST,
        });
    }
    if !same_slots {
        found.push(load(subjects));
    }
    let versions = distinct(
        subjects
            .all
            .iter()
            .flat_map(|subject| subject.run.facts.versions.iter().cloned()),
    );
    if versions.len() > 1 {
        found.push(Caveat::DifferentVersions {
            versions: versions.clone(),
        });
    }
    let before: Vec<String> = versions
        .into_iter()
        .filter(|version| counts_hits_as_before_4_4(version) == Some(true))
        .collect();
    if !before.is_empty() {
        found.push(Caveat::HitsNotComparable { versions: before });
    }
    found.extend(pace::caveats(subjects));
    found.extend(machines(subjects));
    let begun: Vec<(f64, &str)> = subjects
        .all
        .iter()
        .map(|subject| {
            (
                subject.run.origin_unix_ns as f64 / 1e9,
                subject.arm.as_str(),
            )
        })
        .collect();
    found.extend(not_interleaved(&begun));
    found
}

fn load(subjects: &Subjects<'_>) -> Caveat {
    let of_arm = |arm: &String| {
        let tps = { subjects.of(arm) }.filter_map(|subject| subject.usual.tps.usual);
        mean(&tps.map(|tps| tps.mean_of_all).collect::<Vec<_>>())
    };
    let means: Vec<f64> = subjects.arms.iter().filter_map(of_arm).collect();
    Caveat::DifferentLoad {
        lowest_tps: means.iter().copied().reduce(f64::min),
        highest_tps: means.iter().copied().reduce(f64::max),
    }
}

fn machines(subjects: &Subjects<'_>) -> Vec<Caveat> {
    let facts = || subjects.all.iter().map(|subject| &subject.run.facts);
    let kernels = distinct(facts().filter_map(|facts| facts.kernel.clone()));
    let processors = distinct(facts().filter_map(|facts| facts.cpu.clone()));
    let memory = distinct(
        facts()
            .filter_map(|facts| facts.memory)
            .map(|bytes| super::cells::bytes(bytes as f64)),
    );
    let differs = |what: &str, all: &[String]| {
        (all.len() > 1).then(|| format!("{what}: {}", all.join(" against ")))
    };
    let differences: Vec<String> = [differs("CPU", &processors), differs("memory", &memory)]
        .into_iter()
        .flatten()
        .collect();
    let mut found = Vec::new();
    if !differences.is_empty() {
        found.push(Caveat::DifferentHardware { differences });
    }
    if kernels.len() > 1 {
        found.push(Caveat::DifferentKernel { kernels });
    }
    found
}

fn consensus_changed(subject: &Subject<'_>) -> Option<Caveat> {
    let protocols = pace::protocols(subject.run)?;
    (subject.run.consensus.len() > 1).then(|| Caveat::ConsensusChanged {
        run: subject.name.clone(),
        protocols,
    })
}

fn of_run(subject: &Subject<'_>, part: Option<Part>) -> Vec<RunCaveat> {
    let run = subject.name.clone();
    let lifecycle = &subject.measured.lifecycle;
    let mut found = Vec::new();
    let gaps: Vec<f64> = lifecycle
        .gaps_of_the_run()
        .map(|gap| gap.seconds())
        .collect();
    if !gaps.is_empty() {
        found.push(Caveat::DaemonGaps {
            run: run.clone(),
            gaps: gaps.len(),
            seconds: gaps.iter().sum(),
        });
    }
    if lifecycle.restarts > 0 {
        found.push(Caveat::Restarts {
            run: run.clone(),
            restarts: lifecycle.restarts,
        });
    }
    found.extend(consensus_changed(subject));
    found.extend(not_at_tip(subject));
    if let Some(unknown) = subject.usual.tps.unknown.filter(|unknown| *unknown > 0) {
        found.push(Caveat::UnknownSeconds {
            run: run.clone(),
            unknown,
            of: unknown + subject.usual.tps.known,
        });
    }
    let sizes = [Signal::CapacityConfigured, Signal::CapacityObserved]
        .map(|signal| capacity(subject.run, signal));
    if let [Some(configured), Some(observed)] = sizes
        && observed > configured
    {
        let (configured, observed) = (configured as u64, observed as u64);
        found.push(Caveat::CacheSizeObserved {
            run: run.clone(),
            configured,
            observed,
        });
    }
    // No remedy if the time at the tip is compared already.
    let remedy = |caveat: &Caveat| match caveat {
        Caveat::NotAtTip { .. } if part == Some(Part::Steady) => {
            "Read the averages together with what became of each run: they take the time off the tip as it was."
        }
        Caveat::NotAtTip { .. } if part.is_none() => {
            "Read the tables of the time at the tip, or record until it gets there."
        }
        caveat => caveat.remedy(),
    };
    found
        .into_iter()
        .map(|caveat| {
            let whole = caveat.what();
            let what = whole.strip_prefix(&format!("{}: ", subject.name));
            let what = what.unwrap_or(&whole).trim_end_matches('.');
            RunCaveat::new(subject, what, remedy(&caveat))
        })
        .collect()
}

/// The chapter of replay times lists them.
fn unreliable(subjects: &Subjects<'_>) -> Option<model::Caveat> {
    let metrics = by_key(subjects.all.iter().flat_map(|subject| {
        let unreliable = subject.unreliable();
        unreliable.map(|(metric, _)| (metric, subject.name.as_str()))
    }));
    let all = subjects.all.len();
    let metric = |(metric, runs): &(&str, Vec<&str>)| match runs.len() {
        _ if all == 1 => lower(metric),
        n if n == all => format!("{} (every run)", lower(metric)),
        n if n > 2 => format!("{} ({n} of {all} runs)", lower(metric)),
        _ => format!("{} ({})", lower(metric), runs.join("; ")),
    };
    let metrics: Vec<String> = metrics.iter().map(metric).collect();
    (!metrics.is_empty()).then(|| model::Caveat {
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

fn shortly(subject: &Subject<'_>) -> Option<RunCaveat> {
    subject
        .measured
        .lifecycle
        .kept_up
        .answer
        .filter(|kept_up| *kept_up)?;
    let seconds = subject.measured.windows.steady?.seconds();
    (seconds < LONG_ENOUGH).then(|| {
        RunCaveat::new(
            subject,
            format!(
                "it was at the tip for only {}, so that it kept up says little",
                duration(seconds)
            ),
            "Record at least ten minutes at the tip.",
        )
    })
}

fn few_slots(subject: &Subject<'_>) -> Option<RunCaveat> {
    let (slots, needed) = (
        subject.usual.replay.iter().flatten().count(),
        fewest_for(0.95),
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
fn idle(subjects: &Subjects<'_>, subject: &Subject<'_>) -> Option<RunCaveat> {
    (!subjects.counts(subject)).then(|| RunCaveat::new(
        subject,
        "no executed transaction was recorded, so it is in no average of its arm and in no comparison",
        "Read what became of it in the table of outcomes; its own row in each table is about the whole run.",
    ))
}

fn clock_set(subject: &Subject<'_>) -> Option<RunCaveat> {
    let run = subject.run;
    let caveat_text = |step: &ClockStep| {
        let at = run.origin_unix_ns.saturating_add((step.at * 1e9) as i64);
        format!("{} at {}", super::timeline::clock_step(step), moment(at))
    };
    let all: Vec<String> = run
        .clock_steps
        .iter()
        .take(NAMED)
        .map(caveat_text)
        .collect();
    let more = run.clock_steps.len().saturating_sub(NAMED);
    let more = if more > 0 {
        format!(" and {more} times more")
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

fn not_at_tip(subject: &Subject<'_>) -> Option<Caveat> {
    let window = subject.measured.windows.executing?;
    if subject
        .measured
        .lifecycle
        .kept_up
        .share
        .is_some_and(|share| share >= KEPT_UP)
    {
        return None;
    }
    let has_phases = subject.run.ticks.iter().any(|tick| tick.phase.is_some());
    let seconds = subject
        .measured
        .lifecycle
        .time_in(subject.run, Phase::AtTip, window);
    Some(Caveat::NotAtTip {
        run: subject.name.clone(),
        seconds_at_tip: has_phases.then_some(seconds),
        seconds: window.seconds(),
    })
}

fn of_recording(subject: &Subject<'_>) -> Option<RunCaveat> {
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
