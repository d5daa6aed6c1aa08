use super::{FetchTable, Outcome, StoredEstimate};
use crate::{args::Format, parquet};
use anyhow::Result;
use faultline_common::output;
use faultline_pages::{
    cells::{self, estimate_or, number_cell, number_or, text_cell},
    export::{Columns, Values, named_columns},
    model::{Cell, Table},
    render::{csv::text_field, plain_table},
};
use faultline_text::{bytes, count, counted, lines, utc};
use itertools::Itertools;
use serde_json::json;
use std::path::Path;

pub fn render(outcome: &Outcome, format: Format) -> Result<String> {
    Ok(match format {
        Format::Table => text(outcome),
        Format::Json => output::json(outcome)?,
        Format::Csv => csv(outcome),
    })
}

fn text(outcome: &Outcome) -> String {
    let mut out = study_text(outcome) + &summary(outcome);
    out += "\nEvery codec and size class: mean bytes, percent saved with its 95 % interval, million bytes per second of CPU\n";
    out += &plain_table(&class_table(outcome));
    let with_note =
        |table: Table| format!("\n{}. {}\n{}", table.title, table.note, plain_table(&table));
    if !outcome.bundles.is_empty() {
        out += &with_note(bundle_table(outcome));
    }
    if let Some(fetch) = &outcome.fetch {
        out += &with_note(fetch_table(fetch));
    }
    out + &lines(&outcome.problems)
}

/// The tables of the study's own tool, to compare with its output. [`super`] names the study.
fn study_text(outcome: &Outcome) -> String {
    let Some(classes) = study_classes(outcome) else {
        return String::new();
    };
    let headings = ["range", "ubytes", "cbytes", "cmp_ratio%", "datapoints"];
    let mut out = ungrouped(&headings, &classes) + "\n";
    if !outcome.blob_examples.is_empty() {
        out += &(lines(&study_blobs(outcome)) + "\n");
    }
    if let Some(fetch) = &outcome.fetch {
        let mut headings = vec!["num records".to_owned()];
        for column in &fetch.columns {
            let latency = if column.latency_ms > 0.0 {
                format!(" {}ms", column.latency_ms)
            } else {
                String::new()
            };
            headings.extend(["uncmp", "cmp"].map(|kind| format!("{kind}{latency} (secs)")));
        }
        let headings = headings.iter().map(String::as_str).collect_vec();
        out += &(ungrouped(&headings, &study_fetch(fetch)) + "\n");
    }
    out
}

/// A table without separators of thousands.
fn ungrouped(headings: &[&str], table: &Table) -> String {
    let cell_text = |cell: &Cell| match cell {
        Cell::Text(text) => text.clone(),
        Cell::Number { value, decimals } => format!("{value:.*}", usize::from(*decimals)),
        _ => "-".to_owned(),
    };
    faultline_text::table(
        headings,
        table
            .rows
            .iter()
            .map(|row| row.iter().map(cell_text).collect())
            .collect(),
    )
}

pub fn subtitle(outcome: &Outcome) -> String {
    format!(
        "{} on {}: {}, {} measured",
        outcome.source,
        utc(outcome.started_unix_ns),
        counted(outcome.records as f64, "record"),
        count(outcome.tested)
    )
}

fn summary(outcome: &Outcome) -> String {
    let mut out = subtitle(outcome);
    if let Some(dictionary) = outcome.dictionary_bytes {
        out += &format!(
            "; a dictionary of {}, which both sides must have, was trained on the {} records before them",
            bytes(dictionary),
            count(outcome.records.saturating_sub(outcome.tested))
        );
    }
    out += &format!("\n{}", lines(&outcome.notes));
    let libraries = outcome
        .overall_rows()
        .filter(|row| !row.library.is_empty())
        .map(|row| format!("{} by {}", row.codec, row.library))
        .join(", ");
    if !libraries.is_empty() {
        out += &format!("Codecs: {libraries}\n");
    }
    out
}

fn csv(outcome: &Outcome) -> String {
    fn cell_text<T: ToString>(value: &Option<T>) -> String {
        value.as_ref().map(T::to_string).unwrap_or_default()
    }
    let columns = columns(outcome);
    let mut out =
        "codec,library,range,ubytes,cbytes,cmp_ratio %,low %,high %,compress MB/s,decompress MB/s,datapoints,compress low MB/s,compress high MB/s,decompress low MB/s,decompress high MB/s,unreliable\n".to_owned();
    for row in 0..outcome.classes.len() {
        let mut cells = columns.iter().map(|(_, values)| match values {
            Values::Integer(values) => cell_text(&values[row]),
            Values::Real(values) => cell_text(&values[row]),
            Values::Text(values) => text_field(&cell_text(&values[row])),
        });
        out += &(cells.join(",") + "\n");
    }
    out
}

