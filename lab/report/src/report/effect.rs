//! Effects in the reader's unit, relative to the reference.

use super::comparison::{Pair, direction_words};
use super::scalars::Scalar;
use faultline_stats::arms::{Comparison, Direction, Interval};
use faultline_text::number;

/// From this ratio on, an effect is a multiple and not a percentage.
const MULTIPLE: f64 = 2.0;

/// `85 % lower (73 to 93 %)`; `None` without a mean of each arm.
pub(crate) fn effect(pair: &Pair, scalar: &Scalar, comparison: &Comparison) -> Option<String> {
    let (before, after) = (comparison.reference.mean?, comparison.other.mean?);
    let is_lower = { comparison.ratio }.map_or(after < before, |ratio| ratio.value < 1.0);
    let direction = match is_lower {
        true => Direction::Lower,
        false => Direction::Higher,
    };
    if after == 0.0 && before > 0.0 {
        return Some(format!("100 % {}", direction_words(direction)));
    }
    if let Some(ratio) = comparison.ratio {
        return Some(relative(direction, ratio));
    }
    let interval = comparison.difference.map_or_else(String::new, |of| {
        let ends = match direction {
            Direction::Lower => [-of.high, -of.low],
            Direction::Higher => [of.low, of.high],
        };
        format!(
            " ({} to {})",
            decimal(ends[0], scalar),
            decimal(ends[1], scalar)
        )
    });
    let difference = with_unit((after - before).abs(), pair, scalar);
    let direction = direction_words(direction);
    Some(format!("{difference} {direction}{interval}"))
}

fn relative(direction: Direction, ratio: Interval) -> String {
    if ratio.value >= MULTIPLE {
        let [value, low, high] = ratio.ends().map(|times| number(times, 1));
        return format!("{value} times as high ({low} to {high} times)");
    }
    let change = |ratio: f64| 100.0 * (ratio - 1.0);
    let [value, low, high] = match direction {
        Direction::Lower => [ratio.value, ratio.high, ratio.low].map(|ratio| -change(ratio)),
        Direction::Higher => ratio.ends().map(change),
    };
    let decimals = usize::from(value < 10.0);
    let [value, low, high] = [value, low, high].map(|percent| number(percent, decimals));
    format!(
        "{value} % {} ({low} to {high} %)",
        direction_words(direction)
    )
}

/// The word before the reference: `as` after a multiple, else `than`.
pub(crate) fn comparative(effect: &str) -> &'static str {
    match effect.contains("times as high") {
        true => "as",
        false => "than",
    }
}

/// `0.9 instead of 5.9 ms`; `None` without a mean of each arm.
pub(crate) fn means(
    pair: &Pair,
    scalar: &Scalar,
    comparison: &Comparison,
    between: &str,
) -> Option<String> {
    let (before, after) = (comparison.reference.mean?, comparison.other.mean?);
    let unit = pair.unit(scalar);
    let (scale, unit, decimals) = match unit.strip_prefix('µ') {
        Some(larger) if before.max(after) >= 1e3 => (1e-3, format!("m{larger}"), 1),
        _ => (1.0, unit, usize::from(scalar.decimals)),
    };
    let [before, after] = [before, after].map(|mean| mean * scale);
    let smallest = [before, after].into_iter().filter(|mean| *mean > 0.0);
    let smallest = smallest.reduce(f64::min).unwrap_or(1.0);
    let decimals = decimals.max((-smallest.log10().floor()).clamp(0.0, 6.0) as usize);
    let [before, after] = [before, after].map(|mean| number(mean, decimals));
    Some(
        format!("{after} {between} {before} {unit}")
            .trim_end()
            .to_owned(),
    )
}

/// Means, difference and ratio, as the tables have them.
pub(crate) fn raw(pair: &Pair, scalar: &Scalar) -> String {
    let (comparison, decimals) = (&pair.primary, usize::from(scalar.decimals));
    let unit = |value: f64| with_unit(value, pair, scalar);
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
            let (low, high) = (
                number(difference.low, decimals),
                number(difference.high, decimals),
            );
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

pub(crate) fn with_unit(value: f64, pair: &Pair, scalar: &Scalar) -> String {
    let text = format!("{} {}", decimal(value, scalar), pair.unit(scalar));
    text.trim_end().to_owned()
}

fn decimal(value: f64, scalar: &Scalar) -> String {
    number(value, usize::from(scalar.decimals))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_is_a_percentage_and_from_twice_on_a_multiple() {
        let text = |direction, [value, low, high]: [f64; 3]| {
            let level = 0.95;
            relative(
                direction,
                Interval {
                    value,
                    low,
                    high,
                    level,
                },
            )
        };
        let lower = text(Direction::Lower, [0.15, 0.07, 0.27]);
        assert_eq!(lower, "85 % lower (73 to 93 %)");
        let higher = text(Direction::Higher, [1.042, 0.99, 1.1]);
        assert_eq!(higher, "4.2 % higher (\u{2212}1.0 to 10.0 %)");
        let multiple = text(Direction::Higher, [2.6, 2.1, 3.2]);
        assert_eq!(multiple, "2.6 times as high (2.1 to 3.2 times)");
        let words = [lower, multiple].map(|effect| comparative(&effect));
        assert_eq!(words, ["than", "as"]);
    }
}
