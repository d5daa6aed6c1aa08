//! The sums of one sender's points. Deltas add up; of levels the one that came last stays: a point
//! with a wrong time must not hide those that follow.

mod jobs;
mod series;

pub use series::has_fields;

use faultline_agave::line::Point;
use faultline_agave::points::{AccountsActive, CacheTimes, Known, ProgramCache};
use faultline_catalog::metrics::validator as v;
use faultline_catalog::{Histogram, Reading, TIME_BOUNDS, Value};
use jobs::Jobs;
use series::Series;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// No delta of a push is more: what is, is no count, and sums of such could not be told apart by who reads them as floats.
const MAX_DELTA: u64 = 1 << 53;

/// A delta as it is summed: 0 if it is absent or no count.
pub(super) fn delta(field: Option<u64>) -> u64 {
    field.filter(|count| *count <= MAX_DELTA).unwrap_or(0)
}

/// A sum never falls, whatever is added to it.
pub(super) fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

/// So many eviction passes tell the shrink target: a wrong level is forgotten after as many true ones.
const EVICTIONS_SEEN: usize = 256;

/// Sums, histograms and levels of one sender.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
    series: Series,
    jobs: Jobs,
    /// The water levels at which the last eviction passes evicted: the lowest is one above the shrink target.
    evicting: VecDeque<u64>,
    loaded_entries: Option<u64>,
    /// Only an instrumented build reports it.
    prune: Option<Histogram>,
    own_slots: u64,
}

impl Tally {
    /// Adds a point; `known` is what it says if it has a type.
    pub fn add(&mut self, point: &Point<'_>, known: Option<&Known>) {
        match known {
            Some(Known::ProgramCache(cache)) => self.add_cache(cache),
            Some(Known::CacheTimes(times)) => self.add_prune(times),
            Some(Known::ReplaySlot(replay)) if replay.is_own_slot() == Some(true) => {
                self.own_slots += 1;
                return;
            }
            _ => {}
        }
        self.series.add(point);
    }

    /// A background job of the accounts database began or ended at `time`, as was heard at the uptime `heard`.
    pub fn add_job(&mut self, active: &AccountsActive, time: i64, heard: Duration) {
        self.jobs.add(active, time, heard);
    }

    fn add_cache(&mut self, cache: &ProgramCache) {
        if cache.evictions.is_some_and(|evictions| evictions > 0) {
            self.evicting.extend(cache.loaded_entries());
            let surplus = self.evicting.len().saturating_sub(EVICTIONS_SEEN);
            self.evicting.drain(..surplus);
        }
        self.loaded_entries = cache.loaded_entries().or(self.loaded_entries);
    }

    /// A root is set with one prune.
    fn add_prune(&mut self, times: &CacheTimes) {
        if let (Some(1..), Some(us @ ..=MAX_DELTA)) = (times.prunes, times.prune_us) {
            self.prune_histogram().observe(us as f64 / 1e6);
        }
    }

    fn prune_histogram(&mut self) -> &mut Histogram {
        self.prune
            .get_or_insert_with(|| Histogram::new(&TIME_BOUNDS))
    }

    /// Adds what another tally of the same validator summed.
    pub fn merge(&mut self, other: &Tally) {
        self.series.merge(&other.series);
        self.jobs.merge(&other.jobs);
        let room = EVICTIONS_SEEN.saturating_sub(self.evicting.len());
        self.evicting.extend(other.evicting.iter().take(room));
        self.loaded_entries = self.loaded_entries.or(other.loaded_entries);
        if let Some(theirs) = &other.prune {
            self.prune_histogram().merge(theirs);
        }
        self.own_slots += other.own_slots;
    }

    /// Forgets what describes the process that ended: its levels. Sums stay.
    pub fn forget_levels(&mut self) {
        self.series.forget_levels();
        self.jobs.forget_levels();
        self.evicting.clear();
        self.loaded_entries = None;
    }

    /// Everything. Levels only while `fresh`.
    pub fn readings(&self, fresh: bool, out: &mut Vec<Reading>) {
        self.series.readings(fresh, out);
        self.jobs.readings(fresh, out);
        if let Some(prune) = &self.prune {
            let prune = Value::Histogram(Arc::new(prune.clone()));
            out.push(Reading::new(&v::CACHE_PRUNE, [], prune));
        }
        out.push(Reading::counter(&v::OWN_SLOTS, [], self.own_slots));
        if !fresh {
            return;
        }
        out.extend(
            self.loaded_entries
                .map(|entries| Reading::whole(&v::CACHE_LOADED, [], entries)),
        );
        if let Some(target) = self.observed_shrink_target() {
            // The target is 90 % of the capacity, rounded down.
            let capacity = target.saturating_mul(10).div_ceil(9);
            let observed = || ["observed".into()];
            out.push(Reading::whole(&v::CACHE_CAPACITY, observed(), capacity));
            out.push(Reading::whole(&v::CACHE_SHRINK_TARGET, observed(), target));
        }
    }

    /// What eviction passes shrink the cache to, as observed; `None` until one evicted.
    pub fn observed_shrink_target(&self) -> Option<u64> {
        self.evicting
            .iter()
            .min()
            .map(|level| level.saturating_sub(1))
    }
}
