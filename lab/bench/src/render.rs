//! The tables of a run, and the run as text, JSON and CSV.

use crate::{
    compare::{
        self, ArmCrossover, Comparison, caveat_text, comparison_count, comparisons, interval_label,
    },
    results::{CaseInfo, Header, PHASES, Results, Summary, format_counts, link_shape_suffix, ms},
};
use faultline_common::output;
use faultline_pages::{
    cells::{estimate_or, number_cell, number_or, table, text_cell},
    model::{Block, Cell, Table},
    render::{csv::text_field, plain_table},
};
use faultline_stats::{
    block_bootstrap::Estimate,
    caveat::reliability_text,
    crossover::{Crossover, MIN_CROSSOVER_BLOCKS},
    decision::Decision,
};
use faultline_text::{count, counted, duration, lines, number, utc};
use itertools::{Itertools, chain};
use serde::Serialize;
use std::{iter, time::Duration};

pub fn problems(results: &Results) -> Vec<String> {
    let mut problems = Vec::new();
    for (arm, answers) in results
        .header
        .answers_by_arm()
        .filter(|(_, answers)| answers.different > 0)
    {
        let different = count(answers.different);
        let first = answers.first_differences.first();
        let first = first.map_or_else(String::new, |first| format!("; the first: {first}"));
        let what = if arm == results.reference_arm() {
            "slots were skipped that another arm has"
        } else {
            "answers differ from those of the reference for the same slot"
        };
        problems.push(format!("{arm} FAILED: {different} {what}{first}"));
    }
    for (index, (case, summary)) in results.summaries().enumerate() {
        if summary.successes == 0 && !summary.failures.is_empty() {
            let failures = failure_counts(&summary);
            let message = results.header.messages.get(&index);
            let message =
                message.map_or_else(String::new, |text| format!("; the node says {text:?}"));
            problems.push(format!(
                "{} FAILED: no good answer about {} ({failures}{message})",
                case.arm, case.request_label
            ));
        }
    }
    problems.extend(too_many_failures(results));
    if let Some(signal) = &results.header.stopped_by {
        problems.push(format!(
            "ended early by {signal}: these are the results until then"
        ));
    }
    problems
}

fn too_many_failures(results: &Results) -> Option<String> {
    let max = results.header.max_failure_percent?;
    let too_many = |arm: &String| {
        let (requests, failures) = results.failures(arm);
        let failed: u64 = failures.values().sum();
        let percent = failed as f64 / requests.max(1) as f64 * 100.0;
        (percent > max).then(|| {
            format!(
                "{arm} {} of {} ({})",
                count(failed),
                count(requests),
                format_counts(&failures).join(", ")
            )
        })
    };
    let arms = results.header.arms.iter().filter_map(too_many).join("; ");
    (!arms.is_empty())
        .then(|| format!("FAILED: more requests failed than --max-failures {max} % allows: {arms}"))
}

pub fn text(results: &Results) -> String {
    let mut out = run_summary(results);
    out += "\nLatency from the scheduled sending to the decoded answer, in ms\n";
    out += &plain_table(&latency_table(results, "latencies", "Latency"));
    out += "\nWhere the time is spent: means in ms; bytes with headers\n";
    out += &plain_table(&phase_table(results));
    let compared = comparisons(results);
    if !compared.is_empty() {
        let reference = results.reference_arm();
        out += &format!(
            "\nAgainst {reference}: differences in ms, negative where {reference} is slower. Means have the {}, medians and \
             p95 have 95 % intervals\n",
            interval_label(comparison_count(results))
        );
        out += &plain_table(&difference_table(results, &compared, "differences"));
        out += &crossover_sentences(results);
    }
    out += &answer_comparison_text(results);
    out + &lines(&problems(results))
}

pub fn subtitle(results: &Results) -> String {
    let header = &results.header;
    let load = match header.rate {
        None => format!("closed loop, {} at a time", header.workers),
        Some(rate) => format!(
            "open loop, {} a second, up to {} at a time",
            number(rate, 1),
            header.workers
        ),
    };
    format!(
        "{} on {}: {} in {}, {load}",
        header.nodes.join(" and "),
        utc(header.started_unix_ns),
        counted(results.samples.len() as f64, "request"),
        duration(Duration::from_nanos(header.length_ns)),
    )
}

