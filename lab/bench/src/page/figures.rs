use super::unique_ids;
use crate::{
    compare::{Comparison, comparison_count, crossing, interval_label},
    results::{Results, ms, over},
};
use faultline_pages::{
    cells::figure,
    effects,
    model::{Block, Chart, Counts, Curve, Curves, ForestRow, Histogram, Line, Timeline, Tone},
};
use faultline_stats::{
    arms::Direction,
    crossover::Crossover,
    histogram::{count, freedman_diaconis},
    summary,
};

const MAX_DISTRIBUTIONS: usize = 12;
const MAX_CLASSES: usize = 120;
const MAX_POINTS: usize = 1500;

/// The mean latency of each request against the reference's.
pub fn effects(results: &Results, compared: &[Comparison]) -> Option<Block> {
    let [reference, others @ ..] = results.header.arms.as_slice() else {
        return None;
    };
    let rows = compared.iter().filter_map(|one| {
        let [value, low, high] = one.ratio?.ends();
        let mut name = results.label(&one.subject, one.size);
        if others.len() > 1 {
            name = format!("{name}, {}", one.arm);
        }
        Some(ForestRow {
            name,
            ratio: (value, Some((low, high))),
            text: effects::effect_text([value, low, high]),
            tone: match one.decision.shown() {
                Some(Direction::Lower) => Tone::Better,
                Some(Direction::Higher) => Tone::Worse,
                None => Tone::Neutral,
            },
        })
    });
    let x_label = match others {
        [other] => format!("{other} against {reference}"),
        _ => format!("Change against {reference}"),
    };
    let interval = interval_label(comparison_count(results));
    let caption = format!(
        "Mean latency with its {interval}; \u{2713} faster and \u{2717} slower: a difference is shown."
    );
    effects::forest("What changed", x_label, &caption, rows)
}

/// Differences by size with the crossover; empty if sizes are unknown.
pub fn differences(results: &Results, compared: &[Comparison]) -> Vec<Block> {
    let Some(reference) = results.header.arms.first() else {
        return Vec::new();
    };
    let interval = interval_label(comparison_count(results));
    let mut blocks = Vec::new();
    for (link, id) in results.links().into_iter().zip(unique_ids(
        results.links().iter().map(|link| link.unwrap_or("link")),
    )) {
        let series: Vec<Curve> = results
            .header
            .arms
            .iter()
            .skip(1)
            .filter_map(|arm| curve(results, compared, (arm, link)))
            .collect();
        if series.is_empty() {
            continue;
        }
        let over = over(link);
        let caption = format!(
            "Mean difference with its {interval}; below 0 the reference is slower. The diamond is the crossover, if one is shown: the \
             size from which on the sign is another."
        );
        let chart = Curves {
            x_label: "Decoded bytes".to_owned(),
            y_label: format!("Difference from {reference} (ms)"),
            unit: String::new(),
            series,
            point: "crossover".to_owned(),
        };
        blocks.push(figure(
            &format!("difference-{id}"),
            &format!("Difference by size{over}"),
            &caption,
            Chart::Curves(chart),
        ));
    }
    blocks
}

fn curve(
    results: &Results,
    compared: &[Comparison],
    (arm, link): (&str, Option<&str>),
) -> Option<Curve> {
    let over = results.subjects_over(link);
    let of = |compared: &&Comparison| {
        compared.arm == arm && over.iter().any(|(name, _)| *name == compared.subject)
    };
    let point = |compared: &Comparison| {
        let mean = &compared.mean;
        let interval = Some((mean.low, mean.high));
        Some((compared.size? as f64, (mean.value, interval)))
    };
    let mut points: Vec<_> = compared.iter().filter(of).filter_map(point).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let found = crossing(results, arm, link).filter(Crossover::is_shown);
    let recorded = found.and_then(|found| Some((found.at?, 0.0)));
    (points.len() > 1).then(|| Curve {
        name: arm.to_owned(),
        run: String::new(),
        points,
        recorded,
    })
}

