use super::{ClassRow, FetchTable, Interval, Outcome};
use crate::{args::Format, parquet, results::lines};
use anyhow::Result;
use faultline_common::output;
use faultline_pages::{
    cells::{self, estimate_or, known, number, words},
    export::{Columns, Values, named},
    model::{Cell, Table},
    render::plain,
};
use faultline_text::{bytes, count, counted, moment};
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
    out += &plain(&class_table(outcome));
    if !outcome.bundles.is_empty() {
        let _ = writeln!(
            out,
            "\nBundles of records below {} bytes: percent of the records' bytes, and of all bytes with {} of header and {} of ACK for each \
             message",
            count(outcome.bundle_below),
            outcome.overhead.header,
            outcome.overhead.ack,
        );
        out += &plain(&bundle_table(outcome));
        out += "messages: bytes of messages that are not sent; saved of all: with them; alone: each record compressed alone\n";
    }
    if let Some(fetch) = &outcome.fetch {
        out += &fetched(fetch);
    }
    out + &lines(&outcome.problems)
}

fn study(outcome: &Outcome) -> String {
    let Some(classes) = study_classes(outcome) else {
        return String::new();
    };
    let heads = ["range", "ubytes", "cbytes", "cmp_ratio%", "datapoints"];
    let mut out = ungrouped(&heads.map(str::to_owned), &classes) + "\n";
    let blobs: Vec<String> = study_blobs(outcome).collect();
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
        out += &(ungrouped(&heads, &study_fetch(fetch)) + "\n");
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
    faultline_text::table(&heads, rows.collect())
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
        link_bandwidth(fetch),
        fetch.repeats,
    );
    out + &plain(&fetch_table(fetch))
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

fn interval(of: Option<Interval>, decimals: u8) -> Cell {
    estimate_or(of.map(|of| of.ends()), decimals, "too few")
}

/// Names of the values whose intervals may be too narrow.
fn too_few(intervals: &[(&str, Option<Interval>)]) -> Cell {
    let few = |of: &Option<Interval>| of.is_some_and(|of| !of.reliable.is_reliable());
    let names = intervals
        .iter()
        .filter(|(_, of)| few(of))
        .map(|(name, _)| *name);
    words(&names.collect::<Vec<_>>().join(", "))
}

pub fn class_table(outcome: &Outcome) -> Table {
    let columns = [
        "codec",
        "range",
        "ubytes [bytes]",
        "cbytes [bytes]",
        "saved [%]",
        "compress [MB/s]",
        "decompress [MB/s]",
        "datapoints",
        "too few for",
    ];
    let note = "Means of a record; percent saved of the sums with its 95 % interval; million bytes of records per second of CPU of one thread.";
    let mut out = cells::table("codecs", "Codecs and size classes", &columns, note);
    for row in &outcome.classes {
        out.rows.push(vec![
            words(&row.codec),
            words(&row.range),
            known(row.ubytes, 0),
            known(row.cbytes, 0),
            row.interval
                .map_or_else(|| known(row.cmp_ratio, 2), |of| interval(Some(of), 2)),
            interval(row.compress, 1),
            interval(row.decompress, 1),
            known(row.datapoints as f64, 0),
            too_few(&[
                ("saved", row.interval),
                ("compress", row.compress),
                ("decompress", row.decompress),
            ]),
        ]);
    }
    out
}

pub fn bundle_table(outcome: &Outcome) -> Table {
    let columns = [
        "codec",
        "records in a blob",
        "blobs",
        "ubytes [bytes]",
        "cbytes [bytes]",
        "saved of records [%]",
        "messages [bytes]",
        "saved of all [%]",
        "alone [%]",
        "too few for",
    ];
    let note = format!(
        "Records below {} bytes. All bytes count {} of header and {} of ACK for each message; alone: each record compressed by itself.",
        outcome.bundle_below, outcome.overhead.header, outcome.overhead.ack
    );
    let mut out = cells::table("bundles", "Bundles", &columns, &note);
    for row in &outcome.bundles {
        out.rows.push(vec![
            words(&row.codec),
            known(row.txcount as f64, 0),
            known(row.blobs as f64, 0),
            known(row.ubytes, 0),
            known(row.cbytes, 0),
            known(row.cmp_ratio, 2),
            known(row.overhead, 0),
            interval(row.saved, 2),
            known(row.saved_alone, 2),
            too_few(&[("saved of all", row.saved)]),
        ]);
    }
    out
}

fn link_bandwidth(fetch: &FetchTable) -> String {
    fetch
        .bandwidth
        .map_or("not limited".to_owned(), |link_bandwidth| {
            format!("{} a second", bytes(link_bandwidth))
        })
}

/// Of the first codec.
pub fn study_classes(outcome: &Outcome) -> Option<Table> {
    let codec = &outcome.classes.first()?.codec;
    let columns = [
        "range",
        "ubytes [bytes]",
        "cbytes [bytes]",
        "cmp_ratio [%]",
        "datapoints",
    ];
    let title = format!("Records by size, {codec}");
    let mut out = cells::table("study-classes", &title, &columns, "");
    for class in &outcome.classes {
        if class.codec == *codec && class.range != "all" {
            out.rows.push(vec![
                words(&class.range),
                known(class.ubytes, 0),
                known(class.cbytes, 0),
                known(class.cmp_ratio, 2),
                known(class.datapoints as f64, 0),
            ]);
        }
    }
    Some(out)
}

pub fn study_blobs(outcome: &Outcome) -> impl Iterator<Item = String> {
    outcome
        .blobs
        .iter()
        .map(|(txcount, from, to)| format!("compressed blob from {from} to {to} txcount:{txcount}"))
}

pub fn study_fetch(fetch: &FetchTable) -> Table {
    let title = format!("Time to fetch, {}", fetch.codec);
    let mut out = cells::table("study-fetch", &title, &["records"], "");
    for column in &fetch.columns {
        for side in ["uncmp", "cmp"] {
            let head = format!("{side} {} ms", column.latency_ms);
            out.columns.push((head.as_str(), "s").into());
        }
    }
    for (index, step) in fetch.steps.iter().enumerate() {
        let mut row = vec![known(*step as f64, 0)];
        for column in &fetch.columns {
            row.extend(
                [&column.uncmp, &column.cmp]
                    .map(|side| number(side.get(index).copied(), 3, "not fetched")),
            );
        }
        out.rows.push(row);
    }
    out
}

pub fn fetch_table(fetch: &FetchTable) -> Table {
    let columns = [
        "latency [ms]",
        "uncmp [s]",
        "cmp [s]",
        "difference [s]",
        "uncmp bytes",
        "cmp bytes",
        "too few for",
    ];
    let link_bandwidth = link_bandwidth(fetch);
    let note = format!(
        "{} records with {}, {} requests under way, bandwidth {link_bandwidth}, mean of {} times in random order; the latency is added to each answer. \
         The difference has a 95 % interval from record to record.",
        count(fetch.records),
        fetch.codec,
        fetch.in_flight,
        fetch.repeats
    );
    let mut out = cells::table("fetch-times", "Time to fetch all records", &columns, &note);
    for column in &fetch.columns {
        out.rows.push(vec![
            known(column.latency_ms, 0),
            number(column.uncmp.last().copied(), 3, "not fetched"),
            number(column.cmp.last().copied(), 3, "not fetched"),
            interval(column.difference, 3),
            known(column.uncmp_bytes as f64, 0),
            known(column.cmp_bytes as f64, 0),
            too_few(&[("difference", column.difference)]),
        ]);
    }
    out
}
