use crate::compare::compared;
use crate::report_tables::{differences, percentiles};
use crate::results::{CellHead, Results, Sample};
use faultline_pages::model::Table;
use faultline_pages::render::plain;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

const ALL_REQUESTS: &str = "all requests";

pub(crate) fn all_requests_text(results: &Results) -> String {
    let tables = tables(results);
    let Some(latencies) = tables.first() else {
        return String::new();
    };
    let mut out = "=== ALL REQUESTS ===\n\n".to_owned() + &plain(latencies);
    if let (Some(reference), Some(differences)) = (results.header.arms.first(), tables.get(1)) {
        let _ = write!(
            out,
            "\nAgainst {reference}: difference in ms, negative where {reference} is slower\n"
        );
        out += &plain(differences);
    }
    out + "\n"
}

/// Latencies, then differences if there are any. Empty with only one request.
pub(crate) fn tables(results: &Results) -> Vec<Table> {
    let Some(all) = pooled(results) else {
        return Vec::new();
    };
    let title = "Latency of all requests";
    let mut tables = vec![percentiles(&all, ("study-latencies", title))];
    let compared = compared(&all);
    if !compared.is_empty() {
        tables.push(differences(&all, &compared, "study-differences"));
    }
    tables
}

/// Results with one cell per arm: each request of a round becomes a round of its own. `None` with
/// only one request.
fn pooled(results: &Results) -> Option<Results> {
    if results.subjects().len() < 2 {
        return None;
    }
    let arms = &results.header.arms;
    let head = |sample: &Sample| &results.cells[sample.cell];
    let request = |sample: &Sample| (sample.round, head(sample).subject.as_str());
    let requests: BTreeSet<_> = results.samples.iter().map(request).collect();
    let rounds: BTreeMap<_, u32> = requests.into_iter().zip(0..).collect();
    let sample = |sample: &Sample| {
        Some(Sample {
            cell: arms.iter().position(|arm| *arm == head(sample).arm)?,
            round: rounds[&request(sample)],
            ..sample.clone()
        })
    };
    let cell = |arm: &String| CellHead {
        arm: arm.clone(),
        subject: ALL_REQUESTS.to_owned(),
        size: None,
    };
    Some(Results {
        header: results.header.clone(),
        cells: arms.iter().map(cell).collect(),
        samples: results.samples.iter().filter_map(sample).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::results;

    #[test]
    fn an_arms_requests_are_pooled_and_arms_compared_per_request() {
        // Of 300 rounds in turn a fast request and a slow one; arm b takes 1 ms more for either.
        let noise = |round: u64, cell: u64| (round * 7919 + cell * 104_729) % 100_000;
        let made = |base: u64, cell: u64| move |round: u64| base + noise(round, cell);
        let (a, b) = (
            [made(2_000_000, 0), made(20_000_000, 1)],
            [made(3_000_000, 2), made(21_000_000, 3)],
        );
        let mut results = results(
            300,
            &[
                ("a", 1, &a[0]),
                ("a", 2, &a[1]),
                ("b", 1, &b[0]),
                ("b", 2, &b[1]),
            ],
        );
        results
            .samples
            .retain(|sample| sample.round as usize % 2 == sample.cell % 2);
        results.cells.iter_mut().for_each(|cell| cell.size = None);
        let all = pooled(&results).unwrap();
        assert_eq!((all.cells.len(), all.samples.len()), (2, 600));
        let compared = &compared(&all)[0];
        assert_eq!(compared.rounds, 300);
        assert!(
            (compared.mean.value - 1.0).abs() < 0.1 && compared.mean.low > 0.8,
            "{compared:?}"
        );
        let mean = all.summary(0).latency.unwrap().mean;
        assert!((mean - 11.05).abs() < 0.1, "{mean}");
        assert!(
            all_requests_text(&results).contains("all requests"),
            "{}",
            all_requests_text(&results)
        );
        results
            .cells
            .iter_mut()
            .for_each(|cell| cell.subject = "one".to_owned());
        assert_eq!(all_requests_text(&results), "");
    }
}
