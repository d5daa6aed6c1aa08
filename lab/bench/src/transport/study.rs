//! The study of transports: times for single and repeated writes and reads, and whether a
//! difference is shown.

use crate::{
    compare::{Comparison, comparison_count, interval_label, one},
    render::unreliable_suffix,
    results::Results,
};
use faultline_pages::{cells, model::Block};
use faultline_stats::arms::Direction;
use faultline_text::number;
use std::{fmt::Write as _, iter};

pub fn tables(results: &Results) -> String {
    let sentences = sentences(results);
    let mut out = String::new();
    for subject in results.subject_names() {
        let _ = writeln!(out, "=== {} ===\n", subject.to_uppercase());
        for arm in &results.header.arms {
            let mean = results
                .mean(arm, subject)
                .map_or("no good answer".to_owned(), |mean| {
                    format!("{} ms", number(mean, 3))
                });
            let failed = failed(results, arm, subject);
            let failed = match failed {
                0 => String::new(),
                failed => format!(", {failed} FAILED"),
            };
            let _ = writeln!(out, "{arm}: {mean}{failed}");
        }
        for (_, text) in sentences.iter().filter(|(of, _)| *of == subject) {
            let _ = writeln!(out, "{text}");
        }
        out.push('\n');
    }
    out
}

fn sentences(results: &Results) -> Vec<(&str, String)> {
    let Some((reference, others)) = results.header.arms.split_first() else {
        return Vec::new();
    };
    let comparisons = comparison_count(results);
    let sentence = |subject: &str, arm: &str| {
        let mean = results.mean(arm, subject);
        if [reference, arm]
            .iter()
            .any(|arm| failed(results, arm, subject) > 0)
        {
            mean?;
            return Some(format!(
                "{arm} is not compared with {reference}: not every one was good"
            ));
        }
        let compared = one(results, (reference, arm), (subject, None), comparisons)?;
        Some(self::sentence(
            reference,
            &compared,
            &interval_label(comparisons),
        ))
    };
    let mut sentences = Vec::new();
    for subject in results.subject_names() {
        for arm in others {
            sentences.extend(sentence(subject, arm).map(|sentence| (subject, sentence)));
        }
    }
    sentences
}

fn failed(results: &Results, arm: &str, subject: &str) -> u64 {
    results
        .cell(arm, subject)
        .map_or(0, |cell| results.summary(cell).failures.values().sum())
}

fn sentence(reference: &str, compared: &Comparison, interval: &str) -> String {
    let (arm, mean) = (&compared.arm, &compared.mean);
    let ms = |ms: f64| number(ms, 3);
    let Some(direction) = compared.decision.shown() else {
        return format!(
            "no difference between {arm} and {reference} is shown{}: {} ms, {interval} {} to {} ms",
            unreliable_suffix([compared.decision]),
            ms(mean.value),
            ms(mean.low),
            ms(mean.high)
        );
    };
    let word = match direction {
        Direction::Lower => "faster",
        Direction::Higher => "slower",
    };
    let ends = |[low, high]: [f64; 2]| [low.abs().min(high.abs()), low.abs().max(high.abs())];
    let [least, most] = ends([mean.low, mean.high]).map(ms);
    let percent = |ratio: f64| 100.0 * (ratio - 1.0);
    let (share, shares) = compared.ratio.map_or_else(Default::default, |ratio| {
        let [least, most] = ends([percent(ratio.low), percent(ratio.high)]);
        let share = number(percent(ratio.value).abs(), 1);
        let shares = format!(" ({} to {} %)", number(least, 1), number(most, 1));
        (format!(" ({share} %)"), shares)
    });
    format!(
        "{arm} is {word} than {reference} by {} ms{share}, {interval} {least} to {most} ms{shares}",
        ms(mean.value.abs())
    )
}

pub fn page(results: &Results) -> Vec<Block> {
    let arms = &results.header.arms;
    let columns: Vec<(&str, &str)> = iter::once(("", ""))
        .chain(arms.iter().map(|arm| (arm.as_str(), "ms")))
        .collect();
    let mut out = cells::table("study-means", "Mean time of each", &columns, "");
    for subject in results.subject_names() {
        let row = arms
            .iter()
            .map(|arm| cells::number(results.mean(arm, subject), 3, "no good answer"));
        out.rows.push(cells::row(subject, row));
    }
    let sentences = sentences(results).into_iter();
    let sentences =
        sentences.map(|(subject, sentence)| Block::Text(format!("{subject}: {sentence}")));
    iter::once(Block::Table(out)).chain(sentences).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::{FakeCell, results};

    #[test]
    fn detected_transport_effects_have_a_size_and_undetected_are_named() {
        let around = |base: u64, step: u64| move |round: u64| (base + round * step % 5) * 1_000_000;
        let (http, same, fast) = (around(20, 7919), around(20, 7817), around(10, 7817));
        let cells: [FakeCell<'_>; 3] = [
            ("http", 1, &http),
            ("http-new", 1, &same),
            ("websocket", 1, &fast),
        ];
        let out = tables(&results(60, &cells));
        assert!(
            out.starts_with("=== ACCOUNT OF 1 ===\n\nhttp: 22.000 ms\n"),
            "{out}"
        );
        assert!(
            out.contains("no difference between http-new and http is shown"),
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
        let mut results = results(60, &cells);
        results.samples[5].result = Err("timeout".to_owned());
        let out = tables(&results);
        assert!(
            out.contains("websocket: ") && out.contains(" ms, 1 FAILED\n"),
            "{out}"
        );
        assert!(
            out.contains("websocket is not compared with http: not every one was good"),
            "{out}"
        );
    }
}