fn run_summary(results: &Results) -> String {
    let header = &results.header;
    let mut out = format!(
        "{}, in random order with seed {}, after {} of warm-up\n{}",
        subtitle(results),
        header.seed,
        counted(header.warm_up as f64, "round"),
        lines(&header.notes)
    );
    if !header.refusals.is_empty() {
        out += &format!(
            "Refused: {}; refusals and the waits after them are in no latency\n",
            format_counts(&header.refusals).join(", ")
        );
    }
    if let Some(own) = header.tool_cpu_per_request_ns {
        out += &format!(
            "This tool's own CPU time per request: {} ms\n",
            number(ms(own), 3)
        );
    }
    if let Some(cost) = header.loopback_cost {
        let (cpu, median) = (number(ms(cost.cpu_ns), 3), number(ms(cost.median_ns), 3));
        out += &format!(
            "CPU time per request before the run, against this tool's own server on loopback: {cpu} ms; median latency: {median} ms\n"
        );
    }
    out
}

/// Why a difference is not established although its interval excludes 0.
pub fn unreliable_suffix(decisions: impl IntoIterator<Item = Decision>) -> String {
    let why = |decision| match decision {
        Decision::Unreliable(why) => Some(format!(", since {}", reliability_text(why))),
        _ => None,
    };
    decisions.into_iter().find_map(why).unwrap_or_default()
}

pub fn crossover_sentences(results: &Results) -> String {
    let reference = results.reference_arm();
    let mut out = String::new();
    for ArmCrossover {
        arm,
        link_shape: link,
        crossover,
    } in compare::arm_crossovers(results)
    {
        let sentence = crossover_sentence(reference, arm, &crossover);
        out += &format!("Crossover{}: {sentence}\n", link_shape_suffix(link));
    }
    out
}

fn crossover_sentence(reference: &str, arm: &str, crossover: &Crossover) -> String {
    let [once, never, always] =
        [crossover.once, crossover.never, crossover.always].map(|share| number(share * 100.0, 1));
    let shares = format!(
        "random halves of the rounds: one crossover in {once} %, {reference} faster at every size in {never} %, {arm} faster at every size in \
         {always} %"
    );
    let bytes =
        |size: Option<f64>, beyond: &str| size.map_or(beyond.to_owned(), |size| number(size, 0));
    let conclusion = match crossover.at {
        None => {
            format!("{arm} does not become faster than {reference} at exactly one size")
        }
        Some(at) if !crossover.is_established() => {
            let why = if crossover.blocks < MIN_CROSSOVER_BLOCKS {
                ": too few independent rounds".to_owned()
            } else {
                unreliable_suffix([crossover.smallest, crossover.largest])
            };
            format!(
                "{arm} may be faster from {} bytes on, which is not established{why}",
                number(at, 0)
            )
        }
        Some(at) => format!(
            "from {} bytes on {arm} is faster than {reference}, 95 % interval {} to {} bytes",
            number(at, 0),
            bytes(crossover.low, "less than the smallest"),
            bytes(crossover.high, "more than the largest")
        ),
    };
    format!("{conclusion} ({shares})")
}

pub fn answer_comparison_text(results: &Results) -> String {
    let mut out = String::new();
    if results.header.subcommand == "transport" {
        // `bench transport` compares answers with writes, not with answers of other arms.
        return out;
    }
    for (arm, answers) in results.header.answers_by_arm().skip(1) {
        let equal = count(answers.equal);
        let result = match (answers.equal, answers.different) {
            (0, 0) => "none was compared with the reference's: they are not meant to be, or no round had two for the same slot".to_owned(),
            (_, 0) => format!("equal to the reference's in all {equal} comparisons"),
            (_, different) => format!(
                "equal in {equal} comparisons, different in {}",
                count(different)
            ),
        };
        out += &format!("Answers of {arm}: {result}\n");
    }
    // The reference is included: a slot that only it skipped is recorded as its difference.
    for (arm, answers) in results.header.answers_by_arm() {
        for difference in &answers.first_differences {
            out += &format!("  {arm}, {difference}\n");
        }
    }
    out
}

const NO_GOOD_ANSWER: &str = "no good answer";
const TOO_FEW_ROUNDS: &str = "too few rounds";

