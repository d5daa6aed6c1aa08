//! The exposition: the newest tick as a page, in the dialect the scraper asks for.

mod classic;
mod collector;
mod collisions;
mod negotiate;

pub use collisions::DroppedSeries;
pub use negotiate::{Dialect, accepts_gzip, dialect};

use faultline_catalog::{Metric, Reading, Text, Tick, metrics};
use foldhash::HashMap;
use std::fmt;
use std::sync::Arc;

/// Labels from the configuration that go on every `agave_` series if `constant_labels_everywhere` is set.
pub type ConstantLabels = Vec<(&'static str, Text)>;

/// The whole page; UTF-8 but for protobuf.
///
/// # Errors
/// prometheus-client refuses to encode the tick. Half a page would look like values that are absent.
pub fn page(
    tick: &Arc<Tick>,
    dialect: Dialect,
    constant: &ConstantLabels,
) -> Result<Vec<u8>, fmt::Error> {
    match dialect {
        Dialect::Classic => Ok(classic::encode(tick, constant).into_bytes()),
        Dialect::OpenMetrics => collector::open_metrics(tick, constant),
        Dialect::Protobuf => collector::protobuf(tick, constant),
    }
}

/// The tick's readings, family by family in the catalog's order; a family without readings is left out.
fn families(tick: &Tick) -> impl Iterator<Item = (&'static Metric, Vec<&Reading>)> {
    // By the address of its metric, which there is once: names would have to be hashed.
    let key = |metric: &'static Metric| std::ptr::from_ref(metric).addr();
    let mut families: HashMap<usize, Vec<&Reading>> = HashMap::default();
    for reading in tick.readings() {
        families
            .entry(key(reading.metric))
            .or_default()
            .push(reading);
    }
    metrics::all().filter_map(move |metric| {
        families
            .remove(&key(metric))
            .map(|readings| (metric, readings))
    })
}

/// All labels of a series: its metric's own, an allow-list's tags, the constant ones.
fn labels<'a>(
    reading: &'a Reading,
    constant: &'a ConstantLabels,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let own = reading
        .metric
        .labels
        .iter()
        .copied()
        .zip(reading.labels.iter().map(Text::as_str));
    let tags = reading
        .tags
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let everywhere = constant
        .iter()
        .filter(|(name, _)| {
            reading.metric.name.starts_with("agave_") && !reading.metric.labels.contains(name)
        })
        .map(|(name, value)| (*name, value.as_str()));
    own.chain(tags).chain(everywhere)
}
