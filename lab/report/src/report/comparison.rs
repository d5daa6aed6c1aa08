//! Compares arms, with the run as statistical unit.

use super::{
    cells::{self, count, estimate_or, number, table, without_missing, words},
    hosts::{self, Design},
    model::{Block, Cell, Section, Table, Tone},
    pace,
    scalars::{Better, Scalar, scalars_of},
    subject::{RunPart, Subjects},
};
use faultline_stats::arms::{self, Comparison, Conclusion, Direction};
use faultline_text::{number as grouped, p_value};
use itertools::Itertools;

/// A metric of two arms.
#[derive(Clone)]
pub struct Metric {
    pub scalar: &'static Scalar,
    /// Title and unit are those of a rate if rates are compared.
    pub title: String,
    pub unit: String,
    pub comparison: Comparison,
    /// Within blocks of several hosts.
    pub by_block: bool,
    /// Why the arms are not compared by it.
    pub refusal: Option<String>,
}

#[derive(Clone)]
pub struct Pair {
    /// The first arm with values of the primary metric.
    pub reference: String,
    pub other: String,
    pub primary: Metric,
    /// Holm-adjusted.
    pub others: Vec<Metric>,
}

impl Pair {
    /// By the primary metric.
    pub fn conclusion(&self) -> Conclusion {
        self.primary.comparison.conclusion
    }
}

pub fn refusals(pairs: &[Pair]) -> Option<String> {
    let reasons = pairs
        .iter()
        .filter_map(|pair| pair.primary.refusal.as_ref());
    let reasons = reasons.dedup().join("; ");
    (!reasons.is_empty()).then_some(reasons)
}

pub fn reference<'a>(subjects: &'a Subjects, primary: &Scalar) -> Option<(&'a str, Vec<&'a str>)> {
    subjects.reference_and_others(|arm| !values(subjects, arm, primary).is_empty())
}

pub fn pairs(subjects: &Subjects, primary: &'static Scalar, margin: f64) -> Vec<Pair> {
    let Some((reference, others)) = reference(subjects, primary) else {
        return Vec::new();
    };
    let pair = |other: &&str| {
        let design = hosts::design(subjects, reference, other);
        let metric = |scalar: &'static Scalar| {
            let refusal = match &design {
                Design::Refused(why) => Some(why.clone()),
                _ => pace::refusal(subjects, reference, other, scalar),
            };
            let comparison = match design {
                _ if refusal.is_some() => arms::compare(&[], &[], margin),
                Design::ByBlock => {
                    let blocks = hosts::scalar_pairs(subjects, [reference, other], scalar);
                    faultline_stats::hosts::compare(&blocks, margin)
                }
                _ => {
                    let values = |arm| values(subjects, arm, scalar);
                    arms::compare(&values(reference), &values(other), margin)
                }
            };
            Metric {
                scalar,
                title: pace::title(scalar, subjects.per_second),
                unit: pace::unit(scalar, subjects.per_second),
                comparison,
                by_block: matches!(design, Design::ByBlock),
                refusal,
            }
        };
        let rest = scalars_of(subjects).filter(|scalar| scalar.id != primary.id);
        Pair {
            reference: reference.to_owned(),
            other: (*other).to_owned(),
            primary: metric(primary),
            others: rest.map(metric).collect(),
        }
    };
    let mut pairs: Vec<Pair> = others.iter().map(pair).collect();
    // The secondary metrics are one family of tests. With several arms, so are the tests of the
    // primary metric.
    arms::conclude_family(pairs.iter_mut().map(|pair| &mut pair.primary.comparison));
    let others = pairs.iter_mut().flat_map(|pair| &mut pair.others);
    arms::conclude_family(others.map(|metric| &mut metric.comparison));
    pairs
}

fn values(subjects: &Subjects, arm: &str, scalar: &Scalar) -> Vec<f64> {
    subjects
        .averaged_runs(arm)
        .filter_map(|subject| pace::compared_value(subjects, scalar, subject))
        .collect()
}

/// Empty if the first arm is the reference.
fn without_values(subjects: &Subjects, reference: &str, primary: &Scalar) -> String {
    let arms = subjects.arms.iter();
    let before = arms.take_while(|arm| *arm != reference).join(", ");
    if before.is_empty() {
        return before;
    }
    let title = lowercase_first(primary.title);
    format!(", the first that has values of {title}: no run of {before} has any")
}

