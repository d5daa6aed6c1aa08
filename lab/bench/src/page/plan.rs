use crate::compare::compared;
use crate::plan_file::joined;
use crate::report_tables as tables;
use crate::results::Results;
use faultline_pages::model::Block;

/// Empty with only one request.
pub(super) fn study(results: &Results) -> Vec<Block> {
    let Some(all) = joined(results) else {
        return Vec::new();
    };
    let mut blocks = vec![Block::Table(tables::percentiles(
        &all,
        ("study-latencies", "Latency of all requests"),
    ))];
    let compared = compared(&all);
    if !compared.is_empty() {
        let table = tables::differences(&all, &compared, "study-differences");
        blocks.push(Block::Table(table));
    }
    blocks
}
