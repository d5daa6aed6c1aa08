//! Series for which a scraper refuses the whole page: one with a label twice, and one that is on the page already.

use super::{ConstantLabels, labels};
use faultline_catalog::metrics::daemon::SERIES_DROPPED;
use faultline_catalog::{Batch, Reading, Tick};
use foldhash::{HashSet, HashSetExt};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How many series were left out of pages, by metric. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub struct DroppedSeries(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl DroppedSeries {
    /// The tick without series that collide. Of equal ones the first stays.
    pub fn without_collisions(&self, tick: &Arc<Tick>, constant: &ConstantLabels) -> Arc<Tick> {
        let colliding = colliding(tick, constant);
        if colliding.is_empty() {
            return Arc::clone(tick);
        }
        let mut place = 0;
        let mut keep = |reading: &Reading| {
            place += 1;
            let collides = colliding.binary_search(&(place - 1)).is_ok();
            if collides {
                self.count(reading.metric.name);
            }
            !collides
        };
        let batches = tick.batches.iter().map(|batch| {
            let readings = batch.readings.iter().filter(|reading| keep(reading));
            Arc::new(Batch {
                readings: readings.cloned().collect(),
                ..Batch::clone(batch)
            })
        });
        Arc::new(Tick {
            batches: batches.collect(),
            ..Tick::clone(tick)
        })
    }

    fn count(&self, metric: &'static str) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(metric).or_default() += 1;
    }

    /// `faultline_series_dropped_total`, for each metric that lost one.
    pub fn readings(&self, out: &mut Vec<Reading>) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let readings = counts
            .iter()
            .map(|(metric, count)| Reading::counter(&SERIES_DROPPED, [(*metric).into()], *count));
        out.extend(readings);
    }
}

/// The positions of readings that collide, among all of the tick. Tags are in order and none is empty ([`Reading::tags`]), so
/// that labels and tags are equal exactly where the series are.
fn colliding(tick: &Tick, constant: &ConstantLabels) -> Vec<usize> {
    let mut seen = HashSet::with_capacity(tick.readings().count());
    let mut found = Vec::new();
    for (place, reading) in tick.readings().enumerate() {
        let is_new = seen.insert((reading.metric.name, &*reading.labels, &*reading.tags));
        if !is_new || !has_each_label_once(reading, constant) {
            found.push(place);
        }
    }
    found
}

/// Only tags can have the name of another label.
fn has_each_label_once(reading: &Reading, constant: &ConstantLabels) -> bool {
    let mut names = HashSet::new();
    reading.tags.is_empty() || labels(reading, constant).all(|(name, _)| names.insert(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_catalog::Text;
    use faultline_catalog::metrics::validator::DATAPOINT;
    use faultline_catalog::{Source, Stamp};

    fn level(tags: &[(&'static str, &'static str)], value: f64) -> Reading {
        let tags = tags
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        Reading::real(&DATAPOINT, ["d".into(), "v".into()], value).with_tags(tags.collect())
    }

    #[test]
    fn a_label_twice_and_a_series_twice_are_left_out_and_counted_and_the_rest_stays() {
        let batch = |readings| {
            Arc::new(Batch {
                readings,
                ..Batch::empty(Source::Datapoints, Stamp::default())
            })
        };
        let first = vec![
            level(&[], 1.0),
            level(&[("name", "x")], 2.0),
            level(&[("a", "x")], 3.0),
        ];
        let second = vec![level(&[("a", "x")], 4.0), level(&[("run", "x")], 5.0)];
        let tick = Arc::new(Tick {
            number: 1,
            at: Stamp::default(),
            batches: vec![batch(first), batch(second)],
        });
        let values = |constant: &ConstantLabels, dropped: &DroppedSeries| -> Vec<f64> {
            let shown = dropped.without_collisions(&tick, constant);
            let values = shown
                .readings()
                .filter_map(|reading| reading.value.number());
            values.collect()
        };
        let dropped = DroppedSeries::default();
        assert_eq!(values(&Vec::new(), &dropped), [1.0, 3.0, 5.0]);
        let constant = vec![("run", Text::from("1"))];
        assert_eq!(values(&constant, &dropped), [1.0, 3.0]);
        let mut readings = Vec::new();
        dropped.readings(&mut readings);
        assert_eq!(readings[0].labels[0].as_str(), "agave_datapoint");
        assert_eq!(readings[0].value.number(), Some(5.0));
    }
}
