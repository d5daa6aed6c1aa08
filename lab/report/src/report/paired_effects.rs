//! Effects between arms, slot by slot. A turn is the runs that an experiment executes at the same
//! time on one host. An A/A pair is two runs of one arm in a turn. Their difference is the bias
//! floor: a smaller difference between arms is not reported as real.

use super::{
    cells::{count, estimate, estimate_or, number_or, table, text_cell},
    comparability,
    comparison::{ArmComparison, lowercase_first},
    groups::by_key,
    measured_run::{AA_SUFFIX, MeasuredRuns},
    model::{Block, Cell, VerdictKind},
    paired::{PairedRuns, QUANTITIES, QUANTITY_DECIMALS, Quantity, RunPairEffect, is_same_turn},
    run_metrics::RunMetric,
};
use faultline_stats::{
    arms::{Conclusion, Interval, RUNS_FOR_A_TEST},
    block_bootstrap::{Estimate, Reliability},
    caveat::reliability_text,
    decision::Decision,
    paired::{mean_over_pairs, nonnegative_mean_over_pairs},
    summary::mean,
};
use faultline_text::{counted, number};
use itertools::{Itertools, chain};

/// `[value, low, high]`.
type ValueAndInterval = [f64; 3];

struct ArmEffect {
    quantity: &'static Quantity,
    quantity_index: usize,
    reference: String,
    /// Equal to the reference for the A/A pair.
    other: String,
    /// Number of pairs of runs. With a floor, texts call them turns.
    run_pairs: usize,
    /// The other arm minus the reference, in the quantity's unit.
    difference: ValueAndInterval,
    ratio: Option<ValueAndInterval>,
    /// The ratio with a 90 % interval; only for an A/A pair.
    ratio_90: Option<ValueAndInterval>,
    /// Why `difference` is unreliable. `None` with [`RUNS_FOR_A_TEST`] pairs or more.
    unreliable: Option<Reliability>,
}

impl ArmEffect {
    fn over_run_pairs(pairs: &[&RunPairEffect]) -> Option<Self> {
        let first = pairs.first()?;
        let differences = pairs
            .iter()
            .map(|pair| pair.effect.mean_difference)
            .collect_vec();
        // A pair has no ratio if the reference's sum is 0.
        let ratio = |level, of_pair: fn(&RunPairEffect) -> Option<Estimate>| {
            let ratios: Option<Vec<_>> = pairs.iter().map(|pair| of_pair(pair)).collect();
            mean_of_pairs(&ratios?, level, nonnegative_mean_over_pairs)
        };
        Some(Self {
            quantity: QUANTITIES.get(first.quantity_index)?,
            quantity_index: first.quantity_index,
            reference: first.reference.clone(),
            other: first.other.clone(),
            run_pairs: pairs.len(),
            difference: mean_of_pairs(&differences, 0.95, mean_over_pairs)?,
            ratio: ratio(0.95, |pair| pair.effect.ratio_of_sums),
            ratio_90: ratio(0.90, |pair| pair.ratio_90),
            unreliable: why_unreliable(&differences),
        })
    }

    fn is_aa_pair(&self) -> bool {
        self.reference == self.other
    }

    fn is_about(&self, run_metric: &RunMetric) -> bool {
        self.quantity
            .metric_id_prefixes
            .iter()
            .any(|metric| run_metric.id.starts_with(metric))
    }

    fn is_tested(&self) -> bool {
        self.run_pairs >= RUNS_FOR_A_TEST
    }

    fn difference_text(&self) -> String {
        let [value, low, high] = self.difference;
        format!(
            "{} [{}, {}]",
            with_unit(value, self.quantity),
            without_unit(low),
            without_unit(high)
        )
    }
}

/// Without a floor, there are effects only if two arms have two pairs of runs with common slots.
pub struct PairedEffects {
    /// By quantity; A/A pairs first.
    effects: Vec<ArmEffect>,
    margin: f64,
    /// If true, there is no floor by slots: differences in ms depend on the host's speed.
    is_compared_within_hosts: bool,
}

