//! `bench encoding`: encodings of account data. The first is the reference.

use crate::{
    answer::Expected,
    args::{EncodingArgs, first_duplicate},
    endpoint::Endpoint,
    failure::Failure,
    plan::{Case, ConnectionConfig, Plan},
    protocol::{Named, Protocol},
    results::{Results, link_shape_suffix},
    session,
    stream::LinkShape,
};
use anyhow::{Result, bail, ensure};
use faultline_common::args::UsageError;
use faultline_pages::{
    cells::{self, number_or, text_cell},
    model::{Block, Table},
};
use faultline_stats::arms::welch_p;
use itertools::{Itertools, iproduct};
use serde_json::json;

/// Accounts of mainnet-beta, of 904, 3,232, 5,400, 7,448 and 10,136 bytes, from the study that
/// `bench encoding` repeats (`docs/BENCH-STUDIES.md`).
const STUDY_ACCOUNTS: [&str; 5] = [
    "Po57HwPXoG22SajaQCBn7Zg8hPp15pUTMcTwcr4GhDu",
    "2uLdBfEax2Gzk3KRGTiWoYQPmXWgSG6g1UDax1T9J6MM",
    "4yRzzxU6brZsY9CTZ2Jp9QWhnRftYP6RyZ8FGugVEXN8",
    "CXh2s3cJVwJxZBa7q2ur3paKsWrrznZfApmvjQCPQJpc",
    "Hij4zmmrdmQ49bfgy63C8VF12EYysjF6WGFeZJpfipCk",
];

pub fn run(args: &EncodingArgs) -> Result<(String, u8)> {
    let plan = make_plan(args)?;
    session::run_subcommand(
        "encoding",
        &plan,
        &args.output,
        args.node.ca.as_deref(),
        |session| {
            let sizes = account_sizes(&plan, &session.engine.probe(&plan)?)?;
            session.measure(&plan, &sizes, Vec::new())
        },
    )
}

fn make_plan(args: &EncodingArgs) -> Result<Plan> {
    if let Some(encoding) = first_duplicate(&args.encodings) {
        let name = encoding.name();
        bail!(UsageError(format!("--encodings names {name} twice")));
    }
    ensure!(
        first_duplicate(&args.links).is_none(),
        UsageError("--links names a link twice".to_owned())
    );
    let accounts = requested_accounts(args)?;
    let endpoint = Endpoint::parse(&args.node.url).map_err(UsageError)?;
    let mut plan = session::plan_for_load(&args.load);
    for encoding in &args.encodings {
        plan.arms.push(encoding.name().to_owned());
    }
    // Without `--links` there is one link that adds no delay.
    let shapes = match args.links.as_slice() {
        [] => &[LinkShape::default()],
        shapes => shapes,
    };
    for (connection_index, shape) in shapes.iter().enumerate() {
        let label_suffix = if args.links.is_empty() {
            String::new()
        } else {
            format!(" over {shape}")
        };
        for account in &accounts {
            for (arm_index, encoding) in args.encodings.iter().enumerate() {
                plan.cases.push(Case {
                    arm_index,
                    request_index: plan.request_labels.len(),
                    connection_index,
                    call: call_json(account, encoding.name(), args.data_slice),
                    random_range: None,
                    expected: Expected::Account(*encoding),
                });
            }
            plan.request_labels.push(format!("{account}{label_suffix}"));
        }
        plan.connections.push(ConnectionConfig {
            link_shape: *shape,
            ..ConnectionConfig::new(endpoint.clone(), Protocol::Http)
        });
    }
    Ok(plan)
}

fn requested_accounts(args: &EncodingArgs) -> Result<Vec<String>, UsageError> {
    if args.accounts.is_empty() {
        return Ok(STUDY_ACCOUNTS.map(str::to_owned).into());
    }
    let invalid = |account, problem| Err(UsageError(format!("--accounts: {account:?} {problem}")));
    for account in &args.accounts {
        let bytes = bs58::decode(account).into_vec();
        if !bytes.is_ok_and(|bytes| bytes.len() == 32) {
            return invalid(account, "is not the address of an account");
        }
    }
    match first_duplicate(&args.accounts) {
        Some(account) => invalid(account, "is named twice"),
        None => Ok(args.accounts.clone()),
    }
}

