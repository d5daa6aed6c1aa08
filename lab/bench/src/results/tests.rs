use super::*;

/// Arm, size, and latency in nanoseconds by round.
pub type FakeCase<'a> = (&'a str, u64, &'a dyn Fn(u64) -> u64);

fn header(rounds: u32, arms: Vec<String>) -> Header {
    Header {
        subcommand: "encoding".to_owned(),
        version: "0".to_owned(),
        started_unix_ns: 0,
        nodes: vec!["http://node".to_owned()],
        notes: Vec::new(),
        settings: BTreeMap::new(),
        link_shapes: Vec::new(),
        answer_comparisons: vec![
            AnswerComparison {
                equal: 1,
                ..AnswerComparison::default()
            };
            arms.len()
        ],
        arms,
        seed: 1,
        rounds,
        warm_up: 0,
        workers: 1,
        rate: None,
        refusals: BTreeMap::new(),
        messages: BTreeMap::new(),
        max_failure_percent: None,
        stopped_by: None,
        tool_cpu_per_request_ns: None,
        loopback_cost: None,
        length_ns: 1_000_000_000,
        folder_usages: Vec::new(),
    }
}

/// A run with given latencies.
pub fn results(rounds: u32, cases: &[FakeCase<'_>]) -> Results {
    let mut arms: Vec<String> = Vec::new();
    for (arm, ..) in cases {
        if !arms.iter().any(|known| known == arm) {
            arms.push((*arm).to_owned());
        }
    }
    let header = header(rounds, arms);
    let infos = cases
        .iter()
        .map(|(arm, size, _)| CaseInfo {
            arm: (*arm).to_owned(),
            request_label: format!("account of {size}"),
            answer_bytes: Some(*size),
        })
        .collect();
    let sample = |round: u32, case_index: usize| Sample {
        number: u64::from(round) * cases.len() as u64 + case_index as u64,
        round,
        case_index,
        at_ns: u64::from(round) * 1000,
        result: Ok(Timing {
            phases: [0, 0, 0, cases[case_index].2(u64::from(round)), 0, 0],
            decode_cpu_ns: 10,
            sent: 100,
            received: 200,
        }),
        retries: 0,
    };
    let samples = (0..rounds).flat_map(|round| (0..cases.len()).map(move |case| (round, case)));
    Results {
        header,
        cases: infos,
        samples: samples.map(|(round, case)| sample(round, case)).collect(),
    }
}

#[test]
fn failures_are_counted_and_never_averaged_in() {
    let mut results = results(10, &[("a", 1, &|round| (round + 1) * 1_000_000)]);
    for (round, why) in [(3, "timeout"), (7, "timeout"), (9, "HTTP 500")] {
        results.samples[round].result = Err(why.to_owned());
    }
    let summary = results.summary(0);
    assert_eq!(
        (
            summary.successes,
            summary.failures["timeout"],
            summary.failures["HTTP 500"]
        ),
        (7, 2, 1)
    );
    let latency = summary.latency.unwrap();
    assert!((latency.mean - (1 + 2 + 3 + 5 + 6 + 7 + 9) as f64 / 7.0).abs() < 1e-9);
    assert_eq!((latency.min, latency.max), (1.0, 9.0));
    assert_eq!(results.latencies_by_round(0)[3], None);
}

#[test]
fn no_percentile_is_above_the_longest_latency() {
    let latency = results(3, &[("a", 1, &|_| 123_456_789)])
        .summary(0)
        .latency
        .unwrap();
    assert_eq!((latency.p50, latency.p999), (latency.min, latency.max));
}

#[test]
fn percentiles_are_accurate_to_one_thousandth() {
    let results = results(1000, &[("a", 1, &|round| (round + 1) * 1_000_000)]);
    let latency = results.summary(0).latency.unwrap();
    for (found, is) in [
        (latency.p50, 500.0),
        (latency.p95, 950.0),
        (latency.p99, 990.0),
        (latency.p999, 999.0),
    ] {
        assert!((found / is - 1.0).abs() < 0.001, "{found} {is}");
    }
}