fn failure_counts(summary: &Summary) -> String {
    let mut counts = format_counts(&summary.failures);
    if summary.retries > 0 {
        counts.push(format!("{} refused and repeated", count(summary.retries)));
    }
    if counts.is_empty() {
        return "0".to_owned();
    }
    counts.join(", ")
}

fn arm_and_request(results: &Results, case: &CaseInfo) -> Vec<Cell> {
    vec![
        text_cell(&case.arm),
        text_cell(&results.short_label(&case.request_label, case.answer_bytes)),
    ]
}

const TABLE_LATENCIES: [&str; 9] = [
    "mean", "median", "sd", "min", "max", "p90", "p95", "p99", "p99.9",
];

pub fn latency_table(results: &Results, id: &str, title: &str) -> Table {
    let note = "From the scheduled sending to the decoded answer. Percentiles are those of an HDR histogram with three digits. Failures are in no mean.";
    let columns = [
        &[("arm", ""), ("about", "")],
        TABLE_LATENCIES.map(|name| (name, "ms")).as_slice(),
        &[("good", ""), ("failed", "")],
    ]
    .concat();
    let mut out = table(id, title, &columns, note);
    for (case, summary) in results.summaries() {
        let mut row = arm_and_request(results, case);
        row.extend(TABLE_LATENCIES.map(|name| {
            number_or(
                summary.latency.and_then(|latency| latency.get(name)),
                3,
                NO_GOOD_ANSWER,
            )
        }));
        row.extend([
            number_cell(summary.successes as f64, 0),
            text_cell(&failure_counts(&summary)),
        ]);
        out.rows.push(row);
    }
    out
}

pub fn phase_table(results: &Results) -> Table {
    let note = "Means. The parts add up to the latency; queued is the time from the scheduled sending until the request is begun. Bytes are with headers.";
    let mut columns = vec![("arm", ""), ("about", "")];
    columns.extend(PHASES.map(|phase| (phase, "ms")));
    columns.extend([("decode CPU", "ms"), ("received", "bytes")]);
    let mut out = table("phases", "Where the time is spent", &columns, note);
    for (case, summary) in results.summaries() {
        let mut row = arm_and_request(results, case);
        row.extend(summary.phases().map(|ms| number_or(ms, 3, NO_GOOD_ANSWER)));
        row.extend([
            number_or(summary.decode_cpu_ms, 3, NO_GOOD_ANSWER),
            number_or(summary.received, 0, NO_GOOD_ANSWER),
        ]);
        out.rows.push(row);
    }
    out
}

pub fn difference_table(results: &Results, compared: &[Comparison], id: &str) -> Table {
    let reference = results.reference_arm();
    let note = format!(
        "Differences round by round, in blocks of rounds; negative where the reference is slower. Means have the {}, medians \
         and p95 have 95 % intervals. A difference is established if the interval of its mean excludes 0 and has no caveat. The p-value is \
         adjusted for all comparisons. Caveats of medians and p95 say so.",
        interval_label(comparison_count(results))
    );
    let columns = [
        "arm",
        "about",
        "mean [ms]",
        "p",
        "established",
        "median [ms]",
        "p95 [ms]",
        "rounds",
        "caveat",
    ];
    let mut out = table(id, &format!("Against {reference}"), &columns, &note);
    for comparison in compared {
        let estimates = [
            Some(&comparison.mean),
            comparison.median.as_ref(),
            comparison.p95.as_ref(),
        ];
        let [mean, median, p95] = estimates
            .map(|estimate| estimate_or(estimate.map(Estimate::value_and_ends), 3, TOO_FEW_ROUNDS));
        let mut caveats =
            iter::zip(["", "median: ", "p95: "], estimates).filter_map(|(name, estimate)| {
                let text = caveat_text(estimate?.reliability);
                (!text.is_empty()).then(|| name.to_owned() + text)
            });
        out.rows.push(vec![
            text_cell(&comparison.arm),
            text_cell(&results.short_label(&comparison.request, comparison.answer_bytes)),
            mean,
            number_or(comparison.p, 4, TOO_FEW_ROUNDS),
            text_cell(comparison.decision.established().map_or("no", |_| "yes")),
            median,
            p95,
            number_cell(comparison.rounds as f64, 0),
            text_cell(&caveats.join("; ")),
        ]);
    }
    out
}