fn call_json(account: &str, encoding: &str, data_slice: Option<(u64, u64)>) -> String {
    let mut options = json!({ "encoding": encoding });
    if let Some((offset, length)) = data_slice {
        options["dataSlice"] = json!({ "offset": offset, "length": length });
    }
    format!(
        r#""method":"getAccountInfo","params":{}"#,
        json!([account, options])
    )
}

/// The size of each account's data, from the first encoding whose answer has bytes.
fn account_sizes(plan: &Plan, answers: &[Result<Vec<u8>, Failure>]) -> Result<Vec<Option<u64>>> {
    let node = plan.connections[0].endpoint.redacted_url();
    if let Some(Err(failure)) = answers.first()
        && answers.iter().all(Result::is_err)
        && *failure != Failure::Missing
    {
        bail!("{node} gives no account: {failure}");
    }
    let mut sizes = vec![None; plan.request_labels.len()];
    for (case, answer) in plan.cases.iter().zip(answers) {
        match answer {
            Err(Failure::Missing) => bail!(
                "{node} has no account {}: name other accounts with --accounts",
                plan.request_label(case)
            ),
            Ok(bytes) if !bytes.is_empty() => {
                sizes[case.request_index].get_or_insert(bytes.len() as u64);
            }
            _ => {}
        }
    }
    Ok(sizes)
}

/// Two arms over one link, by mean or 95th percentile.
struct PairTable<'a> {
    arms: [&'a str; 2],
    link: Option<&'a str>,
    is_mean: bool,
    rows: Vec<Row<'a>>,
}

struct Row<'a> {
    /// An account, and the link if `--links` is given.
    request_label: &'a str,
    size: Option<u64>,
    /// Mean or percentile of both arms, in ms.
    times: [Option<f64>; 2],
    /// Empty for percentiles.
    significance: String,
    winner: Option<&'a str>,
}

fn pair_tables(results: &Results) -> Vec<PairTable<'_>> {
    let Some((reference, others)) = results.header.arms.split_first() else {
        return Vec::new();
    };
    iproduct!(others, results.link_shapes(), [true, false])
        .map(|(arm, link, is_mean)| pair_table(results, [reference, arm], link, is_mean))
        .collect()
}

fn pair_table<'a>(
    results: &'a Results,
    arms: [&'a str; 2],
    link: Option<&'a str>,
    is_mean: bool,
) -> PairTable<'a> {
    let mut rows = Vec::new();
    for (request_label, size) in results.requests_over(link) {
        let cases = arms.map(|arm| results.case_index(arm, request_label));
        let times = cases.map(|case| {
            let latency = results.summary(case?).latency?;
            Some(if is_mean { latency.mean } else { latency.p95 })
        });
        rows.push(Row {
            request_label,
            size,
            times,
            significance: match cases {
                [Some(a), Some(b)] if is_mean => significance(results, a, b),
                _ => String::new(),
            },
            winner: times[0]
                .zip(times[1])
                .map(|(a, b)| arms[usize::from(b < a)]),
        });
    }
    PairTable {
        arms,
        link,
        is_mean,
        rows,
    }
}

/// The two tables of the study for each link and each arm but the reference: means with a test that
/// assumes independent requests, and 95th percentiles.
pub fn study_text(results: &Results) -> String {
    pair_tables(results).iter().map(text_table).collect()
}

