//! The exposition: the newest tick as a page, in the dialect the scraper asks for.

mod classic;
mod collector;
mod dropped;
mod exposition;
mod family;
mod negotiate;

pub use dropped::DroppedSeries;
pub use exposition::{Exposition, Page};
pub use negotiate::{Dialect, accepts_gzip, dialect};

use faultline_catalog::{Reading, Text, Tick};
use std::fmt;
use std::sync::Arc;

/// Labels from the configuration that go on every `agave_` series if `constant_labels_everywhere` is set.
pub type ConstantLabels = Vec<(&'static str, Text)>;

/// The whole page of one tick, encoded from nothing.
pub fn page(
    tick: &Arc<Tick>,
    dialect: Dialect,
    constant: &ConstantLabels,
) -> Result<Vec<u8>, fmt::Error> {
    let exposition = Exposition::new(tick, &Arc::new(constant.clone()), None);
    Ok(exposition.page(dialect, None)?.bytes().to_vec())
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
