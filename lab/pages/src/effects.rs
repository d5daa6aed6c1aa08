//! Effects relative to a reference: in words, and as a figure.

use super::{
    cells::figure,
    model::{Block, Chart, Forest, ForestRow, Tone},
};
use faultline_text::number;

/// Effects from this ratio on are multiples, not percentages.
const MIN_MULTIPLE: f64 = 2.0;

const MAX_ROWS: usize = 12;

/// A ratio and its interval in words: `85 % lower (73 to 93 %)`, `2.6 times as high (2.1 to 3.2
/// times)`.
pub fn effect_text(ratio: [f64; 3]) -> String {
    let [value, low, high] = ratio;
    if value >= MIN_MULTIPLE {
        let [value, low, high] = ratio.map(|times| number(times, 1));
        return format!("{value} times as high ({low} to {high} times)");
    }
    let change = |ratio| 100.0 * (ratio - 1.0);
    let (direction, changes) = if value < 1.0 {
        ("lower", [value, high, low].map(|ratio| -change(ratio)))
    } else {
        ("higher", ratio.map(change))
    };
    let decimals = usize::from(changes[0] < 10.0);
    let [value, low, high] = changes.map(|percent| number(percent, decimals));
    format!("{value} % {direction} ({low} to {high} %)")
}

pub fn than_or_as(effect: &str) -> &'static str {
    if effect.contains("times as high") {
        "as"
    } else {
        "than"
    }
}

/// `0.9 instead of 5.9 ms`, with enough decimals for the smaller mean.
pub fn means_text(
    [reference, other]: [f64; 2],
    unit: &str,
    decimals: u8,
    conjunction: &str,
) -> String {
    let (scale, unit, decimals) = match unit.strip_prefix('µ') {
        Some(base_unit) if reference.max(other) >= 1e3 => (1e-3, format!("m{base_unit}"), 1),
        _ => (1.0, unit.to_owned(), usize::from(decimals)),
    };
    let means = [reference, other].map(|mean| mean * scale);
    let positive = means.into_iter().filter(|mean| *mean > 0.0);
    let smallest = positive.reduce(f64::min).unwrap_or(1.0);
    let decimals = decimals.max((-smallest.log10().floor()).clamp(0.0, 6.0) as usize);
    let [reference, other] = means.map(|mean| number(mean, decimals));
    format!("{other} {conjunction} {reference} {unit}")
        .trim_end()
        .to_owned()
}

/// `Cache time per slot is 85 % lower (73 to 93 %) with B than with A: 0.9 instead of 5.9 ms.`
pub fn sentence(title: &str, effect: &str, [reference, other]: [&str; 2], means: &str) -> String {
    let comma = if title.contains(", ") { "," } else { "" };
    // `Misses per batch`, not `Replay time per slot`.
    let per = title.split_once(" per ");
    let is_plural = per.is_some_and(|(what, _)| what.ends_with('s'));
    let is = if is_plural { "are" } else { "is" };
    let colon = if means.is_empty() { "" } else { ": " };
    format!(
        "{title}{comma} {is} {effect} with {other} {} with {reference}{colon}{means}.",
        than_or_as(effect)
    )
}

/// The first rows with a ratio, each with a sign for its tone; `None` if no row has one.
pub fn forest(
    title: &str,
    x_label: String,
    caption: &str,
    rows: impl IntoIterator<Item = ForestRow>,
) -> Option<Block> {
    let with_sign = |row: ForestRow| {
        let sign = match row.tone {
            Tone::Better => "\u{2713} ",
            Tone::Worse => "\u{2717} ",
            Tone::Neutral => "",
        };
        ForestRow {
            text: format!("{sign}{}", row.text),
            ..row
        }
    };
    // NaN is dropped. 0 and infinity are drawn at the ends of the axis.
    let rows = rows.into_iter().filter(|row| row.ratio.0 >= 0.0);
    let mut rows = Vec::from_iter(rows.map(with_sign));
    let mut caption = caption.to_owned();
    if rows.len() > MAX_ROWS {
        caption += &format!(" The first {MAX_ROWS} of {}.", rows.len());
    }
    rows.truncate(MAX_ROWS);
    (!rows.is_empty()).then(|| {
        let chart = Chart::Forest(Forest { x_label, rows });
        figure("effects", title, &caption, chart)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_are_percentages_below_a_doubling_and_multiples_above() {
        let lower = effect_text([0.15, 0.07, 0.27]);
        assert_eq!(lower, "85 % lower (73 to 93 %)");
        let higher = effect_text([1.042, 0.99, 1.1]);
        assert_eq!(higher, "4.2 % higher (\u{2212}1.0 to 10.0 %)");
        let multiple = effect_text([2.6, 2.1, 3.2]);
        assert_eq!(multiple, "2.6 times as high (2.1 to 3.2 times)");
        let words = [lower, multiple].map(|effect| than_or_as(&effect));
        assert_eq!(words, ["than", "as"]);
    }

    #[test]
    fn rows_without_a_ratio_are_left_out_and_more_than_fit_are_counted() {
        let rows = |ratio: f64, count| {
            let row = ForestRow {
                ratio: (ratio, None),
                ..ForestRow::default()
            };
            vec![row; count]
        };
        let drawn = |rows| forest("", String::new(), "All.", rows);
        assert_eq!(drawn(rows(f64::NAN, 3)), None);
        let Some(Block::Figure(many)) = drawn(rows(1.1, 14)) else {
            panic!("no figure")
        };
        assert_eq!(many.caption, "All. The first 12 of 14.");
    }
}