impl PairedEffects {
    pub fn new(paired: &PairedRuns, margin: f64, is_compared_within_hosts: bool) -> Self {
        let effects = paired.effects.iter();
        let by_arms =
            by_key(effects.map(|pair| ((pair.quantity_index, &pair.reference, &pair.other), pair)));
        let effects = by_arms
            .iter()
            .filter_map(|(_, run_pairs)| ArmEffect::over_run_pairs(run_pairs));
        let mut paired_effects = Self {
            effects: effects
                .sorted_by_key(|effect| (effect.quantity_index, !effect.is_aa_pair()))
                .collect(),
            margin,
            is_compared_within_hosts,
        };
        let is_of_one_pair = |effect: &ArmEffect| effect.run_pairs < 2;
        if !paired_effects.has_floor() && paired_effects.effects.iter().all(is_of_one_pair) {
            paired_effects.effects.clear();
        }
        paired_effects
    }

    fn floor_pairs(&self) -> impl Iterator<Item = &ArmEffect> {
        self.effects
            .iter()
            .filter(|effect| !self.is_compared_within_hosts && effect.is_aa_pair())
    }

    fn has_floor(&self) -> bool {
        self.floor_pairs().next().is_some()
    }

    /// The end of the A/A pair's interval that is farther from 0.
    fn floor(&self, quantity_index: usize) -> Option<f64> {
        self.floor_pairs()
            .filter(|effect| effect.quantity_index == quantity_index)
            .flat_map(|effect| [effect.difference[1], effect.difference[2]])
            .map(f64::abs)
            .reduce(f64::max)
    }

    /// Whether the whole interval is beyond the floor.
    fn decision(&self, effect: &ArmEffect) -> Option<Decision> {
        let floor = self.floor(effect.quantity_index)?;
        let unreliable = self
            .floor_pairs()
            .filter(|pair| pair.quantity_index == effect.quantity_index)
            .chain([effect])
            .find_map(|effect| effect.unreliable);
        let [_, low, high] = effect.difference;
        let reliability = unreliable.unwrap_or(Reliability::Reliable);
        Some(Decision::of((low, high), -floor..=floor, reliability))
    }

    fn is_beyond_floor(&self, effect: &ArmEffect) -> Option<bool> {
        Some(self.decision(effect)?.established().is_some())
    }

    fn is_equivalent(&self, effect: &ArmEffect) -> bool {
        let is_within =
            |[_, low, high]: ValueAndInterval| low > 1.0 - self.margin && high < 1.0 + self.margin;
        let is_equal = effect.ratio_90.is_some_and(is_within) || effect.difference == [0.0; 3];
        is_equal && effect.unreliable.is_none()
    }

    /// `None` without a floor, or if arms have no slots in common.
    pub fn headline(&self, primary: &RunMetric) -> Option<(String, VerdictKind)> {
        let arm_effects = || self.effects.iter().filter(|effect| !effect.is_aa_pair());
        let first = arm_effects().min_by_key(|effect| !effect.is_about(primary))?;
        let floor = self.floor(first.quantity_index)?;
        let effects = arm_effects()
            .filter(|effect| effect.quantity_index == first.quantity_index)
            .map(|effect| (effect, self.is_beyond_floor(effect) == Some(true)))
            .collect_vec();
        let verdicts = effects.iter().map(|(effect, is_real)| {
            let (other, reference) = (&effect.other, &effect.reference);
            if !is_real {
                return format!("no difference beyond it is shown between {other} and {reference}");
            }
            let direction = if effect.difference[0] < 0.0 {
                "lower"
            } else {
                "higher"
            };
            format!("{direction} with {other} than with {reference}")
        });
        let headline = format!(
            "{} per slot, with a bias floor of {} from the A/A pair: {}.",
            first.quantity.name,
            with_unit(floor, first.quantity),
            verdicts.format("; ")
        );
        let kind = if !effects.iter().all(|(effect, _)| effect.is_tested()) {
            VerdictKind::Described
        } else if effects.iter().any(|(_, is_real)| *is_real) {
            VerdictKind::Differs
        } else {
            VerdictKind::Inconclusive
        };
        Some((headline, kind))
    }

