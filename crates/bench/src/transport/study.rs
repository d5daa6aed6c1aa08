//! What the study of transports reported: how long each took for a single write and read and for many in a row, and by how much one
//! was faster; then whether that is shown.

use crate::compare::{Compared, one};
use crate::results::Results;
use faultline_stats::holm;
use faultline_text::number;
use std::fmt::Write as _;

/// What is shown has an adjusted p-value below this.
const ALPHA: f64 = 0.05;

/// All of it.
pub(crate) fn tables(results: &Results) -> String {
    let sentences = sentences(results);
    let mut out = String::new();
    for (subject, _) in results.subjects() {
        let _ = writeln!(out, "=== {} ===\n", subject.to_uppercase());
        for arm in &results.header.arms {
            let mean = mean(results, arm, subject).map_or("no good answer".to_owned(), |mean| {
                format!("{} ms", number(mean, 3))
            });
            let failed = failed(results, arm, subject);
            let failed = if failed > 0 {
                format!(", {failed} FAILED")
            } else {
                String::new()
            };
            let _ = writeln!(out, "{arm}: {mean}{failed}");
        }
        for (_, said) in sentences.iter().filter(|(of, _)| *of == subject) {
            let _ = writeln!(out, "{said}");
        }
        out.push('\n');
    }
    out
}

fn mean(results: &Results, arm: &str, subject: &str) -> Option<f64> {
    Some(results.summary(results.cell(arm, subject)?).latency?.mean)
}

/// What is shown of each subject, arm by arm, with the p-values adjusted together.
pub(crate) fn sentences<'a>(results: &'a Results) -> Vec<(&'a str, String)> {
    let Some((reference, others)) = results.header.arms.split_first() else {
        return Vec::new();
    };
    let subjects: Vec<&'a str> = results
        .subjects()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let pairs = subjects
        .iter()
        .flat_map(|subject| others.iter().map(move |arm| (*subject, arm)));
    let family = subjects.len() * others.len();
    let compared: Vec<(&'a str, &String, Option<Compared>)> = pairs
        .map(|(subject, arm)| {
            (
                subject,
                arm,
                one(results, (reference, arm), (subject, None), family),
            )
        })
        .collect();
    let p: Vec<Option<f64>> = compared
        .iter()
        .map(|(.., compared)| compared.as_ref()?.p)
        .collect();
    let adjusted = holm::adjust(&p);
    let sentence =
        |((subject, arm, compared), p): (&(&str, &String, Option<Compared>), Option<f64>)| {
            if [reference, *arm]
                .iter()
                .any(|arm| failed(results, arm, subject) > 0)
            {
                mean(results, arm, subject)?;
                return Some(format!(
                    "{arm} is not compared with {reference}: not every one was good"
                ));
            }
            let shown = p.is_some_and(|p| p < ALPHA);
            Some(self::sentence(
                (reference, arm),
                mean(results, reference, subject)?,
                compared.as_ref()?,
                shown,
            ))
        };
    let said = |(of, p): (&(&'a str, &String, Option<Compared>), Option<f64>)| {
        Some((of.0, sentence((of, p))?))
    };
    compared.iter().zip(adjusted).filter_map(said).collect()
}

/// How many of them failed.
fn failed(results: &Results, arm: &str, subject: &str) -> u64 {
    results
        .cell(arm, subject)
        .map_or(0, |cell| results.summary(cell).failures.values().sum())
}

fn sentence((reference, arm): (&str, &str), mean: f64, compared: &Compared, shown: bool) -> String {
    let Compared {
        mean: difference, ..
    } = compared;
    let word = if difference.value < 0.0 {
        "faster"
    } else {
        "slower"
    };
    let percent = |ms: f64| number(ms / mean * 100.0, 1);
    let ms = |ms: f64| number(ms, 3);
    if !shown {
        return format!(
            "no difference between {arm} and {reference} is shown: {} ms, 95 % interval {} to {} ms",
            ms(difference.value),
            ms(difference.low),
            ms(difference.high)
        );
    }
    let [a, b] = [difference.low.abs(), difference.high.abs()];
    let (least, most) = (a.min(b), a.max(b));
    format!(
        "{arm} is {word} than {reference} by {} ms ({} %), 95 % interval {} to {} ms ({} to {} %)",
        ms(difference.value.abs()),
        percent(difference.value.abs()),
        ms(least),
        ms(most),
        percent(least),
        percent(most)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::{Pretended, results};

    #[test]
    fn what_is_shown_has_its_size_and_what_is_not_is_named() {
        let around = |base: u64, step: u64| move |round: u64| (base + round * step % 5) * 1_000_000;
        let (http, same, fast) = (around(20, 7919), around(20, 7817), around(10, 7817));
        let cells: [Pretended<'_>; 3] = [
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
        let mut results = results(60, &cells);
        (results.samples[5].phases, results.samples[5].failure) =
            (None, Some("timeout".to_owned()));
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
