use super::unique_ids;
use crate::{
    compare::{Comparison, arm_crossover, comparison_count, interval_label},
    results::{Results, link_shape_suffix, ms},
};
use faultline_pages::{
    cells::figure,
    effects,
    model::{Block, Chart, Counts, Curve, Curves, ForestRow, Histogram, Line, Timeline, Tone},
};
use faultline_stats::{
    arms::Direction,
    crossover::Crossover,
    histogram::{self, freedman_diaconis_edges},
    summary::summary,
};
use itertools::Itertools;

const MAX_DISTRIBUTIONS: usize = 12;
const MAX_CLASSES: usize = 120;
const MAX_POINTS: usize = 1500;

pub fn effects(results: &Results, compared: &[Comparison]) -> Option<Block> {
    let [reference, others @ ..] = results.header.arms.as_slice() else {
        return None;
    };
    let rows = compared.iter().filter_map(|comparison| {
        let [value, low, high] = comparison.ratio?.value_and_ends();
        let mut name = results.short_label(&comparison.request, comparison.answer_bytes);
        if others.len() > 1 {
            name = format!("{name}, {}", comparison.arm);
        }
        Some(ForestRow {
            name,
            ratio: (value, Some((low, high))),
            text: effects::effect_text([value, low, high]),
            tone: match comparison.decision.established() {
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
        "Change of the mean latency with its {interval}; \u{2713}: established as faster; \u{2717}: established as slower."
    );
    effects::forest("What changed", x_label, &caption, rows)
}

/// Differences by size with the crossover; empty if sizes are unknown.
pub fn differences(results: &Results, compared: &[Comparison]) -> Vec<Block> {
    let Some((reference, others)) = results.header.arms.split_first() else {
        return Vec::new();
    };
    let interval = interval_label(comparison_count(results));
    let mut blocks = Vec::new();
    let link_shapes = results.link_shapes();
    let ids = unique_ids(link_shapes.iter().map(|shape| shape.unwrap_or("link")));
    for (link_shape, id) in link_shapes.into_iter().zip(ids) {
        let series = others
            .iter()
            .filter_map(|arm| difference_curve(results, compared, arm, link_shape))
            .collect_vec();
        if series.is_empty() {
            continue;
        }
        let caption = format!(
            "Mean difference with its {interval}; below 0 the reference is slower. The diamond, if there is one, is the crossover: the \
             size at which the sign changes."
        );
        let chart = Curves {
            x_label: "Decoded bytes".to_owned(),
            y_label: format!("Difference from {reference} (ms)"),
            unit: String::new(),
            series,
            highlight_label: "crossover".to_owned(),
        };
        blocks.push(figure(
            &format!("difference-{id}"),
            &format!("Difference by size{}", link_shape_suffix(link_shape)),
            &caption,
            Chart::Curves(chart),
        ));
    }
    blocks
}

fn difference_curve(
    results: &Results,
    compared: &[Comparison],
    arm: &str,
    link_shape: Option<&str>,
) -> Option<Curve> {
    let requests = results.requests_over(link_shape);
    let point = |comparison: &Comparison| {
        let is_of_curve = comparison.arm == arm
            && requests
                .iter()
                .any(|(request, _)| *request == comparison.request);
        let mean = &comparison.mean;
        let interval = Some((mean.low, mean.high));
        let size = comparison.answer_bytes.filter(|_| is_of_curve)?;
        Some((size as f64, (mean.value, interval)))
    };
    let mut points = compared.iter().filter_map(point).collect_vec();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let crossover = arm_crossover(results, arm, link_shape).filter(Crossover::is_established);
    (points.len() > 1).then(|| Curve {
        name: arm.to_owned(),
        run: String::new(),
        points,
        highlight: crossover.and_then(|crossover| Some((crossover.at?, 0.0))),
    })
}

pub fn distributions(results: &Results) -> Vec<Block> {
    let requests = results.requests();
    let ids = unique_ids(requests.iter().map(|(request, _)| *request));
    let mut blocks = Vec::new();
    for ((request, size), id) in requests.iter().zip(ids).take(MAX_DISTRIBUTIONS) {
        let arms = results.header.arms.iter();
        let by_arm = arms.filter_map(|arm| {
            let latencies = results.latencies_by_round(results.case_index(arm, request)?);
            latencies
                .iter()
                .any(Option::is_some)
                .then_some((arm, latencies))
        });
        let by_arm = by_arm.collect_vec();
        let pooled = by_arm
            .iter()
            .flat_map(|(_, latencies)| latencies.clone())
            .collect_vec();
        let edges = freedman_diaconis_edges(&pooled, 0.99, MAX_CLASSES);
        if edges.len() < 2 {
            continue;
        }
        let count_by_class = |(arm, latencies): (&String, Vec<_>)| {
            let classes = histogram::count(&latencies, &edges);
            Counts {
                name: arm.clone(),
                run: String::new(),
                counts: classes.counts.iter().map(|count| *count as f64).collect(),
                above: classes.above as f64,
            }
        };
        let chart = Chart::Histogram(Histogram {
            x_label: "Latency (ms)".to_owned(),
            y_label: "Answers".to_owned(),
            series: by_arm.into_iter().map(count_by_class).collect(),
            edges,
            log: false,
        });
        let caption = "Good answers. The classes end at the 99th percentile of all arms together; what is above is counted and not drawn.";
        blocks.push(figure(
            &format!("distribution-{id}"),
            &results.short_label(request, *size),
            caption,
            chart,
        ));
    }
    if requests.len() > MAX_DISTRIBUTIONS {
        let left_out = requests.len() - MAX_DISTRIBUTIONS;
        blocks.push(Block::Text(format!(
            "{left_out} more are not drawn; their percentiles are in the table of latencies."
        )));
    }
    blocks
}

pub fn over_time(results: &Results) -> Option<Block> {
    let rounds = results.rounds();
    let rounds_per_point = rounds.div_ceil(MAX_POINTS).max(1);
    let arms = &results.header.arms;
    let card_ids = unique_ids(arms.iter().map(String::as_str));
    let series = arms
        .iter()
        .zip(card_ids)
        .map(|(arm, card_id)| latency_line(results, arm, card_id, rounds_per_point))
        .collect_vec();
    if series.iter().all(|line| line.y.iter().all(Option::is_none)) {
        return None;
    }
    let points = match rounds_per_point {
        1 => String::new(),
        rounds => format!("Each point is the mean of {rounds} rounds. "),
    };
    let caption = format!(
        "Mean of the requests of an arm in a round. {points}A round in which a request of the arm failed breaks the line of the arm."
    );
    let chart = Timeline {
        x_label: "Time since the first round that counts".to_owned(),
        y_label: "Latency (ms)".to_owned(),
        series,
        ..Timeline::default()
    };
    Some(figure(
        "latency-over-time",
        "Latency over time",
        &caption,
        Chart::Timeline(chart),
    ))
}

fn latency_line(results: &Results, arm: &str, card_id: String, rounds_per_point: usize) -> Line {
    // The start of each round in seconds, and its latencies in ms.
    let mut by_round = vec![(f64::INFINITY, Vec::new()); results.rounds()];
    for sample in results.samples_of_arm(arm) {
        let (started_at, latencies) = &mut by_round[sample.round as usize];
        *started_at = started_at.min(sample.at_ns as f64 / 1e9);
        latencies.push(sample.latency_ns().map(ms));
    }
    // The largest count, because the last round may be incomplete.
    let requests_per_round = by_round
        .iter()
        .map(|(_, latencies)| latencies.len())
        .max()
        .unwrap_or(0);
    let mut line = Line {
        name: arm.to_owned(),
        // The page has a card for each arm.
        run: card_id,
        ..Line::default()
    };
    let mut last_x = 0.0;
    for rounds in by_round.chunks(rounds_per_point) {
        let started_at = rounds
            .iter()
            .map(|round| round.0)
            .fold(f64::INFINITY, f64::min);
        if !started_at.is_finite() {
            continue;
        }
        let latencies = rounds
            .iter()
            .flat_map(|(_, latencies)| latencies)
            .copied()
            .collect_vec();
        let is_complete = latencies.len() == requests_per_round * rounds.len()
            && latencies.iter().all(Option::is_some);
        // Rounds of concurrent requests overlap, but `x` must ascend.
        last_x = started_at.max(last_x);
        line.x.push(last_x);
        line.y
            .push(summary(&latencies).mean.filter(|_| is_complete));
    }
    line
}
