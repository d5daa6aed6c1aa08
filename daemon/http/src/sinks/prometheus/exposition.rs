//! Encodes a tick in each format. Reuses the bytes of families that did not change since the
//! previous exposition of the format.

use super::{ConstantLabels, ExpositionFormat, classic, collector, labels};
use faultline_metrics::{
    AddReadings, Metric, Reading, Tick, Value,
    metrics::{self, daemon::SERIES_DROPPED},
};
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use hyper::body::Bytes;
use parking_lot::Mutex;
use std::{collections::BTreeMap, fmt, sync::Arc};

/// A tick's series without those that collide.
#[derive(Debug, Clone)]
pub struct Exposition {
    pub tick: Arc<Tick>,
    pub constant_labels: Arc<ConstantLabels>,
    families: Arc<[Family]>,
}

#[derive(Debug)]
pub struct EncodedExposition {
    exposition: Exposition,
    exposition_format: ExpositionFormat,
    pub bytes: Bytes,
    /// The end of each family in `bytes`.
    family_ends: Box<[usize]>,
}

impl Exposition {
    /// Checks for collisions only where the series differ from `last`.
    pub fn new(
        tick: &Arc<Tick>,
        constant_labels: &Arc<ConstantLabels>,
        last: Option<&Self>,
    ) -> Self {
        let last = last.filter(|last| Arc::ptr_eq(&last.constant_labels, constant_labels));
        let families = match last {
            Some(last) if have_same_series(&last.tick, tick) => Arc::clone(&last.families),
            _ => families(tick, constant_labels, last),
        };
        Self {
            tick: Arc::clone(tick),
            constant_labels: Arc::clone(constant_labels),
            families,
        }
    }

    pub fn tick_number(&self) -> u64 {
        self.tick.number
    }

    /// Series that were left out because they collide, by metric.
    pub fn dropped_series(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let families = self
            .families
            .iter()
            .filter(|family| family.dropped_series > 0);
        families.map(|family| (family.metric.name, family.dropped_series))
    }

    /// Reuses unchanged families of `last`, which may be of any tick.
    ///
    /// # Errors
    /// prometheus-client cannot encode the tick. It returns no partial exposition, because missing
    /// values would look absent.
    pub fn encode(
        &self,
        exposition_format: ExpositionFormat,
        last: Option<&EncodedExposition>,
    ) -> Result<EncodedExposition, fmt::Error> {
        let last = last.filter(|last| {
            last.exposition_format == exposition_format
                && Arc::ptr_eq(&last.exposition.constant_labels, &self.constant_labels)
        });
        // The next exposition is rarely much longer.
        let capacity = last.map_or(0, |last| last.bytes.len() + last.bytes.len() / 64);
        let mut bytes = Vec::with_capacity(capacity);
        let mut ends = Vec::with_capacity(self.families.len());
        let mut text = String::new();
        for family in &*self.families {
            let unchanged_bytes = last.and_then(|last| last.unchanged_bytes(family, &self.tick));
            match unchanged_bytes {
                Some(unchanged_bytes) => bytes.extend_from_slice(unchanged_bytes),
                None => self.encode_family(family, exposition_format, &mut text, &mut bytes)?,
            }
            ends.push(bytes.len());
        }
        if exposition_format == ExpositionFormat::OpenMetrics {
            bytes.extend_from_slice(b"# EOF\n");
        }
        Ok(EncodedExposition {
            exposition: self.clone(),
            exposition_format,
            bytes: bytes.into(),
            family_ends: ends.into(),
        })
    }

    fn encode_family(
        &self,
        family: &Family,
        exposition_format: ExpositionFormat,
        text: &mut String,
        out: &mut Vec<u8>,
    ) -> fmt::Result {
        text.clear();
        match exposition_format {
            ExpositionFormat::Classic => {
                let readings = family.readings(&self.tick);
                classic::encode(text, family.metric, readings, &self.constant_labels);
            }
            ExpositionFormat::OpenMetrics => {
                collector::open_metrics(self, family.catalog_index, text)?
            }
            ExpositionFormat::Protobuf => {
                out.extend(collector::protobuf(self, family.catalog_index)?)
            }
        }
        out.extend_from_slice(text.as_bytes());
        Ok(())
    }

    pub fn family(&self, catalog_index: usize) -> Option<&Family> {
        self.families.get(self.index(catalog_index)?)
    }

    fn index(&self, catalog_index: usize) -> Option<usize> {
        self.families
            .binary_search_by_key(&catalog_index, |family| family.catalog_index)
            .ok()
    }
}

impl EncodedExposition {
    pub fn tick_number(&self) -> u64 {
        self.exposition.tick_number()
    }

    fn unchanged_bytes(&self, family: &Family, tick: &Tick) -> Option<&[u8]> {
        let index = self.exposition.index(family.catalog_index)?;
        let (encoded_tick, encoded_family) =
            (&self.exposition.tick, self.exposition.families.get(index)?);
        // Ticks with the same series share a family, so only values can differ.
        let are_equal: fn(&Reading, &Reading) -> bool = if std::ptr::eq(encoded_family, family) {
            |a, b| is_same_value(&a.value, &b.value)
        } else {
            |a, b| is_same_series(a, b) && is_same_value(&a.value, &b.value)
        };
        let is_unchanged =
            have_equal_readings((encoded_family, encoded_tick), (family, tick), are_equal);
        let start = match index.checked_sub(1) {
            Some(previous) => *self.family_ends.get(previous)?,
            None => 0,
        };
        let end = *self.family_ends.get(index)?;
        is_unchanged.then(|| self.bytes.get(start..end))?
    }
}

