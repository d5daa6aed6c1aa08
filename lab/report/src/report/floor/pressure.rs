use super::turn;
use crate::report::model::Caveat;
use crate::report::subject::{Subject, Subjects};

/// Smaller shares of the time are not mentioned.
const MUCH: f64 = 0.01;

/// Runs of a turn share the disks. Warns about unequal or unknown waits.
pub(crate) fn pressure(subjects: &Subjects<'_>) -> Vec<Caveat> {
    let mut turns: Vec<(String, usize, String)> =
        subjects.all.iter().filter_map(turn_key).collect();
    turns.sort_unstable();
    turns.dedup();
    let (mut apart, mut unknown) = (Vec::new(), 0usize);
    let mut shared = 0usize;
    for one in turns {
        let runs: Vec<&Subject<'_>> = subjects
            .all
            .iter()
            .filter(|subject| turn_key(subject).as_ref() == Some(&one))
            .collect();
        let number = &one.2;
        if runs.len() < 2 {
            continue;
        }
        shared += 1;
        let shares: Option<Vec<f64>> = runs.iter().map(|run| io_share(run)).collect();
        let Some(shares) = shares else {
            unknown += 1;
            continue;
        };
        let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
        let most = shares.iter().copied().fold(0.0, f64::max);
        if most - least > MUCH && most > 1.5 * least {
            apart.push(format!(
                "turn {number}: {:.1} to {:.1} % of the time",
                100.0 * least,
                100.0 * most
            ));
        }
    }
    caveats(&apart, unknown, shared)
}

/// The share of the time for which the run waited for I/O.
fn io_share(subject: &Subject<'_>) -> Option<f64> {
    let from_experiment = subject
        .run
        .from_experiment
        .as_ref()
        .and_then(|from_experiment| from_experiment.io_some);
    let lasted = subject.measured.lifecycle.until;
    let by_experiment = from_experiment
        .filter(|_| lasted > 0.0)
        .map(|seconds| seconds / lasted);
    subject.usual.io_some.mean().or(by_experiment)
}

/// Experiment, length of the turn's name (for the order), and the name.
fn turn_key(subject: &Subject<'_>) -> Option<(String, usize, String)> {
    let experiment = subject.run.label("experiment").unwrap_or_default();
    turn(subject).map(|turn| (experiment.to_owned(), turn.len(), turn.to_owned()))
}

fn caveats(apart: &[String], unknown: usize, shared: usize) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    if !apart.is_empty() {
        caveats.push(Caveat::new(
            format!(
                "Runs at the same time did not wait for I/O alike ({}).",
                apart.join("; ")
            ),
            "Give each lane a device of its own, or set a limit of I/O in every arm.",
        ));
    }
    if unknown > 0 {
        caveats.push(Caveat::new(
            format!(
                "Whether runs at the same time waited for I/O alike is not known of {unknown} of {shared} turns."
            ),
            "Use a host with cgroup v2: its kernel reports pressure per cgroup.",
        ));
    }
    caveats
}