    /// For a report of a single arm. `None` without a floor.
    pub fn aa_headline(&self, primary: &RunMetric) -> Option<(String, VerdictKind)> {
        let effect = self
            .floor_pairs()
            .min_by_key(|effect| !effect.is_about(primary))?;
        let headline = format!(
            "{} twice at the same time (A/A): {}, {}.",
            effect.other,
            lowercase_first(effect.quantity.name),
            self.verdict_text(effect)
        );
        let kind = if !effect.is_tested() {
            VerdictKind::Described
        } else if self.is_equivalent(effect) {
            VerdictKind::Equivalent
        } else {
            VerdictKind::Inconclusive
        };
        Some((headline, kind))
    }

    /// A sentence for each two arms and each quantity with a unit, that is, not a count. Empty without
    /// a floor.
    pub fn verdict_bullets(&self) -> Vec<String> {
        let effects_on_times = self
            .effects
            .iter()
            .filter(|effect| self.has_floor() && !effect.quantity.unit.is_empty());
        let sentence = |effect: &ArmEffect| {
            let arms = if effect.is_aa_pair() {
                format!("{} twice at the same time (A/A)", effect.other)
            } else {
                format!(
                    "{} against {}, slot by slot at the same time",
                    effect.other, effect.reference
                )
            };
            format!(
                "{}, {arms}: {} over {}; {}.",
                effect.quantity.name,
                effect.difference_text(),
                turns_text(effect.run_pairs),
                self.verdict_text(effect)
            )
        };
        effects_on_times.map(sentence).collect()
    }

    /// The differences between arms that replayed the same slots. Empty if there is a floor.
    pub fn paired_sentences(&self) -> Vec<String> {
        let effects = self
            .effects
            .iter()
            .filter(|effect| !self.has_floor() && !effect.is_aa_pair() && effect.run_pairs > 1);
        let by_arms = by_key(effects.map(|effect| {
            let name = lowercase_first(effect.quantity.name);
            let difference = format!("{name} {}", effect.difference_text());
            ((&effect.other, &effect.reference), difference)
        }));
        let sentences = by_arms.iter().map(|((other, reference), differences)| {
            format!(
                "On the same slots, the mean difference of {other} from {reference} over the compared pairs of runs: {}.",
                differences.join("; ")
            )
        });
        sentences.collect()
    }

    fn verdict_text(&self, effect: &ArmEffect) -> String {
        if effect.is_aa_pair() {
            return self.equivalence_text(effect);
        }
        match self.decision(effect) {
            Some(Decision::Established(_)) if effect.is_tested() => {
                "beyond the bias floor".to_owned()
            }
            Some(Decision::Established(_)) => format!(
                "beyond the bias floor, but described, not tested: a test needs {RUNS_FOR_A_TEST} turns"
            ),
            Some(Decision::Inconclusive) => {
                "not beyond the bias floor, so not called real".to_owned()
            }
            Some(Decision::Unreliable(why)) => {
                format!("not called real, since {}", reliability_text(why))
            }
            None => {
                "without a bias floor, since the A/A runs share no slot with this value".to_owned()
            }
        }
    }