pub fn distributions(results: &Results) -> Vec<Block> {
    let subjects = results.subjects();
    let unique_ids = unique_ids(subjects.iter().map(|(subject, _)| *subject));
    let mut blocks = Vec::new();
    for ((subject, size), id) in subjects.iter().zip(unique_ids).take(MAX_DISTRIBUTIONS) {
        let mut sets: Vec<(&String, Vec<Option<f64>>)> = Vec::new();
        for arm in &results.header.arms {
            if let Some(cell) = results.cell(arm, subject) {
                sets.push((arm, results.by_round(cell)));
            }
        }
        sets.retain(|(_, set)| set.iter().any(Option::is_some));
        let pooled: Vec<_> = sets.iter().flat_map(|(_, set)| set.clone()).collect();
        let edges = freedman_diaconis(&pooled, 0.99, MAX_CLASSES);
        if edges.len() < 2 {
            continue;
        }
        let counts = |(arm, set): &(&String, Vec<Option<f64>>)| {
            let counted = count(set, &edges);
            Counts {
                name: (*arm).clone(),
                run: String::new(),
                counts: counted.counts.iter().map(|count| *count as f64).collect(),
                above: counted.above as f64,
            }
        };
        let series = sets.iter().map(counts).collect();
        let chart = Chart::Histogram(Histogram {
            x_label: "Latency (ms)".to_owned(),
            y_label: "Answers".to_owned(),
            edges,
            series,
            log: false,
        });
        let caption = "Good answers. The classes end at the 99th percentile of all arms together; what is above is counted and not drawn.";
        blocks.push(figure(
            &format!("distribution-{id}"),
            &results.label(subject, *size),
            caption,
            chart,
        ));
    }
    if subjects.len() > MAX_DISTRIBUTIONS {
        let left_out = subjects.len() - MAX_DISTRIBUTIONS;
        blocks.push(Block::Text(format!(
            "{left_out} more are not drawn; their percentiles are in the table of latencies."
        )));
    }
    blocks
}

pub fn over_time(results: &Results) -> Vec<Block> {
    let rounds = results.rounds();
    let rounds_per_point = rounds.div_ceil(MAX_POINTS).max(1);
    let arms = &results.header.arms;
    let runs = unique_ids(arms.iter().map(String::as_str));
    let series: Vec<Line> = arms
        .iter()
        .zip(runs)
        .map(|(arm, run)| line(results, arm, run, rounds_per_point))
        .collect();
    if series.iter().all(|line| line.y.iter().all(Option::is_none)) {
        return Vec::new();
    }
    let each = if rounds_per_point > 1 {
        format!("Each point is the mean of {rounds_per_point} rounds. ")
    } else {
        String::new()
    };
    let caption = format!(
        "Mean over all that an arm was asked about in a round. {each}A round in which a request of the arm failed breaks its line."
    );
    let chart = Timeline {
        x_label: "Time since the first round that counts".to_owned(),
        y_label: "Latency (ms)".to_owned(),
        series,
        ..Timeline::default()
    };
    vec![figure(
        "latency-over-time",
        "Latency over time",
        &caption,
        Chart::Timeline(chart),
    )]
}

fn line(results: &Results, arm: &str, run: String, rounds_per_point: usize) -> Line {
    // The start of each round and its latencies.
    let mut by_round = vec![(f64::INFINITY, Vec::new()); results.rounds()];
    for sample in results.of_arm(arm) {
        let (started_at, latencies) = &mut by_round[sample.round as usize];
        *started_at = started_at.min(sample.at_ns as f64 / 1e9);
        latencies.push(sample.latency_ns().map(ms));
    }
    // The largest count, because the last round may be incomplete.
    let requests_per_round = by_round.iter().map(|(_, latencies)| latencies.len());
    let requests_per_round = requests_per_round.max().unwrap_or(0);
    let mut line = Line {
        name: arm.to_owned(),
        run,
        ..Line::default()
    };
    for chunk in by_round.chunks(rounds_per_point) {
        let started_at = chunk
            .iter()
            .fold(f64::INFINITY, |started_at, of| started_at.min(of.0));
        if !started_at.is_finite() {
            continue;
        }
        let all: Vec<Option<f64>> = chunk
            .iter()
            .flat_map(|(_, latencies)| latencies.iter().copied())
            .collect();
        let is_complete =
            all.len() == requests_per_round * chunk.len() && all.iter().all(Option::is_some);
        // Rounds of concurrent requests overlap.
        line.x
            .push(line.x.last().copied().unwrap_or(0.0).max(started_at));
        line.y
            .push(summary::summary(&all).mean.filter(|_| is_complete));
    }
    line
}
