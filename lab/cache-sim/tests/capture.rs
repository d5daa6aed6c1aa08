//! Simulated runs of a real load against what real validators counted.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops at what it did not expect, in its helpers too"
)]

mod common;

use common::{load, observed};
use faultline_cache_sim::{
    CacheRules, Counts, Setting, Trace, cost,
    predict::{CounterPrediction, PredictionPlan, mean_loads_by_slot, predict, self_test},
    run::{InitialContent, Simulation},
};

const SEEDS: u64 = 64;

fn plan<'a>(trace: &'a Trace, version: &str, sizes: &'a [u64]) -> PredictionPlan<'a> {
    let rules = CacheRules::of(version).unwrap();
    PredictionPlan {
        trace,
        rules,
        sizes,
        simulated_run_count: SEEDS,
        base_seed: 1,
        threads: 2,
        first_slot: 0,
        starts_empty: true,
        compile_us: &[],
        fit: None,
    }
}

#[test]
fn a_simulated_run_by_slot_has_the_real_runs_insertions() {
    let (trace, real) = (load(), observed("512.lp"));
    let rules = CacheRules::of("2.1.14").unwrap();
    let setting = Setting::agave(rules, rules.stock_entries);
    let simulation = Simulation {
        trace: &trace,
        setting,
        initial_content: InitialContent::Empty,
        first_slot: 0,
        compile_us: &[],
        seed: 7,
    };
    let mut slots: Vec<(u64, Counts)> = Vec::new();
    let outcome = simulation
        .run(|slot, counts| slots.push((slot, counts)))
        .unwrap();
    println!("slot misses insertions evictions reloads, simulated and real");
    for (slot, counts) in &slots {
        let real = real.iter().find(|o| o.slot == *slot).unwrap();
        println!(
            "{slot} {} {}  {} {}  {} {}  {} {}",
            counts.misses,
            real.misses,
            counts.insertions,
            real.insertions,
            counts.evictions,
            real.evictions,
            counts.reloads,
            real.reloads
        );
        assert_eq!(counts.insertions, real.insertions, "slot {slot}");
    }
    println!("{outcome:?}");
    assert_eq!(slots.len(), 133);
    assert_eq!(outcome.entries, 460);
}

#[test]
fn predicted_means_are_within_three_percent_of_the_real_run() {
    let (trace, real) = (load(), observed("512.lp"));
    let counters = self_test(&plan(&trace, "2.1.14", &[]), 512, &real).unwrap();
    for counter in &counters {
        println!("{counter:?}");
        assert!(counter.bias_percent.unwrap().abs() < 3.0, "{counter:?}");
    }
    let of = |name: &str| {
        let mut counters = counters.iter();
        counters
            .find(|counter| counter.name == name)
            .unwrap()
            .recorded
    };
    assert_eq!(
        (
            of("misses"),
            of("evictions"),
            of("reloads"),
            of("insertions")
        ),
        (3598, 3138, 2958, 640)
    );
    assert!(counters.iter().all(CounterPrediction::is_close));
}

#[test]
fn one_real_run_lies_in_the_predicted_interval_of_its_size() {
    let trace = load();
    let curve = predict(&plan(&trace, "2.1.14", &[512]), |_| {}).unwrap();
    let size = &curve.sizes[0];
    for (range, real) in [
        (size.misses, 3598.0),
        (size.evictions, 3138.0),
        (size.reloads, 2958.0),
    ] {
        assert!((range.low..=range.high).contains(&real), "{size:?}");
    }
    let half_width = size.misses.high - size.misses.mean;
    assert!((40.0..120.0).contains(&half_width), "{size:?}");
    assert_eq!((size.insertions.low, size.insertions.high), (640.0, 640.0));
}

#[test]
fn cache_size_predictions_made_before_real_runs_are_confirmed() {
    let trace = load();
    let as_text = [
        (256, 8439),
        (320, 7089),
        (384, 5852),
        (448, 4662),
        (512, 3580),
        (576, 2537),
        (640, 1568),
        (704, 723),
        (768, 640),
    ];
    let sizes = as_text.map(|(entries, _)| entries);
    let curve = predict(&plan(&trace, "2.1.14", &sizes), |_| {}).unwrap();
    for (point, (entries, misses)) in curve.sizes.iter().zip(as_text) {
        println!("{entries} {:?}, said {misses}", point.misses);
        assert!(
            (point.misses.mean - f64::from(misses)).abs() < 25.0,
            "{entries}: {point:?}"
        );
        let evictions = point.misses.mean - (entries * 9 / 10) as f64;
        assert!(
            (point.evictions.mean - evictions.max(0.0)).abs() < 1e-6,
            "{entries}: {point:?}"
        );
    }
}

#[test]
fn costs_fitted_at_one_cache_size_predict_another() {
    let (trace, real) = (load(), observed("512.lp"));
    let loaded = mean_loads_by_slot(&plan(&trace, "2.1.14", &[]), 512).unwrap();
    let fit = cost::fit(&real, &loaded, 200, 1).unwrap();
    assert_eq!((loaded.len(), fit.resampled.len()), (133, 200));
    println!("{:?}", fit.model);
    for (name, bar) in [("512.lp", 0.001), ("1024.lp", 0.1)] {
        let (mut counts, mut us) = (Counts::default(), 0);
        for slot in observed(name) {
            counts.transactions += slot.transactions;
            counts.misses += slot.misses;
            counts.loads += slot.insertions + slot.reloads;
            us += slot.cache_us.unwrap_or(0);
        }
        let told = fit.model.time_us(&trace, &counts);
        println!("{name}: {told:.0} us, real {us}");
        assert!((told / us as f64 - 1.0).abs() < bar, "{name}: {told} {us}");
    }
}

#[test]
fn the_eviction_rule_of_another_version_fails_the_self_test() {
    let (trace, real) = (load(), observed("512.lp"));
    let compile_us = vec![3_000; trace.programs().len()];
    for version in ["2.0.5", "4.3.0", "4.4.0"] {
        let rules = CacheRules::of(version).unwrap();
        let wrong = PredictionPlan {
            compile_us: &compile_us,
            ..plan(&trace, version, &[])
        };
        let counters = self_test(&wrong, rules.stock_entries, &real).unwrap();
        println!("{version}: {counters:?}");
        assert!(
            !counters.iter().all(CounterPrediction::is_close),
            "{version}"
        );
    }
}