/// The notes, then a table of the settings and this tool's costs.
pub fn settings_blocks(results: &Results) -> Vec<Block> {
    let header = &results.header;
    let format_ms = |ns| format!("{} ms", number(ms(ns), 3));
    let mut rows = vec![
        ("seed", header.seed.to_string()),
        ("rounds", header.rounds.to_string()),
        ("rounds of warm-up", header.warm_up.to_string()),
    ];
    if !header.refusals.is_empty() {
        rows.push((
            "refused by nodes",
            format_counts(&header.refusals).join(", "),
        ));
    }
    if let Some(ns) = header.tool_cpu_per_request_ns {
        rows.push(("this tool's CPU time per request", format_ms(ns)));
    }
    if let Some(cost) = header.loopback_cost {
        rows.extend([
            (
                "CPU time of a request to this tool's own server on loopback",
                format_ms(cost.cpu_ns),
            ),
            (
                "median of a request to this tool's own server on loopback",
                format_ms(cost.median_ns),
            ),
        ]);
    }
    // The first row has the seed.
    let settings = header.settings.iter().filter(|(name, _)| *name != "seed");
    rows.extend(settings.map(|(name, value)| (name.as_str(), value.clone())));
    let mut out = table("settings", "Settings", &["name", "value"], "");
    for (name, value) in rows {
        out.rows.push(vec![text_cell(name), text_cell(&value)]);
    }
    header
        .notes
        .iter()
        .cloned()
        .map(Block::Text)
        .chain([Block::Table(out)])
        .collect()
}

pub fn paragraphs(text: &str) -> Vec<Block> {
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| Block::Text(line.to_owned()))
        .collect()
}

#[derive(Serialize)]
struct JsonReport<'a> {
    run: &'a Header,
    /// In ms. The format names a case `cell`.
    #[serde(rename = "cells")]
    cases: Vec<CaseNumbers<'a>>,
    /// Against the first arm, in ms.
    compared: Vec<Comparison>,
    crossovers: Vec<ArmCrossover<'a>>,
    problems: Vec<String>,
}

#[derive(Serialize)]
struct CaseNumbers<'a> {
    #[serde(flatten)]
    case: &'a CaseInfo,
    #[serde(flatten)]
    summary: Summary,
}

/// One line of JSON, without samples.
pub fn json(results: &Results) -> anyhow::Result<String> {
    let cases = results.summaries();
    let cases = cases.map(|(case, summary)| CaseNumbers { case, summary });
    let report = JsonReport {
        run: &results.header,
        cases: cases.collect(),
        compared: comparisons(results),
        crossovers: compare::arm_crossovers(results),
        problems: problems(results),
    };
    Ok(output::json(&report)?)
}

const CSV_LATENCIES: [&str; 9] = [
    "mean", "sd", "min", "max", "p50", "p90", "p95", "p99", "p99.9",
];

