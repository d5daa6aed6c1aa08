use super::*;

pub fn plan(cases: usize, seed: u64) -> Plan {
    let case = |arm_index| Case {
        arm_index,
        request_index: 0,
        connection_index: 0,
        call: r#""method":"m","params":[]"#.into(),
        random_range: None,
        expected: Expected::Account(crate::answer::Encoding::Base64),
    };
    Plan {
        arms: Vec::new(),
        connections: Vec::new(),
        request_labels: Vec::new(),
        cases: (0..cases).map(case).collect(),
        weights: Vec::new(),
        placeholders: Vec::new(),
        rounds: 50,
        warm_up: 2,
        workers: 1,
        rate: None,
        seed,
        timeout: Duration::from_secs(1),
        max_answer_bytes: 1,
        max_failure_percent: None,
    }
}

#[test]
fn every_round_has_every_case_once_in_seeded_order() {
    let scheduled: Vec<ScheduledRequest> = Order::new(&plan(4, 9)).collect();
    assert_eq!(scheduled.len(), 52 * 4);
    for (index, round) in scheduled.chunks(4).enumerate() {
        let mut cases: Vec<usize> = round.iter().map(|request| request.case_index).collect();
        cases.sort_unstable();
        assert_eq!(cases, [0, 1, 2, 3]);
        assert!(
            round
                .iter()
                .all(|request| request.measured_round == (index as u32).checked_sub(2))
        );
    }
    assert!(
        scheduled
            .iter()
            .eq(Order::new(&plan(4, 9)).collect::<Vec<_>>().iter())
    );
    assert!(
        !scheduled
            .iter()
            .eq(Order::new(&plan(4, 8)).collect::<Vec<_>>().iter())
    );
    let first = |case| {
        scheduled
            .chunks(4)
            .filter(|round| round[0].case_index == case)
            .count()
    };
    assert!(
        (0..4).all(|case| first(case) > 4),
        "each comes first now and then"
    );
}

#[test]
fn a_request_contains_its_id() {
    let plan = plan(1, 0);
    let body = plan.body(&plan.cases[0], 12);
    assert_eq!(
        &body[..],
        br#"{"jsonrpc":"2.0","id":12,"method":"m","params":[]}"#
    );
}

#[test]
fn random_values_change_each_round_and_are_equal_across_arms() {
    let mut plan = plan(2, 3);
    for case in &mut plan.cases {
        (case.call, case.random_range) = (format!("[{RANDOM_HEIGHT}]"), Some((5, 9)));
    }
    let drawn = |case: usize, round| plan.call(&plan.cases[case], round);
    assert!((0..200).all(|round| drawn(0, round) == drawn(1, round)));
    let mut seen: Vec<_> = (0..200).map(|round| drawn(0, round)).collect();
    seen.sort();
    seen.dedup();
    assert_eq!((seen.len(), seen[0].as_str()), (5, "[5]"));
}
