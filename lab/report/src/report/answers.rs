//! The answers of the status page by arm: whether memory and program cache are sufficient, and
//! whether the validator votes and earns rewards.

use super::{
    cache::last_capacity,
    groups::distinct,
    measured_run::{MeasuredRun, MeasuredRuns},
    model::{Answers, Finding},
    sufficient_memory,
};
use crate::{
    measure::{WindowNumbers, signal_rates},
    run::Signal,
};
use faultline_phase::Phase;
use faultline_stats::summary::{mean, summary};
use faultline_status::{AnswerInputs, CachePrediction, Consensus, answers};
use itertools::Itertools;

/// Empty without a run or a validator, or if any run is an offline replay of a range of slots.
pub fn answers_by_arm(runs: &MeasuredRuns) -> Vec<Answers> {
    let is_replay = runs.all.iter().any(|run| run.recording.is_offline_replay());
    if runs.all.is_empty() || runs.has_no_validator() || is_replay {
        return Vec::new();
    }
    let can_change = can_change_capacity(runs);
    let answers_of_arm = |arm: &String| {
        // Includes runs without an executed transaction, which do not count otherwise.
        let mut all_runs = runs.runs_of(arm);
        let answers = answers(&AnswerInputs {
            was_oom_killed: all_runs.any(|run| run.lifecycle.end.was_oom_killed),
            ..inputs(&runs.counted_runs_of(arm).collect_vec(), can_change)
        });
        Answers {
            name: arm.clone(),
            findings: answers
                .iter()
                .map(|answer| Finding {
                    verdict: answer.verdict.word().to_owned(),
                    text: answer.line(),
                })
                .collect(),
        }
    };
    runs.arms.iter().map(answers_of_arm).collect()
}

/// `Some(true)` if all runs are of one release, and several sizes of the program cache were
/// configured. Otherwise `None`: unknown.
fn can_change_capacity(runs: &MeasuredRuns) -> Option<bool> {
    let recordings = || runs.all.iter().map(|run| &run.recording);
    let sizes =
        distinct(recordings().filter_map(|recording| {
            last_capacity(recording, Signal::ProgramCacheCapacityConfigured)
        }));
    let versions = distinct(recordings().flat_map(|recording| recording.facts.versions.iter()));
    (sizes.len() > 1 && versions.len() == 1).then_some(true)
}

/// Averages over an arm's runs. RAM, limit, headroom, unreclaimable share and proven memory come
/// from the worst run. Headroom and the program cache's values are from the first transaction on,
/// because the RAM must also be enough to catch up, and the prediction is not only of the tip.
/// Prediction, consensus, whether the validator is at the tip, and reasons for unknown values come
/// from the first run.
fn inputs(runs: &[&MeasuredRun], can_change_capacity: Option<bool>) -> AnswerInputs {
    let values = |value: fn(&MeasuredRun, &WindowNumbers) -> Option<f64>| {
        runs.iter()
            .filter_map(|run| {
                value(
                    run,
                    run.from_tip
                        .as_ref()
                        .unwrap_or(&run.since_first_transaction),
                )
            })
            .collect_vec()
    };
    let average = |value| mean(&values(value));
    let smallest = |value| values(value).into_iter().reduce(f64::min);
    let installed = smallest(|run, _| run.recording.facts.memory_bytes.map(|bytes| bytes as f64));
    let proven = runs.iter().map(|run| sufficient_memory::proven_bytes(run));
    let proven: Option<Vec<f64>> = proven.collect();
    let first = runs.first();
    let why_unknown = |why: fn(&MeasuredRun) -> &'static str| {
        let none = "no executed transaction was recorded, so the runs of this arm do not count";
        Some(first.map_or(none, |run| why(run)).to_owned())
    };
    AnswerInputs {
        is_finished_run: true,
        installed,
        limit: smallest(|run, _| run.limit())
            .filter(|limit| installed.is_none_or(|installed| *limit < installed)),
        headroom: smallest(|run, _| run.since_first_transaction.gauges.headroom.min),
        unreclaimable_share: values(|_, numbers| numbers.gauges.unreclaimable_share.max)
            .into_iter()
            .reduce(f64::max),
        swap: average(|_, numbers| numbers.gauges.swap.max),
        memory_stalled_share: average(|run, numbers| {
            signal_rates(&run.recording, Signal::MemorySome, numbers.window).mean()
        }),
        major_faults_per_second: average(|_, numbers| numbers.major_faults.mean()),
        proven_bytes: proven.and_then(|proven| proven.into_iter().reduce(f64::max)),
        why_headroom_unknown: why_unknown(MeasuredRun::why_no_samples),
        reloads_per_slot: average(|run, _| run.since_first_transaction.cache.reloads.mean),
        cache_seconds_per_slot: average(|run, _| {
            let numbers = &run.since_first_transaction;
            let time = numbers.cache.time_us;
            // Replay and saved time are per slot, too. `time` leaves out slots without transactions.
            let us = time.mean? * (time.n + time.missing) as f64;
            Some(us / 1e6 / numbers.replay_ms.len() as f64)
        }),
        replay_seconds_per_slot: average(|run, _| {
            Some(summary(&run.since_first_transaction.replay_ms).mean? / 1e3)
        }),
        cache_capacity: average(|run, _| {
            last_capacity(&run.recording, Signal::ProgramCacheCapacityConfigured)
        }),
        can_change_capacity,
        prediction: first.and_then(|run| prediction(run)),
        why_reloads_unknown: why_unknown(MeasuredRun::why_no_datapoints),
        consensus: first.and_then(|run| Consensus::of_label(&run.recording.consensus.last()?.1)),
        is_at_tip: first.and_then(|run| is_at_tip(run)),
        why_voting_unknown: Some("a recording does not have votes and rewards".to_owned()),
        ..AnswerInputs::default()
    }
}

