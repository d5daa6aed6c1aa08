//! What holds of every policy.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops at what it did not expect, in its helpers too"
)]

mod common;

use common::{load, plain};
use faultline_cache_sim::{
    CacheRules, Limit, Policy, Setting, Trace,
    policy::{NAMED_POLICIES, least_misses_by_bytes},
    run::{InitialContent, Outcome, Simulation},
    trace::{ChangeKind, Meta, Program, Slot, SlotKind, Source, TraceChange, TransactionCall},
    with_attack,
};
use proptest::prelude::*;

fn all() -> Vec<(String, Policy)> {
    let agave = ["2.1.14", "3.1.12", "4.2.2", "4.4.0"]
        .map(|version| (version.to_owned(), CacheRules::of(version).unwrap()));
    let others = NAMED_POLICIES.map(|(name, policy)| (name.to_owned(), policy));
    agave
        .into_iter()
        .map(|(name, rules)| (name, Policy::Agave(rules)))
        .chain(others)
        .collect()
}

fn run(trace: &Trace, policy: Policy, limit: Limit, fill_percent: u64) -> Outcome {
    let compile_us: Vec<u64> = (0..trace.programs().len() as u64)
        .map(|program| 500 + program * 37 % 900)
        .collect();
    let setting = Setting {
        policy,
        limit,
        fill_percent,
        includes_fees_only: true,
    };
    let simulation = Simulation {
        trace,
        setting,
        initial_content: InitialContent::Empty,
        first_slot: 0,
        compile_us: &compile_us,
        seed: 5,
    };
    simulation.run(|_, _| {}).unwrap()
}

#[test]
fn policy_misses_on_the_real_load_match_earlier_measurements() {
    let trace = load();
    let as_text = [
        ("lru", 90, 3398),
        ("lru", 100, 2523),
        ("sieve", 90, 3059),
        ("sieve", 100, 2298),
        ("w-tinylfu", 100, 2278),
        ("min", 100, 1105),
    ];
    for (name, fill, misses) in as_text {
        let counts = run(&trace, name.parse().unwrap(), Limit::Entries(512), fill).counts;
        println!("{name} {fill} {} (said {misses})", counts.misses);
        let bar = if name == "w-tinylfu" { 60 } else { 1 };
        assert!(
            counts.misses.abs_diff(misses) <= bar,
            "{name} {fill}: {counts:?}"
        );
    }
    for (name, policy) in all() {
        let misses = |fill| run(&trace, policy, Limit::Entries(512), fill).counts.misses;
        println!("{name}: {} at 90 %, {} at 100 %", misses(90), misses(100));
    }
}

#[test]
fn one_hit_programs_hurt_policies_without_admission_control_more() {
    let quiet = load();
    let attacked = with_attack(&quiet, 30).unwrap();
    assert_eq!(attacked.call_count(), quiet.call_count() + 30 * 133);
    let cost = |policy: Policy| {
        let misses = |trace| run(trace, policy, Limit::Entries(512), 90).counts.misses;
        misses(&attacked) as i64 - 30 * 133 - misses(&quiet) as i64
    };
    let costs: Vec<(String, i64)> = all()
        .into_iter()
        .map(|(name, policy)| (name, cost(policy)))
        .collect();
    println!("{costs:?}");
    let of = |name: &str| costs.iter().find(|(known, _)| known == name).unwrap().1;
    assert!(of("w-tinylfu") < of("lru") && of("s3-fifo") < of("lru") && of("2.1.14") < of("lru"));
    assert!(of("min") < 10);
}

