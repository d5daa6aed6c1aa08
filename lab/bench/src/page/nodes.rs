use super::paragraphs;
use crate::nodes::{loads, routed};
use crate::results::Results;
use faultline_pages::cells::{known, number, table, words};
use faultline_pages::model::Block;

pub(super) fn study(results: &Results) -> Vec<Block> {
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
    let mut blocks = super::disk::blocks(&results.header.disks);
    blocks.push(Block::Table(out));
    blocks.extend(paragraphs(&sentences));
    blocks.extend(paragraphs(&routed(results)));
    blocks
}
