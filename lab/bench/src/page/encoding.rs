use crate::encoding::p_value;
use crate::results::{Latency, Results};
use faultline_pages::cells::{number, table, words};
use faultline_pages::model::{Block, Cell, Table};

pub(super) fn study(results: &Results) -> Vec<Block> {
    let Some((reference, others)) = results.header.arms.split_first() else {
        return Vec::new();
    };
    let mut blocks = Vec::new();
    for arm in others {
        for link in results.links() {
            for mean in [true, false] {
                let number = blocks.len() + 1;
                blocks.push(Block::Table(summary(
                    results,
                    (reference, arm),
                    (link, mean),
                    number,
                )));
            }
        }
    }
    blocks
}

fn summary(
    results: &Results,
    (reference, arm): (&str, &str),
    (link, mean): (Option<&str>, bool),
    nth: usize,
) -> Table {
    let kind = if mean { "mean" } else { "p95" };
    let over = link.map_or_else(String::new, |link| format!(" over {link}"));
    let mut columns = vec![
        ("size", "bytes"),
        (reference, "ms"),
        (arm, "ms"),
        ("difference", "ms"),
    ];
    columns.extend(mean.then_some(("p-value", "")));
    columns.push(("winner", ""));
    let note = match mean {
        true => {
            "As the study has it: the p-value is of Welch's test, which takes neighbouring requests for independent."
        }
        false => "As the study has it: without a test.",
    };
    let title = format!("Summary analysis ({kind}) of getAccountInfo{over}: {arm} and {reference}");
    let mut out = table(&format!("study-{nth}-{kind}"), &title, &columns, note);
    for (subject, size) in results.subjects_over(link) {
        let cells = results
            .cell(reference, subject)
            .zip(results.cell(arm, subject));
        let of = |latency: Latency| if mean { latency.mean } else { latency.p95 };
        let both = cells.map(|(a, b)| {
            (
                results.summary(a).latency.map(of),
                results.summary(b).latency.map(of),
            )
        });
        let (a, b) = both.unwrap_or_default();
        let winner = a.zip(b).map(|(a, b)| if b < a { arm } else { reference });
        let none = "no answers to compare";
        let mut row: Vec<Cell> = vec![number(size.map(|size| size as f64), 0, "not known")];
        row.extend([a, b, a.zip(b).map(|(a, b)| (b - a).abs())].map(|ms| number(ms, 3, none)));
        row.extend(
            mean.then(|| words(&cells.map_or_else(String::new, |cells| p_value(results, cells)))),
        );
        row.push(winner.map_or_else(|| Cell::Missing(none.to_owned()), words));
        out.rows.push(row);
    }
    out
}