fn text_table(table: &PairTable<'_>) -> String {
    let (kind, p_value) = if table.is_mean {
        ("MEAN", "P-value")
    } else {
        ("P95", "")
    };
    let over = table
        .link
        .map_or_else(String::new, |shape| format!(" over {shape} "));
    let [a, b] = table.arms.map(|arm| format!("{} (ms)", arm_label(arm)));
    let mut out = format!("=== SUMMARY ANALYSIS ({kind}) - getAccountInfo{over}===\n\n");
    out += &line("Size (B)", [&a, &b, "Diff (ms)"], p_value, "Winner");
    out += &("=".repeat(80) + "\n");
    for row in &table.rows {
        let same_size_count = table
            .rows
            .iter()
            .filter(|other| other.size == row.size)
            .count();
        // The start of the address distinguishes accounts of the same size.
        let size = match row.size {
            None => "unknown".to_owned(),
            Some(size) if same_size_count > 1 => format!("{size} {:.8}", row.request_label),
            Some(size) => size.to_string(),
        };
        let ([Some(a), Some(b)], Some(winner)) = (row.times, row.winner) else {
            out += &format!("{size:<11}no answers to compare\n");
            continue;
        };
        let times = [a, b, (b - a).abs()].map(|ms| {
            let decimals = if ms.abs() < 10.0 { 3 } else { 2 };
            format!("{ms:.decimals$}")
        });
        let times = times.each_ref().map(String::as_str);
        out += &line(&size, times, &row.significance, arm_label(winner));
    }
    out + "\n"
}

fn line(size: &str, [a, b, difference]: [&str; 3], p_value: &str, winner: &str) -> String {
    let p_width = if p_value.is_empty() { 0 } else { 31 };
    format!("{size:<11}{a:<13}{b:<13}{difference:<13}{p_value:<p_width$}{winner}\n")
}

fn arm_label(encoding: &str) -> &str {
    match encoding {
        "base64" => "Base64",
        "base64+zstd" => "Zstd",
        other => other,
    }
}

fn significance(results: &Results, a: usize, b: usize) -> String {
    let latencies = |case| {
        results
            .latencies_by_round(case)
            .into_iter()
            .flatten()
            .collect_vec()
    };
    match welch_p(&latencies(a), &latencies(b)) {
        None => "no test".to_owned(),
        Some(p) if p < 0.01 => "HIGHLY SIGNIFICANT (p < 0.01)".to_owned(),
        Some(p) if p < 0.05 => "SIGNIFICANT (p < 0.05)".to_owned(),
        Some(p) => format!("NOT SIGNIFICANT (p = {p:.2})"),
    }
}

pub fn page(results: &Results) -> Vec<Block> {
    pair_tables(results)
        .iter()
        .zip(1..)
        .map(|(table, number)| Block::Table(html_table(table, number)))
        .collect()
}

fn html_table(table: &PairTable<'_>, table_number: usize) -> Table {
    let [reference, arm] = table.arms;
    let (kind, note) = if table.is_mean {
        (
            "mean",
            "In the form of the study that `bench encoding` repeats. The p-value is from Welch's test, which assumes independent requests.",
        )
    } else {
        (
            "p95",
            "In the form of the study that `bench encoding` repeats, without a test.",
        )
    };
    let mut columns = vec![
        ("size", "bytes"),
        (reference, "ms"),
        (arm, "ms"),
        ("difference", "ms"),
    ];
    if table.is_mean {
        columns.push(("p-value", ""));
    }
    columns.push(("winner", ""));
    let over = link_shape_suffix(table.link);
    let id = format!("study-{table_number}-{kind}");
    let title = format!("Summary analysis ({kind}) of getAccountInfo{over}: {arm} and {reference}");
    let mut out = cells::table(&id, &title, &columns, note);
    let missing = "no answers to compare";
    for row in &table.rows {
        let [a, b] = row.times;
        let difference = a.zip(b).map(|(a, b)| (b - a).abs());
        let mut row_cells = vec![number_or(row.size.map(|size| size as f64), 0, "not known")];
        row_cells.extend([a, b, difference].map(|ms| number_or(ms, 3, missing)));
        if table.is_mean {
            row_cells.push(text_cell(&row.significance));
        }
        row_cells.push(cells::text_or(row.winner, missing));
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
        let out = study_text(&results(
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