pub fn section(
    subjects: &Subjects,
    primary: &'static Scalar,
    pairs: &[Pair],
    more: Vec<Block>,
    margin: f64,
) -> Option<Section> {
    let first = pairs.first()?;
    let part = subjects.compared_part();
    let text = format!(
        "Each run gives one number, and arms are compared by these: the run is the unit, never the sample. Every arm is compared with \
         {}{}. The primary metric is {}; differences below {} % of the reference's mean do not matter. Tests need {} runs in each arm. \
         {}",
        first.reference,
        without_values(subjects, &first.reference, primary),
        lowercase_first(&first.primary.title),
        cells::percent(margin),
        arms::RUNS_FOR_A_TEST,
        if subjects.has_no_validator() {
            "Whole runs are compared."
        } else if part == RunPart::FromTip {
            "Only the time from the first tick at the tip on is compared: every run that executed anything was there long enough. Start and \
             catching up are left out."
        } else {
            "The time from the first execution on is compared, catching up included: not every run was at the tip for ten minutes or half \
             of its time."
        }
    );
    let mut blocks = vec![
        Block::Text(text),
        Block::Table(primary_table(&first.primary, pairs, margin)),
        Block::Table(others_table(pairs)),
        Block::Table(definitions(subjects)),
    ];
    blocks.extend(more);
    Some(cells::section(
        "comparison",
        "Comparison of the arms",
        blocks,
    ))
}

fn primary_table(primary: &Metric, pairs: &[Pair], margin: f64) -> Table {
    let (unit, scalar) = (&*primary.unit, primary.scalar);
    let columns = [
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
    ];
    let any =
        |holds: fn(&Comparison) -> bool| pairs.iter().any(|pair| holds(&pair.primary.comparison));
    let mut note = format!("{}: {}.", scalar.title, scalar.definition);
    if pairs.iter().any(|pair| pair.primary.by_block) {
        note.push_str(" Several hosts: Student's intervals and tests of the ratios within blocks.");
    } else if any(|one| one.difference.is_some()) {
        note.push_str(&format!(
            " Difference and ratio of means with {:.0} % intervals (Welch, Fieller; where Fieller's would reach below 0, the variance \
             of the other's mean is taken to grow with it); the shift by Hodges and Lehmann.",
            100.0 * arms::LEVEL
        ));
    }
    if any(|one| one.difference_p.is_some() || one.equivalence_p.is_some()) {
        note.push_str(&format!(
            " Equivalent: two one-sided tests show the ratio within 1 ± {}. p-values are those of single tests; the conclusion uses \
             them adjusted by Holm if there are more than two arms.",
            grouped(margin, 3)
        ));
    }
    if any(|one| one.runs_needed.is_some()) {
        note.push_str(
            " Runs needed: in each arm, to see a difference of the margin four times in five.",
        );
    }
    let mut listed = table(
        "primary",
        &format!("Primary metric: {}", lowercase_first(&primary.title)),
        &columns,
        &note,
    );
    listed.rows = pairs.iter().map(primary_row).collect();
    without_missing(listed)
}

fn primary_row(pair: &Pair) -> Vec<Cell> {
    let (metric, comparison) = (&pair.primary, &pair.primary.comparison);
    let untested = "needs three runs in each arm, and a spread";
    let of_ranks = match metric.by_block {
        true => "not within blocks",
        false => untested,
    };
    let none = "no run of the arm has a value";
    let none = metric.refusal.as_deref().unwrap_or(none);
    let shift = comparison.shift.map(|of| of.ends());
    let runs_needed = comparison.runs_needed.map(|runs| runs as f64);
    let arms = Cell::Text(format!("{} against {}", pair.other, pair.reference));
    let mut cells = vec![arms];
    cells.extend(compared_cells(metric, "needs two runs in each arm", none));
    cells.extend([
        count(comparison.reference.runs),
        count(comparison.other.runs),
        estimate_or(shift, metric.scalar.decimals, of_ranks),
        number(comparison.cliffs_delta, 2, of_ranks),
        number(comparison.difference_p, 4, untested),
        number(comparison.mann_whitney_p, 4, of_ranks),
        number(comparison.equivalence_p, 4, untested),
        number(runs_needed, 0, "no spread between runs is known"),
    ]);
    cells
}

/// Difference, ratio, conclusion and means. `none` says why a mean is missing.
fn compared_cells(metric: &Metric, too_few_reason: &str, none: &str) -> [Cell; 5] {
    let (comparison, decimals) = (&metric.comparison, metric.scalar.decimals);
    let difference = comparison.difference.map(|of| of.ends());
    let ratio = comparison.ratio.map(|of| of.ends());
    [
        estimate_or(difference, decimals, too_few_reason),
        estimate_or(ratio, 3, too_few_reason),
        Cell::Text(conclusion(metric)),
        number(comparison.reference.mean, decimals, none),
        number(comparison.other.mean, decimals, none),
    ]
}

