use crate::encoding::{Summary, summaries};
use crate::results::{Results, over};
use faultline_report::report::cells::{number, table, text, words};
use faultline_report::report::model::{Block, Table};

pub(super) fn study(results: &Results) -> Vec<Block> {
    let numbered = summaries(results).into_iter().zip(1..);
    numbered
        .map(|(of, nth)| Block::Table(summary(&of, nth)))
        .collect()
}

fn summary(of: &Summary<'_>, nth: usize) -> Table {
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
