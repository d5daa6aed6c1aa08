//! Predictions: what may be said, and where more entries stop to pay.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops at what it did not expect, in its helpers too"
)]

mod common;

use common::{load, plain};
use faultline_cache_sim::{
    CacheRules, Error, Trace,
    cost::{CostModel, Fit},
    predict::{self, Curve, PredictionPlan},
};

fn predict(plan: &PredictionPlan) -> Result<Curve, Error> {
    predict::predict(plan, |_| {})
}

/// The recording begins at this slot, or else at the validator's start.
fn plan<'a>(trace: &'a Trace, sizes: &'a [u64], begins: Option<u64>) -> PredictionPlan<'a> {
    let rules = CacheRules::of("2.1.14").unwrap();
    PredictionPlan {
        trace,
        rules,
        sizes,
        simulated_run_count: 8,
        base_seed: 1,
        threads: 2,
        first_slot: begins.unwrap_or(0),
        starts_empty: begins.is_none(),
        compile_us: &[],
        fit: None,
    }
}

/// `repeats` rounds over 100 programs, one slot each.
fn rounds(repeats: u64) -> Trace {
    let lines: Vec<String> = (0..repeats * 100)
        .map(|at| format!("{} {}", 1 + at / 100, at * 37 % 100))
        .collect();
    plain(&lines.join("\n"))
}

#[test]
fn a_recording_started_midway_is_refused_unless_earlier_blocks_are_given() {
    let trace = rounds(50);
    let sizes = [50, 200];
    // Nothing is known of the time before slot 1: the first round misses all or few.
    let error = predict(&plan(&trace, &[200], Some(1))).unwrap_err();
    assert!(
        matches!(error, Error::StartUnknown { entries: 200, .. }),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .contains("began after the validator's start")
    );
    let warmed = PredictionPlan {
        simulated_run_count: 64,
        ..plan(&trace, &sizes, Some(40))
    };
    let curve = predict(&warmed).unwrap();
    assert_eq!(
        (curve.sizes.len(), curve.sizes_with_unknown_start.len()),
        (2, 0),
        "{curve:?}"
    );
    assert_eq!(curve.sizes[1].misses.mean, 0.0);
    // What is unknown at one size may be known at another: a few programs too few to keep any.
    let curve = predict(&PredictionPlan {
        sizes: &[2, 200],
        ..warmed
    })
    .unwrap();
    assert_eq!(curve.sizes.len(), 2);
    let curve = predict(&PredictionPlan {
        sizes: &[2, 200],
        first_slot: 1,
        ..warmed
    })
    .unwrap();
    assert_eq!(
        (curve.sizes.len(), curve.sizes_with_unknown_start.len()),
        (1, 1),
        "{curve:?}"
    );
    assert_eq!(curve.sizes_with_unknown_start[0], 200);
}

#[test]
fn prediction_depends_on_the_seed_but_not_on_thread_count() {
    let trace = load();
    let sizes = [256, 512, 640];
    let one = predict(&PredictionPlan {
        threads: 1,
        ..plan(&trace, &sizes, None)
    })
    .unwrap();
    let many = predict(&PredictionPlan {
        threads: 5,
        ..plan(&trace, &sizes, None)
    })
    .unwrap();
    let other = predict(&PredictionPlan {
        base_seed: 77,
        ..plan(&trace, &sizes, None)
    })
    .unwrap();
    assert_eq!(one, many);
    assert_ne!(one, other);
}

#[test]
fn the_knee_is_where_more_entries_save_under_1_percent_of_replay() {
    let trace = load();
    let sizes = [256, 384, 512, 640, 768, 1_024, 2_048];
    let model = CostModel {
        per_load: 290.0,
        per_byte: 0.0,
        per_transaction: 4.0,
        per_miss: 16.0,
    };
    let resampled = vec![
        CostModel {
            per_load: 280.0,
            ..model
        },
        CostModel {
            per_load: 300.0,
            ..model
        },
    ];
    let fit = Fit { model, resampled };
    let curve = predict(&PredictionPlan {
        fit: Some(&fit),
        ..plan(&trace, &sizes, None)
    })
    .unwrap();
    let time = |at: usize| curve.sizes[at].seconds.unwrap();
    assert!(time(0).mean > 2.0 * time(2).mean && time(5).mean == time(6).mean);
    // The costs' own uncertainty is in the interval: at 1,024 no miss is random.
    assert!(
        curve.sizes[5].misses.high == curve.sizes[5].misses.mean
            && time(5).high - time(5).mean > 2e-3,
        "{:?}",
        time(5)
    );
    // 768 entries hold all; a busy replay hardly feels the cache, and one that does nothing else needs them.
    assert_eq!(curve.enough_entries(512, 2e6), Some(768));
    assert_eq!(curve.enough_entries(512, 1e9), Some(256));
    assert_eq!(curve.enough_entries(500, 2e6), None);
    assert_eq!(
        predict(&plan(&trace, &sizes, None))
            .unwrap()
            .enough_entries(512, 2e6),
        None
    );
}

#[test]
fn an_impossible_simulation_plan_is_refused() {
    let trace = load();
    for plan in [
        plan(&trace, &[], None),
        PredictionPlan {
            simulated_run_count: 1,
            ..plan(&trace, &[512], None)
        },
    ] {
        assert!(matches!(predict(&plan), Err(Error::CannotSimulate(_))));
    }
    assert!(
        predict(&plan(&trace, &[1], None))
            .unwrap_err()
            .to_string()
            .contains("holds nothing")
    );
}
