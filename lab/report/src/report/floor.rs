//! Simultaneous arms on one host. The difference of an A/A pair (one arm run twice) is the floor:
//! smaller differences are not called real.

use super::{
    cells::{count, estimate, estimate_or, number, table, words},
    comparison::{Pair, lowercase_first},
    groups::distinct,
    model::{Block, Cell, Table, VerdictKind},
    pace,
    paired::{DECIMALS, Paired, PairedEffect, QUANTITIES, Quantity, pairing_key},
    scalars::Scalar,
    subject::{AA_SUFFIX, Subject, Subjects},
};
use faultline_stats::{
    arms::{Conclusion, Interval, RUNS_FOR_A_TEST},
    block::{Estimate, Reliability},
    caveat::reliability_text,
    decision::Decision,
    paired::{over_pairs, over_pairs_of_amounts},
    summary::mean,
};
use faultline_text::number as grouped;
use itertools::Itertools;

/// `[value, low, high]`: a value and the ends of its interval.
type ValueAndInterval = [f64; 3];

struct Row {
    quantity: &'static Quantity,
    index: usize,
    reference: String,
    other: String,
    turns: usize,
    difference: ValueAndInterval,
    ratio: Option<ValueAndInterval>,
    /// With a 90 % interval.
    ratio_90: Option<ValueAndInterval>,
    /// Set only if `difference` uses the interval of a single turn.
    unreliable: Option<Reliability>,
}

impl Row {
    fn aa_pair(&self) -> bool {
        self.reference == self.other
    }

    fn is_about(&self, scalar: &Scalar) -> bool {
        let mut metrics = self.quantity.metrics.iter();
        metrics.any(|metric| scalar.id.starts_with(metric))
    }
}

pub struct Floor {
    rows: Vec<Row>,
    margin: f64,
    /// Hosts do not cancel out of differences: they are shown, and the floor is of ratios.
    by_block: bool,
}

impl Floor {
    /// Needs an A/A pair, or two pairs of runs of the same arms, with common slots.
    pub fn of(paired: &Paired, margin: f64, by_block: bool) -> Option<Floor> {
        let of = |key| {
            let same = paired.effects.iter().filter(|one| row_key(one) == key);
            row(&same.collect::<Vec<_>>())
        };
        let keys = distinct(paired.effects.iter().map(row_key));
        let mut rows: Vec<Row> = keys.into_iter().filter_map(of).collect();
        rows.sort_by_key(|row| (row.index, !row.aa_pair()));
        let floor = Floor {
            rows,
            margin,
            by_block,
        };
        (floor.has_aa_pair() || floor.rows.iter().any(|row| row.turns > 1)).then_some(floor)
    }

    fn has_aa_pair(&self) -> bool {
        !self.by_block && self.rows.iter().any(Row::aa_pair)
    }

    /// The largest difference that the A/A pair allows for a quantity.
    fn floor(&self, index: usize) -> Option<f64> {
        let aa_pair = self
            .rows
            .iter()
            .filter(|row| !self.by_block && row.aa_pair() && row.index == index);
        aa_pair
            .map(|row| row.difference[1].abs().max(row.difference[2].abs()))
            .reduce(f64::max)
    }

    /// Whether the whole interval is beyond the floor.
    fn decision(&self, row: &Row) -> Option<Decision> {
        let floor = self.floor(row.index)?;
        let aa_pair = self.rows.iter().filter(|other| other.aa_pair());
        let aa_pair = aa_pair.filter(|aa_pair| aa_pair.index == row.index);
        let unreliable = aa_pair.chain([row]).find_map(|row| row.unreliable);
        let [_, low, high] = row.difference;
        let reliable = unreliable.unwrap_or(Reliability::Reliable);
        Some(Decision::of((low, high), -floor..=floor, reliable))
    }

    fn is_beyond_floor(&self, row: &Row) -> Option<bool> {
        Some(self.decision(row)?.shown().is_some())
    }

    fn equivalent(&self, row: &Row) -> bool {
        let within =
            |[_, low, high]: ValueAndInterval| low > 1.0 - self.margin && high < 1.0 + self.margin;
        let same = row.ratio_90.is_some_and(within) || row.difference == [0.0; 3];
        same && row.unreliable.is_none()
    }

    fn row_of(&self, scalar: &Scalar, reference: &str, other: &str) -> Option<&Row> {
        let is_pair = |row: &&Row| row.reference == reference && row.other == other;
        let mut rows = self.rows.iter().filter(is_pair);
        rows.find(|row| row.is_about(scalar))
    }

