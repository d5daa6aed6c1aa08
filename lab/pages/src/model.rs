//! A report as data. Renderers see only a [`Report`] and compute no number.

use itertools::Itertools;
use serde::Serialize;

#[derive(Debug, Clone, Default)]
pub struct Report {
    pub title: String,
    pub subtitle: String,
    pub verdict: Verdict,
    /// On the page, the answers of one run or arm are above [`Report::overview`], several below it.
    pub answers: Vec<Answers>,
    /// Below the headline.
    pub overview: Vec<Block>,
    /// In the order of all tables and figures.
    pub runs: Vec<RunCard>,
    pub caveats: Vec<Caveat>,
    pub sections: Vec<Section>,
    /// Whether [`Block::Fold`] starts open.
    pub folds_start_open: bool,
    /// Above [`Report::runs`]; `Runs` if empty.
    pub runs_heading: String,
    pub made_by: String,
}

impl Report {
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.overview
            .iter()
            .chain(self.sections.iter().flat_map(|section| &section.blocks))
    }
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Verdict {
    pub headline: String,
    /// Sentences below the headline.
    #[serde(rename = "points")]
    pub bullets: Vec<String>,
    pub kind: VerdictKind,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    /// One run, or one run per arm: not tested.
    #[default]
    Described,
    /// A difference without a direction, or differences that disagree.
    Differs,
    Better,
    Worse,
    /// Equivalent within the margin, by an equivalence test.
    Equivalent,
    Inconclusive,
}

