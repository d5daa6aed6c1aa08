use super::{ConstantLabels, labels};
use faultline_metrics::{Metric, Reading, Tick, metrics};
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};

#[derive(Debug)]
pub(super) struct Family {
    pub metric: &'static Metric,
    pub catalog_index: usize,
    readings: Vec<Position>,
    pub dropped: usize,
}

#[derive(Debug, Clone, Copy)]
struct Position {
    batch: usize,
    reading: usize,
}

impl Family {
    /// The non-empty families, sorted as in the catalog.
    pub fn all(tick: &Tick) -> Vec<Family> {
        // The key is the address, because each metric is a static. A name takes longer to hash.
        let key = |metric: &'static Metric| std::ptr::from_ref(metric).addr();
        let mut by_metric: HashMap<usize, Vec<Position>> =
            HashMap::with_capacity(metrics::all().count());
        for (batch, readings) in tick.batches.iter().map(|batch| &batch.readings).enumerate() {
            for (at, reading) in readings.iter().enumerate() {
                let positions = by_metric.entry(key(reading.metric)).or_default();
                positions.push(Position { batch, reading: at });
            }
        }
        let metrics = metrics::all().enumerate();
        let families = metrics.filter_map(|(catalog_index, metric)| {
            let readings = by_metric.remove(&key(metric))?;
            Some(Family {
                metric,
                catalog_index,
                readings,
                dropped: 0,
            })
        });
        families.collect()
    }

    pub fn readings<'a>(&'a self, tick: &'a Tick) -> impl Iterator<Item = &'a Reading> {
        self.readings
            .iter()
            .filter_map(|position| position.reading(tick))
    }

    pub fn size(&self) -> usize {
        self.readings.len()
    }

    /// Drops series that make a scraper reject the page: duplicate series, and series with the same
    /// label twice. Tags are sorted and non-empty ([`Reading::tags`]), so series are equal exactly
    /// if their labels and tags are.
    pub fn drop_collisions(&mut self, tick: &Tick, constant_labels: &ConstantLabels) {
        let (mut seen, before) = (HashSet::new(), self.readings.len());
        self.readings.retain(|position| {
            position.reading(tick).is_some_and(|reading| {
                seen.insert((&*reading.labels, &*reading.tags))
                    && has_each_label_once(reading, constant_labels)
            })
        });
        self.dropped = before - self.readings.len();
    }
}

impl Position {
    fn reading(self, tick: &Tick) -> Option<&Reading> {
        tick.batches.get(self.batch)?.readings.get(self.reading)
    }
}

/// Readings without tags always pass: only a tag can have the name of another label.
fn has_each_label_once(reading: &Reading, constant_labels: &ConstantLabels) -> bool {
    let mut names = HashSet::new();
    reading.tags.is_empty() || labels(reading, constant_labels).all(|(name, _)| names.insert(name))
}
