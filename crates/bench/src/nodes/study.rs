//! What the study of nodes printed: total and mean time of each node and method, and by how much one is faster; then what it asked
//! for in the end, which node is to answer which method.

use crate::compare::compared;
use crate::results::{Results, ms};
use faultline_text::{count, number};
use std::fmt::Write as _;

/// All of it.
pub(crate) fn tables(results: &Results) -> String {
    let mut out = String::new();
    let methods: Vec<&str> = results.subjects().into_iter().map(|(name, _)| name).collect();
    for method in &methods {
        out += &totals(results, method, &[method]);
    }
    if methods.len() > 1 {
        out += &totals(results, "the mixed load", &methods);
    }
    out + &routing(results, &methods) + "\n"
}

/// Total and mean of the good answers of some methods.
fn totals(results: &Results, title: &str, methods: &[&str]) -> String {
    let mut out = format!("=== {title} ===\n\n");
    let mut means = Vec::new();
    for arm in &results.header.arms {
        let cells = methods.iter().filter_map(|method| results.cell(arm, method));
        let latencies: Vec<u64> =
            cells.flat_map(|cell| results.of(cell).filter_map(|sample| sample.latency_ns())).collect();
        let total = latencies.iter().map(|latency| ms(*latency)).sum::<f64>() / 1e3;
        let mean = total / latencies.len().max(1) as f64;
        let _ = writeln!(out, "Total time for {} requests to {arm}: {total:.3} seconds", count(latencies.len() as u64));
        let _ = writeln!(out, "Average time per request to {arm}: {mean:.6} seconds");
        if !latencies.is_empty() {
            means.push((mean, arm));
        }
    }
    means.sort_by(|a, b| a.0.total_cmp(&b.0));
    if let [(fast, name), .., (slow, slowest)] = means.as_slice() {
        let percent = (slow / fast - 1.0) * 100.0;
        let _ = writeln!(out, "{name} is {} % faster than {slowest} by these averages", number(percent, 1));
    }
    out + "\n"
}

/// Which node each method is best sent to, where that is shown.
fn routing(results: &Results, methods: &[&str]) -> String {
    let mut out = String::new();
    let compared = compared(results);
    let Some(reference) = results.header.arms.first() else { return out };
    for method in methods {
        let of_method = || compared.iter().filter(|one| one.subject == *method);
        let best = of_method().filter(|one| one.mean.high < 0.0).min_by(|a, b| a.mean.value.total_cmp(&b.mean.value));
        let slower = of_method().count() > 0 && of_method().all(|one| one.mean.low > 0.0);
        let said = match (best, slower) {
            (Some(best), _) => {
                let (low, high) = (number(-best.mean.high, 3), number(-best.mean.low, 3));
                format!("{}, which saves {low} to {high} ms against {reference}", best.arm)
            }
            (None, true) => format!("{reference}: every other is slower"),
            (None, false) => "any: no difference is shown".to_owned(),
        };
        let _ = writeln!(out, "Send {method} to {said}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::results;

    #[test]
    fn totals_averages_and_the_routing_by_method_are_those_of_the_run() {
        let around = |base: u64| move |round: u64| (base + round * 7919 % 5) * 1_000_000;
        let (one, two, same) = (around(10), around(20), around(30));
        let cells: [crate::results::tests::Pretended<'_>; 4] =
            [("one", 1, &two), ("two", 1, &one), ("one", 2, &same), ("two", 2, &same)];
        let out = tables(&results(100, &cells));
        assert!(out.contains("Total time for 100 requests to one: 2.200 seconds"), "{out}");
        assert!(out.contains("Average time per request to two: 0.012000 seconds"), "{out}");
        assert!(out.contains("two is 83.3 % faster than one by these averages"), "{out}");
        assert!(out.contains("Total time for 200 requests to one: 5.400 seconds"), "{out}");
        assert!(out.contains("Send account of 1 to two, which saves 10.000 to 10.000 ms against one"), "{out}");
        assert!(out.contains("Send account of 2 to any: no difference is shown"), "{out}");
    }
}