/// In ms and bytes; unknown values are empty.
pub fn csv(results: &Results) -> String {
    let mut out = "arm,subject,size,good,failed,refused,\
        mean ms,sd ms,min ms,max ms,p50 ms,p90 ms,p95 ms,p99 ms,p99.9 ms,\
        queued ms,connect ms,TLS ms,first byte ms,transfer ms,decode ms,\
        decode CPU ms,received bytes\n"
        .to_owned();
    for (case, summary) in results.summaries() {
        let failed = summary.failures.values().sum();
        let counts = [summary.successes, failed, summary.retries];
        let latencies =
            CSV_LATENCIES.map(|name| summary.latency.and_then(|latency| latency.get(name)));
        let numbers = chain!(
            latencies,
            summary.phases(),
            [summary.decode_cpu_ms, summary.received]
        );
        let mut row = vec![text_field(&case.arm), text_field(&case.request_label)];
        row.push(
            case.answer_bytes
                .map_or_else(String::new, |size| size.to_string()),
        );
        row.extend(counts.map(|count| count.to_string()));
        row.extend(numbers.map(|number| number.map_or_else(String::new, |n| n.to_string())));
        out += &(row.join(",") + "\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::results;
    use faultline_stats::block_bootstrap::Reliability;

    #[test]
    fn too_many_failures_are_reported_in_one_line() {
        let mut run = results(30, &[("a", 1, &|_| 5), ("b", 1, &|_| 5)]);
        let of_b = run
            .samples
            .iter_mut()
            .filter(|sample| sample.case_index == 1);
        for sample in of_b.take(8) {
            sample.result = Err("malformed answer".to_owned());
        }
        assert_eq!(problems(&run), [""; 0], "all may fail");
        let line = |max: f64| {
            format!(
                "FAILED: more requests failed than --max-failures {max} % allows: b 8 of 30 (8 malformed answer)"
            )
        };
        for (max, sentences) in [(0.0, true), (0.001, true), (26.0, true), (27.0, false)] {
            run.header.max_failure_percent = Some(max);
            let expected: Vec<String> = sentences.then(|| line(max)).into_iter().collect();
            assert_eq!(problems(&run), expected);
        }
    }

    #[test]
    fn an_always_failing_method_is_reported_with_the_nodes_message() {
        let mut run = results(3, &[("a", 1, &|_| 5)]);
        for sample in &mut run.samples {
            sample.result = Err("JSON-RPC -32602".to_owned());
        }
        run.header.messages.insert(0, "invalid length 1".to_owned());
        let expected = "a FAILED: no good answer about account of 1 (3 JSON-RPC -32602; the node says \"invalid length 1\")";
        assert_eq!(problems(&run), [expected]);
    }

    #[test]
    fn json_and_csv_have_the_numbers_of_every_case() {
        let results = results(
            100,
            &[
                ("a,b", 904, &|round| 1_000_000 + round % 3),
                ("=c\u{1b}", 904, &|round| 2_000_000 + round % 5),
            ],
        );
        let value: serde_json::Value = serde_json::from_str(&json(&results).unwrap()).unwrap();
        assert_eq!(
            (&value["cells"][1]["arm"], &value["cells"][1]["successes"]),
            (&"=c\u{1b}".into(), &100.into())
        );
        let difference = value["compared"][0]["mean"]["value"].as_f64().unwrap();
        assert!((difference - 1.0).abs() < 1e-5, "{value}");
        let csv = csv(&results);
        let lines: Vec<&str> = csv.lines().collect();
        assert!(
            lines[1].starts_with("\"a,b\",account of 904,904,100,0,0,1.00000"),
            "{csv}"
        );
        assert!(lines[2].starts_with("'=c[U+001B],"), "{csv}");
        assert_eq!(lines[0].split(',').count(), lines[2].split(',').count());
    }

    #[test]
    fn unreliable_medians_and_p95_have_a_caveat() {
        let results = results(
            200,
            &[
                ("a", 904, &|round| 1_000_000 + round * 7919 % 1000),
                ("b", 904, &|round| 2_000_000 + round * 104_729 % 1000),
            ],
        );
        let caveat = |mean, median, p95| {
            let mut compared = comparisons(&results);
            compared[0].mean.reliability = mean;
            compared[0].median.as_mut().unwrap().reliability = median;
            compared[0].p95.as_mut().unwrap().reliability = p95;
            difference_table(&results, &compared, "differences").rows[0].pop()
        };
        let [good, short] = [Reliability::Reliable, Reliability::TooShort { n_eff: 3.0 }];
        let too_few = "too few independent rounds: the interval may be too narrow";
        let rare = "a few rounds decide the result";
        for (mean, median, p95, expected) in [
            (good, good, good, String::new()),
            (short, good, good, too_few.to_owned()),
            (good, short, good, format!("median: {too_few}")),
            (
                short,
                short,
                Reliability::TooRare,
                format!("{too_few}; median: {too_few}; p95: {rare}"),
            ),
        ] {
            assert_eq!(caveat(mean, median, p95), Some(text_cell(&expected)));
        }
    }

    #[test]
    fn answers_without_a_comparison_are_not_called_incomparable() {
        let mut results = results(1, &[("a", 1, &|_| 1), ("b", 1, &|_| 1)]);
        results.header.answer_comparisons[1].equal = 0;
        assert!(
            answer_comparison_text(&results).starts_with(
                "Answers of b: none was compared with the reference's: they are not meant to be"
            ),
            "{}",
            answer_comparison_text(&results)
        );
    }
}
