//! Compares arms. Each run counts as one value.

use super::{
    cells::{self, count, estimate_or, number_or, table, text_cell, without_missing_columns},
    comparability,
    hosts::{self, ComparisonDesign},
    measured_run::{MeasuredRuns, RunPart},
    model::{Block, Cell, Section, Tone},
    run_metrics::{Better, RunMetric, run_metrics_of},
};
use faultline_stats::arms::{self, Comparison, Conclusion, Direction, Interval};
use faultline_text::{number, p_value};
use itertools::{Itertools, chain};

pub struct MetricComparison {
    pub run_metric: &'static RunMetric,
    /// Title of the rate if rates are compared.
    pub title: String,
    pub unit: String,
    pub result: Comparison,
    pub is_compared_within_hosts: bool,
    /// Why the arms are not compared by this metric.
    pub refusal: Option<String>,
}

impl MetricComparison {
    pub fn means(&self) -> Option<[f64; 2]> {
        Some([self.result.reference.mean?, self.result.other.mean?])
    }

    pub fn tone(&self) -> Option<Tone> {
        match self.result.conclusion {
            Conclusion::Differs { direction, .. } => Some(tone(direction, self.run_metric.better)),
            _ => None,
        }
    }
}

pub struct ArmComparison {
    pub reference: String,
    pub other: String,
    pub primary: MetricComparison,
    /// By the other metrics. Only their conclusions use p-values adjusted by Holm.
    pub secondary: Vec<MetricComparison>,
}

impl ArmComparison {
    pub fn conclusion(&self) -> Conclusion {
        self.primary.result.conclusion
    }

    fn arms_cell(&self) -> Cell {
        Cell::Text(format!("{} against {}", self.other, self.reference))
    }
}

/// The first arm with values of the primary metric, or else the first arm, and the other arms.
pub fn reference_and_others<'a>(
    runs: &'a MeasuredRuns,
    primary: &RunMetric,
) -> Option<(&'a str, Vec<&'a str>)> {
    runs.reference_and_others(|arm| !values(runs, arm, primary).is_empty())
}

pub fn compare_arms(
    runs: &MeasuredRuns,
    primary: &'static RunMetric,
    margin: f64,
) -> Vec<ArmComparison> {
    let Some((reference, others)) = reference_and_others(runs, primary) else {
        return Vec::new();
    };
    let pairs = others.into_iter().map(|other| {
        let design = hosts::comparison_design(runs, reference, other);
        let compare_by = |run_metric| {
            let refusal = match &design {
                ComparisonDesign::Refused(why) => Some(why.clone()),
                _ => comparability::refusal(runs, reference, other, run_metric),
            };
            let result = match design {
                _ if refusal.is_some() => arms::compare(&[], &[], margin),
                ComparisonDesign::ByHostBlock => {
                    let value_pairs =
                        hosts::pair_metric_by_host_block(runs, [reference, other], run_metric);
                    faultline_stats::hosts::compare(&value_pairs, margin)
                }
                _ => {
                    let [reference_values, other_values] =
                        [reference, other].map(|arm| values(runs, arm, run_metric));
                    arms::compare(&reference_values, &other_values, margin)
                }
            };
            MetricComparison {
                run_metric,
                title: comparability::compared_title(run_metric, runs.compare_rates),
                unit: comparability::compared_unit(run_metric, runs.compare_rates),
                result,
                is_compared_within_hosts: matches!(design, ComparisonDesign::ByHostBlock),
                refusal,
            }
        };
        let rest = run_metrics_of(runs).filter(|run_metric| run_metric.id != primary.id);
        ArmComparison {
            reference: reference.to_owned(),
            other: other.to_owned(),
            primary: compare_by(primary),
            secondary: rest.map(compare_by).collect(),
        }
    });
    let mut pairs = pairs.collect_vec();
    // The secondary metrics are one family of tests. With several arms, so are the tests of the
    // primary metric.
    arms::conclude_family(pairs.iter_mut().map(|pair| &mut pair.primary.result));
    let secondary = pairs.iter_mut().flat_map(|pair| &mut pair.secondary);
    arms::conclude_family(secondary.map(|comparison| &mut comparison.result));
    pairs
}

