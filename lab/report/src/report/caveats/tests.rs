use super::*;
use crate::{
    report::run_metrics::run_metric,
    run::{Process, Run, Session, Tick},
};
use faultline_recording::CostTrackerPoint;
use faultline_stats::block_bootstrap::IntervalPlan;

/// A run with two restarts, a gap of a minute, and a program cache above its size.
fn run(arm: &str, version: &str, begun: i64) -> Run {
    let tick = |at: f64| Tick {
        at,
        session: 1,
        process: Some(1),
        phase: Some("catching_up".into()),
    };
    let cost = |second: i64| CostTrackerPoint {
        time_unix_ns: (begun + second) * 1_000_000_000,
        bank_slot: Some(second as u64),
        transaction_count: Some(3800),
        ..CostTrackerPoint::default()
    };
    let mut run = Run {
        labels: vec![("arm".to_owned(), arm.to_owned())],
        finished: true,
        origin_unix_ns: begun * 1_000_000_000,
        ticks: [0.0, 1.0, 62.0].map(tick).to_vec(),
        sessions: vec![Session {
            id: 1,
            interval_seconds: 1.0,
            ..Session::default()
        }],
        processes: vec![Process::default(); 3],
        signals: vec![vec![None; 3]; Signal::ALL.len()],
        ..Run::default()
    };
    run.facts.versions = vec![version.to_owned()];
    run.points.costs = [0, 62].map(cost).to_vec();
    for (signal, value) in [
        (Signal::ZeroTpsSeconds, 0.0),
        (Signal::ProgramCacheCapacityConfigured, 512.0),
        (Signal::ProgramCacheCapacityObserved, 1024.0),
    ] {
        run.signals[signal as usize].fill(Some(value));
    }
    run
}

#[test]
fn every_caveat_is_full_sentences_with_its_numbers() {
    let recordings = [
        run("256", "2.1.14", 1_800_000_000),
        run("256", "2.1.14", 1_800_000_100),
        run("1024", "4.4.0", 1_800_000_200),
        run("1024", "4.4.0", 1_800_000_300),
        run("512", "2.1.14", 1_800_000_400),
    ];
    let runs = MeasuredRuns::new(recordings, &IntervalPlan::default(), &[]);
    let found = caveats(&runs, run_metric("tps").unwrap(), false);
    for caveat in &found {
        for text in [&caveat.what, &caveat.remedy] {
            assert!(
                text.ends_with('.') && !text.contains("  ") && !text.contains("NaN"),
                "{text:?}"
            );
        }
    }
    for fact in [
        "a single run (512)",
        "too few for a test (256, 1024); it needs 3",
        "differs between them: 3,800 to 3,800 transactions",
        "different validators: 2.1.14, 4.4.0",
        "in another way (2.1.14); hits",
        "All runs of 256 came before all of 1024",
        "1 gap in the recording, 1 min 1 s in all",
        "restarted 2 times",
        "in 61 of 63 seconds",
        "imply a capacity of 1,024 entries, but 512 are configured",
    ] {
        assert!(
            found.iter().any(|caveat| caveat.what.contains(fact)),
            "{fact:?}: {found:#?}"
        );
    }
}

#[test]
fn only_a_late_first_eviction_leaves_the_configured_capacity() {
    let of = |observed| {
        let mut run = run("512", "4.4.0", 1_800_000_000);
        run.signals[Signal::ProgramCacheCapacityObserved as usize].fill(Some(observed));
        let runs = MeasuredRuns::new([run], &IntervalPlan::default(), &[]);
        cache_capacity_caveat(&runs.all[0]).map(|(what, _)| what)
    };
    // A first eviction of 512 entries; the rounding of 512 and 511; no eviction with a level.
    assert_eq!([568.0, 512.0, 511.0, 0.0].map(of), [const { None }; 4]);
    for (observed, fact) in [
        (570.0, "a capacity of 570 entries, but 512 are"),
        (470.0, "a capacity of 470 entries, but 512 are"),
    ] {
        let what = of(observed).unwrap();
        assert!(what.contains(fact), "{what}");
    }
}

#[test]
fn capacities_of_two_processes_are_not_compared() {
    let mut run = run("512", "4.4.0", 1_800_000_000);
    for (signal, of_next_process) in [
        (Signal::ProgramCacheCapacityConfigured, Some(1024.0)),
        (Signal::ProgramCacheCapacityObserved, None),
    ] {
        run.signals[signal as usize] = vec![Some(512.0), Some(512.0), of_next_process];
    }
    let runs = MeasuredRuns::new([run], &IntervalPlan::default(), &[]);
    assert_eq!(cache_capacity_caveat(&runs.all[0]), None);
}

#[test]
fn a_run_at_the_tip_only_at_its_last_sample_got_there() {
    let mut run = run("512", "4.4.0", 1_800_000_000);
    run.ticks[2] = Tick {
        at: 2.0,
        phase: Some("at_tip".into()),
        ..run.ticks[1].clone()
    };
    let runs = MeasuredRuns::new([run], &IntervalPlan::default(), &[]);
    let (what, _) = tip_share_caveat(&runs.all[0], None).unwrap();
    assert_eq!(what, "it was at the tip, but for no measured time");
}

#[test]
fn time_at_the_tip_is_reported_or_unknown() {
    for (seconds_at_tip, fact) in [
        (Some(600.0), "10 min of 12 h"),
        (Some(0.0), "never"),
        (None, "not known"),
    ] {
        let text = time_at_tip_text(seconds_at_tip, 43_200.0);
        assert!(text.contains(fact), "{text}");
    }
}
