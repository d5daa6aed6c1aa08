use crate::{
    compare::{ArmCrossover, Comparison, compared, crossings},
    render::problems,
    results::{CellHead, Header, Results, Summary},
};
use faultline_common::output;
use serde::Serialize;

#[derive(Serialize)]
struct JsonReport<'a> {
    run: &'a Header,
    /// In ms.
    cells: Vec<CellNumbers<'a>>,
    /// Against the first arm, in ms.
    compared: Vec<Comparison>,
    crossovers: Vec<ArmCrossover<'a>>,
    problems: Vec<String>,
}

#[derive(Serialize)]
struct CellNumbers<'a> {
    #[serde(flatten)]
    head: &'a CellHead,
    #[serde(flatten)]
    summary: Summary,
}

/// Without single requests, on one line.
pub fn json(results: &Results) -> anyhow::Result<String> {
    let cells = results.summaries();
    let cells = cells.map(|(head, summary)| CellNumbers { head, summary });
    let report = JsonReport {
        run: &results.header,
        cells: cells.collect(),
        compared: compared(results),
        crossovers: crossings(results),
        problems: problems(results),
    };
    Ok(output::json(&report)?)
}

const LATENCY_COLUMNS: [&str; 9] = [
    "mean", "sd", "min", "max", "p50", "p90", "p95", "p99", "p99.9",
];

/// In ms and bytes; unknown values are empty.
pub fn csv(results: &Results) -> String {
    let mut out = "arm,subject,size,good,failed,refused,\
        mean ms,sd ms,min ms,max ms,p50 ms,p90 ms,p95 ms,p99 ms,p99.9 ms,\
        queued ms,connect ms,TLS ms,first byte ms,transfer ms,decode ms,\
        decode CPU ms,received bytes\n"
        .to_owned();
    for (head, summary) in results.summaries() {
        let value_or_empty =
            |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        let mut row = vec![csv_quoted(&head.arm), csv_quoted(&head.subject)];
        row.push(head.size.map(|size| size.to_string()).unwrap_or_default());
        row.extend(
            [
                summary.successes,
                summary.failures.values().sum(),
                summary.refused,
            ]
            .map(|n| n.to_string()),
        );
        row.extend(
            LATENCY_COLUMNS
                .map(|name| value_or_empty(summary.latency.and_then(|of| of.named(name)))),
        );
        row.extend(summary.phases().map(value_or_empty));
        row.extend([summary.decode_cpu, summary.received].map(value_or_empty));
        out += &(row.join(",") + "\n");
    }
    out
}

fn csv_quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::results;

    #[test]
    fn json_and_csv_have_the_numbers_of_every_cell() {
        let results = results(
            100,
            &[
                ("a,b", 904, &|round| 1_000_000 + round % 3),
                ("c", 904, &|round| 2_000_000 + round % 5),
            ],
        );
        let value: serde_json::Value = serde_json::from_str(&json(&results).unwrap()).unwrap();
        assert_eq!(
            (&value["cells"][1]["arm"], &value["cells"][1]["successes"]),
            (&"c".into(), &100.into())
        );
        let difference = value["compared"][0]["mean"]["value"].as_f64().unwrap();
        assert!((difference - 1.0).abs() < 1e-5, "{value}");
        let csv = csv(&results);
        let lines: Vec<&str> = csv.lines().collect();
        assert!(
            lines[1].starts_with("\"a,b\",account of 904,904,100,0,0,1.00000"),
            "{csv}"
        );
        assert_eq!(lines[0].split(',').count(), lines[2].split(',').count());
    }
}
