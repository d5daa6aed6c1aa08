//! Sums of one sender's points. Deltas add up. A gauge keeps the last received value: a point with
//! a wrong time must not hide later ones.

mod jobs;
mod series;
mod votor;

pub use series::{InputValues, is_builtin};

use faultline_agave::{
    line::Point,
    points::{CacheTimes, KnownPoint, ProgramCache},
};
use faultline_metrics::{
    AddReadings, Histogram, LabelText, Metric, Reading, TIME_BOUNDS, Value, metrics::validator as v,
};
use jobs::Jobs;
use series::SeriesList;
use std::{collections::VecDeque, sync::Arc};
use votor::Votor;

/// Maximum delta of a point: a larger one is not a count, and larger sums would lose precision as
/// floats.
pub(super) const MAX_DELTA: u64 = 1 << 53;

pub(super) fn delta_or_zero(field: Option<u64>) -> u64 {
    field.filter(|count| *count <= MAX_DELTA).unwrap_or(0)
}

/// Saturates: a sum never falls.
pub(super) fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

/// Number of recent evictions that determine the shrink target. A wrong entry count is
/// forgotten after this many correct ones.
const MAX_RECENT_EVICTIONS: usize = 256;

/// A histogram that is absent before its first value.
#[derive(Debug, Default, PartialEq)]
struct OptionalHistogram(Option<Histogram>);

impl OptionalHistogram {
    fn observe_us(&mut self, us: u64, bounds: &'static [f64]) {
        self.0
            .get_or_insert_with(|| Histogram::new(bounds))
            .observe(us as f64 / 1e6);
    }

    fn merge(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (Some(histogram), Some(more)) => histogram.merge(more),
            (None, more) => self.0.clone_from(more),
            (Some(_), None) => {}
        }
    }

    fn reading(&self, metric: &'static Metric, label: Option<&'static str>) -> Option<Reading> {
        let value = Value::Histogram(Arc::new(self.0.clone()?));
        Some(Reading {
            metric,
            label_values: label.into_iter().map(LabelText::from).collect(),
            tags: Box::default(),
            value,
        })
    }
}

#[derive(Default)]
pub struct Tally {
    series: SeriesList,
    pub accounts_jobs: Jobs,
    votor: Votor,
    /// Cache entries at the last evictions. The lowest is one above the shrink target.
    entries_at_evictions: VecDeque<u64>,
    loaded_entries: Option<u64>,
    /// Only an instrumented validator reports them.
    prune_times: OptionalHistogram,
    own_slots: u64,
}

impl Tally {
    /// `known` is the decoded point, if its type is known.
    pub fn add(&mut self, point: &Point<'_>, values: &InputValues, known: Option<&KnownPoint>) {
        match known {
            Some(KnownPoint::ProgramCache(cache)) => self.add_cache(cache),
            Some(KnownPoint::CacheTimes(times)) => self.add_prune(times),
            Some(KnownPoint::ReplaySlot(replay)) if replay.is_own_slot() == Some(true) => {
                // An own slot is not replayed, so it adds nothing to series of replays.
                self.own_slots += 1;
                return;
            }
            Some(known) => self.votor.add(known),
            None => {}
        }
        self.series.add(point, values);
    }

    fn add_cache(&mut self, cache: &ProgramCache) {
        if cache.evictions.is_some_and(|evictions| evictions > 0) {
            self.add_evictions(cache.loaded_entries());
        }
        self.loaded_entries = cache.loaded_entries().or(self.loaded_entries);
    }

    fn add_evictions(&mut self, entries: impl IntoIterator<Item = u64>) {
        let all = &mut self.entries_at_evictions;
        all.extend(entries);
        all.drain(..all.len().saturating_sub(MAX_RECENT_EVICTIONS));
    }

    /// The cache is pruned once for each root.
    fn add_prune(&mut self, times: &CacheTimes) {
        if let (Some(1..), Some(us @ ..=MAX_DELTA)) = (times.prunes, times.prune_us) {
            self.prune_times.observe_us(us, &TIME_BOUNDS);
        }
    }

    /// The gauges of `newer` replace those here.
    pub fn merge(&mut self, newer: &Self) {
        self.series.merge(&newer.series);
        self.accounts_jobs.merge(&newer.accounts_jobs);
        self.votor.merge(&newer.votor);
        self.add_evictions(newer.entries_at_evictions.iter().copied());
        self.loaded_entries = newer.loaded_entries.or(self.loaded_entries);
        self.prune_times.merge(&newer.prune_times);
        self.own_slots += newer.own_slots;
    }

    pub fn forget_gauges(&mut self) {
        self.series.forget_gauges();
        self.accounts_jobs.forget_gauges();
        self.votor.forget_gauges();
        self.entries_at_evictions.clear();
        self.loaded_entries = None;
    }

    pub fn add_readings(&self, with_gauges: bool, out: &mut Vec<Reading>) {
        self.series.add_readings(with_gauges, out);
        self.accounts_jobs.add_readings(with_gauges, out);
        self.votor.add_readings(with_gauges, out);
        out.extend(self.prune_times.reading(&v::CACHE_PRUNE, None));
        out.integer(&v::OWN_SLOTS, [], self.own_slots);
        if !with_gauges {
            return;
        }
        out.integer(&v::CACHE_LOADED, [], self.loaded_entries);
        if let Some(target) = self.observed_shrink_target() {
            // The target is 90 % of the capacity, rounded down.
            let capacity = target.saturating_mul(10).div_ceil(9);
            let observed = || ["observed".into()];
            out.integer(&v::CACHE_CAPACITY, observed(), capacity);
            out.integer(&v::CACHE_SHRINK_TARGET, observed(), target);
        }
    }

    /// The size to which evictions shrink the cache, as observed; `None` before an eviction.
    fn observed_shrink_target(&self) -> Option<u64> {
        self.entries_at_evictions
            .iter()
            .min()
            .map(|entries| entries.saturating_sub(1))
    }
}
