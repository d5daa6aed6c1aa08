use super::{ClassRow, FetchTable, Outcome, StoredEstimate, show};
use crate::page::{card, made_by, unique_ids, verdict_with_headline};
use faultline_pages::{
    cells::{figure, section},
    effects,
    groups::distinct,
    model::{
        BarSeries, Bars, Block, Caveat, Chart, Curve, Curves, ForestRow, Report, RunCard, Tone,
        ValueWithInterval, Verdict, VerdictKind,
    },
};
use faultline_text::number;
use itertools::Itertools;

pub fn report(outcome: &Outcome) -> Report {
    let mut sections = vec![
        section("study", "The study's own tables", study_blocks(outcome)),
        section("codecs", "Every codec", codec_blocks(outcome)),
        section("bundles", "Bundles", bundle_blocks(outcome)),
        section(
            "fetch",
            "Fetching",
            outcome.fetch.as_ref().map(fetch_blocks).unwrap_or_default(),
        ),
        section(
            "how",
            "Where the records come from",
            outcome.notes.iter().cloned().map(Block::Text).collect(),
        ),
    ];
    sections.retain(|section| !section.blocks.is_empty());
    Report {
        title: "What compression saves".to_owned(),
        subtitle: show::subtitle(outcome),
        verdict: verdict(outcome),
        overview: Vec::from_iter(effects_figure(outcome)),
        runs: cards(outcome),
        caveats: caveats(outcome),
        sections,
        runs_heading: "Codecs".to_owned(),
        made_by: made_by(&outcome.version),
        ..Report::default()
    }
}

fn by_bytes_saved(outcome: &Outcome) -> Vec<&ClassRow> {
    let mut rows = outcome.overall_rows().collect_vec();
    rows.sort_by(|a, b| b.saved_percent.total_cmp(&a.saved_percent));
    rows
}

/// Bytes are counted exactly, so no hypothesis is tested.
fn verdict(outcome: &Outcome) -> Verdict {
    let mut points = Vec::new();
    for row in by_bytes_saved(outcome) {
        let saved = number(row.saved_percent, 1);
        let mut point = format!("{} saves {saved} % of all bytes", row.codec);
        if let Some(interval) = row.saved {
            let [_, low, high] = interval.value_and_ends().map(|percent| number(percent, 1));
            point += &format!(", 95 % interval {low} to {high} %");
        }
        points.push(point);
    }
    verdict_with_headline("No codec was measured", points, VerdictKind::Described)
}

fn effects_figure(outcome: &Outcome) -> Option<Block> {
    let rows = by_bytes_saved(outcome).into_iter().map(|row| {
        let ratio = |percent_saved| 1.0 - percent_saved / 100.0;
        let value = ratio(row.saved_percent);
        let interval = row.saved.map(|saved| (ratio(saved.high), ratio(saved.low)));
        ForestRow {
            name: row.codec.clone(),
            ratio: (value, interval),
            text: match interval {
                Some((low, high)) => effects::effect_text([value, low, high]),
                None => format!("{} % saved", number(row.saved_percent, 1)),
            },
            tone: Tone::Neutral,
        }
    });
    effects::forest(
        "What each codec saves",
        "Against uncompressed bytes".to_owned(),
        "Bytes of all records together, with 95 % intervals.",
        rows,
    )
}

fn cards(outcome: &Outcome) -> Vec<RunCard> {
    let ids = unique_ids(outcome.overall_rows().map(|row| row.codec.as_str()));
    let speed_text = |speed: Option<StoredEstimate>| match speed {
        None => "not known".to_owned(),
        Some(speed) => format!("{} MB/s", number(speed.value, 1)),
    };
    outcome
        .overall_rows()
        .zip(ids)
        .map(|(row, id)| {
            let mut facts = vec![
                ("saves", format!("{} %", number(row.saved_percent, 1))),
                ("compresses", speed_text(row.compress)),
                ("decompresses", speed_text(row.decompress)),
                ("library", row.library.clone()),
            ];
            facts.retain(|(_, value)| !value.is_empty());
            card(id, &row.codec, facts)
        })
        .collect()
}