fn values(runs: &MeasuredRuns, arm: &str, run_metric: &RunMetric) -> Vec<f64> {
    runs.counted_runs_of(arm)
        .filter_map(|run| comparability::compared_value(runs, run_metric, run))
        .collect()
}

/// A clause that names the arms before the reference; empty if there are none.
fn arms_without_values(runs: &MeasuredRuns, pair: &ArmComparison) -> String {
    let before = runs
        .arms
        .iter()
        .take_while(|arm| **arm != pair.reference)
        .join(", ");
    if before.is_empty() {
        return before;
    }
    let title = lowercase_first(&pair.primary.title);
    format!(", the first that has values of {title}: no run of {before} has any")
}

pub fn section(
    runs: &MeasuredRuns,
    first: &ArmComparison,
    pairs: &[ArmComparison],
    more_blocks: Vec<Block>,
    margin: f64,
) -> Section {
    let text = format!(
        "Each run gives one number, and arms are compared by these: the run is the unit, never the sample. Every arm is compared with \
         {}{}. The primary metric is {}; differences below {} % of the reference's mean do not matter. Tests need {} runs in each arm. \
         {}",
        first.reference,
        arms_without_values(runs, first),
        lowercase_first(&first.primary.title),
        cells::percent(margin),
        arms::RUNS_FOR_A_TEST,
        if runs.has_no_validator() || runs.are_offline_replays() {
            "Whole runs are compared."
        } else if runs.compared_part() == RunPart::FromTip {
            "Only the time from the first sample at the tip on is compared, because every run that executed a transaction was at the tip \
             long enough. Start and catching up are left out."
        } else {
            "The time from the first executed transaction on is compared, catching up included, because not every run was at the tip for \
             ten minutes or half of its time."
        }
    );
    let tables = [
        Block::Text(text),
        primary_table(&first.primary, pairs, margin),
        secondary_table(pairs),
        definitions(runs),
    ];
    let blocks = chain!(tables, more_blocks).collect();
    cells::section("comparison", "Comparison of the arms", blocks)
}

fn primary_table(first: &MetricComparison, pairs: &[ArmComparison], margin: f64) -> Block {
    let (unit, run_metric) = (&*first.unit, first.run_metric);
    let any_result =
        |holds: fn(&Comparison) -> bool| pairs.iter().any(|pair| holds(&pair.primary.result));
    let mut note = format!("{}: {}.", run_metric.title, run_metric.definition);
    if pairs
        .iter()
        .any(|pair| pair.primary.is_compared_within_hosts)
    {
        note += " Several hosts: Student's intervals and tests of the ratios within blocks.";
    } else if any_result(|result| result.difference.is_some()) {
        note += &format!(
            " Difference and ratio of means with {:.0} % intervals (Welch, Fieller; where Fieller's interval would reach below 0, the \
             variance of the other arm's mean is assumed to be proportional to that mean, as in Wilson's score interval); the shift by \
             Hodges and Lehmann.",
            100.0 * arms::CONFIDENCE_LEVEL
        );
    }
    if any_result(|result| result.difference_p.is_some() || result.equivalence_p.is_some()) {
        note += &format!(
            " Equivalent: two one-sided tests show the ratio within 1 ± {}. p-values are those of single tests; the conclusion uses \
             them adjusted by Holm if there are more than two arms.",
            number(margin, 3)
        );
    }
    if any_result(|result| result.runs_needed.is_some()) {
        note += " Runs needed: runs in each arm to detect a difference as large as the margin with a power of 80 %.";
    }
    let mut table = table(
        "primary",
        &format!("Primary metric: {}", lowercase_first(&first.title)),
        &[
            ("Arms", ""),
            ("Difference", unit),
            ("Ratio", ""),
            ("Conclusion", ""),
            ("Reference mean", unit),
            ("Other mean", unit),
            ("Runs", ""),
            ("Other runs", ""),
            ("Shift", unit),
            ("Cliff's delta", ""),
            ("p of the difference", ""),
            ("p by ranks", ""),
            ("p of equivalence", ""),
            ("Runs needed", ""),
        ],
        &note,
    );
    table.rows = pairs.iter().map(primary_row).collect();
    Block::Table(without_missing_columns(table))
}

