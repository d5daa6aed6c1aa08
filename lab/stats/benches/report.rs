//! What a report of a 12-hour run asks of this crate, in seconds on a processor: others on the machine do not count.
use faultline_stats::{IntervalPlan, block_bootstrap, correlation, histogram, smooth, summary};
use std::hint::black_box;

const TICKS: usize = 43_200;
const SERIES: usize = 30;
const POINTS: usize = 108_000;
const FIELDS: usize = 20;
const BUDGET: f64 = 1.0;

fn main() {
    let series: Vec<_> = (0..SERIES).map(|i| noise(TICKS, i as u64, 0.9)).collect();
    let fields: Vec<_> = (0..FIELDS)
        .map(|i| noise(POINTS, 100 + i as u64, 0.3))
        .collect();
    let plan = IntervalPlan::default();
    let mut all = 0.0;
    all += timed("summary and four quantiles of all", || {
        for values in series.iter().chain(&fields) {
            black_box(summary::summary(values));
            black_box([0.05, 0.5, 0.95, 0.99].map(|p| summary::quantile(values, p)));
        }
    });
    all += timed("histogram of all", || {
        for values in series.iter().chain(&fields) {
            let edges = histogram::freedman_diaconis_edges(values, 0.99, 100);
            black_box(histogram::count(values, &edges));
        }
    });
    all += timed("smoothing of the series", || {
        for values in &series {
            black_box(smooth::moving_average(values, 100));
        }
    });
    all += timed("4 by 4 correlations", || {
        let four: Vec<&[Option<f64>]> = series.iter().take(4).map(Vec::as_slice).collect();
        black_box(correlation::matrix(&four));
    });
    all += timed("interval of the mean of the series", || {
        series
            .iter()
            .for_each(|values| _ = black_box(block_bootstrap::mean(values, &plan)));
    });
    all += timed("interval of the mean of the fields", || {
        fields
            .iter()
            .for_each(|values| _ = black_box(block_bootstrap::mean(values, &plan)));
    });
    all += timed("interval of the p95 of the fields", || {
        fields
            .iter()
            .for_each(|values| _ = black_box(block_bootstrap::quantile(values, 0.95, &plan)));
    });
    println!(
        "{all:8.3} s  all of it; budget {BUDGET} s{}",
        if all > BUDGET { ": EXCEEDED" } else { "" }
    );
}

fn timed(what: &str, work: impl Fn()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let before = on_a_processor();
        work();
        best = best.min(on_a_processor() - before);
    }
    println!("{best:8.3} s  {what}");
    best
}

/// Seconds that this thread has run, as the scheduler counts them.
fn on_a_processor() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|ns| ns.parse::<f64>().ok())
        .map_or(f64::NAN, |ns| ns / 1e9)
}

fn noise(n: usize, seed: u64, rho: f64) -> Vec<Option<f64>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut x = 0.0;
    (0..n)
        .map(|_| {
            x = rho * x + random.f64() + random.f64() - 1.0;
            Some(100.0 + x)
        })
        .collect()
}
