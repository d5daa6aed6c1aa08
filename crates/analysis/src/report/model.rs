//! A report as data. Renderers see only this and compute no number.

use serde::Serialize;

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    pub title: String,
    pub subtitle: String,
    pub verdict: Verdict,
    /// In the order of all tables and figures.
    pub runs: Vec<RunCard>,
    pub caveats: Vec<Caveat>,
    pub sections: Vec<Section>,
    /// Heading above [`Report::runs`]; `Runs` if empty.
    pub cards: String,
    pub made_by: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Verdict {
    pub headline: String,
    pub points: Vec<String>,
    pub standing: VerdictKind,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    /// One run, or one run per arm: not tested.
    #[default]
    Described,
    Differs,
    /// Equivalent within the margin, by an equivalence test.
    Equivalent,
    Inconclusive,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RunCard {
    /// Also in file names and anchors (`[a-z0-9-]+`).
    pub id: String,
    pub name: String,
    /// Runs of one arm share a colour.
    pub arm: String,
    /// In reading order.
    pub facts: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Caveat {
    pub what: String,
    pub remedy: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Section {
    pub id: String,
    pub title: String,
    pub blocks: Vec<Block>,
}

/// A part of a chapter.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    Text(String),
    Table(Table),
    Figure(Figure),
}

/// Every row has as many cells as there are columns.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
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

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Column {
    pub title: String,
    pub unit: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
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
    Missing(String),
    Linked {
        cell: Box<Cell>,
        /// Relative to the page.
        to: String,
        mark: String,
    },
}

impl Cell {
    pub fn inner(&self) -> &Cell {
        match self {
            Cell::Linked { cell, .. } => cell.inner(),
            other => other,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    pub id: String,
    pub title: String,
    pub caption: String,
    pub chart: Chart,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Chart {
    Timeline(Timeline),
    Histogram(Histogram),
    Bars(Bars),
    Curves(Curves),
    Matrix(Matrix),
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Timeline {
    /// Seconds since the run's origin.
    pub x_label: String,
    /// Vertical axis, with its unit.
    pub y_label: String,
    /// `B`, `/s`, `s`, or empty. Bytes are shown as GiB.
    pub unit: String,
    pub series: Vec<Line>,
    /// Phases and gaps. One run: shading. Several runs: one thin strip each, because overlapping
    /// shading is unreadable.
    pub bands: Vec<Band>,
    pub marks: Vec<Mark>,
    pub log: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Line {
    pub name: String,
    /// The [`RunCard::id`]; empty if it belongs to no run (a limit).
    pub run: String,
    /// Seconds since the origin, ascending.
    pub x: Vec<f64>,
    /// As long as `x`; `None` breaks the line.
    pub y: Vec<Option<f64>>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Band {
    pub from: f64,
    pub to: f64,
    pub name: String,
    pub run: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mark {
    pub at: f64,
    pub name: String,
    pub run: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Histogram {
    pub x_label: String,
    pub y_label: String,
    pub edges: Vec<f64>,
    pub series: Vec<Counts>,
    pub log: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Counts {
    pub name: String,
    /// The [`RunCard::id`], or empty.
    pub run: String,
    pub counts: Vec<f64>,
    /// Number of values above the last class.
    pub above: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Bars {
    pub y_label: String,
    pub categories: Vec<String>,
    pub series: Vec<BarSeries>,
    pub log: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct BarSeries {
    pub name: String,
    pub values: Vec<Option<Bar>>,
}

pub type Bar = (f64, Option<(f64, f64)>);

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Curves {
    pub x_label: String,
    pub y_label: String,
    /// `B`, or empty.
    pub unit: String,
    pub series: Vec<Curve>,
    /// Legend text for [`Curve::recorded`]; `recorded` if empty.
    pub point: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Curve {
    pub name: String,
    /// The [`RunCard::id`], or empty.
    pub run: String,
    pub points: Vec<(f64, Bar)>,
    /// The recorded size and its value.
    pub recorded: Option<(f64, f64)>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Matrix {
    pub names: Vec<String>,
    /// `None` without a value (a constant has no correlation).
    pub values: Vec<Vec<Option<f64>>>,
}
