use super::{Lifecycle, Success};
use crate::{
    measure::{Span, timeline::Stall},
    run::{Run, Tick},
};
use faultline_phase::{Phase, TipTime};
use faultline_text::{moment, time};
use std::time::Duration;

/// Seconds. A validator that catches up for longer has not kept up. In the study, catching up took
/// up to two hours.
const CATCH_UP_LIMIT: f64 = 7200.0;

const OOM: &str = "the kernel's OOM killer killed it";

/// `None` as long as the answer depends on time without data.
pub fn success(run: &Run, lifecycle: &Lifecycle) -> Success {
    let from = lifecycle.at_tip;
    let Some(time) = from.and_then(|from| tip_time(run, lifecycle, from)) else {
        return without_share(run, lifecycle);
    };
    let all = (time.at_tip + time.elsewhere + time.unknown).as_secs_f64();
    let [share, unknown] = [time.at_tip, time.unknown].map(|part| part.as_secs_f64() / all);
    if lifecycle.end.oom {
        return Success {
            answer: Some(false),
            why: OOM.to_owned(),
            share: Some(share),
        };
    }
    let success = time.kept_up();
    let is_cut = run.salvaged.is_some() && success == Some(true);
    let answer = success.filter(|_| !is_cut);
    let only = if answer == Some(false) { "only " } else { "" };
    let part = match is_cut {
        true => "that was saved of a damaged recording",
        false => "since it was first there",
    };
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let mut why = format!("at the tip for {only}{} of the time {part}", percent(share));
    if unknown > 0.0 {
        why += &format!(", and of {} of it that is not known", percent(unknown));
    }
    if let Some(stalls) = stalls(run, &lifecycle.stalls) {
        why += &format!("; {stalls}");
    }
    Success {
        answer,
        why,
        share: Some(share),
    }
}

/// For a run that was never at the tip, or at its last tick only.
fn without_share(run: &Run, lifecycle: &Lifecycle) -> Success {
    let is_known = lifecycle.phase_of.iter().any(Option::is_some);
    let ran = lifecycle.time_in(run, Phase::CatchingUp, Span::ALWAYS);
    let (answer, why) = match lifecycle.at_tip {
        _ if lifecycle.end.oom => (Some(false), OOM),
        Some(_) => (None, "was at the tip at the last tick only"),
        None if ran > CATCH_UP_LIMIT => (
            Some(false),
            "ran for more than two hours and was never at the tip",
        ),
        None if ran > 0.0 && lifecycle.ended.is_some() => {
            (None, "was still catching up when it ended")
        }
        None if ran > 0.0 => (None, "was still catching up when the recording ended"),
        None if is_known => (
            None,
            "never ran so far that its distance to the tip was known",
        ),
        None => (None, "no phase was recorded"),
    };
    Success {
        answer,
        why: why.to_owned(),
        ..Success::default()
    }
}

/// Recorded time since `from` with a followed process or a pending restart, without requested
/// shutdowns; `None` without any.
fn tip_time(run: &Run, lifecycle: &Lifecycle, from: f64) -> Option<TipTime> {
    let experiment = run.from_experiment.as_ref();
    let stopped = experiment.and_then(|experiment| Some(run.at(experiment.stopped_unix_ns?)));
    let counts =
        |tick: &Tick| tick.process.is_some() && stopped.is_none_or(|stopped| tick.at <= stopped);
    let last = run.ticks.iter().rposition(counts)?;
    let followed = run.ticks.get(..=last)?.iter().zip(&lifecycle.phase_of);
    let mut time = TipTime::default();
    for ((before, phase), after) in followed.zip(run.ticks.get(1..=last).unwrap_or_default()) {
        let passed = Duration::try_from_secs_f64(after.at - before.at).unwrap_or_default();
        let is_gap = run.rules(before).is_gap(passed);
        if before.at >= from && before.session == after.session && !is_gap {
            time.add(*phase, passed);
        }
    }
    (time != TipTime::default()).then_some(time)
}

fn stalls(run: &Run, stalls: &[Stall]) -> Option<String> {
    let longest = stalls
        .iter()
        .max_by(|a, b| a.span.seconds().total_cmp(&b.span.seconds()))?;
    let more = match stalls.len() {
        1 => String::new(),
        2 => ", and once more".to_owned(),
        n => format!(", and {} times more", n - 1),
    };
    let at = run
        .origin_unix_ns
        .saturating_add((longest.span.from * 1e9) as i64);
    let from: String = moment(at).chars().skip("2025-01-31 ".len()).collect();
    let long = Duration::try_from_secs_f64(longest.span.seconds().round()).unwrap_or_default();
    Some(format!(
        "its slot did not advance for {} from {from} on{more}",
        time(long)
    ))
}

#[cfg(test)]
mod tests {
    use crate::{
        measure::lifecycle::lifecycle,
        run::{ExperimentOutcome, Run, Session, Tick},
    };

    /// At the tip for 80 s; then asked to end, which takes it 20 s in which nothing is known.
    fn slow_to_end(from_experiment: Option<ExperimentOutcome>) -> Run {
        let tick = |second: u32| Tick {
            at: f64::from(second),
            process: (second < 100).then_some(0),
            phase: (second < 80).then(|| "at_tip".into()),
            ..Tick::default()
        };
        let sessions = vec![Session {
            interval: 1.0,
            ..Session::default()
        }];
        Run {
            ticks: (0..=101).map(tick).collect(),
            sessions,
            from_experiment,
            ..Run::default()
        }
    }

    #[test]
    fn shutdown_time_after_a_stop_request_does_not_count() {
        assert_eq!(lifecycle(&slow_to_end(None)).success.answer, None);
        let from_experiment = ExperimentOutcome {
            stopped_unix_ns: Some(79_500_000_000),
            ..ExperimentOutcome::default()
        };
        let success = lifecycle(&slow_to_end(Some(from_experiment))).success;
        assert_eq!(
            (success.answer, success.share),
            (Some(true), Some(1.0)),
            "{}",
            success.why
        );
    }
}
