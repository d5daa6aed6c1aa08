//! One tick as pages. A family that did not change is taken from the last page.

use super::family::Family;
use super::{ConstantLabels, Dialect, classic, collector};
use faultline_catalog::{Reading, Tick, Value};
use std::fmt;
use std::sync::Arc;

/// What pages of one tick show: all of its series except those that collide.
#[derive(Debug, Clone)]
pub struct Exposition {
    tick: Arc<Tick>,
    constant: Arc<ConstantLabels>,
    families: Arc<[Family]>,
}

/// A page, and what it shows; UTF-8 except for protobuf.
#[derive(Debug)]
pub struct Page {
    exposition: Exposition,
    dialect: Dialect,
    /// Each without excess capacity: they stay from scrape to scrape.
    families: Vec<Box<[u8]>>,
}

impl Exposition {
    /// Looks for collisions only where `last` has other series.
    pub fn new(
        tick: &Arc<Tick>,
        constant: &Arc<ConstantLabels>,
        last: Option<&Exposition>,
    ) -> Self {
        let last = last.filter(|last| Arc::ptr_eq(&last.constant, constant));
        let mut families = Family::all(tick);
        for family in &mut families {
            let before = last.and_then(|last| Some((last, last.family(family.order)?)));
            let has_none = before.is_some_and(|(last, before)| {
                before.dropped == 0 && is_same((before, &last.tick), (family, tick), is_same_series)
            });
            if !has_none {
                family.drop_collisions(tick, constant);
            }
        }
        Exposition {
            tick: Arc::clone(tick),
            constant: Arc::clone(constant),
            families: families.into(),
        }
    }

    /// The number of the tick.
    pub fn number(&self) -> u64 {
        self.tick.number
    }

    /// How many series of which metrics are left out, because they collide with others.
    pub fn dropped(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let families = self.families.iter().filter(|family| family.dropped > 0);
        families.map(|family| (family.metric.name, family.dropped))
    }

    /// Encodes the page. What did not change is taken from `last`, whatever that is.
    ///
    /// # Errors
    /// prometheus-client refuses to encode the tick. Half a page would look like values that are absent.
    pub fn page(&self, dialect: Dialect, last: Option<Page>) -> Result<Page, fmt::Error> {
        let mut last = last.filter(|last| {
            last.dialect == dialect && Arc::ptr_eq(&last.exposition.constant, &self.constant)
        });
        let mut families = Vec::with_capacity(self.families.len());
        let mut text = String::new();
        for family in &*self.families {
            let unchanged = last.as_mut().and_then(|last| last.take(family, &self.tick));
            if let Some(unchanged) = unchanged {
                families.push(unchanged);
                continue;
            }
            text.clear();
            families.push(match dialect {
                Dialect::Classic => {
                    let readings = family.readings(&self.tick);
                    classic::encode(&mut text, family.metric, readings, &self.constant);
                    text.as_bytes().into()
                }
                Dialect::OpenMetrics => {
                    collector::open_metrics(self, family.order, &mut text)?;
                    text.as_bytes().into()
                }
                Dialect::Protobuf => collector::protobuf(self, family.order)?.into(),
            });
        }
        Ok(Page {
            exposition: self.clone(),
            dialect,
            families,
        })
    }

    /// The family at this place in the catalog's order.
    pub(super) fn family(&self, order: usize) -> Option<&Family> {
        let index = self.index(order)?;
        self.families.get(index)
    }

    fn index(&self, order: usize) -> Option<usize> {
        self.families
            .binary_search_by_key(&order, |family| family.order)
            .ok()
    }

    pub(super) fn tick(&self) -> &Tick {
        &self.tick
    }

    pub(super) fn constant(&self) -> &ConstantLabels {
        &self.constant
    }
}

impl Page {
    /// All of it, in order.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let is_open_metrics = self.dialect == Dialect::OpenMetrics;
        let end: Option<&[u8]> = is_open_metrics.then_some(b"# EOF\n");
        self.families.iter().map(|family| &**family).chain(end)
    }

    /// Its length in bytes.
    pub fn size(&self) -> usize {
        self.pieces().map(<[u8]>::len).sum()
    }

    /// The whole page.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.size());
        self.pieces()
            .for_each(|piece| bytes.extend_from_slice(piece));
        bytes
    }

    /// The number of the tick that it shows.
    pub fn number(&self) -> u64 {
        self.exposition.number()
    }

    /// What this page has of a family, if it shows the same as `tick` does.
    fn take(&mut self, family: &Family, tick: &Tick) -> Option<Box<[u8]>> {
        let index = self.exposition.index(family.order)?;
        let (shown, before) = (&self.exposition.tick, self.exposition.families.get(index)?);
        let is_same = is_same((before, shown), (family, tick), |a, b| {
            is_same_series(a, b) && is_same_value(&a.value, &b.value)
        });
        is_same.then(|| self.families.get_mut(index).map(std::mem::take))?
    }
}

/// Whether each reading of a family is the `same` in both ticks.
fn is_same(
    (a, tick_a): (&Family, &Tick),
    (b, tick_b): (&Family, &Tick),
    same: fn(&Reading, &Reading) -> bool,
) -> bool {
    // A batch that was not read again has its readings at the same addresses.
    a.size() == b.size()
        && a.readings(tick_a)
            .zip(b.readings(tick_b))
            .all(|(a, b)| std::ptr::eq(a, b) || same(a, b))
}

fn is_same_series(a: &Reading, b: &Reading) -> bool {
    a.labels[..] == b.labels[..] && a.tags == b.tags
}

/// Whether two values are written alike. -0 is not written as 0 is.
fn is_same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Real(a), Value::Real(b)) => a.to_bits() == b.to_bits(),
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests;
