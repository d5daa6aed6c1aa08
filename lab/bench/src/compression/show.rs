use super::{ClassRow, FetchTable, Outcome, tables};
use crate::{args::Format, parquet, results::lines};
use anyhow::Result;
use faultline_common::output;
use faultline_pages::{
    export::{Columns, Values, named},
    model::{Cell, Table},
    render::plain,
};
use faultline_text::{bytes, count, counted, moment, table};
use std::{fmt::Write as _, path::Path};

/// The study's table comes first.
pub fn shown(outcome: &Outcome, format: Format) -> Result<String> {
    Ok(match format {
        Format::Table => text(outcome),
        Format::Json => output::json(outcome)?,
        Format::Csv => csv(outcome),
    })
}

fn text(outcome: &Outcome) -> String {
    let mut out = study(outcome);
    out += &summary(outcome);
    out += "\nEvery codec and size class: mean bytes, percent saved with its 95 % interval, million bytes per second of CPU\n";
    out += &plain(&tables::classes(outcome));
    if !outcome.bundles.is_empty() {
        let _ = writeln!(
            out,
            "\nBundles of records below {} bytes: percent of the records' bytes, and of all bytes with {} of header and {} of ACK for each \
             message",
            count(outcome.bundle_below),
            outcome.overhead.header,
            outcome.overhead.ack,
        );
        out += &plain(&tables::bundles(outcome));
        out += "messages: bytes of messages that are not sent; saved of all: with them; alone: each record compressed alone\n";
    }
    if let Some(fetch) = &outcome.fetch {
        out += &fetched(fetch);
    }
    out + &lines(&outcome.problems)
}

fn study(outcome: &Outcome) -> String {
    let Some(classes) = tables::study_classes(outcome) else {
        return String::new();
    };
    let heads = ["range", "ubytes", "cbytes", "cmp_ratio%", "datapoints"];
    let mut out = ungrouped(&heads.map(str::to_owned), &classes) + "\n";
    let blobs: Vec<String> = tables::study_blobs(outcome).collect();
    if !blobs.is_empty() {
        out += &(lines(&blobs) + "\n");
    }
    if let Some(fetch) = &outcome.fetch {
        let mut heads = vec!["num records".to_owned()];
        for column in &fetch.columns {
            let latency = if column.latency_ms > 0.0 {
                format!(" {}ms", column.latency_ms)
            } else {
                String::new()
            };
            heads.extend(["uncmp", "cmp"].map(|side| format!("{side}{latency} (secs)")));
        }
        out += &(ungrouped(&heads, &tables::study_fetch(fetch)) + "\n");
    }
    out
}

/// With the study's heads, and numbers without thousands in groups.
fn ungrouped(heads: &[String], of: &Table) -> String {
    let cell = |cell: &Cell| match cell {
        Cell::Text(text) => text.clone(),
        Cell::Number { value, decimals } => format!("{value:.*}", usize::from(*decimals)),
        _ => "-".to_owned(),
    };
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let rows = of.rows.iter().map(|row| row.iter().map(cell).collect());
    table(&heads, rows.collect())
}

/// The run in one line.
pub fn subtitle(outcome: &Outcome) -> String {
    format!(
        "{} on {}: {}, {} measured",
        outcome.source,
        moment(outcome.started_unix_ns),
        counted(outcome.records as f64, "record"),
        count(outcome.tested)
    )
}

fn summary(outcome: &Outcome) -> String {
    let mut out = subtitle(outcome);
    if let Some(dictionary) = outcome.dictionary {
        let _ = write!(
            out,
            "; a dictionary of {}, which both sides must have, was trained on the {} before them",
            bytes(dictionary),
            count(outcome.records - outcome.tested.min(outcome.records))
        );
    }
    out += &format!("\n{}", lines(&outcome.notes));
    let libraries: Vec<String> = outcome
        .overall_rows()
        .filter(|row| !row.library.is_empty())
        .map(|row| format!("{} by {}", row.codec, row.library))
        .collect();
    if !libraries.is_empty() {
        let _ = writeln!(out, "Codecs: {}", libraries.join(", "));
    }
    out
}

fn fetched(fetch: &FetchTable) -> String {
    let out = format!(
        "\nFetching {} records with {}: {} requests under way, bandwidth {}, mean of {} times in random order; latency is added to \
         each answer\n",
        count(fetch.records),
        fetch.codec,
        fetch.in_flight,
        tables::link_bandwidth(fetch),
        fetch.repeats,
    );
    out + &plain(&tables::fetch(fetch))
}

/// Unknown values are empty.
fn csv(outcome: &Outcome) -> String {
    fn shown<T: ToString>(value: &Option<T>) -> String {
        value.as_ref().map(T::to_string).unwrap_or_default()
    }
    let columns = columns(outcome);
    let mut out =
        "codec,library,range,ubytes,cbytes,cmp_ratio %,low %,high %,compress MB/s,decompress MB/s,datapoints\n".to_owned();
    for row in 0..outcome.classes.len() {
        let cell = |(_, values): &(String, Values)| match values {
            Values::Integer(values) => shown(&values[row]),
            Values::Real(values) => shown(&values[row]),
            Values::Text(values) => shown(&values[row]),
        };
        let cells: Vec<String> = columns.iter().map(cell).collect();
        out += &(cells.join(",") + "\n");
    }
    out
}

pub fn write_parquet(path: &Path, outcome: &Outcome) -> Result<String> {
    let rows = counted(outcome.classes.len() as f64, "row");
    parquet::write(path, "class", &rows, columns(outcome))
}

/// Speeds in 10^6 bytes per CPU second.
fn columns(outcome: &Outcome) -> Columns {
    let rows = &outcome.classes;
    let real = |of: &dyn Fn(&ClassRow) -> Option<f64>| Values::Real(rows.iter().map(of).collect());
    let text = |of: &dyn Fn(&ClassRow) -> String| {
        Values::Text(rows.iter().map(|row| Some(of(row))).collect())
    };
    named([
        ("codec", text(&|row| row.codec.clone())),
        ("library", text(&|row| row.library.clone())),
        ("range", text(&|row| row.range.clone())),
        ("ubytes", real(&|row| Some(row.ubytes))),
        ("cbytes", real(&|row| Some(row.cbytes))),
        ("cmp_ratio_percent", real(&|row| Some(row.cmp_ratio))),
        (
            "low_percent",
            real(&|row| row.interval.map(|interval| interval.low)),
        ),
        (
            "high_percent",
            real(&|row| row.interval.map(|interval| interval.high)),
        ),
        (
            "compress_mb_per_second",
            real(&|row| row.compress.map(|speed| speed.value)),
        ),
        (
            "decompress_mb_per_second",
            real(&|row| row.decompress.map(|speed| speed.value)),
        ),
        (
            "datapoints",
            Values::Integer(
                rows.iter()
                    .map(|row| i64::try_from(row.datapoints).ok())
                    .collect(),
            ),
        ),
    ])
}