fn caveats(outcome: &Outcome) -> Vec<Caveat> {
    let mut caveats = outcome
        .problems
        .iter()
        .map(|problem| Caveat::new(problem, "Fix it and measure again."))
        .collect_vec();
    if outcome.dictionary_bytes.is_some() {
        caveats.push(Caveat::new(
            "A dictionary suits the records that it was trained on, and both sides must have it.",
            "Measure it on records of another day (--save, --files).",
        ));
    }
    let unreliable = outcome
        .classes
        .iter()
        .filter(|row| {
            row.saved
                .is_none_or(|saved| !saved.reliability.is_reliable())
        })
        .count();
    if unreliable > 0 {
        caveats.push(Caveat::new(
            format!(
                "{unreliable} of {} rows of a codec and size class have no reliable interval for the saved bytes.",
                outcome.classes.len()
            ),
            "Take more records (--records).",
        ));
    }
    caveats
}

fn study_blocks(outcome: &Outcome) -> Vec<Block> {
    let Some(classes) = show::study_classes(outcome) else {
        return Vec::new();
    };
    let mut blocks = vec![Block::Table(classes)];
    blocks.extend(show::study_blobs(outcome).into_iter().map(Block::Text));
    if let Some(fetch) = &outcome.fetch {
        blocks.push(Block::Table(show::study_fetch(fetch)));
    }
    blocks
}

/// Leaves out the ends of an unreliable interval: they might stretch the axis.
fn value_with_reliable_interval(estimate: StoredEstimate) -> ValueWithInterval {
    let ends = (estimate.low, estimate.high);
    (
        estimate.value,
        estimate.reliability.is_reliable().then_some(ends),
    )
}

fn codec_blocks(outcome: &Outcome) -> Vec<Block> {
    let categories = distinct(outcome.classes.iter().map(|row| row.range.clone()));
    let chart = |id, title, y_label: &str, log, value: fn(&ClassRow) -> Option<StoredEstimate>| {
        let series = |overall: &ClassRow| BarSeries {
            name: overall.codec.clone(),
            values: categories
                .iter()
                .map(|range| {
                    value(outcome.row(&overall.codec, range)?).map(value_with_reliable_interval)
                })
                .collect(),
        };
        let bars = Bars {
            y_label: y_label.to_owned(),
            categories: categories.clone(),
            series: outcome.overall_rows().map(series).collect(),
            log,
        };
        figure(
            id,
            title,
            "With 95 % intervals, except unreliable ones.",
            Chart::Bars(bars),
        )
    };
    vec![
        chart(
            "saved",
            "Bytes saved by size class",
            "Saved (%)",
            false,
            |row| row.saved,
        ),
        chart(
            "speed",
            "Speed of compressing",
            "MB/s of CPU",
            true,
            |row| row.compress,
        ),
        chart(
            "restore-speed",
            "Speed of decompression",
            "MB/s of CPU",
            true,
            |row| row.decompress,
        ),
        Block::Table(show::class_table(outcome)),
    ]
}

fn bundle_blocks(outcome: &Outcome) -> Vec<Block> {
    if outcome.bundles.is_empty() {
        return Vec::new();
    }
    let curve = |overall: &ClassRow| Curve {
        name: overall.codec.clone(),
        points: outcome
            .bundles
            .iter()
            .filter(|row| row.codec == overall.codec)
            .filter_map(|row| {
                Some((
                    row.records_per_blob as f64,
                    value_with_reliable_interval(row.saved_with_overhead?),
                ))
            })
            .collect(),
        ..Curve::default()
    };
    vec![
        figure(
            "bundles-by-size",
            "What bundling saves",
            "With messages and ACKs, and 95 % intervals.",
            Chart::Curves(Curves {
                x_label: "Records in a blob".to_owned(),
                y_label: "Saved of all bytes (%)".to_owned(),
                series: outcome.overall_rows().map(curve).collect(),
                ..Curves::default()
            }),
        ),
        Block::Table(show::bundle_table(outcome)),
    ]
}

fn fetch_blocks(fetch: &FetchTable) -> Vec<Block> {
    let mut series = Vec::new();
    for column in &fetch.columns {
        for (kind, times) in [
            ("uncmp", &column.uncompressed_seconds),
            ("cmp", &column.compressed_seconds),
        ] {
            let points = fetch
                .record_counts
                .iter()
                .zip(times)
                .map(|(count, seconds)| (*count as f64, (*seconds, None)));
            series.push(Curve {
                name: format!("{kind} {} ms", column.latency_ms),
                points: points.collect(),
                ..Curve::default()
            });
        }
    }
    vec![
        figure(
            "fetch-steps",
            "Time to fetch",
            "Cumulative, mean of the repeats.",
            Chart::Curves(Curves {
                x_label: "Records fetched".to_owned(),
                y_label: "Seconds".to_owned(),
                series,
                ..Curves::default()
            }),
        ),
        Block::Table(show::fetch_table(fetch)),
    ]
}
