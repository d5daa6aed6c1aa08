use crate::{
    compare::{Comparison, caveat, comparison_count, interval_label},
    results::{CellHead, PHASES, Results, Summary, format_counts, ms},
};
use faultline_pages::{
    cells::{estimate_or, known, number, table, words},
    model::{Block, Cell, Table},
};
use faultline_stats::block::Estimate;
use faultline_text::count;

const NO_GOOD_ANSWER: &str = "no good answer";
const TOO_FEW_ROUNDS: &str = "too few rounds";

/// Failures and refusals with their numbers, or `0`.
pub fn failures(summary: &Summary) -> String {
    let mut counts = format_counts(&summary.failures);
    if summary.refused > 0 {
        counts.push(format!("{} refused and repeated", count(summary.refused)));
    }
    if counts.is_empty() {
        return "0".to_owned();
    }
    counts.join(", ")
}

fn arm_and_subject(results: &Results, head: &CellHead) -> Vec<Cell> {
    vec![
        words(&head.arm),
        words(&results.label(&head.subject, head.size)),
    ]
}

const LATENCY_COLUMNS: [&str; 9] = [
    "mean", "median", "sd", "min", "max", "p90", "p95", "p99", "p99.9",
];

pub fn percentiles(results: &Results, id: &str, title: &str) -> Table {
    let note = "From sending to the decoded answer. Percentiles are those of an HDR histogram with three digits. Failures are in no mean.";
    let columns = [
        &[("arm", ""), ("about", "")],
        LATENCY_COLUMNS.map(|name| (name, "ms")).as_slice(),
        &[("good", ""), ("failed", "")],
    ]
    .concat();
    let mut out = table(id, title, &columns, note);
    for (head, summary) in results.summaries() {
        let mut row = arm_and_subject(results, head);
        row.extend(LATENCY_COLUMNS.map(|name| {
            let ms = summary.latency.and_then(|latency| latency.named(name));
            number(ms, 3, NO_GOOD_ANSWER)
        }));
        row.extend([
            known(summary.successes as f64, 0),
            words(&failures(&summary)),
        ]);
        out.rows.push(row);
    }
    out
}

pub fn phases(results: &Results) -> Table {
    let note = "Means. The parts add up to the latency; queued is the wait before a request is sent. Bytes are with headers.";
    let mut columns = vec![("arm", ""), ("about", "")];
    columns.extend(PHASES.map(|phase| (phase, "ms")));
    columns.extend([("decode CPU", "ms"), ("received", "bytes")]);
    let mut out = table("phases", "Where the time is spent", &columns, note);
    for (head, summary) in results.summaries() {
        let mut row = arm_and_subject(results, head);
        row.extend(summary.phases().map(|ms| number(ms, 3, NO_GOOD_ANSWER)));
        row.extend([
            number(summary.decode_cpu, 3, NO_GOOD_ANSWER),
            number(summary.received, 0, NO_GOOD_ANSWER),
        ]);
        out.rows.push(row);
    }
    out
}

pub fn differences(results: &Results, compared: &[Comparison], id: &str) -> Table {
    let reference = results.reference();
    let note = format!(
        "Differences round by round, in blocks of rounds; negative where the reference is slower. Of means with the {}, of medians \
         and p95 with 95 % intervals. Shown: the interval of the mean leaves 0 out, and no caveat says that it may be too narrow. The \
         p-value is adjusted likewise.",
        interval_label(comparison_count(results))
    );
    let columns = [
        "arm",
        "about",
        "mean [ms]",
        "p",
        "shown",
        "median [ms]",
        "p95 [ms]",
        "rounds",
        "caveat",
    ];
    let estimate = |of: Option<&Estimate>| estimate_or(of.map(Estimate::ends), 3, TOO_FEW_ROUNDS);
    let mut out = table(id, &format!("Against {reference}"), &columns, &note);
    for comparison in compared {
        out.rows.push(vec![
            words(&comparison.arm),
            words(&results.label(&comparison.subject, comparison.size)),
            estimate(Some(&comparison.mean)),
            number(comparison.p, 4, TOO_FEW_ROUNDS),
            words(comparison.decision.shown().map_or("no", |_| "yes")),
            estimate(comparison.median.as_ref()),
            estimate(comparison.p95.as_ref()),
            known(comparison.rounds as f64, 0),
            words(caveat(comparison.mean.reliable)),
        ]);
    }
    out
}

/// Notes and settings, with this tool's own cost per request.
pub fn settings(results: &Results) -> Vec<Block> {
    let header = &results.header;
    let format_ms = |ns| format!("{} ms", faultline_text::number(ms(ns), 3));
    let mut rows = vec![
        ("seed", header.seed.to_string()),
        ("rounds", header.rounds.to_string()),
        ("rounds of warm-up", header.warm_up.to_string()),
    ];
    if !header.refusals.is_empty() {
        let refusals = header.refusals.iter();
        let refusals: Vec<_> = refusals
            .map(|(kind, times)| format!("{times} {kind}"))
            .collect();
        rows.push(("refused by nodes", refusals.join(", ")));
    }
    if let Some(ns) = header.own_cpu_ns {
        rows.push(("this tool's CPU time per request", format_ms(ns)));
    }
    if let Some(own) = header.own_cost {
        rows.extend([
            (
                "CPU time of a request to this tool's own server on loopback",
                format_ms(own.cpu_ns),
            ),
            (
                "median of a request to this tool's own server on loopback",
                format_ms(own.median_ns),
            ),
        ]);
    }
    // The first row has the seed.
    let settings = header.settings.iter().filter(|(name, _)| *name != "seed");
    rows.extend(settings.map(|(name, value)| (name.as_str(), value.clone())));
    let mut out = table("settings", "Settings", &["name", "value"], "");
    for (name, value) in rows {
        out.rows.push(vec![words(name), words(&value)]);
    }
    let notes = header.notes.iter().cloned().map(Block::Text);
    notes.chain([Block::Table(out)]).collect()
}

pub fn paragraphs(text: &str) -> Vec<Block> {
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| Block::Text(line.to_owned()))
        .collect()
}
