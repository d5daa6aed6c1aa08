use super::{FetchTable, Interval, Outcome};
use faultline_pages::{
    cells::{estimate_or, known, number, table, words},
    model::{Cell, Table},
};
use faultline_text::{bytes, count};

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

pub fn classes(outcome: &Outcome) -> Table {
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
    let mut out = table("codecs", "Codecs and size classes", &columns, note);
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

pub fn bundles(outcome: &Outcome) -> Table {
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
    let mut out = table("bundles", "Bundles", &columns, &note);
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

pub fn link_bandwidth(fetch: &FetchTable) -> String {
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
    let mut out = table("study-classes", &title, &columns, "");
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
    let mut out = table("study-fetch", &title, &["records"], "");
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

pub fn fetch(fetch: &FetchTable) -> Table {
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
    let mut out = table("fetch-times", "Time to fetch all records", &columns, &note);
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
