use super::paragraphs;
use crate::results::Results;
use crate::transport::{mean, sentences};
use faultline_report::report::cells::{number, row, table};
use faultline_report::report::model::Block;

pub(super) fn study(results: &Results) -> Vec<Block> {
    let arms = &results.header.arms;
    let columns: Vec<(&str, &str)> = std::iter::once(("", ""))
        .chain(arms.iter().map(|arm| (arm.as_str(), "ms")))
        .collect();
    let mut out = table("study-means", "Mean time of each", &columns, "");
    for subject in results.subject_names() {
        let mean = |arm: &String| mean(results, arm, subject);
        let cells = { arms.iter() }.map(|arm| number(mean(arm), 3, "no good answer"));
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