    /// `None` if arms have no slots in common.
    pub fn headline(&self, primary: &Scalar) -> Option<(String, VerdictKind)> {
        let about = |row: &&Row| row.is_about(primary);
        let arms = || self.rows.iter().filter(|row| !row.aa_pair());
        let index = arms().find(about).or_else(|| arms().next())?.index;
        let quantity = QUANTITIES.get(index)?;
        let rows: Vec<&Row> = arms().filter(|row| row.index == index).collect();
        let floor = self.floor(index)?;
        let verdicts = rows.iter().map(|row| match self.is_beyond_floor(row) {
            Some(true) => format!(
                "{} with {} than with {}",
                direction_words(row),
                row.other,
                row.reference
            ),
            _ => format!(
                "no difference beyond it is shown between {} and {}",
                row.other, row.reference
            ),
        });
        let headline = format!(
            "{} per slot, with a bias floor of {} from the A/A pair: {}.",
            quantity.name,
            amount(quantity, floor),
            verdicts.format("; ")
        );
        let tested = rows.iter().all(|row| row.turns >= RUNS_FOR_A_TEST);
        let real = rows
            .iter()
            .any(|row| self.is_beyond_floor(row) == Some(true));
        let standing = match (tested, real) {
            (false, _) => VerdictKind::Described,
            (true, true) => VerdictKind::Differs,
            (true, false) => VerdictKind::Inconclusive,
        };
        Some((headline, standing))
    }

    pub fn aa_headline(&self, primary: &Scalar) -> Option<(String, VerdictKind)> {
        let about = |row: &&Row| row.is_about(primary);
        let aa_pair = || self.rows.iter().filter(|row| row.aa_pair());
        let row = aa_pair().find(about).or_else(|| aa_pair().next())?;
        let headline = format!(
            "{} twice at the same time (A/A): {}, {}.",
            row.other,
            lowercase_first(row.quantity.name),
            self.verdict_words(row)
        );
        let standing = match (row.turns >= RUNS_FOR_A_TEST, self.equivalent(row)) {
            (false, _) => VerdictKind::Described,
            (true, true) => VerdictKind::Equivalent,
            (true, false) => VerdictKind::Inconclusive,
        };
        Some((headline, standing))
    }

    /// One sentence for the A/A pair and for every arm; none without an A/A pair.
    pub fn points(&self) -> Vec<String> {
        let times = self
            .rows
            .iter()
            .filter(|row| self.has_aa_pair() && !row.quantity.unit.is_empty());
        times
            .map(|row| {
                let who = if row.aa_pair() {
                    format!("{} twice at the same time (A/A)", row.other)
                } else {
                    format!(
                        "{} against {}, slot by slot at the same time",
                        row.other, row.reference
                    )
                };
                format!(
                    "{}, {who}: {} over {}; {}.",
                    row.quantity.name,
                    difference(row),
                    turns(row.turns),
                    self.verdict_words(row)
                )
            })
            .collect()
    }

    /// For runs made at different times; empty with an A/A pair.
    pub fn paired_sentences(&self) -> Vec<String> {
        let rows = || {
            self.rows
                .iter()
                .filter(|row| !self.has_aa_pair() && !row.aa_pair() && row.turns > 1)
        };
        let arms = distinct(rows().map(|row| (row.other.as_str(), row.reference.as_str())));
        let one = |row: &Row| format!("{} {}", lowercase_first(row.quantity.name), difference(row));
        let of = |(other, reference): (&str, &str)| {
            let verdicts = rows()
                .filter(|row| row.other == other && row.reference == reference)
                .map(one);
            format!(
                "On the same slots, the mean difference of {other} from {reference} over all pairs of runs: {}.",
                verdicts.format("; ")
            )
        };
        arms.into_iter().map(of).collect()
    }

    fn verdict_words(&self, row: &Row) -> String {
        if row.aa_pair() {
            let percent = grouped(100.0 * self.margin, 1)
                .trim_end_matches(".0")
                .to_owned();
            return match (self.equivalent(row), row.ratio_90) {
                // Slots of one turn do not replace turns.
                (true, Some([ratio, low, high])) if row.turns < RUNS_FOR_A_TEST => format!(
                    "equivalent within {percent} % by the slots of {} (ratio {ratio:.3}, 90 % interval {low:.3} to {high:.3}); \
                     it says nothing about other turns before there are {RUNS_FOR_A_TEST}",
                    turns(row.turns)
                ),
                (true, Some([ratio, low, high])) => {
                    format!(
                        "equivalent within {percent} % (ratio {ratio:.3}, 90 % interval {low:.3} to {high:.3})"
                    )
                }
                (true, None) => "no difference in any slot".to_owned(),
                (false, Some([ratio, low, high])) => format!(
                    "not shown to be equivalent within {percent} % (ratio {ratio:.3}, 90 % interval {low:.3} to {high:.3})"
                ),
                (false, None) => format!(
                    "not shown to be equivalent within {percent} %: the reference has none of it"
                ),
            };
        }
        match (self.decision(row), row.turns >= RUNS_FOR_A_TEST) {
            (Some(Decision::Shown(_)), true) => "beyond the bias floor".to_owned(),
            (Some(Decision::Shown(_)), false) => {
                format!(
                    "beyond the bias floor, but described, not tested: a test needs {RUNS_FOR_A_TEST} turns"
                )
            }
            (Some(Decision::Inconclusive), _) => {
                "not beyond the bias floor, so not called real".to_owned()
            }
            (Some(Decision::Unreliable(why)), _) => {
                format!("not called real, since {}", reliability_text(why))
            }
            (None, _) => {
                "without a bias floor, since the A/A pair has no such slots in common".to_owned()
            }
        }
    }