pub fn write_parquet(path: &Path, outcome: &Outcome) -> Result<String> {
    parquet::write(
        path,
        "class",
        &counted(outcome.classes.len() as f64, "row"),
        columns(outcome),
    )
}

/// Speeds in 10^6 bytes per CPU second. `cmp_ratio` is the study's name of the percent saved.
/// `ubytes` and `cbytes` are means of a record.
fn columns(outcome: &Outcome) -> Columns {
    let rows = outcome.classes.iter().map(|row| json!(row)).collect_vec();
    let text = |name: &str| {
        let texts = rows.iter().map(|row| row[name].as_str().map(str::to_owned));
        Values::Text(texts.collect())
    };
    let real = |path| Values::Real(rows.iter().map(|row| row.pointer(path)?.as_f64()).collect());
    let counts = rows.iter().map(|row| row["datapoints"].as_i64());
    let unreliable = class_table(outcome)
        .rows
        .into_iter()
        .map(|mut cells| match cells.pop()? {
            Cell::Text(names) => Some(names),
            _ => None,
        });
    named_columns([
        ("codec", text("codec")),
        ("library", text("library")),
        ("range", text("range")),
        ("ubytes", real("/ubytes")),
        ("cbytes", real("/cbytes")),
        ("cmp_ratio_percent", real("/cmp_ratio")),
        ("low_percent", real("/interval/low")),
        ("high_percent", real("/interval/high")),
        ("compress_mb_per_second", real("/compress/value")),
        ("decompress_mb_per_second", real("/decompress/value")),
        ("datapoints", Values::Integer(counts.collect())),
        ("compress_low_mb_per_second", real("/compress/low")),
        ("compress_high_mb_per_second", real("/compress/high")),
        ("decompress_low_mb_per_second", real("/decompress/low")),
        ("decompress_high_mb_per_second", real("/decompress/high")),
        ("unreliable", Values::Text(unreliable.collect())),
    ])
}

fn interval_cell(estimate: Option<StoredEstimate>, decimals: u8) -> Cell {
    estimate_or(
        estimate.map(StoredEstimate::value_and_ends),
        decimals,
        "too few",
    )
}

fn unreliable_names(intervals: &[(&str, Option<StoredEstimate>)]) -> Cell {
    let mut names = intervals
        .iter()
        .filter(|(_, interval)| {
            interval.is_some_and(|interval| !interval.reliability.is_reliable())
        })
        .map(|(name, _)| name);
    text_cell(&names.join(", "))
}

pub fn class_table(outcome: &Outcome) -> Table {
    let mut out = cells::table(
        "codecs",
        "Codecs and size classes",
        &[
            "codec",
            "range",
            "ubytes [bytes]",
            "cbytes [bytes]",
            "saved [%]",
            "compress [MB/s]",
            "decompress [MB/s]",
            "datapoints",
            "unreliable",
        ],
        "ubytes and cbytes: mean bytes of a record, uncompressed and compressed. saved: percent of the bytes of all records of the row. compress \
         and decompress: million uncompressed bytes per CPU second of one thread. Intervals: 95 %.",
    );
    for row in &outcome.classes {
        out.rows.push(vec![
            text_cell(&row.codec),
            text_cell(&row.range),
            number_cell(row.mean_uncompressed_bytes, 0),
            number_cell(row.mean_compressed_bytes, 0),
            match row.saved {
                None => number_cell(row.saved_percent, 2),
                interval => interval_cell(interval, 2),
            },
            interval_cell(row.compress, 1),
            interval_cell(row.decompress, 1),
            number_cell(row.record_count as f64, 0),
            unreliable_names(&[
                ("saved", row.saved),
                ("compress", row.compress),
                ("decompress", row.decompress),
            ]),
        ]);
    }
    out
}