fn primary_row(pair: &ArmComparison) -> Vec<Cell> {
    let (comparison, result) = (&pair.primary, &pair.primary.result);
    let or_refusal = |reason| comparison.refusal.as_deref().unwrap_or(reason);
    let untested = or_refusal("needs three runs in each arm, and a spread");
    let no_ranks = if comparison.is_compared_within_hosts {
        "ranks are not compared within blocks"
    } else {
        untested
    };
    let runs_needed = result.runs_needed.map(|runs| runs as f64);
    let test_cells = [
        count(result.reference.runs),
        count(result.other.runs),
        interval_cell(result.shift, comparison.run_metric.decimals, no_ranks),
        number_or(result.cliffs_delta, 2, no_ranks),
        number_or(result.difference_p, 4, untested),
        number_or(result.mann_whitney_p, 4, no_ranks),
        number_or(result.equivalence_p, 4, untested),
        number_or(
            runs_needed,
            0,
            or_refusal("needs two runs in each arm, a spread, a margin, and values above 0"),
        ),
    ];
    chain!([pair.arms_cell()], mean_cells(comparison), test_cells).collect()
}

/// Difference, ratio, conclusion and means.
fn mean_cells(comparison: &MetricComparison) -> [Cell; 5] {
    let (result, decimals) = (&comparison.result, comparison.run_metric.decimals);
    let refusal = comparison.refusal.as_deref();
    let no_mean = refusal.unwrap_or("not known for any run of the arm");
    let no_interval = match result.reference.runs.min(result.other.runs) {
        0 => no_mean,
        1 => "needs two runs in each arm",
        _ => "needs a spread; a ratio also needs values clearly above 0",
    };
    [
        interval_cell(result.difference, decimals, no_interval),
        interval_cell(result.ratio, 3, no_interval),
        Cell::Text(conclusion(comparison)),
        number_or(result.reference.mean, decimals, no_mean),
        number_or(result.other.mean, decimals, no_mean),
    ]
}

pub fn interval_cell(interval: Option<Interval>, decimals: u8, reason: &str) -> Cell {
    estimate_or(
        interval.map(|interval| interval.value_and_ends()),
        decimals,
        reason,
    )
}

fn secondary_table(pairs: &[ArmComparison]) -> Block {
    let mut secondary = pairs.iter().flat_map(|pair| &pair.secondary);
    let note = if secondary.any(|comparison| comparison.result.difference_p.is_some()) {
        "Means over runs, differences and ratios with 95 % intervals, each in the metric's unit. Conclusions by p-values that are \
         Holm-adjusted over all rows of this table. These metrics were not chosen in advance: they are exploratory."
    } else {
        "Means over runs, each in the metric's unit. Nothing here is tested: these metrics are exploratory."
    };
    let mut table = table(
        "other-metrics",
        "All other metrics",
        &[
            "Metric",
            "Unit",
            "Arms",
            "Difference",
            "Ratio",
            "Conclusion",
            "Reference mean",
            "Other mean",
        ],
        note,
    );
    let count = pairs.first().map_or(0, |pair| pair.secondary.len());
    for index in 0..count {
        for pair in pairs {
            let Some(comparison) = pair.secondary.get(index) else {
                continue;
            };
            let names = [
                text_cell(&comparison.title),
                text_cell(&comparison.unit),
                pair.arms_cell(),
            ];
            let cells = chain!(names, mean_cells(comparison));
            table.rows.push(cells.collect());
        }
    }
    Block::Table(without_missing_columns(table))
}

