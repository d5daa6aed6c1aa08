pub mod lifecycle;
mod numbers;
mod pools;
mod replay;
pub mod timeline;
mod tps;

pub use lifecycle::{End, Lifecycle, PhaseSpan, Success};
pub use numbers::{
    Cache, Levels, Numbers, TpsNumbers, cache_moments, cache_times, numbers, prune_us,
};
pub use pools::{PoolFaults, pool_faults};
pub use replay::{SlotContents, cache_slots, contents, is_own, replayed, slots};
pub(crate) use timeline::timeline;
pub use tps::{Second, Tps};

use crate::run::{Point, Run, Signal, Tick};
use faultline_stats::rate::{self, Rates, Reading};
use std::ops::Add;

/// Seconds since the run's origin.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Span {
    pub from: f64,
    pub to: f64,
}

impl Span {
    pub const ALWAYS: Span = Span {
        from: f64::NEG_INFINITY,
        to: f64::INFINITY,
    };

    pub fn seconds(self) -> f64 {
        (self.to - self.from).max(0.0)
    }

    /// Both ends are included.
    pub fn includes(self, at: f64) -> bool {
        at >= self.from && at <= self.to
    }
}

#[derive(Debug, Clone, Default)]
pub struct Measured {
    pub lifecycle: Lifecycle,
    pub tps: Tps,
    /// From the first tick to the last, or to the end of the last process.
    pub all: Span,
    /// From the first execution; `None` if no transaction was recorded.
    pub executing: Option<Span>,
    /// From the first tick at the tip; `None` without one.
    pub from_tip: Option<Span>,
}

pub fn measure(run: &Run) -> Measured {
    let lifecycle = lifecycle::lifecycle(run);
    let tps = tps::tps(run, &lifecycle);
    let last = tps.seconds.last().map_or(0.0, |second| second.at + 1.0);
    // A run ends with its process: later ticks are drawn, but not counted.
    let end = if lifecycle.ended.is_some() {
        lifecycle.until
    } else {
        lifecycle.until.max(last)
    };
    let until_end = |from| Span { from, to: end };
    Measured {
        all: until_end(0.0),
        executing: tps.seconds.first().map(|first| until_end(first.at)),
        from_tip: lifecycle.at_tip.map(until_end),
        lifecycle,
        tps,
    }
}

/// Of a counter, from the ticks of a part of a run.
pub fn growth(run: &Run, signal: Signal, window: Span) -> Rates {
    let ticks = run.ticks.iter().zip(run.signal(signal));
    let readings = ticks
        .filter(|(tick, _)| window.includes(tick.at))
        .map(|(tick, total)| Reading {
            at: tick.at,
            total: *total,
            epoch: epoch(tick),
        });
    rate::rates(&readings.collect::<Vec<_>>(), max_tick_step(run))
}

/// Kernel counters restart with each process, and nothing is known between two sessions.
fn epoch(tick: &Tick) -> u64 {
    (tick.session as u64) << 32 | (tick.process.unwrap_or(0) as u64 & 0xffff_ffff)
}

/// The longest step between readings that is not a gap, in seconds.
pub(crate) fn max_tick_step(run: &Run) -> f64 {
    2.5 * run.interval()
}

/// Anonymous, file and shared memory together, in bytes.
pub(crate) fn rss(run: &Run) -> Vec<Option<f64>> {
    let signal = |signal| run.signal(signal);
    let anon_and_file = combine(signal(Signal::RssAnon), signal(Signal::RssFile), f64::add);
    combine(&anon_and_file, signal(Signal::RssShmem), f64::add)
}

/// The points within a span.
pub(crate) fn points_within<'p, P: Point>(
    run: &Run,
    points: &'p [P],
    span: Span,
) -> impl Iterator<Item = &'p P> {
    points
        .iter()
        .filter(move |point| span.includes(run.at(point.time_unix_ns())))
}

/// One number of each point within a span, multiplied by `unit`.
pub(crate) fn column<P: Point>(
    run: &Run,
    points: &[P],
    span: Span,
    of: impl Fn(&P) -> Option<u64>,
    unit: f64,
) -> Vec<Option<f64>> {
    points_within(run, points, span)
        .map(|point| of(point).map(|number| number as f64 * unit))
        .collect()
}

/// `None` where either value is.
pub fn combine(
    a: &[Option<f64>],
    b: &[Option<f64>],
    with: impl Fn(f64, f64) -> f64,
) -> Vec<Option<f64>> {
    a.iter()
        .zip(b)
        .map(|(a, b)| Some(with((*a)?, (*b)?)))
        .collect()
}

pub fn within(run: &Run, values: &[Option<f64>], window: Span) -> Vec<Option<f64>> {
    let ticks = run.ticks.iter().zip(values);
    ticks
        .filter(|(tick, _)| window.includes(tick.at))
        .map(|(_, value)| *value)
        .collect()
}