fn others_table(pairs: &[Pair]) -> Table {
    let columns = [
        "Metric",
        "Unit",
        "Arms",
        "Difference",
        "Ratio",
        "Conclusion",
        "Reference mean",
        "Other mean",
    ];
    let tested = pairs
        .iter()
        .flat_map(|pair| &pair.others)
        .any(|metric| metric.comparison.difference_p.is_some());
    let note = if tested {
        "Means over runs, differences and ratios with 95 % intervals, each in the metric's unit. Conclusions by p-values that are \
         Holm-adjusted over all rows of this table. These metrics were not chosen in advance: they are exploratory."
    } else {
        "Means over runs, each in the metric's unit. Nothing here is tested: these metrics are exploratory."
    };
    let mut listed = table("other-metrics", "All other metrics", &columns, note);
    let count = pairs.first().map_or(0, |pair| pair.others.len());
    for index in 0..count {
        for pair in pairs {
            let Some(metric) = pair.others.get(index) else {
                continue;
            };
            let comparison = &metric.comparison;
            let none = "not known of any run of the arm";
            let none = metric.refusal.as_deref().unwrap_or(none);
            let too_few_reason = match comparison.reference.runs.min(comparison.other.runs) {
                0 => none,
                _ => "needs two runs in each arm, and a spread",
            };
            let mut cells = vec![
                words(&metric.title),
                words(&metric.unit),
                Cell::Text(format!("{} against {}", pair.other, pair.reference)),
            ];
            cells.extend(compared_cells(metric, too_few_reason, none));
            listed.rows.push(cells);
        }
    }
    without_missing(listed)
}

fn definitions(subjects: &Subjects) -> Table {
    let columns = ["Metric", "Name for --primary", "Unit", "Definition"];
    let mut listed = table(
        "metrics",
        "What the metrics are",
        &columns,
        "One number a run each.",
    );
    listed.rows = scalars_of(subjects)
        .map(|scalar| {
            [scalar.title, scalar.id, scalar.unit, scalar.definition]
                .map(words)
                .to_vec()
        })
        .collect();
    listed
}

/// Lower-cases the first letter, except for abbreviations.
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
    let first = chars.next().into_iter().flat_map(char::to_uppercase);
    first.chain(chars).collect()
}

pub fn conclusion(metric: &Metric) -> String {
    let text = metric.refusal.clone().or_else(|| in_every_block(metric));
    text.unwrap_or_else(|| conclusion_words(&metric.comparison, metric.scalar))
}

/// For blocks that all differ alike: nothing to test, and yet a difference.
pub fn in_every_block(metric: &Metric) -> Option<String> {
    let comparison = &metric.comparison;
    let alike = matches!(
        comparison.conclusion,
        Conclusion::Inconclusive { p: None, .. }
    );
    let direction = comparison
        .direction()
        .filter(|_| alike && metric.by_block)?;
    let direction = direction_words(direction);
    Some(format!("{direction} in every block, not tested"))
}

/// "Better" and "worse" only if a difference is shown.
fn conclusion_words(comparison: &Comparison, scalar: &Scalar) -> String {
    match comparison.conclusion {
        Conclusion::NoValues => "no value in an arm".to_owned(),
        Conclusion::Described => {
            "described, not tested: an arm has a value of a single run only".to_owned()
        }
        Conclusion::TooFewRuns { runs, needed } => {
            format!("estimated, not tested: {runs} runs, a test needs {needed}")
        }
        Conclusion::Differs { direction, p } => {
            format!(
                "{}{} ({})",
                direction_words(direction),
                better_or_worse(direction, scalar.better),
                p_value(p)
            )
        }
        Conclusion::Equivalent { p, differs } => match differs {
            Some(direction) => format!(
                "equivalent within the margin ({}), though {}",
                p_value(p),
                direction_words(direction)
            ),
            None => format!("equivalent within the margin ({})", p_value(p)),
        },
        Conclusion::Inconclusive { p, .. } => match p {
            Some(p) => format!(
                "neither a difference nor equivalence is shown ({})",
                p_value(p)
            ),
            None => "not tested: without a spread there is nothing to test against".to_owned(),
        },
    }
}

pub fn direction_words(direction: Direction) -> &'static str {
    match direction {
        Direction::Lower => "lower",
        Direction::Higher => "higher",
    }
}

pub fn tone(direction: Direction, better: Better) -> Tone {
    match (direction, better) {
        (_, Better::Neither) => Tone::Neutral,
        (Direction::Lower, Better::Lower) | (Direction::Higher, Better::Higher) => Tone::Better,
        _ => Tone::Worse,
    }
}

fn better_or_worse(direction: Direction, better: Better) -> &'static str {
    match tone(direction, better) {
        Tone::Neutral => "",
        Tone::Better => ", which is better",
        Tone::Worse => ", which is worse",
    }
}

#[cfg(test)]
mod tests {
    use super::{super::scalars::SCALARS, *};

    #[test]
    fn an_arm_with_one_value_among_runs_is_not_called_single_run() {
        let compared = arms::compare(&[1.0], &[2.0, 3.0], 0.05);
        assert_eq!(
            conclusion_words(&compared, &SCALARS[0]),
            "described, not tested: an arm has a value of a single run only"
        );
    }
}
