//! Texts of `bench diff`, for results of requests and of compression.

use faultline_stats::{arms::Direction, block_bootstrap::Reliability, decision::Decision};
use faultline_text::{lines, number};
use std::fmt::Display;

/// Appends notes to the table of changes. Also returns whether something is worse, there are
/// `mismatches`, or the later run has `problems`. The last argument is a statement, such as `Nodes
/// differ`, and the values of both runs: a difference of these is only printed.
pub fn finish_report(
    mut out: String,
    are_worse: &[bool],
    mismatches: &[String],
    problems: &[String],
    (difference, [before, after]): (&str, [&String; 2]),
) -> (String, bool) {
    out += &lines(mismatches);
    for problem in problems {
        out += &format!("After: {problem}\n");
    }
    if before != after {
        out += &format!("{difference}: {before} before, {after} after\n");
    }
    (
        out,
        are_worse.contains(&true) || !mismatches.is_empty() || !problems.is_empty(),
    )
}

/// `labels` are the words for a worse value and for a better one.
pub fn verdict<W: Display>(
    decision: Option<Decision>,
    worse_direction: Direction,
    labels: [&str; 2],
    unreliable_text: impl Fn(Reliability) -> W,
) -> String {
    match decision {
        None => "not comparable".to_owned(),
        Some(Decision::Inconclusive) => "no change established".to_owned(),
        Some(Decision::Unreliable(why)) => format!("not established: {}", unreliable_text(why)),
        Some(Decision::Established(direction)) => {
            labels[usize::from(direction != worse_direction)].to_owned()
        }
    }
}

/// Change and interval in percent, from a ratio and the ends of its interval.
pub fn percent_change(ratio: [f64; 3]) -> [String; 2] {
    let [value, low, high] = ratio.map(|end| number((end - 1.0) * 100.0, 1));
    [format!("{value} %"), format!("{low} to {high} %")]
}

pub fn list_unmatched(before: &[String], after: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    for (names, others, missing_in) in [(before, after, "later"), (after, before, "earlier")] {
        for name in names.iter().filter(|name| !others.contains(name)) {
            lines.push(format!(
                "NOT COMPARED: {name} is not in the {missing_in} run"
            ));
        }
    }
    lines
}

pub fn setting_mismatch(name: &str, before: &str, after: &str) -> Option<String> {
    // Older versions wrote a timeout of `1 min` as `1 min 0 s`.
    let [a, b] = [before, after].map(|text| match name {
        "timeout" => text.trim_end_matches(" 0 s").trim_end_matches(" 0 min"),
        _ => text,
    });
    (a != b).then(|| format!("SETTINGS DIFFER: {name}: {before} before, {after} after"))
}