    fn equivalence_text(&self, effect: &ArmEffect) -> String {
        let percent = number(100.0 * self.margin, 1);
        let percent = percent.trim_end_matches(".0");
        let is_equivalent = self.is_equivalent(effect);
        let Some([ratio, low, high]) = effect.ratio_90 else {
            return if is_equivalent {
                "no difference in any slot".to_owned()
            } else {
                format!(
                    "not shown to be equivalent within {percent} %: no ratio, since the reference's sum is 0"
                )
            };
        };
        let ratio = format!("(ratio {ratio:.3}, 90 % interval {low:.3} to {high:.3})");
        if !is_equivalent {
            return format!("not shown to be equivalent within {percent} % {ratio}");
        }
        if effect.is_tested() {
            return format!("equivalent within {percent} % {ratio}");
        }
        format!(
            "equivalent within {percent} % by the slots of {} {ratio}; a conclusion on other turns needs at least {RUNS_FOR_A_TEST} turns",
            turns_text(effect.run_pairs)
        )
    }

    pub fn blocks(&self) -> Vec<Block> {
        let has_floor = self.has_floor();
        let columns = [
            "What",
            "Arms",
            "Unit",
            if has_floor { "Turns" } else { "Pairs" },
            "Difference",
            "Ratio of sums",
            "Bias floor",
            "Verdict",
        ];
        let note = "Means over slots that both runs of a turn have: the other minus the reference. With one turn, the interval is the \
                    block bootstrap of its slots. With two turns, it spans both intervals. From three turns on, the turn is the unit \
                    (Student's t). Bias floor: the end of the A/A pair's interval that is farther from 0. A difference is beyond the \
                    floor if its whole interval is.";
        let mut table = table("bias-floor", "The A/A pair, and other arms", &columns, note);
        table.rows = self
            .effects
            .iter()
            .map(|effect| self.cells(effect))
            .collect();
        if has_floor {
            let text = "All arms of a turn ran at the same time on one host and saw the same slots; one arm ran twice. A difference between \
                        these two runs is no effect of an arm: both have the same settings, but they share disks, memory bandwidth \
                        and network. A difference between arms is called real only if it is beyond that of the A/A pair. The same \
                        rule applies to the tables of metrics.";
            return vec![Block::Text(text.to_owned()), Block::Table(table)];
        }
        if self.effects.is_empty() {
            return Vec::new();
        }
        // Without a floor, its column and that of the verdict are left out.
        table.id = "paired-together".to_owned();
        table.title = "The same slots, over the compared pairs of runs".to_owned();
        table.note = "Means over slots that both runs of a pair have, the other minus the reference. With two pairs, the interval spans \
                       both. From three on, the pair is the unit (Student's t), so the interval includes how runs differ by themselves."
            .to_owned();
        table.columns.truncate(6);
        table.rows.iter_mut().for_each(|row| row.truncate(6));
        vec![Block::Table(table)]
    }

    fn cells(&self, effect: &ArmEffect) -> Vec<Cell> {
        let arms = if effect.is_aa_pair() {
            format!("{} against itself (A/A)", effect.other)
        } else {
            format!("{} against {}", effect.other, effect.reference)
        };
        vec![
            text_cell(effect.quantity.name),
            Cell::Text(arms),
            text_cell(unit(effect.quantity)),
            count(effect.run_pairs),
            estimate(effect.difference, QUANTITY_DECIMALS),
            estimate_or(effect.ratio, 3, "the reference's value is 0"),
            number_or(
                self.floor(effect.quantity_index),
                QUANTITY_DECIMALS,
                "the A/A runs share no slot with this value",
            ),
            Cell::Text(self.verdict_text(effect)),
        ]
    }

