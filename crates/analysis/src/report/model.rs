//! A report as data: what is written, before anybody asks how it looks. The renderers (HTML, SVG, Markdown, CSV) see
//! nothing else, and no renderer computes a number.

use serde::Serialize;

/// Everything a report says.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// Of the page.
    pub title: String,
    /// One line under it: what was compared, or which run it is.
    pub subtitle: String,
    pub verdict: Verdict,
    /// The runs, in the order in which all tables and figures show them.
    pub runs: Vec<RunCard>,
    /// What a reader must know before believing the verdict.
    pub caveats: Vec<Caveat>,
    pub sections: Vec<Section>,
    /// What [`Report::runs`] are, as a heading; `Runs` if empty.
    pub cards: String,
    /// The program's version, for the foot of the page.
    pub made_by: String,
}

/// The answer in plain words.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Verdict {
    pub headline: String,
    /// What supports it, a sentence each, the primary metric first.
    pub points: Vec<String>,
    /// How sure it is, which picks its colour and its word.
    pub standing: VerdictKind,
}

/// How sure a verdict is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    /// One run, or one run per arm: described, not tested.
    #[default]
    Described,
    /// A difference that the test of the primary metric supports.
    Differs,
    /// Equivalent within the margin, by an equivalence test.
    Equivalent,
    /// Tested, and neither a difference nor equivalence is shown.
    Inconclusive,
}

/// One run, as a card and as a row of legends.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RunCard {
    /// Unique and short: legends, file names, anchors (`[a-z0-9-]+`).
    pub id: String,
    /// For people: `512 GiB, run 1`.
    pub name: String,
    /// The arm it belongs to; runs of one arm share a colour.
    pub arm: String,
    /// Facts in reading order: file, validator version, when, how long, limit, how it ended.
    pub facts: Vec<(String, String)>,
}

/// Something that weakens a conclusion, and what to do about it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Caveat {
    /// What is the matter, with the numbers of these runs.
    pub what: String,
    /// What would remove it.
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

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Section {
    /// Anchor, `[a-z0-9-]+`.
    pub id: String,
    pub title: String,
    pub blocks: Vec<Block>,
}

/// A piece of a chapter.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// A paragraph of plain text.
    Text(String),
    Table(Table),
    Figure(Figure),
}

/// A table. Every row has as many cells as there are columns.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Table {
    /// Anchor and file name of the CSV, `[a-z0-9-]+`.
    pub id: String,
    pub title: String,
    /// Below it: definitions, sources, what is left out. May be empty.
    pub note: String,
    /// Heads of the columns; the first column names the rows.
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Column {
    pub title: String,
    /// Its unit; empty for plain numbers and words.
    pub unit: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    Text(String),
    /// A number, shown with so many decimals; CSV has all digits.
    Number {
        /// In the column's unit.
        value: f64,
        decimals: u8,
    },
    /// An estimate with its confidence interval.
    Estimate {
        /// In the column's unit.
        value: f64,
        low: f64,
        high: f64,
        /// Shown of all three.
        decimals: u8,
    },
    /// Not known, and why in a few words.
    Missing(String),
    /// Another cell that leads to a page.
    Linked {
        cell: Box<Cell>,
        /// Where it leads: relative to the page.
        to: String,
        /// A word that stands out; empty without one.
        mark: String,
    },
}

impl Cell {
    /// The cell without where it leads.
    pub fn inner(&self) -> &Cell {
        match self {
            Cell::Linked { cell, .. } => cell.inner(),
            other => other,
        }
    }
}

