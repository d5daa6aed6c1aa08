use super::turn;
use crate::measure::growth;
use crate::report::model::Caveat;
use crate::report::subject::{Subject, Subjects};
use crate::run::Signal;

/// Smaller differences between shares of the time are not reported, nor are factors below 1.5.
const MIN_SHARE_DIFFERENCE: f64 = 0.01;

/// Runs of a turn share the disks. Warns about unequal or unknown waits.
pub(crate) fn io_pressure_caveats(subjects: &Subjects) -> Vec<Caveat> {
    let mut turns: Vec<(String, usize, String)> =
        subjects.all.iter().filter_map(turn_key).collect();
    turns.sort_unstable();
    turns.dedup();
    let (mut unequal_turns, mut unknown_turns) = (Vec::new(), 0usize);
    let mut shared_turns = 0usize;
    for one in turns {
        let runs: Vec<&Subject> = subjects
            .all
            .iter()
            .filter(|subject| turn_key(subject).as_ref() == Some(&one))
            .collect();
        let number = &one.2;
        if runs.len() < 2 {
            continue;
        }
        shared_turns += 1;
        let shares: Option<Vec<f64>> = runs.iter().map(|run| io_share(run)).collect();
        let Some(shares) = shares else {
            unknown_turns += 1;
            continue;
        };
        let min_share = shares.iter().copied().fold(f64::INFINITY, f64::min);
        let max_share = shares.iter().copied().fold(0.0, f64::max);
        if max_share - min_share > MIN_SHARE_DIFFERENCE && max_share > 1.5 * min_share {
            unequal_turns.push(format!(
                "turn {number}: {:.1} to {:.1} % of the time",
                100.0 * min_share,
                100.0 * max_share
            ));
        }
    }
    caveats(&unequal_turns, unknown_turns, shared_turns)
}

/// The share of the time for which the run waited for I/O.
fn io_share(subject: &Subject) -> Option<f64> {
    let from_experiment = subject
        .run
        .from_experiment
        .as_ref()
        .and_then(|from_experiment| from_experiment.io_some);
    let run_seconds = subject.lifecycle.until;
    let by_experiment = from_experiment
        .filter(|_| run_seconds > 0.0)
        .map(|seconds| seconds / run_seconds);
    growth(&subject.run, Signal::IoSome, subject.from_execution.window)
        .mean()
        .or(by_experiment)
}

/// Experiment, length of the turn's label, and the label. The length sorts turn 10 after turn 9.
fn turn_key(subject: &Subject) -> Option<(String, usize, String)> {
    let experiment = subject.run.label("experiment").unwrap_or_default();
    turn(subject).map(|turn| (experiment.to_owned(), turn.len(), turn.to_owned()))
}

fn caveats(unequal_turns: &[String], unknown_turns: usize, shared_turns: usize) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    if !unequal_turns.is_empty() {
        caveats.push(Caveat::new(
            format!(
                "Runs at the same time did not wait for I/O alike ({}).",
                unequal_turns.join("; ")
            ),
            "Give each lane a device of its own, or set a limit of I/O in every arm.",
        ));
    }
    if unknown_turns > 0 {
        caveats.push(Caveat::new(
            format!(
                "Whether runs at the same time waited for I/O alike is not known of {unknown_turns} of {shared_turns} turns."
            ),
            "Use a host with cgroup v2: its kernel reports pressure per cgroup.",
        ));
    }
    caveats
}
