//! The first pictures: effects with their intervals, and the primary metric over time.

use super::{
    comparison::{Metric, Pair, tone},
    effect::effect,
    model::{Block, ForestRow, Section, Tone},
    scalars::Scalar,
};
use faultline_pages::effects;
use faultline_stats::arms::Conclusion;
use itertools::Itertools;
use std::iter;

/// Shown next to the primary metric.
const SECONDARY_METRICS: [&str; 10] = [
    "replay-p95",
    "cache-time",
    "cache-misses",
    "read-cache-hits",
    "tps",
    "behind-p95",
    "catch-up",
    "rss-mean",
    "headroom-min",
    "major-faults",
];

/// Maps a prefix of a metric's id to the figure over time that shows it, or its nearest relative.
const OVER_TIME: [(&str, &str); 12] = [
    ("replay", "replay-over-time"),
    ("cache", "cache-time-over-time"),
    ("read-cache", "read-cache-over-time"),
    ("account", "read-cache-over-time"),
    ("behind", "behind-over-time"),
    ("catch-up", "behind-over-time"),
    ("rss", "rss-over-time"),
    ("anon", "anon-and-file"),
    ("headroom", "headroom-over-time"),
    ("major", "major-faults-over-time"),
    ("minor", "minor-faults-over-time"),
    ("refaults", "refaults-over-time"),
];

/// The first of these that exists is drawn if the primary metric has no figure over time.
const FALLBACK_FIGURES: [&str; 2] = ["tps-over-time", "rss-over-time"];

/// The figure over time is moved here from its section.
pub fn overview(primary: &Scalar, pairs: &[Pair], sections: &mut [Section]) -> Vec<Block> {
    let of_primary = OVER_TIME.iter();
    let of_primary = of_primary.filter(|(name, _)| primary.id.starts_with(name));
    let mut ids = of_primary.map(|(_, id)| *id).chain(FALLBACK_FIGURES);
    let over_time = ids.find_map(|id| take_figure(sections, id));
    forest(primary, pairs)
        .into_iter()
        .chain(over_time)
        .collect()
}

fn take_figure(sections: &mut [Section], id: &str) -> Option<Block> {
    let is_it = |block: &Block| matches!(block, Block::Figure(figure) if figure.id == id);
    sections.iter_mut().find_map(|section| {
        let index = section.blocks.iter().position(is_it)?;
        Some(section.blocks.remove(index))
    })
}

fn forest(primary: &Scalar, pairs: &[Pair]) -> Option<Block> {
    let reference = &pairs.first()?.reference;
    let ids = iter::once(primary.id).chain(SECONDARY_METRICS);
    let rows = ids.unique().flat_map(|id| {
        pairs.iter().filter_map(move |pair| {
            let mut metrics = iter::once(&pair.primary).chain(&pair.others);
            let mut row = row(metrics.find(|metric| metric.scalar.id == id)?)?;
            if pairs.len() > 1 {
                row.name = format!("{}, {}", row.name, pair.other);
            }
            Some(row)
        })
    });
    let caption = "Each run counts once. Lines are 95 % intervals; \u{2713} better and \u{2717} worse: a difference is shown. The \
                   first metric is the primary one, the others are exploratory.";
    let x_label = match pairs {
        [pair] => format!("{} against {reference}", pair.other),
        _ => format!("Change against {reference}"),
    };
    effects::forest("What changed", x_label, caption, rows)
}

fn row(metric: &Metric) -> Option<ForestRow> {
    let comparison = &metric.comparison;
    let (before, after) = (comparison.reference.mean?, comparison.other.mean?);
    let ratio = match comparison.ratio {
        Some(ratio) => (ratio.value, Some((ratio.low, ratio.high))),
        None => (after / before, None),
    };
    let tone = match comparison.conclusion {
        Conclusion::Differs { direction, .. } => tone(direction, metric.scalar.better),
        _ => Tone::Neutral,
    };
    Some(ForestRow {
        name: metric.title.clone(),
        ratio,
        text: effect(metric)?,
        tone,
    })
}