fn families(
    tick: &Tick,
    constant_labels: &ConstantLabels,
    last: Option<&Exposition>,
) -> Arc<[Family]> {
    let mut families = Family::all(tick);
    for family in &mut families {
        let before = last.and_then(|last| Some((last, last.family(family.catalog_index)?)));
        let is_collision_free = before.is_some_and(|(last, before)| {
            before.dropped_series == 0
                && have_equal_readings((before, &last.tick), (family, tick), is_same_series)
        });
        if !is_collision_free {
            family.drop_collisions(tick, constant_labels);
        }
    }
    families.into()
}

/// True if both ticks have the same series at the same positions.
fn have_same_series(a: &Tick, b: &Tick) -> bool {
    a.batches.len() == b.batches.len()
        && a.batches.iter().zip(&b.batches).all(|(a, b)| {
            Arc::ptr_eq(a, b)
                || a.readings.len() == b.readings.len()
                    && a.readings
                        .iter()
                        .zip(&b.readings)
                        .all(|(a, b)| std::ptr::eq(a.metric, b.metric) && is_same_series(a, b))
        })
}

fn have_equal_readings(
    (a, tick_a): (&Family, &Tick),
    (b, tick_b): (&Family, &Tick),
    are_equal: fn(&Reading, &Reading) -> bool,
) -> bool {
    // Fast path: the readings of a batch that was not sampled again have the same addresses.
    a.positions.len() == b.positions.len()
        && a.readings(tick_a)
            .zip(b.readings(tick_b))
            .all(|(a, b)| std::ptr::eq(a, b) || are_equal(a, b))
}

fn is_same_series(a: &Reading, b: &Reading) -> bool {
    a.label_values[..] == b.label_values[..] && a.tags == b.tags
}

/// True if both values have the same encoding. -0 and 0 differ.
fn is_same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Real(a), Value::Real(b)) => a.to_bits() == b.to_bits(),
        (a, b) => a == b,
    }
}

#[derive(Debug)]
pub struct Family {
    pub metric: &'static Metric,
    /// Index in [`metrics::exported`].
    pub catalog_index: usize,
    positions: Vec<ReadingPosition>,
    dropped_series: usize,
}

#[derive(Debug, Clone, Copy)]
struct ReadingPosition {
    batch: usize,
    reading: usize,
}

impl Family {
    /// The non-empty families, sorted as in the catalog.
    fn all(tick: &Tick) -> Vec<Self> {
        // The key is the address, because each metric is a static. A name takes longer to hash.
        let key = |metric: &'static Metric| std::ptr::from_ref(metric).addr();
        let mut by_metric: HashMap<usize, Vec<ReadingPosition>> =
            HashMap::with_capacity(metrics::exported().count());
        for (batch, readings) in tick.batches.iter().map(|batch| &batch.readings).enumerate() {
            for (reading, Reading { metric, .. }) in readings.iter().enumerate() {
                let positions = by_metric.entry(key(metric)).or_default();
                positions.push(ReadingPosition { batch, reading });
            }
        }
        let metrics = metrics::exported().enumerate();
        let families = metrics.filter_map(|(catalog_index, metric)| {
            let positions = by_metric.remove(&key(metric))?;
            Some(Self {
                metric,
                catalog_index,
                positions,
                dropped_series: 0,
            })
        });
        families.collect()
    }

    pub fn readings<'a>(&'a self, tick: &'a Tick) -> impl Iterator<Item = &'a Reading> {
        self.positions
            .iter()
            .filter_map(|position| position.reading(tick))
    }

    /// Drops series that make a scraper reject the exposition: duplicate series, and series with the
    /// same label twice. Tags are sorted and non-empty ([`Reading::tags`]), so series are equal exactly
    /// if their labels and tags are.
    fn drop_collisions(&mut self, tick: &Tick, constant_labels: &ConstantLabels) {
        let before = self.positions.len();
        let mut seen = HashSet::with_capacity(before);
        self.positions.retain(|position| {
            position.reading(tick).is_some_and(|reading| {
                seen.insert((&*reading.label_values, &*reading.tags))
                    && has_each_label_once(reading, constant_labels)
            })
        });
        self.dropped_series = before - self.positions.len();
    }
}

impl ReadingPosition {
    fn reading(self, tick: &Tick) -> Option<&Reading> {
        tick.batches.get(self.batch)?.readings.get(self.reading)
    }
}

/// Readings without tags always pass: only a tag can have the name of another label.
fn has_each_label_once(reading: &Reading, constant_labels: &ConstantLabels) -> bool {
    let mut names = HashSet::new();
    reading.tags.is_empty() || labels(reading, constant_labels).all(|(name, _)| names.insert(name))
}

/// Total of dropped series, by metric.
#[derive(Debug, Clone, Default)]
pub struct DroppedSeries(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl DroppedSeries {
    pub fn add(&self, exposition: &Exposition) {
        let mut counts = self.0.lock();
        for (metric, dropped) in exposition.dropped_series() {
            *counts.entry(metric).or_default() += dropped as u64;
        }
    }

    pub fn add_readings(&self, out: &mut Vec<Reading>) {
        for (metric, count) in &*self.0.lock() {
            out.integer(&SERIES_DROPPED, [(*metric).into()], *count);
        }
    }
}

#[cfg(test)]
mod tests;