    pub fn blocks(&self) -> Vec<Block> {
        let columns = [
            "What",
            "Arms",
            "Unit",
            "Turns",
            "Difference",
            "Ratio of sums",
            "Bias floor",
            "Verdict",
        ];
        let note = "Means over slots that both runs of a turn have: the other minus the reference. With one turn, the interval is the \
                    block bootstrap of its slots. With two turns, it spans both intervals. From three turns on, the turn is the unit \
                    (Student's t). Bias floor: the end of the A/A pair's interval that is farther from 0. A difference is beyond the \
                    floor if its whole interval is.";
        let mut listed: Table = table("bias-floor", "The A/A pair, and other arms", &columns, note);
        listed.rows = self.rows.iter().map(|row| self.cells(row)).collect();
        if !self.has_aa_pair() {
            return vec![Block::Table(self.without_floor(listed))];
        }
        let text = "All arms of a turn ran at the same time on one host and saw the same slots; one arm ran twice. A difference between \
                    these two runs is no effect of an arm: they share disks, memory bandwidth and network. A difference between arms \
                    is called real only if it is beyond that of the A/A pair. This holds for this table and for those of metrics.";
        vec![Block::Text(text.to_owned()), Block::Table(listed)]
    }

    /// No floor and no verdict without an A/A pair, or for runs made at different times.
    fn without_floor(&self, listed: Table) -> Table {
        let note = "Means over slots that both runs of a pair have, the other minus the reference. With two pairs, the interval spans \
                    both. From three on, the pair is the unit (Student's t), so the interval includes how runs differ by themselves.";
        let keep = listed.columns.len().saturating_sub(2);
        let mut listed = Table {
            id: "paired-together".to_owned(),
            title: "The same slots, over all pairs of runs".to_owned(),
            note: note.to_owned(),
            ..listed
        };
        listed.columns.truncate(keep);
        listed.rows.iter_mut().for_each(|row| row.truncate(keep));
        if let Some(pairs) = listed.columns.get_mut(3) {
            pairs.title = "Pairs".to_owned();
        }
        listed
    }

    fn cells(&self, row: &Row) -> Vec<Cell> {
        let arms = match row.aa_pair() {
            true => format!("{} against itself (A/A)", row.other),
            false => format!("{} against {}", row.other, row.reference),
        };
        vec![
            words(row.quantity.name),
            Cell::Text(arms),
            words(unit(row.quantity)),
            count(row.turns),
            estimate(row.difference, DECIMALS),
            estimate_or(row.ratio, 3, "the reference's is 0"),
            number(
                self.floor(row.index),
                DECIMALS,
                "the A/A pair has no such slots in common",
            ),
            Cell::Text(self.verdict_words(row)),
        ]
    }
}

fn row_key(one: &PairedEffect) -> (usize, &str, &str) {
    (one.quantity, &one.reference, &one.other)
}

fn row(of: &[&PairedEffect]) -> Option<Row> {
    let first = of.first()?;
    let differences: Vec<Estimate> = of.iter().map(|one| one.effect.mean_difference).collect();
    // A ratio is absent if the reference has none of the quantity.
    let ratios: Option<Vec<Estimate>> = of.iter().map(|one| one.effect.ratio_of_sums).collect();
    let ratios_90: Option<Vec<Estimate>> = of.iter().map(|one| one.ratio_90).collect();
    Some(Row {
        quantity: QUANTITIES.get(first.quantity)?,
        index: first.quantity,
        reference: first.reference.clone(),
        other: first.other.clone(),
        turns: of.len(),
        difference: combined(&differences, 0.95, over_pairs)?,
        ratio: ratios.and_then(|ratios| combined(&ratios, 0.95, over_pairs_of_amounts)),
        ratio_90: ratios_90.and_then(|ratios| combined(&ratios, 0.90, over_pairs_of_amounts)),
        unreliable: why_unreliable(&differences),
    })
}