#[test]
fn invalid_simulation_settings_are_refused() {
    let trace = plain("1 2\n");
    let setting = |limit, fill_percent| Setting {
        policy: Policy::Lru,
        limit,
        fill_percent,
        includes_fees_only: true,
    };
    let refused = |setting| {
        let simulation = Simulation {
            trace: &trace,
            setting,
            initial_content: InitialContent::Empty,
            first_slot: 0,
            compile_us: &[],
            seed: 1,
        };
        simulation.run(|_, _| {}).unwrap_err().to_string()
    };
    assert!(
        refused(setting(Limit::Bytes(9), 100)).contains("programs of the trace without a size: 3")
    );
    assert!(refused(setting(Limit::Entries(1), 90)).contains("holds nothing"));
    assert!(refused(setting(Limit::Entries(9), 0)).contains("fill of 0 %"));
    assert!(
        "lfru"
            .parse::<Policy>()
            .unwrap_err()
            .to_string()
            .contains("\"lfru\"")
    );
    assert!(
        "agave-9.0.0"
            .parse::<Policy>()
            .unwrap_err()
            .to_string()
            .contains("\"9.0.0\"")
    );
    assert_eq!(
        "agave-2.1.14".parse::<Policy>().unwrap(),
        Policy::Agave(CacheRules::of("2.1.14").unwrap())
    );
}

#[test]
fn the_largest_numbers_cause_no_overflow() {
    let trace = trace_of_the_largest_numbers();
    let compile_us = [u64::MAX; 5];
    for (name, policy) in all() {
        for limit in [
            Limit::Entries(1),
            Limit::Entries(u64::MAX),
            Limit::Bytes(1),
            Limit::Bytes(u64::MAX),
        ] {
            let setting = Setting {
                policy,
                limit,
                fill_percent: 100,
                includes_fees_only: true,
            };
            let initial_content = if matches!(policy, Policy::Agave(_)) {
                InitialContent::Full
            } else {
                InitialContent::Empty
            };
            let simulation = Simulation {
                trace: &trace,
                setting,
                initial_content,
                first_slot: 1,
                compile_us: &compile_us,
                seed: 1,
            };
            assert_eq!(
                simulation.run(|_, _| {}).unwrap().counts.lookups,
                40,
                "{name} {limit:?}"
            );
        }
    }
    least_misses_by_bytes(&trace, u64::MAX, 1, true).unwrap();
}

#[test]
fn a_program_that_the_trace_closes_had_code_before() {
    let mut trace = Trace::new(Meta {
        source: Source::Blocks,
        cluster: String::new(),
        version: String::new(),
    });
    // Both have no code when `fetch` asks, and only the first had code.
    let closed = Program {
        address: None,
        loader: None,
        bytes: None,
        has_code: false,
    };
    let [program, buffer] = [(); 2].map(|()| trace.add_program(closed).unwrap());
    let call = TransactionCall::new(trace.add_set(&[program, buffer]).unwrap(), false).unwrap();
    for number in 1..4 {
        let slot = Slot {
            slot: number,
            parent: number - 1,
            transactions: 1,
            kind: SlotKind::Replayed,
        };
        trace.add_slot(slot, &[call]).unwrap();
    }
    let change = TraceChange {
        slot_index: 2,
        position: 1,
        program,
        kind: ChangeKind::Closed,
    };
    trace.add_change(change).unwrap();
    assert_eq!(least_misses_by_bytes(&trace, 100, 0, true).unwrap(), 1);
    for (name, policy) in all() {
        let counts = run(&trace, policy, Limit::Entries(10), 100).counts;
        assert_eq!(counts.loads, 1, "{name}: {counts:?}");
    }
    // A half may lack the slot of the change.
    for seed in 0..8 {
        assert!(trace.half(seed).unwrap().ever_had_code(program), "{seed}");
    }
}

fn trace_of_the_largest_numbers() -> Trace {
    let mut trace = Trace::new(Meta {
        source: Source::Plain,
        cluster: String::new(),
        version: String::new(),
    });
    let bytes = Some(u64::from(u32::MAX));
    let set: Vec<u32> = (0..5)
        .map(|_| {
            trace
                .add_program(Program {
                    address: None,
                    loader: None,
                    bytes,
                    has_code: true,
                })
                .unwrap()
        })
        .collect();
    let call = TransactionCall::new(trace.add_set(&set).unwrap(), false).unwrap();
    for slot in [0, 1, 1 << 40, u64::MAX - 1, u64::MAX] {
        let slot = Slot {
            slot,
            parent: 0,
            transactions: u64::from(u32::MAX),
            kind: SlotKind::Replayed,
        };
        trace.add_slot(slot, &[call, call]).unwrap();
    }
    trace
}