/// Findings on the node of one run or arm.
#[derive(Debug, Clone, Serialize)]
pub struct Answers {
    pub name: String,
    pub findings: Vec<Finding>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// `fine`, `look`, `act` or `unknown`.
    pub verdict: String,
    pub text: String,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct RunCard {
    /// Part of file names and anchors, `[a-z0-9-]+`.
    pub id: String,
    pub name: String,
    /// Runs of one arm have the same color.
    pub arm: String,
    /// In reading order.
    pub facts: Vec<(String, String)>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Caveat {
    pub what: String,
    pub remedy: String,
}

impl Caveat {
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Section {
    pub id: String,
    pub title: String,
    pub blocks: Vec<Block>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    Text(String),
    Table(Table),
    Figure(Figure),
    /// A title. It folds all blocks up to the next fold or the end of the section.
    Fold(String),
}

/// Every row has as many cells as there are columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Anchor and file name, `[a-z0-9-]+`.
    pub id: String,
    pub title: String,
    /// Definitions, sources and omissions.
    pub note: String,
    /// The first column names the rows.
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Column {
    pub title: String,
    pub unit: String,
}

impl From<(&str, &str)> for Column {
    fn from((title, unit): (&str, &str)) -> Self {
        Self {
            title: title.to_owned(),
            unit: unit.to_owned(),
        }
    }
}

impl From<&str> for Column {
    fn from(title: &str) -> Self {
        let parts = title.strip_suffix(']');
        let parts = parts.and_then(|title| title.split_once(" ["));
        parts.unwrap_or((title, "")).into()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    Text(String),
    /// Shown with `decimals`; CSV has all digits.
    Number {
        value: f64,
        decimals: u8,
    },
    Estimate {
        value: f64,
        low: f64,
        high: f64,
        decimals: u8,
    },
    /// Why there is no value, if known.
    Missing(String),
    Linked {
        cell: Box<Self>,
        /// Relative to the page.
        to: String,
        /// Text next to the link.
        mark: String,
    },
}

impl Cell {
    pub fn without_link(&self) -> &Self {
        match self {
            Self::Linked { cell, .. } => cell.without_link(),
            other => other,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    pub id: String,
    pub title: String,
    pub caption: String,
    pub chart: Chart,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Chart {
    Timeline(Timeline),
    Histogram(Histogram),
    Bars(Bars),
    Curves(Curves),
    Forest(Forest),
    Matrix(Matrix),
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    pub x_label: String,
    pub y_label: String,
    /// Unit of the values. Labels have multiples of `B`, `B/s` and `s`, and T, G or M for large values of other units.
    pub unit: String,
    pub series: Vec<Line>,
    /// Drawn as shading for one run, and as a strip per run for several, so that no two overlap.
    pub bands: Vec<Band>,
    pub marks: Vec<Mark>,
    /// Whether the y axis is logarithmic.
    pub log: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Line {
    pub name: String,
    /// The [`RunCard::id`]; empty for a line of no run, for example a limit.
    pub run: String,
    /// Seconds since the origin, ascending.
    pub x: Vec<f64>,
    /// As long as `x`; `None` breaks the line.
    pub y: Vec<Option<f64>>,
}

impl Line {
    /// A line of the same shape with about `max_points` points. It has the extremes of each group of
    /// points, all breaks, and both ends. Times are rounded to milliseconds, values to seven digits.
    pub fn thinned(&self, max_points: usize) -> Self {
        let points = self
            .x
            .iter()
            .copied()
            .zip(self.y.iter().map(|y| y.filter(|y| y.is_finite())))
            .filter(|(x, _)| x.is_finite())
            .collect_vec();
        let last = points.len().checked_sub(1);
        let mut indices = last.map_or(Vec::new(), |last| vec![0, last]);
        let size = points.len().div_ceil((max_points / 2).max(1)).max(1);
        for (nth, group) in points.chunks(size).enumerate() {
            let indexed = || (nth * size..).zip(group.iter().map(|(_, y)| *y));
            let known = || indexed().filter_map(|(index, y)| Some((index, y?)));
            let low = known().min_by(|a, b| a.1.total_cmp(&b.1));
            let high = known().max_by(|a, b| a.1.total_cmp(&b.1));
            indices.extend(low.into_iter().chain(high).map(|(index, _)| index));
            indices.extend(indexed().filter_map(|(index, y)| y.is_none().then_some(index)));
        }
        indices.sort_unstable();
        indices.dedup();
        let mut points = indices.into_iter().map(|index| points[index]).collect_vec();
        // One point is enough for a break.
        points.dedup_by(|after, before| after.1.is_none() && before.1.is_none());
        let (x, y) = points
            .into_iter()
            .map(|(x, y)| (rounded(x, 3), y.map(seven_digits)))
            .unzip();
        Self {
            name: self.name.clone(),
            run: self.run.clone(),
            x,
            y,
        }
    }
}

pub fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (value * scale).round() / scale
}

fn seven_digits(value: f64) -> f64 {
    format!("{value:.6e}").parse().unwrap_or(value)
}

/// A phase, or a gap in the samples with the name `gap`.
#[derive(Debug, Clone, PartialEq)]
pub struct Band {
    pub from: f64,
    pub to: f64,
    pub name: String,
    pub run: String,
}

/// An event.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    pub at: f64,
    pub name: String,
    pub run: String,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    pub x_label: String,
    pub y_label: String,
    pub edges: Vec<f64>,
    pub series: Vec<Counts>,
    pub log: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counts {
    pub name: String,
    /// The [`RunCard::id`], or empty.
    pub run: String,
    pub counts: Vec<f64>,
    /// Number of values above the last class.
    pub above: f64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bars {
    pub y_label: String,
    pub categories: Vec<String>,
    pub series: Vec<BarSeries>,
    pub log: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct BarSeries {
    pub name: String,
    pub values: Vec<Option<ValueWithInterval>>,
}

/// A value, and the ends of its interval.
pub type ValueWithInterval = (f64, Option<(f64, f64)>);

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curves {
    pub x_label: String,
    pub y_label: String,
    /// Unit of the values: `B`, or empty.
    pub unit: String,
    pub series: Vec<Curve>,
    /// Legend text for [`Curve::highlight`]; `recorded` if empty.
    pub highlight_label: String,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curve {
    pub name: String,
    /// The [`RunCard::id`], or empty.
    pub run: String,
    /// Sizes and their values.
    pub points: Vec<(f64, ValueWithInterval)>,
    /// A size and its value, drawn as a diamond: a recorded value, or a crossover.
    pub highlight: Option<(f64, f64)>,
}

/// Effects with their intervals, around the line of no effect.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Forest {
    pub x_label: String,
    pub rows: Vec<ForestRow>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ForestRow {
    pub name: String,
    /// 1 is no effect.
    pub ratio: ValueWithInterval,
    pub text: String,
    pub tone: Tone,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Tone {
    /// Neither better nor worse, or not shown to be.
    #[default]
    Neutral,
    Better,
    Worse,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Matrix {
    pub names: Vec<String>,
    /// `None` without a correlation, for example with a constant.
    pub values: Vec<Vec<Option<f64>>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(y: Vec<Option<f64>>) -> Line {
        Line {
            x: (0..y.len()).map(|at| at as f64).collect(),
            y,
            ..Line::default()
        }
    }

    #[test]
    fn a_short_series_is_not_thinned_and_has_gaps_for_missing_values() {
        let y = [Some(1.0), None, Some(3.0), Some(f64::NAN), None, Some(4.0)];
        let thinned = line(y.to_vec()).thinned(10);
        assert_eq!(thinned.x, [0.0, 1.0, 2.0, 3.0, 5.0]);
        assert_eq!(thinned.y, [Some(1.0), None, Some(3.0), None, Some(4.0)]);
    }

    proptest! {
        #[test]
        fn thinning_keeps_extremes_ends_order_and_breaks(
            y in proptest::collection::vec(proptest::option::weighted(0.9, -1e6f64..1e6), 0..3000),
            most in 2usize..500,
        ) {
            let thinned = line(y.clone()).thinned(most);
            prop_assert_eq!(thinned.x.len(), thinned.y.len());
            prop_assert!(thinned.x.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(thinned.x.len() <= y.len().min(most / 2 * 5 + 2));
            let largest = |values: &[Option<f64>]| values.iter().flatten().copied().reduce(f64::max).map(seven_digits);
            let smallest = |values: &[Option<f64>]| values.iter().flatten().copied().reduce(f64::min).map(seven_digits);
            prop_assert_eq!(largest(&thinned.y), largest(&y));
            prop_assert_eq!(smallest(&thinned.y), smallest(&y));
            prop_assert_eq!(thinned.y.first().copied().flatten(), y.first().copied().flatten().map(seven_digits));
            prop_assert_eq!(thinned.y.last().copied().flatten(), y.last().copied().flatten().map(seven_digits));
            // Between two values that are neighbors in the drawing there is no break in the line.
            for pair in thinned.x.windows(2).zip(thinned.y.windows(2)) {
                if let ([from, to], [Some(_), Some(_)]) = pair {
                    prop_assert!(y[*from as usize..=*to as usize].iter().all(Option::is_some));
                }
            }
        }
    }
}
