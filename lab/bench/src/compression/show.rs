use super::outcome::{ClassRow, FetchTable, Outcome};
use super::tables;
use faultline_pages::export::{Columns, Values, named};
use faultline_pages::render::plain;
use faultline_text::{bytes, count, moment, table};
use std::fmt::Write as _;

pub(crate) fn text(outcome: &Outcome) -> String {
    let mut out = study(outcome);
    out += &about(outcome);
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
    for problem in &outcome.problems {
        let _ = writeln!(out, "{problem}");
    }
    out
}

fn study(outcome: &Outcome) -> String {
    let Some(codec) = outcome.classes.first().map(|row| row.codec.clone()) else {
        return String::new();
    };
    let of_first = outcome
        .classes
        .iter()
        .filter(|row| row.codec == codec && row.range != "all");
    let row = |row: &ClassRow| {
        let means = [row.ubytes, row.cbytes].map(|mean| format!("{mean:.0}"));
        let [ubytes, cbytes] = means;
        vec![
            row.range.clone(),
            ubytes,
            cbytes,
            format!("{:.2}", row.cmp_ratio),
            row.datapoints.to_string(),
        ]
    };
    let mut out = table(
        &["range", "ubytes", "cbytes", "cmp_ratio%", "datapoints"],
        of_first.map(row).collect(),
    );
    out.push('\n');
    for (txcount, from, to) in &outcome.blobs {
        let _ = writeln!(out, "compressed blob from {from} to {to} txcount:{txcount}");
    }
    if !outcome.blobs.is_empty() {
        out.push('\n');
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
        let line = |(index, step): (usize, &u64)| {
            let mut line = vec![step.to_string()];
            for column in &fetch.columns {
                let at = |side: &[f64]| {
                    side.get(index)
                        .map_or_else(|| "-".to_owned(), |secs| format!("{secs:.3}"))
                };
                line.extend([at(&column.uncmp), at(&column.cmp)]);
            }
            line
        };
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        out += &table(&heads, fetch.steps.iter().enumerate().map(line).collect());
        out.push('\n');
    }
    out
}

fn about(outcome: &Outcome) -> String {
    let mut out = format!(
        "{} on {}: {} records, {} measured",
        outcome.source,
        moment(outcome.started_unix_ns),
        count(outcome.records),
        count(outcome.tested)
    );
    if let Some(dictionary) = outcome.dictionary {
        let _ = write!(
            out,
            "; a dictionary of {}, which both sides must have, was trained on the {} before them",
            bytes(dictionary),
            count(outcome.records - outcome.tested.min(outcome.records))
        );
    }
    out.push('\n');
    outcome
        .notes
        .iter()
        .for_each(|note| out += &format!("{note}\n"));
    let whole = outcome.classes.iter().filter(|row| row.range == "all");
    let libraries: Vec<String> = whole
        .filter(|row| !row.library.is_empty())
        .map(|row| format!("{} by {}", row.codec, row.library))
        .collect();
    if !libraries.is_empty() {
        let _ = writeln!(out, "Codecs: {}", libraries.join(", "));
    }
    out
}

fn fetched(fetch: &FetchTable) -> String {
    let width = fetch.bandwidth.map_or_else(
        || "not limited".to_owned(),
        |width| format!("{} a second", bytes(width)),
    );
    let mut out = format!(
        "\nFetching {} records with {}: {} requests under way, bandwidth {width}, mean of {} times in random order; latency is added to \
         each answer\n",
        count(fetch.records),
        fetch.codec,
        fetch.in_flight,
        fetch.repeats,
    );
    out += &plain(&tables::fetch(fetch));
    out
}

/// Unknown values are empty.
pub(crate) fn csv(outcome: &Outcome) -> String {
    let mut out =
        "codec,library,range,ubytes,cbytes,cmp_ratio %,low %,high %,compress MB/s,decompress MB/s,datapoints\n".to_owned();
    for row in &outcome.classes {
        let some = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        let interval = row.interval.as_ref();
        let cells = [
            row.codec.clone(),
            row.library.clone(),
            row.range.clone(),
            row.ubytes.to_string(),
            row.cbytes.to_string(),
            row.cmp_ratio.to_string(),
            some(interval.map(|interval| interval.low)),
            some(interval.map(|interval| interval.high)),
            some(row.compress.map(|speed| speed.value)),
            some(row.decompress.map(|speed| speed.value)),
            row.datapoints.to_string(),
        ];
        out += &(cells.join(",") + "\n");
    }
    out
}

/// Speeds in 10^6 bytes per CPU second.
pub(crate) fn columns(rows: &[ClassRow]) -> Columns {
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
