//! The study's two tables: means with a test that assumes independent requests, and 95th
//! percentiles.

use crate::results::{Latency, Results};
use faultline_stats::arms::welch_test;
use std::fmt::Write as _;

pub(crate) fn tables(results: &Results) -> String {
    let mut out = String::new();
    let Some((reference, others)) = results.header.arms.split_first() else {
        return out;
    };
    for arm in others {
        for link in results.links() {
            out += &table(results, (reference, arm), link, true);
            out += &table(results, (reference, arm), link, false);
        }
    }
    out
}

fn table(
    results: &Results,
    (reference, arm): (&str, &str),
    link: Option<&str>,
    mean: bool,
) -> String {
    let (a, b) = (short(reference), short(arm));
    let kind = if mean { "MEAN" } else { "P95" };
    let over = link.map_or_else(String::new, |link| format!(" over {link} "));
    let mut out = format!("=== SUMMARY ANALYSIS ({kind}) - getAccountInfo{over}===\n\n");
    let heads = [format!("{a} (ms)"), format!("{b} (ms)")];
    out += &line(
        ["Size (B)", &heads[0], &heads[1], "Diff (ms)"],
        mean.then_some("P-value"),
        "Winner",
    );
    out += &"=".repeat(80);
    out.push('\n');
    let subjects = results.subjects_over(link);
    for (subject, size) in subjects.iter().copied() {
        let same = subjects.iter().filter(|(_, other)| *other == size).count();
        // Accounts of one size need separate lines.
        let size = match size {
            None => "unknown".to_owned(),
            Some(size) if same > 1 => format!("{size} {subject:.8}"),
            Some(size) => size.to_string(),
        };
        let cells = results
            .cell(reference, subject)
            .zip(results.cell(arm, subject));
        let summaries =
            cells.map(|(a, b)| (results.summary(a).latency, results.summary(b).latency));
        let Some((Some(first), Some(second))) = summaries else {
            let _ = writeln!(out, "{size:<11}no answers to compare");
            continue;
        };
        let of = |latency: Latency| if mean { latency.mean } else { latency.p95 };
        let (first, second) = (of(first), of(second));
        let numbers = [first, second, (second - first).abs()].map(shown);
        let winner = if second < first { &b } else { &a };
        let p = mean.then(|| cells.map_or_else(String::new, |cells| p_value(results, cells)));
        out += &line(
            [&size, &numbers[0], &numbers[1], &numbers[2]],
            p.as_deref(),
            winner,
        );
    }
    out + "\n"
}

fn line(cells: [&str; 4], p: Option<&str>, winner: &str) -> String {
    let [size, first, second, difference] = cells;
    let p = p.map_or_else(String::new, |p| format!("{p:<31}"));
    format!("{size:<11}{first:<13}{second:<13}{difference:<13}{p}{winner}\n")
}

/// Below 10 ms, microseconds matter.
fn shown(ms: f64) -> String {
    if ms.abs() < 10.0 {
        format!("{ms:.3}")
    } else {
        format!("{ms:.2}")
    }
}

fn short(encoding: &str) -> String {
    match encoding {
        "base64" => "Base64".to_owned(),
        "base64+zstd" => "Zstd".to_owned(),
        other => other.to_owned(),
    }
}

/// Welch's test over all requests.
pub(crate) fn p_value(results: &Results, (a, b): (usize, usize)) -> String {
    let of = |cell| -> Vec<f64> { results.by_round(cell).into_iter().flatten().collect() };
    match welch_test(&of(a), &of(b)).map(|test| test.p) {
        None => "no test".to_owned(),
        Some(p) if p < 0.01 => "HIGHLY SIGNIFICANT (p < 0.01)".to_owned(),
        Some(p) if p < 0.05 => "SIGNIFICANT (p < 0.05)".to_owned(),
        Some(p) => format!("NOT SIGNIFICANT (p = {p:.2})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::results;

    #[test]
    fn the_tables_have_the_studys_form() {
        let ms = |base: u64| move |round: u64| (base + round % 7) * 1_000_000;
        let slow = ms(25);
        let fast = ms(20);
        let out = tables(&results(
            50,
            &[("base64", 904, &fast), ("base64+zstd", 904, &slow)],
        ));
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines[0], "=== SUMMARY ANALYSIS (MEAN) - getAccountInfo===");
        let head = "Size (B)   Base64 (ms)  Zstd (ms)    Diff (ms)    P-value                        Winner";
        assert_eq!(lines[2], head);
        let row = "904        22.94        27.94        5.000        HIGHLY SIGNIFICANT (p < 0.01)  Base64";
        assert_eq!(lines[4], row);
        assert_eq!(lines[6], "=== SUMMARY ANALYSIS (P95) - getAccountInfo===");
        assert_eq!(
            lines[8],
            "Size (B)   Base64 (ms)  Zstd (ms)    Diff (ms)    Winner"
        );
        assert!(
            lines[10].starts_with("904        26.0") && lines[10].ends_with("  Base64"),
            "{}",
            lines[10]
        );
    }
}