fn definitions(runs: &MeasuredRuns) -> Block {
    let note = if runs.compare_rates {
        "Each metric is one number per run. A mean becomes the sum divided by the known seconds, a quantile is divided by the slot time."
    } else {
        "Each metric is one number per run."
    };
    let mut table = table(
        "metrics",
        "What the metrics are",
        &["Metric", "Name for --primary", "Unit", "Definition"],
        note,
    );
    let rows = run_metrics_of(runs).map(|run_metric| {
        [
            run_metric.title,
            run_metric.id,
            run_metric.unit,
            run_metric.definition,
        ]
        .map(text_cell)
    });
    table.rows.extend(rows.map(Vec::from));
    Block::Table(table)
}

/// Leaves abbreviations unchanged.
pub fn lowercase_first(title: &str) -> String {
    let mut chars = title.chars();
    match (chars.next(), chars.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => title.to_owned(),
    }
}

pub fn uppercase_first(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .chain(chars)
        .collect()
}

pub fn conclusion(comparison: &MetricComparison) -> String {
    comparison
        .refusal
        .clone()
        .or_else(|| direction_in_every_block(comparison))
        .unwrap_or_else(|| conclusion_words(&comparison.result, comparison.run_metric))
}

/// The conclusion if arms differ without a p-value: all host blocks have the same ratio or
/// difference.
pub fn direction_in_every_block(comparison: &MetricComparison) -> Option<String> {
    let result = &comparison.result;
    let Conclusion::Inconclusive { p: None, .. } = result.conclusion else {
        return None;
    };
    let direction = result
        .direction()
        .filter(|_| comparison.is_compared_within_hosts)?;
    let direction = direction_word(direction);
    Some(format!("{direction} in every block, not tested"))
}

fn conclusion_words(result: &Comparison, run_metric: &RunMetric) -> String {
    match result.conclusion {
        Conclusion::NoValues => "no value in an arm".to_owned(),
        Conclusion::Described => {
            "described, not tested: an arm has a value of a single run only".to_owned()
        }
        Conclusion::TwoRuns => {
            format!(
                "estimated, not tested: 2 runs, a test needs {}",
                arms::RUNS_FOR_A_TEST
            )
        }
        Conclusion::Differs { direction, p } => {
            let tone = match tone(direction, run_metric.better) {
                Tone::Neutral => "",
                Tone::Better => ", which is better",
                Tone::Worse => ", which is worse",
            };
            format!("{}{tone} ({})", direction_word(direction), p_value(p))
        }
        Conclusion::Equivalent { p, differs } => {
            let differs = differs.map_or_else(String::new, |direction| {
                format!(", though {}", direction_word(direction))
            });
            format!("equivalent within the margin ({}){differs}", p_value(p))
        }
        Conclusion::Inconclusive { p: Some(p), .. } => format!(
            "neither a difference nor equivalence is shown ({})",
            p_value(p)
        ),
        Conclusion::Inconclusive { p: None, .. } => {
            "not tested: without a spread there is nothing to test against".to_owned()
        }
    }
}

pub fn direction_word(direction: Direction) -> &'static str {
    match direction {
        Direction::Lower => "lower",
        Direction::Higher => "higher",
    }
}

fn tone(direction: Direction, better: Better) -> Tone {
    match (direction, better) {
        (_, Better::Neither) => Tone::Neutral,
        (Direction::Lower, Better::Lower) | (Direction::Higher, Better::Higher) => Tone::Better,
        _ => Tone::Worse,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::run_metrics::RUN_METRICS, *};

    #[test]
    fn an_arm_with_one_value_among_runs_is_not_called_single_run() {
        let compared = arms::compare(&[1.0], &[2.0, 3.0], 0.05);
        assert_eq!(
            conclusion_words(&compared, &RUN_METRICS[0]),
            "described, not tested: an arm has a value of a single run only"
        );
    }
}
