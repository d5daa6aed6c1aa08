//! Slot times of arms. What is counted by slot cannot be compared where they differ: a shorter slot holds less work.

use super::scalars::{Per, Scalar};
use super::subject::Subjects;
use faultline_stats::caveat::Caveat;
use faultline_text::number as grouped;

/// Slot times are alike up to this ratio. The steps by which mainnet-beta shortened its slots are larger.
const ALIKE: f64 = 1.1;

/// Seconds for a slot, as the mean over the runs of an arm; `None` if no run shows it.
fn slot_seconds(subjects: &Subjects<'_>, arm: &str) -> Option<f64> {
    let runs: Vec<f64> = subjects
        .of(arm)
        .filter_map(|subject| subject.measured.course.slot_seconds)
        .collect();
    (!runs.is_empty()).then(|| runs.iter().sum::<f64>() / runs.len() as f64)
}

fn are_alike(one: f64, other: f64) -> bool {
    one.max(other) <= ALIKE * one.min(other)
}

/// Why a metric of two arms is not compared; `None` if it is.
pub(crate) fn refusal(
    subjects: &Subjects<'_>,
    reference: &str,
    other: &str,
    scalar: &Scalar,
) -> Option<String> {
    if scalar.per != Per::Slot || subjects.per_second {
        return None;
    }
    let of = |arm| slot_seconds(subjects, arm);
    let (before, after) = of(reference).zip(of(other))?;
    (!are_alike(before, after)).then(|| {
        format!(
            "not compared: slots of {} s with {other} and of {} s with {reference}; --per-second compares rates",
            grouped(after, 2),
            grouped(before, 2)
        )
    })
}

/// A value of a run as it is compared: with `--per-second`, what is counted by slot is divided by the run's slot time.
pub(crate) fn compared(
    subjects: &Subjects<'_>,
    scalar: &Scalar,
    value: f64,
    slot_seconds: Option<f64>,
) -> Option<f64> {
    if subjects.per_second && scalar.per == Per::Slot {
        slot_seconds.map(|seconds| value / seconds)
    } else {
        Some(value)
    }
}

/// The unit of what is compared.
pub(crate) fn unit(scalar: &Scalar, per_second: bool) -> String {
    if per_second && scalar.per == Per::Slot {
        format!("{}/s", scalar.unit)
    } else {
        scalar.unit.to_owned()
    }
}

/// Arms whose slot times differ.
pub(crate) fn caveat(subjects: &Subjects<'_>) -> Option<Caveat> {
    let arms: Vec<(String, f64)> = { subjects.arms.iter() }
        .filter_map(|arm| Some((arm.clone(), slot_seconds(subjects, arm)?)))
        .collect();
    let seconds = || arms.iter().map(|(_, seconds)| *seconds);
    let (min, max) = (seconds().reduce(f64::min)?, seconds().reduce(f64::max)?);
    (!are_alike(min, max)).then_some(Caveat::DifferentSlotTimes { arms })
}

#[cfg(test)]
mod tests {
    use crate::report::model::{Block, Cell, Report};
    use crate::report::{Options, build};
    use crate::run::{Run, Signal, Tick};
    use faultline_recording::ReplaySlotPoint;

    const SECONDS: usize = 120;

    /// A run at the tip whose slots take `slot_ms` and whose replay takes a quarter of that.
    fn run(arm: &str, number: u64, slot_ms: i64) -> Run {
        let origin = 1_800_000_000_000_000_000_i64;
        let mut signals = vec![vec![None; SECONDS]; Signal::ALL.len()];
        for (second, at) in (0..SECONDS).zip(0_i64..) {
            let slot = Some((1_000 + at * 1_000 / slot_ms) as f64);
            signals[Signal::EvidenceSlot as usize][second] = slot;
            signals[Signal::EvidenceTip as usize][second] = slot;
            signals[Signal::EvidenceStopped as usize][second] = Some(0.0);
        }
        let mut run = Run {
            file: format!("{arm}-{number}.fltl"),
            labels: vec![("arm".to_owned(), arm.to_owned())],
            finished: true,
            origin_unix_ns: origin + number as i64 * 1_000_000_000_000,
            ticks: (0..SECONDS)
                .map(|at| Tick {
                    at: at as f64,
                    session: 1,
                    process: Some(1),
                    phase: Some("at_tip".into()),
                })
                .collect(),
            signals,
            ..Run::default()
        };
        let slots = SECONDS as i64 * 1_000 / slot_ms;
        run.points.replay = (0..slots)
            .map(|index| ReplaySlotPoint {
                time_unix_ns: run.origin_unix_ns + index * slot_ms * 1_000_000,
                slot: Some(number * 100_000 + index as u64),
                total_transactions: Some(1_000),
                total_entries: Some(64),
                total_shreds: Some(900),
                replay_total_elapsed_us: Some((slot_ms * 250 + index % 7 + number as i64) as u64),
                ..ReplaySlotPoint::default()
            })
            .collect();
        run
    }

    fn report(slot_ms: [i64; 2], per_second: bool) -> Report {
        let arms = ["old", "new"].into_iter().zip(slot_ms);
        let runs: Vec<Run> = arms
            .flat_map(|(arm, slot_ms)| (1..=3).map(move |number| run(arm, number, slot_ms)))
            .collect();
        let options = Options {
            per_second,
            ..Options::default()
        };
        build(&runs, &options)
    }

    /// The cells of the primary metric's only row.
    fn primary(report: &Report) -> Vec<Cell> {
        let blocks = report.sections.iter().flat_map(|section| &section.blocks);
        let mut rows = blocks.filter_map(|block| match block {
            Block::Table(table) if table.id == "primary" => table.rows.first(),
            _ => None,
        });
        rows.next().unwrap().clone()
    }

    #[test]
    fn arms_of_different_slot_times_are_not_compared_by_slot() {
        let report = report([400, 200], false);
        let headline = &report.verdict.headline;
        assert!(
            headline.contains("slots of 0.20 s with new and of 0.40 s with old"),
            "{headline}"
        );
        let says = |text: &str| { report.caveats.iter() }.any(|caveat| caveat.what.contains(text));
        assert!(says("A slot took 0.40 s with old, 0.20 s with new."));
    }

    #[test]
    fn they_are_compared_by_second() {
        let report = report([400, 200], true);
        let headline = &report.verdict.headline;
        assert!(
            headline.contains("equivalent"),
            "a quarter of the time of each: {headline}"
        );
        let row = format!("{:?}", primary(&report));
        assert!(row.contains("25"), "{row}");
    }

    #[test]
    fn arms_of_one_slot_time_are_compared_as_ever() {
        let report = report([400, 390], false);
        assert!(!report.verdict.headline.contains("not compared"));
    }
}
