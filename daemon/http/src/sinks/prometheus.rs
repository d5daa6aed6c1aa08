//! The exposition: the readings of the newest tick, in the format that the scraper requests.

mod classic;
mod collector;
mod exposition;
mod negotiation;

pub use exposition::{DroppedSeries, EncodedExposition, Exposition};
pub use negotiation::{ExpositionFormat, accepts_gzip, exposition_format};

use faultline_metrics::{LabelText, Reading};

/// Labels that are added to every `agave_` series. Empty unless the option
/// `constant_labels_everywhere` is set.
pub type ConstantLabels = Vec<(&'static str, LabelText)>;

/// Labels of the metric, then tags ([`Reading::tags`]), then constant labels.
pub fn labels<'a>(
    reading: &'a Reading,
    constant_labels: &'a ConstantLabels,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let own = reading
        .metric
        .label_names
        .iter()
        .copied()
        .zip(reading.label_values.iter().map(LabelText::as_str));
    let tags = reading
        .tags
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let constant = constant_labels
        .iter()
        .filter(|(name, _)| {
            reading.metric.name.starts_with("agave_") && !reading.metric.label_names.contains(name)
        })
        .map(|(name, value)| (*name, value.as_str()));
    own.chain(tags).chain(constant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_metrics::Tick;
    use std::{fmt, sync::Arc};

    /// The whole exposition of a tick.
    pub fn encode(
        tick: &Arc<Tick>,
        exposition_format: ExpositionFormat,
        constant_labels: &ConstantLabels,
    ) -> Result<Vec<u8>, fmt::Error> {
        let exposition = Exposition::new(tick, &Arc::new(constant_labels.clone()), None);
        Ok(exposition.encode(exposition_format, None)?.bytes.to_vec())
    }
}
