//! Effects relative to the reference arm: in words, and as the figures at the head of the report.

use super::{
    comparison::{ArmComparison, MetricComparison},
    model::{Block, ForestRow, Section},
    run_metrics::RunMetric,
};
use faultline_pages::effects;
use faultline_text::number;
use itertools::{Itertools, chain};

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

/// Prefix of a metric's id, and the figure over time of this metric or the most similar one.
const FIGURES_OVER_TIME: [(&str, &str); 12] = [
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

/// If the primary metric has no figure over time, the first existing one of these.
const FALLBACK_FIGURES: [&str; 2] = ["tps-over-time", "rss-over-time"];

/// The forest plot, and the figure over time of the primary metric, taken from its section.
pub fn take_overview(
    primary: &RunMetric,
    pairs: &[ArmComparison],
    sections: &mut [Section],
) -> Vec<Block> {
    let of_primary = FIGURES_OVER_TIME
        .iter()
        .filter(|(prefix, _)| primary.id.starts_with(prefix))
        .map(|(_, id)| *id);
    let over_time = of_primary
        .chain(FALLBACK_FIGURES)
        .find_map(|id| take_figure(sections, id));
    chain!(forest_plot(primary, pairs), over_time).collect()
}

fn take_figure(sections: &mut [Section], id: &str) -> Option<Block> {
    let is_wanted = |block: &Block| matches!(block, Block::Figure(figure) if figure.id == id);
    sections.iter_mut().find_map(|section| {
        let index = section.blocks.iter().position(is_wanted)?;
        Some(section.blocks.remove(index))
    })
}

fn forest_plot(primary: &RunMetric, pairs: &[ArmComparison]) -> Option<Block> {
    let reference = &pairs.first()?.reference;
    let rows = chain!([primary.id], SECONDARY_METRICS)
        .unique()
        .flat_map(|id| {
            pairs.iter().filter_map(move |pair| {
                let mut comparisons = chain!([&pair.primary], &pair.secondary);
                let mut row =
                    forest_row(comparisons.find(|comparison| comparison.run_metric.id == id)?)?;
                if pairs.len() > 1 {
                    row.name = format!("{}, {}", row.name, pair.other);
                }
                Some(row)
            })
        });
    let caption = "Each run counts once. Lines are 95 % intervals. \u{2713} (better) and \u{2717} (worse) mark a difference that \
                   the statistical test shows. The first metric is the primary one, the others are exploratory.";
    let x_label = match pairs {
        [pair] => format!("{} against {reference}", pair.other),
        _ => format!("Change against {reference}"),
    };
    effects::forest("What changed", x_label, caption, rows)
}

fn forest_row(comparison: &MetricComparison) -> Option<ForestRow> {
    let [reference, other] = comparison.means()?;
    Some(ForestRow {
        name: comparison.title.clone(),
        ratio: match comparison.result.ratio {
            Some(ratio) => (ratio.value, Some((ratio.low, ratio.high))),
            None => (other / reference, None),
        },
        text: effect_text(comparison)?,
        tone: comparison.tone().unwrap_or_default(),
    })
}

/// `85 % lower (73 to 93 %)`, or `equal`; `None` without a mean of each arm.
pub fn effect_text(comparison: &MetricComparison) -> Option<String> {
    let result = &comparison.result;
    let [reference, other] = comparison.means()?;
    let is_lower = result
        .ratio
        .map_or(other < reference, |ratio| ratio.value < 1.0);
    let direction = if is_lower { "lower" } else { "higher" };
    if other == 0.0 && reference > 0.0 {
        return Some(format!("100 % {direction}"));
    }
    if let Some(ratio) = result.ratio {
        return Some(effects::effect_text(ratio.value_and_ends()));
    }
    if result.difference.is_none() && other == reference {
        return Some("equal".to_owned());
    }
    let interval = result.difference.map(|difference| {
        let ends = if is_lower {
            [-difference.high, -difference.low]
        } else {
            [difference.low, difference.high]
        };
        let [low, high] = ends.map(|end| without_unit(end, comparison));
        format!(" ({low} to {high})")
    });
    let difference = with_unit((other - reference).abs(), comparison);
    let interval = interval.unwrap_or_default();
    Some(format!("{difference} {direction}{interval}"))
}

/// `0.9 instead of 5.9 ms`; `None` without a mean of each arm.
pub fn means_text(comparison: &MetricComparison, conjunction: &str) -> Option<String> {
    Some(effects::means_text(
        comparison.means()?,
        &comparison.unit,
        comparison.run_metric.decimals,
        conjunction,
    ))
}

/// Difference, ratio and means, with as many decimals as in the tables.
pub fn estimates_text(comparison: &MetricComparison) -> String {
    let result = &comparison.result;
    let Some([reference, other]) = comparison.means() else {
        return "not recorded in at least one arm".to_owned();
    };
    let means = format!(
        "{} against {}",
        with_unit(other, comparison),
        with_unit(reference, comparison)
    );
    match result.difference {
        Some(difference) => {
            let ratio = result.ratio.map(|ratio| {
                format!(
                    ", ratio {:.3} [{:.3}, {:.3}]",
                    ratio.value, ratio.low, ratio.high
                )
            });
            let [low, high] =
                [difference.low, difference.high].map(|end| without_unit(end, comparison));
            format!(
                "difference {} [{low}, {high}]{} with 95 % intervals; {means}",
                with_unit(difference.value, comparison),
                ratio.unwrap_or_default()
            )
        }
        None if reference > 0.0 => format!(
            "{means}, ratio {:.3}, without an interval",
            other / reference
        ),
        None => format!("{means}, without an interval"),
    }
}

pub fn with_unit(value: f64, comparison: &MetricComparison) -> String {
    let text = format!("{} {}", without_unit(value, comparison), comparison.unit);
    text.trim_end().to_owned()
}

fn without_unit(value: f64, comparison: &MetricComparison) -> String {
    number(value, usize::from(comparison.run_metric.decimals))
}

#[cfg(test)]
mod tests {
    use super::{
        super::run_metrics::{RUN_METRICS, run_metric},
        *,
    };
    use faultline_stats::arms;

    #[test]
    fn metrics_of_the_forest_plot_and_of_figures_over_time_exist() {
        for id in SECONDARY_METRICS {
            assert!(run_metric(id).is_some(), "{id}");
        }
        for (prefix, figure) in FIGURES_OVER_TIME {
            let mut ids = RUN_METRICS.iter().map(|run_metric| run_metric.id);
            assert!(ids.any(|id| id.starts_with(prefix)), "{figure}: {prefix}");
        }
    }

    #[test]
    fn equal_means_without_an_interval_are_not_called_higher() {
        let text = |reference: f64, other: f64| {
            let comparison = MetricComparison {
                run_metric: &RUN_METRICS[0],
                title: String::new(),
                unit: "ms".to_owned(),
                result: arms::compare(&[reference], &[other], 0.05),
                is_compared_within_hosts: false,
                refusal: None,
            };
            effect_text(&comparison).unwrap()
        };
        assert_eq!([text(5.0, 5.0), text(5.0, 6.0)], ["equal", "1.0 ms higher"]);
    }
}
