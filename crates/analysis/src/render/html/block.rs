use std::collections::BTreeMap;

use serde::Serialize;

use super::super::style::SeriesStyles;
use super::super::svg::{self, Surface};
use super::super::text::clean;
use super::super::thin::thin;
use super::super::words;
use super::{csv_address, run_names};
use crate::report::model::{Block, Cell, Chart, Figure, Report, Section, Table, Timeline};

/// Texts up to this length stay on one line: a date with its time, the name of a run.
const SHORT: usize = 24;

const LONG: usize = 30;

#[derive(Debug, Serialize)]
pub(super) struct SectionView {
    id: String,
    title: String,
    blocks: Vec<BlockView>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum BlockView {
    Text(String),
    Table(TableView),
    Figure(FigureView),
}

#[derive(Debug, Serialize)]
struct TableView {
    id: String,
    title: String,
    note: String,
    columns: Vec<ColumnView>,
    rows: Vec<Vec<CellView>>,
    csv: String,
    long: bool,
}

#[derive(Debug, Serialize)]
struct ColumnView {
    title: String,
    unit: String,
    class: &'static str,
}

#[derive(Debug, Serialize)]
struct CellView {
    text: String,
    interval: Option<String>,
    to: String,
    mark: String,
    class: &'static str,
}

#[derive(Debug, Serialize)]
struct FigureView {
    id: String,
    title: String,
    caption: String,
    /// Note about points left out; empty otherwise.
    thinned: String,
    chart: Option<usize>,
    wide: String,
    narrow: String,
    events: Vec<EventView>,
}

#[derive(Debug, Serialize)]
struct EventView {
    at: String,
    name: String,
    run: String,
}

pub(super) struct Blocks<'a> {
    styles: &'a SeriesStyles,
    names: BTreeMap<&'a str, String>,
    timelines: usize,
    points: usize,
}

impl<'a> Blocks<'a> {
    pub(super) fn new(report: &'a Report, styles: &'a SeriesStyles, points: usize) -> Self {
        Self {
            styles,
            names: run_names(report),
            timelines: 0,
            points,
        }
    }

    pub(super) fn section(&mut self, section: &Section) -> SectionView {
        let blocks = section.blocks.iter().map(|block| match block {
            Block::Text(text) => BlockView::Text(clean(text)),
            Block::Table(table) => BlockView::Table(self::table(table)),
            Block::Figure(figure) => BlockView::Figure(self.figure(figure)),
        });
        SectionView {
            id: section.id.clone(),
            title: clean(&section.title),
            blocks: blocks.collect(),
        }
    }

    fn figure(&mut self, figure: &Figure) -> FigureView {
        let timeline = match &figure.chart {
            Chart::Timeline(timeline) => Some(timeline),
            _ => None,
        };
        let narrow = if timeline.is_some() {
            String::new()
        } else {
            svg::draw(figure, self.styles, Surface::Narrow)
        };
        let chart = timeline.map(|_| {
            self.timelines += 1;
            self.timelines - 1
        });
        FigureView {
            id: figure.id.clone(),
            title: clean(&figure.title),
            caption: clean(&figure.caption),
            thinned: timeline
                .map(|timeline| self.thinned(timeline))
                .unwrap_or_default(),
            chart,
            wide: svg::draw(figure, self.styles, Surface::Wide),
            narrow,
            events: timeline
                .map(|timeline| self.events(timeline))
                .unwrap_or_default(),
        }
    }

    fn thinned(&self, timeline: &Timeline) -> String {
        let buckets = self.points / 4;
        if !timeline
            .series
            .iter()
            .any(|line| thin(&line.x, &line.y, buckets).1)
        {
            return String::new();
        }
        format!(
            "Of each {buckets}th of the time a line is drawn through the first, smallest, largest and last value; the \
             recordings have all."
        )
    }

    fn events(&self, timeline: &Timeline) -> Vec<EventView> {
        let name = |run: &str| self.names.get(run).cloned().unwrap_or_default();
        let event = |(at, mark): (String, &crate::report::model::Mark)| EventView {
            at,
            name: clean(&mark.name),
            run: name(&mark.run),
        };
        words::events(timeline).map(event).collect()
    }
}

fn table(table: &Table) -> TableView {
    // Columns of numbers are right-aligned, also with missing values.
    let numeric = |index: usize| {
        let mut cells = table.rows.iter().filter_map(|row| row.get(index));
        cells.clone().any(words::is_number)
            && cells.all(|cell| !matches!(cell.inner(), Cell::Text(_)))
    };
    let numeric: Vec<bool> = (0..table.columns.len()).map(numeric).collect();
    let column = |(column, numeric): (&crate::report::model::Column, &bool)| ColumnView {
        title: clean(&column.title),
        unit: clean(&column.unit),
        class: if *numeric { "num" } else { "" },
    };
    let row = |row: &Vec<Cell>| {
        row.iter()
            .zip(&numeric)
            .map(|(one, numeric)| cell(one, *numeric))
            .collect()
    };
    TableView {
        id: table.id.clone(),
        title: clean(&table.title),
        note: clean(&table.note),
        columns: table.columns.iter().zip(&numeric).map(column).collect(),
        rows: table.rows.iter().map(row).collect(),
        csv: csv_address(table),
        long: table.rows.len() > LONG,
    }
}

fn cell(cell: &Cell, numeric: bool) -> CellView {
    let interval = words::interval(cell);
    let (to, mark) = match cell {
        Cell::Linked { to, mark, .. } => (to.clone(), clean(mark)),
        _ => (String::new(), String::new()),
    };
    let cell = cell.inner();
    let text = match cell {
        Cell::Estimate {
            value, decimals, ..
        } => words::cell(&Cell::Number {
            value: *value,
            decimals: *decimals,
        }),
        cell => words::cell(cell),
    };
    let class = match (matches!(cell, Cell::Missing(_)), numeric) {
        (true, true) => "num missing",
        (true, false) => "missing",
        (false, true) => "num",
        (false, false) if text.chars().count() <= SHORT => "short",
        (false, false) => "",
    };
    CellView {
        text,
        interval,
        to,
        mark,
        class,
    }
}