/// From [`RUNS_FOR_A_TEST`] turns on, the turns' own intervals are unused. If all slots are equal,
/// the zero difference is reliable.
fn why_unreliable(turns: &[Estimate]) -> Option<Reliability> {
    let none = |turn: &Estimate| turn.reliable == Reliability::Constant && turn.value == 0.0;
    let unreliable = |turn: &&Estimate| !turn.reliable.is_reliable() && !none(turn);
    let first = turns.iter().find(unreliable)?;
    (turns.len() < RUNS_FOR_A_TEST).then_some(first.reliable)
}

/// Mean and interval over turns. With fewer than [`RUNS_FOR_A_TEST`] turns, the interval spans
/// those of all turns.
fn combined(
    turns: &[Estimate],
    level: f64,
    over: fn(&[f64], f64) -> Option<Interval>,
) -> Option<ValueAndInterval> {
    let values: Vec<f64> = turns.iter().map(|turn| turn.value).collect();
    if turns.len() >= RUNS_FOR_A_TEST {
        return over(&values, level).map(|all| all.ends());
    }
    let low = turns.iter().map(|turn| turn.low).reduce(f64::min)?;
    let high = turns.iter().map(|turn| turn.high).reduce(f64::max)?;
    Some([mean(&values)?, low, high])
}

/// Withdraws differences that do not exceed those of the A/A pair: of its slots, or of its runs.
pub fn withdraw_below_floor(floor: Option<&Floor>, pairs: &mut [Pair], subjects: &Subjects) {
    let floor = floor.filter(|floor| floor.has_aa_pair());
    for pair in pairs {
        let by_block = pair.primary.by_block;
        if floor.is_none() && !by_block {
            continue;
        }
        let (reference, other) = (&pair.reference, &pair.other);
        for metric in std::iter::once(&mut pair.primary).chain(&mut pair.others) {
            let (scalar, comparison) = (metric.scalar, &mut metric.comparison);
            let Conclusion::Differs { p, .. } = comparison.conclusion else {
                continue;
            };
            let row = floor.and_then(|floor| floor.row_of(scalar, reference, other));
            let slots = floor.and_then(|floor| floor.is_beyond_floor(row?));
            let ratio = comparison.ratio.filter(|_| by_block);
            let ends = match ratio {
                Some(ratio) => Some([ratio.low.ln(), ratio.high.ln()]),
                None => comparison.difference.map(|of| [of.low, of.high]),
            };
            let runs = max_aa_difference(subjects, scalar, ratio.is_some()).zip(ends);
            let runs = runs.map(|(floor, [low, high])| low > floor || high < -floor);
            if slots == Some(false) || runs == Some(false) {
                comparison.conclusion = Conclusion::Inconclusive {
                    p: Some(p),
                    equivalence_p: comparison.equivalence_p,
                };
            }
        }
    }
}

/// The largest difference within an A/A pair, or the largest of the logarithms.
fn max_aa_difference(subjects: &Subjects, scalar: &Scalar, is_ratio: bool) -> Option<f64> {
    let value = |subject: &Subject| {
        let value = pace::compared_value(subjects, scalar, subject)?;
        Some(if is_ratio { value.ln() } else { value })
    };
    let aa_pair = subjects
        .all
        .iter()
        .filter(|subject| subject.arm.ends_with(AA_SUFFIX));
    let aa_difference = |twin: &Subject| {
        let first = subjects
            .of(twin.arm.trim_end_matches(AA_SUFFIX))
            .find(|first| pairing_key(first) == pairing_key(twin))?;
        Some((value(twin)? - value(first)?).abs())
    };
    aa_pair.filter_map(aa_difference).reduce(f64::max)
}

fn direction_words(row: &Row) -> &'static str {
    if row.difference[0] < 0.0 {
        "lower"
    } else {
        "higher"
    }
}

fn turns(count: usize) -> String {
    if count == 1 {
        "one turn".to_owned()
    } else {
        format!("{count} turns")
    }
}

fn unit(quantity: &Quantity) -> &'static str {
    if quantity.unit.is_empty() {
        "per slot"
    } else {
        quantity.unit
    }
}

fn difference(row: &Row) -> String {
    let [value, low, high] = row.difference;
    let decimals = usize::from(DECIMALS);
    format!(
        "{} [{}, {}]",
        amount(row.quantity, value),
        grouped(low, decimals),
        grouped(high, decimals)
    )
}

fn amount(quantity: &Quantity, value: f64) -> String {
    format!(
        "{} {}",
        grouped(value, usize::from(DECIMALS)),
        unit(quantity)
    )
}

#[cfg(test)]
mod tests;
