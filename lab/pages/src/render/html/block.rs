//! Text, tables and figures as the template wants them.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::{
    super::{
        csv,
        style::SeriesStyles,
        svg::{self, Surface},
        words,
    },
    data::MAX_POINTS,
};
use crate::model::{Block, Cell, Chart, Figure, Mark, Table};

/// Texts up to this length stay on one line: a date with its time, the name of a run.
const MAX_SHORT_CHARS: usize = 24;

/// A table with more rows is long.
const MAX_SHORT_TABLE_ROWS: usize = 30;

const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

pub fn blocks(blocks: &[Block], styles: &SeriesStyles) -> Vec<Value> {
    let value = |(next, block): (usize, &Block)| match block {
        Block::Text(text) => json!({ "text": text }),
        Block::Table(table) => json!({ "table": self::table(table) }),
        Block::Figure(figure) => json!({ "figure": self::figure(figure, styles) }),
        Block::Fold(title) => {
            json!({ "fold": title, "titles": titles(blocks.iter().skip(next)) })
        }
    };
    (1..).zip(blocks).map(value).collect()
}

/// Of the tables and figures up to the next fold.
fn titles<'b>(blocks: impl Iterator<Item = &'b Block>) -> String {
    let folded = blocks.take_while(|block| !matches!(block, Block::Fold(_)));
    let titles = folded.filter_map(|block| match block {
        Block::Table(table) => Some(table.title.as_str()),
        Block::Figure(figure) => Some(figure.title.as_str()),
        Block::Text(_) | Block::Fold(_) => None,
    });
    titles.collect::<Vec<_>>().join("; ")
}

fn figure(figure: &Figure, styles: &SeriesStyles) -> Value {
    let draw = |surface| svg::draw(figure, styles, surface);
    let (timeline, narrow) = match &figure.chart {
        Chart::Timeline(timeline) => (Some(timeline), String::new()),
        _ => (None, draw(Surface::Narrow)),
    };
    let is_long = timeline
        .is_some_and(|timeline| timeline.series.iter().any(|line| line.y.len() > MAX_POINTS));
    let event =
        |(at, mark): (String, &Mark)| json!({ "at": at, "name": mark.name, "run": mark.run });
    let events = timeline.map(|timeline| words::events(timeline).map(event).collect::<Vec<_>>());
    json!({
        "id": figure.id,
        "title": figure.title,
        "caption": figure.caption,
        "thinned": is_long,
        "interactive": timeline.is_some(),
        "wide": draw(Surface::Wide),
        "narrow": narrow,
        "events": events,
    })
}

fn table(table: &Table) -> Value {
    let numeric = words::numeric_columns(table);
    let row = |row: &Vec<Cell>| {
        let cells = row.iter().zip(&numeric);
        cells
            .map(|(one, numeric)| cell(one, *numeric))
            .collect::<Vec<_>>()
    };
    let csv = csv::csv(table);
    json!({
        "id": table.id,
        "title": table.title,
        "note": table.note,
        "columns": table.columns,
        "numeric": numeric,
        "rows": table.rows.iter().map(row).collect::<Vec<_>>(),
        // An address that needs no server.
        "csv": format!("data:text/csv;charset=utf-8,{}", utf8_percent_encode(&csv, ENCODED)),
        "long": table.rows.len() > MAX_SHORT_TABLE_ROWS,
    })
}

fn cell(cell: &Cell, numeric: bool) -> Value {
    let (to, mark) = match cell {
        Cell::Linked { to, mark, .. } => (to.as_str(), mark.as_str()),
        _ => ("", ""),
    };
    let text = words::value(cell);
    let class = match (matches!(cell.inner(), Cell::Missing(_)), numeric) {
        (true, true) => "num missing",
        (true, false) => "missing",
        (false, true) => "num",
        (false, false) if text.chars().count() <= MAX_SHORT_CHARS => "short",
        (false, false) => "",
    };
    let interval = words::interval(cell);
    json!({ "text": text, "interval": interval, "to": to, "mark": mark, "class": class })
}