    /// Makes a difference inconclusive if it is not beyond the floor by slots, or not larger than
    /// the largest difference between A/A runs in the same metric. Equivalent arms stay so, but
    /// without a direction.
    pub fn withdraw_differences(&self, comparisons: &mut [ArmComparison], runs: &MeasuredRuns) {
        for arms in comparisons {
            let is_compared_within_hosts = arms.primary.is_compared_within_hosts;
            if !self.has_floor() && !is_compared_within_hosts {
                continue;
            }
            for comparison in chain!([&mut arms.primary], &mut arms.secondary) {
                let (run_metric, result) = (comparison.run_metric, &mut comparison.result);
                let withdrawn = match result.conclusion {
                    Conclusion::Differs { p, .. } => Conclusion::Inconclusive {
                        p: Some(p),
                        equivalence_p: result.equivalence_p,
                    },
                    Conclusion::Equivalent { p, .. } => Conclusion::Equivalent { p, differs: None },
                    _ => continue,
                };
                let effect = self.effects.iter().find(|effect| {
                    effect.reference == arms.reference
                        && effect.other == arms.other
                        && effect.is_about(run_metric)
                });
                let is_beyond_slots = effect.and_then(|effect| self.is_beyond_floor(effect));
                let ratio = result.ratio.filter(|_| is_compared_within_hosts);
                let ends = match ratio {
                    Some(ratio) => Some([ratio.low.ln(), ratio.high.ln()]),
                    None => result
                        .difference
                        .map(|difference| [difference.low, difference.high]),
                };
                let is_beyond_runs = max_aa_difference(runs, run_metric, ratio.is_some())
                    .zip(ends)
                    .map(|(floor, [low, high])| low > floor || high < -floor);
                if is_beyond_slots == Some(false) || is_beyond_runs == Some(false) {
                    result.conclusion = withdrawn;
                }
            }
        }
    }
}

/// With at least [`RUNS_FOR_A_TEST`] pairs, their intervals are not used. A difference of zero is
/// reliable if all slots are equal.
fn why_unreliable(pairs: &[Estimate]) -> Option<Reliability> {
    let is_zero = |pair: &Estimate| pair.reliability == Reliability::Constant && pair.value == 0.0;
    let first = pairs
        .iter()
        .find(|pair| !pair.reliability.is_reliable() && !is_zero(pair))?;
    (pairs.len() < RUNS_FOR_A_TEST).then_some(first.reliability)
}

/// With fewer than [`RUNS_FOR_A_TEST`] pairs, the interval spans the intervals of all pairs.
fn mean_of_pairs(
    pairs: &[Estimate],
    level: f64,
    over: fn(&[f64], f64) -> Option<Interval>,
) -> Option<ValueAndInterval> {
    let values = pairs.iter().map(|pair| pair.value).collect_vec();
    if pairs.len() >= RUNS_FOR_A_TEST {
        return over(&values, level).map(|interval| interval.value_and_ends());
    }
    let low = pairs.iter().map(|pair| pair.low).reduce(f64::min)?;
    let high = pairs.iter().map(|pair| pair.high).reduce(f64::max)?;
    Some([mean(&values)?, low, high])
}

/// The largest difference within an A/A pair; for a ratio, the largest difference of logarithms.
fn max_aa_difference(runs: &MeasuredRuns, run_metric: &RunMetric, is_ratio: bool) -> Option<f64> {
    let value = |run| {
        let value = comparability::compared_value(runs, run_metric, run)?;
        Some(if is_ratio { value.ln() } else { value })
    };
    let differences = runs
        .all
        .iter()
        .filter(|run| run.arm.ends_with(AA_SUFFIX) && runs.is_counted(run))
        .filter_map(|second| {
            let first = runs
                .counted_runs_of(second.arm.trim_end_matches(AA_SUFFIX))
                .find(|first| is_same_turn(first, second))?;
            Some((value(second)? - value(first)?).abs())
        });
    differences.reduce(f64::max)
}

fn turns_text(count: usize) -> String {
    match count {
        1 => "one turn".to_owned(),
        _ => counted(count as f64, "turn"),
    }
}

fn unit(quantity: &Quantity) -> &'static str {
    match quantity.unit {
        "" => "per slot",
        unit => unit,
    }
}

fn with_unit(value: f64, quantity: &Quantity) -> String {
    format!("{} {}", without_unit(value), unit(quantity))
}

fn without_unit(value: f64) -> String {
    number(value, usize::from(QUANTITY_DECIMALS))
}

#[cfg(test)]
mod tests;
