use super::turn;
use crate::{
    measure::growth,
    report::{
        groups::by_key,
        model::Caveat,
        subject::{Subject, Subjects},
    },
    run::Signal,
};

/// Smaller differences between shares of the time are not reported, nor are factors below 1.5.
const MIN_SHARE_DIFFERENCE: f64 = 0.01;

/// Runs of a turn share the disks. Warns about unequal or unknown waits.
pub fn io_pressure_caveats(subjects: &Subjects) -> Vec<Caveat> {
    let all = subjects.all.iter();
    let mut turns = by_key(all.filter_map(|subject| Some((turn_key(subject)?, subject))));
    turns.retain(|(_, runs)| runs.len() > 1);
    turns.sort_by_key(|(key, _)| *key);
    let (mut unequal_turns, mut unknown_turns) = (Vec::new(), 0usize);
    for ((.., turn_label), runs) in &turns {
        let shares: Option<Vec<f64>> = runs.iter().map(|run| io_share(run)).collect();
        let Some(shares) = shares else {
            unknown_turns += 1;
            continue;
        };
        let min_share = shares.iter().copied().fold(f64::INFINITY, f64::min);
        let max_share = shares.iter().copied().fold(0.0, f64::max);
        if max_share - min_share > MIN_SHARE_DIFFERENCE && max_share > 1.5 * min_share {
            unequal_turns.push(format!(
                "turn {turn_label}: {:.1} to {:.1} % of the time",
                100.0 * min_share,
                100.0 * max_share
            ));
        }
    }
    let unequal = (!unequal_turns.is_empty()).then(|| {
        Caveat::new(
            format!(
                "Runs at the same time did not wait for I/O alike ({}).",
                unequal_turns.join("; ")
            ),
            "Give each lane a device of its own, or set a limit of I/O in every arm.",
        )
    });
    let unknown = (unknown_turns > 0).then(|| {
        Caveat::new(
            format!(
                "Whether runs at the same time waited for I/O alike is not known of {unknown_turns} of {} turns.",
                turns.len()
            ),
            "Use a host with cgroup v2: its kernel reports pressure per cgroup.",
        )
    });
    unequal.into_iter().chain(unknown).collect()
}

/// The share of the time for which the run waited for I/O.
fn io_share(subject: &Subject) -> Option<f64> {
    let experiment = subject.run.from_experiment.as_ref();
    let run_seconds = subject.lifecycle.until;
    let experiment_share = experiment
        .and_then(|experiment| experiment.io_some)
        .filter(|_| run_seconds > 0.0)
        .map(|seconds| seconds / run_seconds);
    growth(&subject.run, Signal::IoSome, subject.from_execution.window)
        .mean()
        .or(experiment_share)
}

/// Experiment, length of the turn's label, and the label. The length sorts turn 10 after turn 9.
fn turn_key(subject: &Subject) -> Option<(&str, usize, &str)> {
    let experiment = subject.run.label("experiment").unwrap_or_default();
    turn(subject).map(|turn| (experiment, turn.len(), turn))
}
