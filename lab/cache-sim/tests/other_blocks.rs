//! Predictive intervals of the misses of a run over other blocks of the same workload.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops at what it did not expect, in its helpers too"
)]

mod common;

use common::plain;
use fastrand::Rng;
use faultline_cache_sim::{
    CacheRules, Setting, Trace,
    interval::{HalfRuns, PredictiveInterval, variance},
    run::{InitialContent, Simulation},
};

const SLOTS: u32 = 125;
const CALLS: u32 = 140;
const PROGRAMS: u32 = 640;
const SEEDS: u64 = 64;
const RUNS: u64 = 4;
const PAIRS: u64 = 60;

/// A random trace of programs that are not equally popular. The share `burst_share` of the calls is
/// in bursts of ten calls of one program.
fn random_trace(seed: u64, burst_share: f64) -> Trace {
    let mut rng = Rng::with_seed(seed);
    let mut running = [(0, 0); 10];
    let mut lines = String::new();
    for slot in 1..=SLOTS {
        for _ in 0..CALLS {
            let in_burst = rng.f64() < burst_share;
            let burst = &mut running[rng.usize(..10)];
            let mut program =
                || ((rng.f64().powf(2.5) * f64::from(PROGRAMS)) as u32).min(PROGRAMS - 1);
            let called = match (in_burst, burst.1) {
                (false, _) => program(),
                (true, 0) => {
                    *burst = (program(), 9);
                    burst.0
                }
                (true, _) => {
                    burst.1 -= 1;
                    burst.0
                }
            };
            lines += &format!("{slot} {called}\n");
        }
    }
    plain(&lines)
}

fn misses(trace: &Trace, seed: u64) -> f64 {
    let setting = Setting::agave(CacheRules::of("2.1.14").unwrap(), 384);
    let run = Simulation {
        trace,
        setting,
        initial_content: InitialContent::Empty,
        first_slot: 0,
        compile_us: &[],
        seed,
    };
    run.run(|_, _| {}).unwrap().counts.misses as f64
}

/// Predicts the misses of the second trace of each pair from the first trace. Returns how many of
/// [`PAIRS`] are within the interval for the same blocks, and within that for other blocks.
fn count_inside(burst_share: f64) -> (u64, u64) {
    let mut found = (0, 0);
    for pair in 0..PAIRS {
        let (known, other) = (
            random_trace(2 * pair, burst_share),
            random_trace(2 * pair + 1, burst_share),
        );
        let missed = misses(&other, 999);
        let values: Vec<f64> = (0..SEEDS).map(|seed| misses(&known, seed)).collect();
        let of_half = |seed: u64| {
            let half = known.half(seed).unwrap();
            let mean = (0..RUNS)
                .map(|run| misses(&half, RUNS * seed + run))
                .sum::<f64>()
                / RUNS as f64;
            (mean, half.call_count() as f64)
        };
        let (means, all) = ((0..SEEDS).map(of_half).collect(), known.call_count() as f64);
        let seed_variance = variance(&values).unwrap();
        let halves = HalfRuns {
            means,
            runs_per_half: RUNS as f64,
            slot_group_count: known.group_count() as f64,
            seed_variance,
            lookups_in_summed_slots: all,
            lookups_in_all_slots: all,
        };
        let covers =
            |interval: PredictiveInterval| interval.low <= missed && missed <= interval.high;
        found.0 += u64::from(covers(PredictiveInterval::of_runs(&values).unwrap()));
        let of_other_blocks = PredictiveInterval::of_other_blocks(&values, &halves, 1.0).unwrap();
        found.1 += u64::from(covers(of_other_blocks));
    }
    found
}

#[test]
fn cross_block_intervals_cover_a_run_where_same_block_intervals_are_too_narrow() {
    let (even, bursts) = (count_inside(0.0), count_inside(0.5));
    println!(
        "inside for the same and for other blocks, of {PAIRS}: {even:?}, with bursts {bursts:?}"
    );
    assert!(
        (even.0 + bursts.0) * 10 < 2 * PAIRS * 7,
        "{even:?} {bursts:?}"
    );
    assert!(
        (even.1 + bursts.1) * 10 >= 2 * PAIRS * 9,
        "{even:?} {bursts:?}"
    );
}
