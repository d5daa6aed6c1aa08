//! The tables of each study.

use super::{disk, paragraphs};
use crate::encoding::{Summary, summaries};
use crate::nodes::{loads, recommendations};
use crate::results::{Results, over};
use crate::transport::{mean, sentences};
use faultline_pages::cells::{known, number, row, table, text, words};
use faultline_pages::model::{Block, Table};

pub(super) fn encoding(results: &Results) -> Vec<Block> {
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
    let mut out = table(&format!("study-{nth}-{kind}"), &title, &columns, note);
    let none = "no answers to compare";
    for row in &of.rows {
        let [a, b] = row.times;
        let difference = a.zip(b).map(|(a, b)| (b - a).abs());
        let mut cells = vec![number(row.size.map(|size| size as f64), 0, "not known")];
        cells.extend([a, b, difference].map(|ms| number(ms, 3, none)));
        cells.extend(of.mean.then(|| words(&row.p)));
        cells.push(text(row.winner, none));
        out.rows.push(cells);
    }
    out
}

pub(super) fn nodes(results: &Results) -> Vec<Block> {
    let columns = [
        ("load", ""),
        ("node", ""),
        ("requests", ""),
        ("total", "s"),
        ("average", "s"),
    ];
    let note = "Over the rounds in which every node answered all requests of the load well.";
    let mut out = table("study-totals", "Total and average time", &columns, note);
    let mut sentences = String::new();
    for load in loads(results) {
        for (node, requests, total) in &load.nodes {
            let mean = (*requests > 0).then(|| total / *requests as f64);
            out.rows.push(vec![
                words(&load.title),
                words(node),
                known(*requests as f64, 0),
                number(
                    Some(*total).filter(|_| *requests > 0),
                    3,
                    "no round was good",
                ),
                number(mean, 6, "no round was good"),
            ]);
        }
        sentences += &load
            .lines
            .iter()
            .map(|line| format!("{}: {line}\n", load.title))
            .collect::<String>();
    }
    let mut blocks = disk::blocks(&results.header.disks);
    blocks.push(Block::Table(out));
    blocks.extend(paragraphs(&sentences));
    blocks.extend(paragraphs(&recommendations(results)));
    blocks
}

pub(super) fn transport(results: &Results) -> Vec<Block> {
    let arms = &results.header.arms;
    let columns: Vec<(&str, &str)> = std::iter::once(("", ""))
        .chain(arms.iter().map(|arm| (arm.as_str(), "ms")))
        .collect();
    let mut out = table("study-means", "Mean time of each", &columns, "");
    for subject in results.subject_names() {
        let mean = |arm: &String| mean(results, arm, subject);
        let cells = arms
            .iter()
            .map(|arm| number(mean(arm), 3, "no good answer"));
        out.rows.push(row(subject, cells));
    }
    let lines: String = sentences(results)
        .iter()
        .map(|(subject, lines)| format!("{subject}: {lines}\n"))
        .collect();
    let mut blocks = vec![Block::Table(out)];
    blocks.extend(paragraphs(&lines));
    blocks
}