/// Transactions of a few programs each, in slots of four; programs of all sizes.
fn traces() -> impl Strategy<Value = Trace> {
    let transaction = proptest::collection::hash_set(0_u32..24, 1..4);
    proptest::collection::vec(transaction, 1..300).prop_map(|transactions| {
        let mut trace = Trace::new(Meta {
            source: Source::Plain,
            cluster: String::new(),
            version: String::new(),
        });
        for program in 0..24_u64 {
            let bytes = Some(1 + program * program % 17);
            trace
                .add_program(Program {
                    address: None,
                    loader: None,
                    bytes,
                    has_code: true,
                })
                .unwrap();
        }
        for (slot, transactions) in (1..).zip(transactions.chunks(4)) {
            let sets = transactions.iter().map(|programs| {
                let programs: Vec<u32> = programs.iter().copied().collect();
                TransactionCall::new(trace.add_set(&programs).unwrap(), false).unwrap()
            });
            let calls: Vec<TransactionCall> = sets.collect();
            let slot = Slot {
                slot,
                parent: slot - 1,
                transactions: 4,
                kind: SlotKind::Replayed,
            };
            trace.add_slot(slot, &calls).unwrap();
        }
        trace
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_policy_has_fewer_misses_than_min(trace in traces(), entries in 1_u64..20) {
        let least = run(&trace, Policy::Min, Limit::Entries(entries), 100).counts.misses;
        for (name, policy) in all() {
            let misses = run(&trace, policy, Limit::Entries(entries), 100).counts.misses;
            prop_assert!(misses >= least, "{name}: {misses} < {least}");
        }
    }

    #[test]
    fn no_policy_has_fewer_misses_by_bytes_than_the_relaxed_bound(trace in traces(), bytes in 1_u64..150, first_slot in 0_u64..40) {
        let least = least_misses_by_bytes(&trace, bytes, first_slot, true).unwrap();
        for (name, policy) in all() {
            let setting = Setting {
                policy,
                limit: Limit::Bytes(bytes),
                fill_percent: 100,
                includes_fees_only: true,
            };
            let simulation = Simulation { trace: &trace, setting, initial_content: InitialContent::Empty, first_slot, compile_us: &[], seed: 1 };
            let misses = simulation.run(|_, _| {}).unwrap().counts.misses;
            prop_assert!(misses >= least, "{name}: {misses} < {least}");
        }
    }

    #[test]
    fn a_larger_lru_never_misses_more(trace in traces(), entries in 1_u64..20) {
        let misses = |entries| run(&trace, Policy::Lru, Limit::Entries(entries), 100).counts.misses;
        prop_assert!(misses(entries + 1) <= misses(entries));
    }

    #[test]
    fn loaded_unevicted_programs_are_resident_within_the_limit(trace in traces(), size in 1_u64..60) {
        for (name, policy) in all() {
            for limit in [Limit::Entries(size), Limit::Bytes(size)] {
                let outcome = run(&trace, policy, limit, 100);
                let counts = outcome.counts;
                prop_assert_eq!(counts.loads - counts.evictions, outcome.entries, "{} {:?}", name, limit);
                prop_assert_eq!(counts.loads, counts.misses, "{}", name);
                prop_assert_eq!(counts.loads, counts.insertions + counts.reloads, "{}", name);
                let held = if matches!(limit, Limit::Entries(_)) { outcome.entries } else { outcome.bytes };
                prop_assert!(held <= size, "{} {:?}: {}", name, limit, held);
            }
        }
    }
}
