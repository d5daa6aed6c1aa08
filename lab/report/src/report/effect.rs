//! Effects in the reader's unit, relative to the reference.

use super::comparison::{Metric, direction_words};
use faultline_pages::effects;
use faultline_stats::arms::Direction;
use faultline_text::number;

/// `85 % lower (73 to 93 %)`; `None` without a mean of each arm.
pub fn effect(metric: &Metric) -> Option<String> {
    let comparison = &metric.comparison;
    let (reference, other) = (comparison.reference.mean?, comparison.other.mean?);
    let is_lower = comparison
        .ratio
        .map_or(other < reference, |ratio| ratio.value < 1.0);
    let direction = match is_lower {
        true => Direction::Lower,
        false => Direction::Higher,
    };
    if other == 0.0 && reference > 0.0 {
        return Some(format!("100 % {}", direction_words(direction)));
    }
    if let Some(ratio) = comparison.ratio {
        return Some(effects::effect_text(ratio.ends()));
    }
    let interval = comparison.difference.map_or_else(String::new, |of| {
        let ends = match direction {
            Direction::Lower => [-of.high, -of.low],
            Direction::Higher => [of.low, of.high],
        };
        let [low, high] = ends.map(|end| decimal(end, metric));
        format!(" ({low} to {high})")
    });
    let difference = with_unit((other - reference).abs(), metric);
    let direction = direction_words(direction);
    Some(format!("{difference} {direction}{interval}"))
}

/// `0.9 instead of 5.9 ms`; `None` without a mean of each arm.
pub fn means(metric: &Metric, conjunction: &str) -> Option<String> {
    let comparison = &metric.comparison;
    let means = [comparison.reference.mean?, comparison.other.mean?];
    let decimals = metric.scalar.decimals;
    Some(effects::means_text(
        means,
        &metric.unit,
        decimals,
        conjunction,
    ))
}

/// Means, difference and ratio, as the tables have them.
pub fn estimates(metric: &Metric) -> String {
    let comparison = &metric.comparison;
    let unit = |value: f64| with_unit(value, metric);
    let (Some(reference), Some(other)) = (comparison.reference.mean, comparison.other.mean) else {
        return "not recorded in both".to_owned();
    };
    let means = format!("{} against {}", unit(other), unit(reference));
    match (comparison.difference, comparison.ratio) {
        (Some(difference), ratio) => {
            let ratio = ratio.map_or_else(String::new, |ratio| {
                format!(
                    ", ratio {:.3} [{:.3}, {:.3}]",
                    ratio.value, ratio.low, ratio.high
                )
            });
            let [low, high] = [difference.low, difference.high].map(|end| decimal(end, metric));
            format!(
                "difference {} [{low}, {high}]{ratio} with 95 % intervals; {means}",
                unit(difference.value)
            )
        }
        (None, _) if reference > 0.0 => format!(
            "{means}, ratio {:.3}, without an interval",
            other / reference
        ),
        (None, _) => format!("{means}, without an interval"),
    }
}

pub fn with_unit(value: f64, metric: &Metric) -> String {
    let text = format!("{} {}", decimal(value, metric), metric.unit);
    text.trim_end().to_owned()
}

fn decimal(value: f64, metric: &Metric) -> String {
    number(value, usize::from(metric.scalar.decimals))
}