fn prediction(run: &MeasuredRun) -> Option<CachePrediction> {
    let prediction = run
        .recording
        .program_cache_prediction
        .as_ref()?
        .as_ref()
        .ok()?;
    let entries = prediction.enough_entries?;
    let seconds = |entries| {
        let mut sizes = prediction.sizes.iter();
        Some(sizes.find(|size| size.entries == entries)?.seconds?.mean)
    };
    // Predicted times cover all slots of the trace, the recorded time only slots with datapoints.
    let saved = prediction.recorded_seconds?
        * (1.0 - seconds(entries)? / seconds(prediction.recorded_entries).filter(|s| *s > 0.0)?);
    let slots = prediction.slots as f64;
    (slots > 0.0).then(|| CachePrediction {
        entries: entries as f64,
        saved_seconds: if entries > prediction.recorded_entries {
            saved / slots
        } else {
            0.0
        },
        measured_on: None,
    })
}

/// In the last tick that has a process.
fn is_at_tip(run: &MeasuredRun) -> Option<bool> {
    let (_, phase) = run
        .recording
        .ticks
        .iter()
        .zip(&run.lifecycle.phase_by_tick)
        .rev()
        .find(|(tick, _)| tick.process.is_some())?;
    Some(phase.as_ref()? == &Phase::AtTip)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{self, Span};
    use crate::run::{ExperimentOutcome, Run, Tick};
    use faultline_cache_prediction::prediction::{Prediction, PredictiveInterval, SizePrediction};
    use faultline_recording::ReplaySlotPoint;
    use faultline_stats::block_bootstrap::IntervalPlan;

    #[test]
    fn lost_datapoints_do_not_change_the_time_that_a_size_saves() {
        let range = |mean| PredictiveInterval {
            mean,
            low: mean,
            high: mean,
        };
        let size = |entries, seconds| SizePrediction {
            entries,
            misses: range(0.0),
            reloads: range(0.0),
            evictions: range(0.0),
            insertions: range(0.0),
            seconds: Some(range(seconds)),
            code_bytes: None,
        };
        let predicted = |recorded_seconds, slots| Prediction {
            version: String::new(),
            recorded_entries: 512,
            coverage_percent: None,
            simulated_run_count: 1,
            self_test: Vec::new(),
            self_test_passed: true,
            weaknesses: Vec::new(),
            recorded_seconds: Some(recorded_seconds),
            slots,
            sizes: vec![size(512, 3.0), size(1024, 1.0)],
            sizes_with_unknown_start: Vec::new(),
            enough_entries: Some(1024),
        };
        // The second recording has the datapoints of half of the slots.
        let recordings = [predicted(3.0, 100), predicted(1.5, 50)].map(|predicted| Run {
            program_cache_prediction: Some(Ok(predicted)),
            ..Run::default()
        });
        let runs = MeasuredRuns::new(recordings, &IntervalPlan::default(), &[]);
        for run in &runs.all {
            let saved = prediction(run).map(|one| one.saved_seconds);
            assert!(
                saved.is_some_and(|saved| (saved - 0.02).abs() < 1e-9),
                "{saved:?}"
            );
        }
    }

    /// Without transactions, a slot takes 4 ms and none of it in the program cache. Otherwise, 40
    /// ms and 4 ms of these in the program cache.
    fn replay_point(transactions: u64) -> ReplaySlotPoint {
        let has_any = transactions > 0;
        ReplaySlotPoint {
            total_transactions: Some(transactions),
            total_entries: Some(64),
            total_shreds: Some(900),
            replay_total_elapsed_us: Some(if has_any { 40_000 } else { 4_000 }),
            program_cache_us: Some(if has_any { 4_000 } else { 0 }),
            ..ReplaySlotPoint::default()
        }
    }

    #[test]
    fn the_cache_is_judged_by_all_slots_that_its_trace_covers() {
        let mut recording = Run::default();
        recording.points.replay = [1, 0, 0, 1].map(replay_point).to_vec();
        let mut runs = MeasuredRuns::new([recording], &IntervalPlan::default(), &[]);
        let run = &mut runs.all[0];
        let mut idle_at_tip = measure::numbers(&run.recording, &run.tps, Span::ALWAYS);
        idle_at_tip.cache.reloads.mean = Some(0.0);
        run.from_tip = Some(idle_at_tip);
        run.since_first_transaction.cache.reloads.mean = Some(7.9);
        let inputs = inputs(&[run], None);
        assert_eq!(
            (
                inputs.reloads_per_slot,
                inputs.cache_seconds_per_slot,
                inputs.replay_seconds_per_slot
            ),
            (Some(7.9), Some(0.002), Some(0.022))
        );
    }

    #[test]
    fn an_arm_with_an_oom_kill_has_no_fine_memory() {
        let recordings = [false, true].map(|oom| Run {
            experiment_outcome: Some(ExperimentOutcome {
                was_oom_killed: oom,
                ..ExperimentOutcome::default()
            }),
            ..Run::default()
        });
        let runs = MeasuredRuns::new(recordings, &IntervalPlan::default(), &[]);
        let answers = answers_by_arm(&runs);
        let ram = answers.iter().map(|arm| &arm.findings[0]);
        let killed = ram.filter(|ram| ram.verdict == "act" && ram.text.contains("OOM-killed"));
        assert_eq!(killed.count(), 1, "{answers:#?}");
    }

    #[test]
    fn memory_at_a_limit_that_was_set_for_a_moment_is_not_fine() {
        let gib = |values: [f64; 3]| values.map(|gib| Some(gib * 1e9)).to_vec();
        let mut run = Run {
            ticks: [0.0, 1.0, 2.0].map(tick).to_vec(),
            signals: vec![vec![None; 3]; Signal::ALL.len()],
            ..Run::default()
        };
        run.signals[Signal::Limit as usize] = gib([24.0, 0.1, 24.0]);
        run.signals[Signal::Unreclaimable as usize] = gib([0.1; 3]);
        let runs = MeasuredRuns::new([run], &IntervalPlan::default(), &[]);
        let ram = &answers_by_arm(&runs)[0].findings[0];
        assert!(
            ram.verdict == "act" && ram.text.contains("at least 0 B of headroom"),
            "{ram:?}"
        );
    }

    #[test]
    fn the_headroom_is_also_that_before_the_tip() {
        let phases = ["catching_up", "at_tip", "at_tip"];
        let ticks = phases.iter().zip([0.0, 1.0, 2.0]).map(|(phase, at)| Tick {
            phase: Some((*phase).into()),
            ..tick(at)
        });
        let mut run = Run {
            ticks: ticks.collect(),
            signals: vec![vec![None; 3]; Signal::ALL.len()],
            ..Run::default()
        };
        let gib = |values: [f64; 3]| values.map(|gib| Some(gib * f64::from(1 << 30))).to_vec();
        run.signals[Signal::Limit as usize] = gib([24.0; 3]);
        run.signals[Signal::Unreclaimable as usize] = gib([20.0, 4.0, 4.0]);
        let runs = MeasuredRuns::new([run], &IntervalPlan::default(), &[]);
        assert!(runs.all[0].from_tip.is_some());
        let ram = &answers_by_arm(&runs)[0].findings[0];
        assert!(ram.text.contains("at least 4 GiB of headroom"), "{ram:?}");
    }

    #[test]
    fn an_arm_without_a_counted_run_says_why_it_has_no_values() {
        let recordings = ["good", "dead"].map(|arm| Run {
            labels: vec![("arm".to_owned(), arm.to_owned())],
            ..Run::default()
        });
        let mut runs = MeasuredRuns::new(recordings, &IntervalPlan::default(), &[]);
        runs.all[0].execution_window = Some(Span::ALWAYS);
        let why =
            "not known: no executed transaction was recorded, so the runs of this arm do not count";
        for finding in &answers_by_arm(&runs)[1].findings[..2] {
            assert!(finding.text.contains(why), "{finding:?}");
        }
    }

    fn tick(at: f64) -> Tick {
        Tick {
            at,
            session: 1,
            process: None,
            phase: None,
        }
    }
}