/// Each row describes blobs that bundle the same number of records.
pub fn bundle_table(outcome: &Outcome) -> Table {
    let mut out = cells::table(
        "bundles",
        "Bundles",
        &[
            "codec",
            "records in a blob",
            "blobs",
            "ubytes [bytes]",
            "cbytes [bytes]",
            "saved of records [%]",
            "overhead saved [bytes]",
            "saved of all [%]",
            "alone [%]",
            "unreliable",
        ],
        &format!(
            "Records below {} bytes. \"Saved of all\" also counts {} bytes of header and {} of ACK for each message. Overhead saved: bytes of headers \
             and ACKs that a blob avoids. Alone: \"saved of all\" with each record compressed in a message of its own, even if it grows.",
            count(outcome.bundle_below),
            outcome.overhead.header,
            outcome.overhead.ack
        ),
    );
    for row in &outcome.bundles {
        out.rows.push(vec![
            text_cell(&row.codec),
            number_cell(row.records_per_blob as f64, 0),
            number_cell(row.blob_count as f64, 0),
            number_cell(row.mean_uncompressed_bytes, 0),
            number_cell(row.mean_compressed_bytes, 0),
            number_cell(row.saved_percent, 2),
            number_cell(row.overhead_saved, 0),
            interval_cell(row.saved_with_overhead, 2),
            number_cell(row.saved_alone, 2),
            unreliable_names(&[("saved of all", row.saved_with_overhead)]),
        ]);
    }
    out
}

fn bandwidth(fetch: &FetchTable) -> String {
    match fetch.bandwidth {
        None => "not limited".to_owned(),
        Some(bandwidth) => format!("{} a second", bytes(bandwidth)),
    }
}

/// The rows of the first codec.
pub fn study_classes(outcome: &Outcome) -> Option<Table> {
    let codec = &outcome.classes.first()?.codec;
    let mut out = cells::table(
        "study-classes",
        &format!("Records by size, {codec}"),
        &[
            "range",
            "ubytes [bytes]",
            "cbytes [bytes]",
            "cmp_ratio [%]",
            "datapoints",
        ],
        "",
    );
    for class in &outcome.classes {
        if class.codec == *codec && class.range != "all" {
            out.rows.push(vec![
                text_cell(&class.range),
                number_cell(class.mean_uncompressed_bytes, 0),
                number_cell(class.mean_compressed_bytes, 0),
                number_cell(class.saved_percent, 2),
                number_cell(class.record_count as f64, 0),
            ]);
        }
    }
    Some(out)
}

pub fn study_blobs(outcome: &Outcome) -> Vec<String> {
    outcome
        .blob_examples
        .iter()
        .map(|(records, from, to)| format!("compressed blob from {from} to {to} txcount:{records}"))
        .collect()
}

pub fn study_fetch(fetch: &FetchTable) -> Table {
    let mut out = cells::table(
        "study-fetch",
        &format!("Time to fetch, {}", fetch.codec),
        &["records"],
        "",
    );
    for column in &fetch.columns {
        for kind in ["uncmp", "cmp"] {
            let title = format!("{kind} {} ms", column.latency_ms);
            out.columns.push((title.as_str(), "s").into());
        }
    }
    for (index, record_count) in fetch.record_counts.iter().enumerate() {
        let mut row = vec![number_cell(*record_count as f64, 0)];
        for column in &fetch.columns {
            row.extend(
                [&column.uncompressed_seconds, &column.compressed_seconds]
                    .map(|seconds| number_or(seconds.get(index).copied(), 3, "not fetched")),
            );
        }
        out.rows.push(row);
    }
    out
}

pub fn fetch_table(fetch: &FetchTable) -> Table {
    let mut out = cells::table(
        "fetch-times",
        "Time to fetch all records",
        &[
            "latency [ms]",
            "uncmp [s]",
            "cmp [s]",
            "difference [s]",
            "uncmp bytes",
            "cmp bytes",
            "unreliable",
        ],
        &format!(
            "{} records with {}, {} requests in flight, bandwidth {}, mean of {} times in random order; the latency is added to each answer. \
         Difference: extra seconds with compression; the 95 % interval comes from its variation between records.",
            count(fetch.records),
            fetch.codec,
            fetch.in_flight,
            bandwidth(fetch),
            fetch.repeats
        ),
    );
    for column in &fetch.columns {
        out.rows.push(vec![
            number_cell(column.latency_ms, 0),
            number_or(
                column.uncompressed_seconds.last().copied(),
                3,
                "not fetched",
            ),
            number_or(column.compressed_seconds.last().copied(), 3, "not fetched"),
            interval_cell(column.extra_seconds, 3),
            number_cell(column.uncompressed_bytes as f64, 0),
            number_cell(column.compressed_bytes as f64, 0),
            unreliable_names(&[("difference", column.extra_seconds)]),
        ]);
    }
    out
}