/// A figure. Its data is in the units its axes say.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Anchor and file name of the SVG, `[a-z0-9-]+`.
    pub id: String,
    pub title: String,
    /// Below it: what one sees, definitions, what is left out.
    pub caption: String,
    pub chart: Chart,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Chart {
    /// Lines over time; interactive in HTML.
    Timeline(Timeline),
    /// Counts by class of value, one set of bars per series.
    Histogram(Histogram),
    /// One value per category and series.
    Bars(Bars),
    Curves(Curves),
    /// A matrix of numbers from -1 to 1.
    Matrix(Matrix),
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Timeline {
    /// Of the horizontal axis: seconds since the run's origin, which the caption or this label names.
    pub x_label: String,
    /// Of the vertical axis, with its unit.
    pub y_label: String,
    /// The unit alone, for the tooltip: `B`, `/s`, `s`, or empty. Bytes are shown as GiB.
    pub unit: String,
    pub series: Vec<Line>,
    /// Phases and gaps. Of one run: drawn as shading over the whole height. Of several runs (their [`Band::run`]s
    /// differ): each run's as a thin strip of its own, since shadings on top of each other say nothing.
    pub bands: Vec<Band>,
    pub marks: Vec<Mark>,
    /// Whether the vertical axis is logarithmic.
    pub log: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Line {
    pub name: String,
    /// Which run's, by [`RunCard::id`]; empty where it is not one run's (a limit).
    pub run: String,
    /// Seconds since the origin, ascending.
    pub x: Vec<f64>,
    /// As many values; `None` where there is none, which breaks the line.
    pub y: Vec<Option<f64>>,
}

impl Line {
    /// Fewer points that draw the same line, about `most`: of each stretch the smallest and the largest value, all breaks,
    /// and both ends. Times have milliseconds, values seven digits.
    pub fn thinned(&self, most: usize) -> Line {
        let points: Vec<(f64, Option<f64>)> = { self.x.iter().copied() }
            .zip(self.y.iter().map(|y| y.filter(|y| y.is_finite())))
            .filter(|(x, _)| x.is_finite())
            .collect();
        let mut kept: Vec<usize> = (0..points.len()).take(1).collect();
        kept.extend((0..points.len()).next_back());
        let size = points.len().div_ceil((most / 2).max(1)).max(1);
        for (nth, stretch) in points.chunks(size).enumerate() {
            let indexed = || (nth * size..).zip(stretch.iter().map(|(_, y)| *y));
            let known = || indexed().filter_map(|(index, y)| Some((index, y?)));
            let low = known().min_by(|a, b| a.1.total_cmp(&b.1));
            let high = known().max_by(|a, b| a.1.total_cmp(&b.1));
            kept.extend(low.into_iter().chain(high).map(|(index, _)| index));
            let breaks = indexed().filter(|(_, y)| y.is_none());
            kept.extend(breaks.map(|(index, _)| index));
        }
        kept.sort_unstable();
        kept.dedup();
        let mut points: Vec<_> = kept.into_iter().map(|index| points[index]).collect();
        // A break needs one point, not a row of them.
        points.dedup_by(|after, before| after.1.is_none() && before.1.is_none());
        let (x, y) = points
            .into_iter()
            .map(|(x, y)| (rounded(x, 3), y.map(significant)))
            .unzip();
        Line {
            name: self.name.clone(),
            run: self.run.clone(),
            x,
            y,
        }
    }
}

pub(crate) fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (value * scale).round() / scale
}

/// To seven digits.
fn significant(value: f64) -> f64 {
    format!("{value:.6e}").parse().unwrap_or(value)
}

/// A stretch of time with a name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Band {
    /// From, in seconds since the origin.
    pub from: f64,
    pub to: f64,
    /// The phase, or `gap`.
    pub name: String,
    /// Which run's, by [`RunCard::id`].
    pub run: String,
}

/// A moment with a name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mark {
    /// In seconds since the origin.
    pub at: f64,
    pub name: String,
    /// Which run's, by [`RunCard::id`].
    pub run: String,
}

/// Counts by class of value.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Histogram {
    pub x_label: String,
    pub y_label: String,
    /// Ends of the classes, ascending: one more than there are classes.
    pub edges: Vec<f64>,
    /// Counts, one set a series.
    pub series: Vec<Counts>,
    /// Whether the vertical axis is logarithmic.
    pub log: bool,
}

/// Counts of one series.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Counts {
    pub name: String,
    /// By [`RunCard::id`], or empty.
    pub run: String,
    /// One for each class.
    pub counts: Vec<f64>,
    /// Values above the last class, left out for legibility and said so.
    pub above: f64,
}

/// One value per category and series.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Bars {
    /// Of the vertical axis, with its unit.
    pub y_label: String,
    /// Along the horizontal axis.
    pub categories: Vec<String>,
    /// One set of bars a series.
    pub series: Vec<BarSeries>,
    /// Whether the vertical axis is logarithmic.
    pub log: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct BarSeries {
    pub name: String,
    pub values: Vec<Option<Bar>>,
}

/// A value and, where there is one, its interval.
pub type Bar = (f64, Option<(f64, f64)>);

/// Values over sizes of something, on a logarithmic axis.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Curves {
    /// Of the horizontal axis: what has the sizes.
    pub x_label: String,
    /// Of the vertical axis, with its unit.
    pub y_label: String,
    /// The unit alone: `B`, or empty. Bytes are shown as KiB, MiB and so on.
    pub unit: String,
    pub series: Vec<Curve>,
    /// In the legend, what [`Curve::recorded`] is; `recorded` if empty.
    pub point: String,
}

/// One line over sizes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Curve {
    pub name: String,
    /// By [`RunCard::id`], or empty.
    pub run: String,
    /// Sizes, ascending, with their values.
    pub points: Vec<(f64, Bar)>,
    /// The size that was recorded and its value, which stands out.
    pub recorded: Option<(f64, f64)>,
}

/// A matrix of numbers from -1 to 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Matrix {
    /// Of rows and columns alike.
    pub names: Vec<String>,
    /// Row by row; `None` where there is none (a constant has no correlation).
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
    fn a_short_line_is_left_as_it_is_and_broken_where_values_are_missing() {
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
            let largest = |values: &[Option<f64>]| values.iter().flatten().copied().reduce(f64::max).map(significant);
            let smallest = |values: &[Option<f64>]| values.iter().flatten().copied().reduce(f64::min).map(significant);
            prop_assert_eq!(largest(&thinned.y), largest(&y));
            prop_assert_eq!(smallest(&thinned.y), smallest(&y));
            prop_assert_eq!(thinned.y.first().copied().flatten(), y.first().copied().flatten().map(significant));
            prop_assert_eq!(thinned.y.last().copied().flatten(), y.last().copied().flatten().map(significant));
            // Between two values that are neighbours in the drawing there is no break in the line.
            for pair in thinned.x.windows(2).zip(thinned.y.windows(2)) {
                if let ([from, to], [Some(_), Some(_)]) = pair {
                    prop_assert!(y[*from as usize..=*to as usize].iter().all(Option::is_some));
                }
            }
        }
    }
}
