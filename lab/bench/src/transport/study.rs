//! Times of single and repeated writes and reads, as in the study "RPC vs WebSocket Performance" of
//! 51nodes. `bench transport` repeats this study.

use crate::{
    compare::{Comparison, absolute_bounds, compare_arms, comparison_count, interval_label},
    render::unreliable_suffix,
    results::Results,
};
use faultline_pages::{cells, model::Block};
use faultline_stats::arms::Direction;
use faultline_text::number;
use itertools::Itertools;

pub fn study_text(results: &Results) -> String {
    let sentences = comparison_sentences(results);
    let mut out = String::new();
    for request in results.request_labels() {
        out += &format!("=== {} ===\n\n", request.to_uppercase());
        for arm in &results.header.arms {
            let mean = match results.mean_latency_ms(arm, request) {
                None => "no good answer".to_owned(),
                Some(mean) => format!("{} ms", number(mean, 3)),
            };
            let failed = match failure_count(results, arm, request) {
                0 => String::new(),
                count => format!(", {count} FAILED"),
            };
            out += &format!("{arm}: {mean}{failed}\n");
        }
        for (_, text) in sentences.iter().filter(|(label, _)| *label == request) {
            out += &format!("{text}\n");
        }
        out.push('\n');
    }
    out
}

/// Each request with a sentence about one arm and the reference.
fn comparison_sentences(results: &Results) -> Vec<(&str, String)> {
    let Some((reference, others)) = results.header.arms.split_first() else {
        return Vec::new();
    };
    let count = comparison_count(results);
    let sentence = |request, arm: &str| {
        let arms = [reference, arm];
        if arms
            .iter()
            .any(|arm| failure_count(results, arm, request) > 0)
        {
            // Without any good answer, the line of the arm already says so.
            results.mean_latency_ms(arm, request)?;
            return Some(format!(
                "{arm} is not compared with {reference}: not every answer was good"
            ));
        }
        let comparison = compare_arms(results, arms, (request, None), count)?;
        let interval_name = interval_label(count);
        Some(comparison_sentence(reference, &comparison, &interval_name))
    };
    results
        .request_labels()
        .into_iter()
        .cartesian_product(others)
        .filter_map(|(request, arm)| Some((request, sentence(request, arm)?)))
        .collect()
}

fn failure_count(results: &Results, arm: &str, request: &str) -> u64 {
    results
        .case_index(arm, request)
        .map_or(0, |case| results.summary(case).failures.values().sum())
}

fn comparison_sentence(reference: &str, comparison: &Comparison, interval_name: &str) -> String {
    let (arm, mean) = (&comparison.arm, &comparison.mean);
    let [value, low, high] = [mean.value, mean.low, mean.high].map(|ms| number(ms, 3));
    let Some(direction) = comparison.decision.established() else {
        return format!(
            "no difference between {arm} and {reference} is established{}: {value} ms, {interval_name} {low} to {high} ms",
            unreliable_suffix([comparison.decision])
        );
    };
    let faster_or_slower = match direction {
        Direction::Lower => "faster",
        Direction::Higher => "slower",
    };
    let [least, most] = absolute_bounds([mean.low, mean.high], 3);
    let percent = |ratio| 100.0 * (ratio - 1.0);
    let (percent_text, percent_interval) =
        comparison.ratio.map_or_else(Default::default, |ratio| {
            let [least, most] = absolute_bounds([ratio.low, ratio.high].map(percent), 1);
            let value = number(percent(ratio.value).abs(), 1);
            (format!(" ({value} %)"), format!(" ({least} to {most} %)"))
        });
    format!(
        "{arm} is {faster_or_slower} than {reference} by {} ms{percent_text}, {interval_name} {least} to {most} ms{percent_interval}",
        number(mean.value.abs(), 3)
    )
}

pub fn page(results: &Results) -> Vec<Block> {
    let arms = &results.header.arms;
    let mut columns = vec![("", "")];
    columns.extend(arms.iter().map(|arm| (arm.as_str(), "ms")));
    let mut out = cells::table(
        "study-means",
        "Mean time by scenario and transport",
        &columns,
        "",
    );
    for request in results.request_labels() {
        let row = arms.iter().map(|arm| {
            cells::number_or(results.mean_latency_ms(arm, request), 3, "no good answer")
        });
        out.rows.push(cells::row(request, row));
    }
    let mut blocks = vec![Block::Table(out)];
    for (request, text) in comparison_sentences(results) {
        blocks.push(Block::Text(format!("{request}: {text}")));
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::{FakeCase, results};

    #[test]
    fn detected_transport_effects_have_a_size_and_undetected_are_named() {
        let around = |base: u64, step: u64| move |round: u64| (base + round * step % 5) * 1_000_000;
        let (http, same, fast) = (around(20, 7919), around(20, 7817), around(10, 7817));
        let cases: [FakeCase<'_>; 3] = [
            ("http", 1, &http),
            ("http-new", 1, &same),
            ("websocket", 1, &fast),
        ];
        let out = study_text(&results(60, &cases));
        assert!(
            out.starts_with("=== ACCOUNT OF 1 ===\n\nhttp: 22.000 ms\n"),
            "{out}"
        );
        assert!(
            out.contains("no difference between http-new and http is established"),
            "{out}"
        );
        assert!(
            out.contains("websocket is faster than http by 10.000 ms (45.5 %)"),
            "{out}"
        );
        assert!(
            out.contains("interval (95 % for all 2 comparisons together)"),
            "{out}"
        );
        let mut results = results(60, &cases);
        results.samples[5].result = Err("timeout".to_owned());
        let out = study_text(&results);
        assert!(
            out.contains("websocket: ") && out.contains(" ms, 1 FAILED\n"),
            "{out}"
        );
        assert!(
            out.contains("websocket is not compared with http: not every answer was good"),
            "{out}"
        );
    }
}
