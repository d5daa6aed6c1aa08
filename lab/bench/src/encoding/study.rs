//! The study's two tables: means with a test that assumes independent requests, and 95th
//! percentiles.

use crate::results::{Latency, Results, over};
use faultline_pages::cells::{self, number, words};
use faultline_pages::model::{Block, Table};
use faultline_stats::arms::welch_p;
use std::fmt::Write as _;

/// Two arms over one link, by mean or 95th percentile.
struct Summary<'a> {
    arms: [&'a str; 2],
    link: Option<&'a str>,
    mean: bool,
    rows: Vec<Row<'a>>,
}

struct Row<'a> {
    subject: &'a str,
    size: Option<u64>,
    /// Of both arms, in ms.
    times: [Option<f64>; 2],
    /// Of the means.
    p: String,
    winner: Option<&'a str>,
}

fn summaries(results: &Results) -> Vec<Summary<'_>> {
    let Some((reference, others)) = results.header.arms.split_first() else {
        return Vec::new();
    };
    let mut summaries = Vec::new();
    for arm in others {
        for link in results.links() {
            for mean in [true, false] {
                summaries.push(summary(results, [reference, arm], link, mean));
            }
        }
    }
    summaries
}

fn summary<'a>(
    results: &'a Results,
    arms: [&'a str; 2],
    link: Option<&'a str>,
    mean: bool,
) -> Summary<'a> {
    let of = |latency: Latency| if mean { latency.mean } else { latency.p95 };
    let row = |(subject, size)| {
        let cells = arms.map(|arm| results.cell(arm, subject));
        let times = cells.map(|cell| results.summary(cell?).latency.map(of));
        let both = times[0].zip(times[1]);
        let p = cells[0].zip(cells[1]).filter(|_| mean);
        Row {
            subject,
            size,
            times,
            p: p.map_or_else(String::new, |(a, b)| p_value(results, a, b)),
            winner: both.map(|(a, b)| arms[usize::from(b < a)]),
        }
    };
    let subjects = results.subjects_over(link);
    Summary {
        arms,
        link,
        mean,
        rows: subjects.into_iter().map(row).collect(),
    }
}

pub(crate) fn tables(results: &Results) -> String {
    summaries(results).iter().map(table).collect()
}

fn table(summary: &Summary<'_>) -> String {
    let [a, b] = summary.arms.map(arm_label);
    let kind = if summary.mean { "MEAN" } else { "P95" };
    let over = match summary.link {
        Some(_) => over(summary.link) + " ",
        None => String::new(),
    };
    let mut out = format!("=== SUMMARY ANALYSIS ({kind}) - getAccountInfo{over}===\n\n");
    let heads = [&format!("{a} (ms)"), &format!("{b} (ms)")];
    out += &line(
        ["Size (B)", heads[0], heads[1], "Diff (ms)"],
        if summary.mean { "P-value" } else { "" },
        "Winner",
    );
    out += &"=".repeat(80);
    out.push('\n');
    for row in &summary.rows {
        let is_same = |other: &&Row<'_>| other.size == row.size;
        let same = summary.rows.iter().filter(is_same).count();
        // Accounts of one size need separate lines.
        let size = match row.size {
            None => "unknown".to_owned(),
            Some(size) if same > 1 => format!("{size} {:.8}", row.subject),
            Some(size) => size.to_string(),
        };
        let ([Some(first), Some(second)], Some(winner)) = (row.times, row.winner) else {
            let _ = writeln!(out, "{size:<11}no answers to compare");
            continue;
        };
        let numbers = [first, second, (second - first).abs()].map(format_ms);
        let cells = [&size, &numbers[0], &numbers[1], &numbers[2]];
        out += &line(cells.map(String::as_str), &row.p, &arm_label(winner));
    }
    out + "\n"
}

fn line([size, first, second, difference]: [&str; 4], p: &str, winner: &str) -> String {
    let p = if p.is_empty() {
        String::new()
    } else {
        format!("{p:<31}")
    };
    format!("{size:<11}{first:<13}{second:<13}{difference:<13}{p}{winner}\n")
}

/// Three decimals below 10 ms, else two.
fn format_ms(ms: f64) -> String {
    if ms.abs() < 10.0 {
        format!("{ms:.3}")
    } else {
        format!("{ms:.2}")
    }
}

fn arm_label(encoding: &str) -> String {
    match encoding {
        "base64" => "Base64".to_owned(),
        "base64+zstd" => "Zstd".to_owned(),
        other => other.to_owned(),
    }
}

/// Welch's test over all requests.
fn p_value(results: &Results, a: usize, b: usize) -> String {
    let of = |cell| -> Vec<f64> { results.by_round(cell).into_iter().flatten().collect() };
    match welch_p(&of(a), &of(b)) {
        None => "no test".to_owned(),
        Some(p) if p < 0.01 => "HIGHLY SIGNIFICANT (p < 0.01)".to_owned(),
        Some(p) if p < 0.05 => "SIGNIFICANT (p < 0.05)".to_owned(),
        Some(p) => format!("NOT SIGNIFICANT (p = {p:.2})"),
    }
}

pub(crate) fn page(results: &Results) -> Vec<Block> {
    let numbered = summaries(results).into_iter().zip(1..);
    numbered
        .map(|(of, nth)| Block::Table(summary_table(&of, nth)))
        .collect()
}

fn summary_table(of: &Summary<'_>, nth: usize) -> Table {
    let [reference, arm] = of.arms;
    let (kind, note) = if of.mean {
        (
            "mean",
            "As the study has it: the p-value is of Welch's test, which takes neighbouring requests for independent.",
        )
    } else {
        ("p95", "As the study has it: without a test.")
    };
    let mut columns = vec![
        ("size", "bytes"),
        (reference, "ms"),
        (arm, "ms"),
        ("difference", "ms"),
    ];
    columns.extend(of.mean.then_some(("p-value", "")));
    columns.push(("winner", ""));
    let over = over(of.link);
    let title = format!("Summary analysis ({kind}) of getAccountInfo{over}: {arm} and {reference}");
    let mut out = cells::table(&format!("study-{nth}-{kind}"), &title, &columns, note);
    let none = "no answers to compare";
    for row in &of.rows {
        let [a, b] = row.times;
        let difference = a.zip(b).map(|(a, b)| (b - a).abs());
        let mut row_cells = vec![number(row.size.map(|size| size as f64), 0, "not known")];
        row_cells.extend([a, b, difference].map(|ms| number(ms, 3, none)));
        row_cells.extend(of.mean.then(|| words(&row.p)));
        row_cells.push(cells::text(row.winner, none));
        out.rows.push(row_cells);
    }
    out
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
