use super::{BundleRow, ClassRow, FetchTable, Interval, Outcome, show};
use crate::page::{card, made_by, unique_ids, verdict_with_headline};
use faultline_pages::{
    cells::{figure, section},
    effects,
    groups::distinct,
    model::{
        Bar, BarSeries, Bars, Block, Caveat, Chart, Curve, Curves, ForestRow, Report, RunCard,
        Tone, Verdict, VerdictKind,
    },
};
use faultline_text::number;

pub fn report(outcome: &Outcome) -> Report {
    let mut sections = vec![
        section("study", "The study's own tables", study(outcome)),
        section("codecs", "Every codec", codecs(outcome)),
        section("bundles", "Bundles", bundles(outcome)),
        section(
            "fetch",
            "Fetching",
            outcome.fetch.as_ref().map(fetch).unwrap_or_default(),
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
        overview: effects(outcome).into_iter().collect(),
        runs: cards(outcome),
        caveats: caveats(outcome),
        sections,
        cards: "Codecs".to_owned(),
        made_by: made_by(&outcome.version),
        ..Report::default()
    }
}

fn saved(row: &ClassRow) -> String {
    let percent = |percent: f64| number(percent, 1);
    let interval = row.interval.map(|of| {
        format!(
            ", 95 % interval {} to {} %",
            percent(of.low),
            percent(of.high)
        )
    });
    format!(
        "{} saves {} % of all bytes{}",
        row.codec,
        percent(row.cmp_ratio),
        interval.unwrap_or_default()
    )
}

fn by_bytes_saved(outcome: &Outcome) -> Vec<&ClassRow> {
    let mut rows: Vec<&ClassRow> = outcome.overall_rows().collect();
    rows.sort_by(|a, b| b.cmp_ratio.total_cmp(&a.cmp_ratio));
    rows
}

/// Bytes are counted, so there is no test.
fn verdict(outcome: &Outcome) -> Verdict {
    let points = by_bytes_saved(outcome).into_iter().map(saved).collect();
    verdict_with_headline("No codec was measured", points, VerdictKind::Described)
}

fn effects(outcome: &Outcome) -> Option<Block> {
    let rows = by_bytes_saved(outcome).into_iter().map(|row| {
        let ratio = |saved: f64| 1.0 - saved / 100.0;
        let interval = row.interval.map(|of| (ratio(of.high), ratio(of.low)));
        let value = ratio(row.cmp_ratio);
        let text = match interval {
            Some((low, high)) => effects::effect_text([value, low, high]),
            None => format!("{} % saved", number(row.cmp_ratio, 1)),
        };
        ForestRow {
            name: row.codec.clone(),
            ratio: (value, interval),
            text,
            tone: Tone::Neutral,
        }
    });
    let caption = "Bytes of all records together, with 95 % intervals.";
    let x_label = "Against the bytes as they are".to_owned();
    effects::forest("What each codec saves", x_label, caption, rows)
}

fn cards(outcome: &Outcome) -> Vec<RunCard> {
    let unique_ids = unique_ids(outcome.overall_rows().map(|row| row.codec.as_str()));
    let speed = |speed: Option<Interval>| {
        speed.map_or("not known".to_owned(), |speed| {
            format!("{} MB/s", number(speed.value, 1))
        })
    };
    let card = |(row, id): (&ClassRow, String)| {
        let saved = format!("{} %", number(row.cmp_ratio, 1));
        let mut facts = vec![
            ("saves", saved),
            ("compresses", speed(row.compress)),
            ("restores", speed(row.decompress)),
            ("library", row.library.clone()),
        ];
        facts.retain(|(_, value)| !value.is_empty());
        self::card(id, &row.codec, facts)
    };
    outcome.overall_rows().zip(unique_ids).map(card).collect()
}

fn caveats(outcome: &Outcome) -> Vec<Caveat> {
    let mut all: Vec<Caveat> = outcome
        .problems
        .iter()
        .map(|what| Caveat::new(what.clone(), "Fix it and measure again."))
        .collect();
    if outcome.dictionary.is_some() {
        let what =
            "A dictionary suits the records that it was trained on, and both sides must have it.";
        all.push(Caveat::new(
            what.to_owned(),
            "Measure it on records of another day (--save, --files).",
        ));
    }
    let few = outcome
        .classes
        .iter()
        .filter(|row| row.interval.is_none_or(|of| !of.reliable.is_reliable()))
        .count();
    if few > 0 {
        let what = format!(
            "{few} of {} size classes have too few records for a reliable interval.",
            outcome.classes.len()
        );
        all.push(Caveat::new(what, "Take more records (--records)."));
    }
    all
}

fn study(outcome: &Outcome) -> Vec<Block> {
    let Some(classes) = show::study_classes(outcome) else {
        return Vec::new();
    };
    let mut blocks = vec![Block::Table(classes)];
    blocks.extend(show::study_blobs(outcome).map(Block::Text));
    blocks.extend(
        outcome
            .fetch
            .iter()
            .map(|fetch| Block::Table(show::study_fetch(fetch))),
    );
    blocks
}

fn bar(of: Option<Interval>) -> Option<Bar> {
    // An interval from few values may be huge and would set the axis.
    of.map(|of| {
        (
            of.value,
            of.reliable.is_reliable().then_some((of.low, of.high)),
        )
    })
}

type ClassInterval = fn(&ClassRow) -> Option<Interval>;

fn codecs(outcome: &Outcome) -> Vec<Block> {
    let ranges = outcome.classes.iter().map(|row| row.range.clone());
    let categories = distinct(ranges);
    let draw = |id: &str, title: &str, y_label: &str, log: bool, of: ClassInterval| {
        let value = |codec: &str, range: &String| bar(of(outcome.row(codec, range)?));
        let series = |all: &ClassRow| BarSeries {
            name: all.codec.clone(),
            values: { categories.iter() }
                .map(|range| value(&all.codec, range))
                .collect(),
        };
        let chart = Chart::Bars(Bars {
            y_label: y_label.to_owned(),
            categories: categories.clone(),
            series: outcome.overall_rows().map(series).collect(),
            log,
        });
        let caption = "With 95 % intervals where there are records enough for one.";
        figure(id, title, caption, chart)
    };
    let (saved, speed) = ("Saved (%)", "MB/s of CPU");
    vec![
        draw("saved", "Bytes saved by size class", saved, false, |row| {
            row.interval
        }),
        draw("speed", "Speed of compressing", speed, true, |row| {
            row.compress
        }),
        draw("restore-speed", "Speed of restoring", speed, true, |row| {
            row.decompress
        }),
        Block::Table(show::class_table(outcome)),
    ]
}

fn bundles(outcome: &Outcome) -> Vec<Block> {
    if outcome.bundles.is_empty() {
        return Vec::new();
    }
    let curve = |all: &ClassRow| {
        let rows = outcome.bundles.iter().filter(|row| row.codec == all.codec);
        let point = |row: &BundleRow| Some((row.txcount as f64, bar(row.saved)?));
        Curve {
            name: all.codec.clone(),
            points: rows.filter_map(point).collect(),
            ..Curve::default()
        }
    };
    let chart = Curves {
        x_label: "Records in a blob".to_owned(),
        y_label: "Saved of all bytes (%)".to_owned(),
        series: outcome.overall_rows().map(curve).collect(),
        ..Curves::default()
    };
    let caption = "With messages and ACKs, and 95 % intervals.";
    vec![
        figure(
            "bundles-by-size",
            "What bundling saves",
            caption,
            Chart::Curves(chart),
        ),
        Block::Table(show::bundle_table(outcome)),
    ]
}

fn fetch(fetch: &FetchTable) -> Vec<Block> {
    let mut series = Vec::new();
    for column in &fetch.columns {
        for (name, side) in [("uncmp", &column.uncmp), ("cmp", &column.cmp)] {
            let points = fetch
                .steps
                .iter()
                .zip(side)
                .map(|(step, seconds)| (*step as f64, (*seconds, None)));
            let name = format!("{name} {} ms", column.latency_ms);
            series.push(Curve {
                name,
                points: points.collect(),
                ..Curve::default()
            });
        }
    }
    let chart = Chart::Curves(Curves {
        x_label: "Records fetched".to_owned(),
        y_label: "Seconds".to_owned(),
        series,
        ..Curves::default()
    });
    vec![
        figure(
            "fetch-steps",
            "Time to fetch",
            "Cumulative, mean of the repeats.",
            chart,
        ),
        Block::Table(show::fetch_table(fetch)),
    ]
}
