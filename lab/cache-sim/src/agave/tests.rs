//! Small traces whose results follow from the rules by hand.

use super::*;
use crate::{
    cache::{Budget, Cache, Counts, Limit},
    policy::{Policy, Setting},
    run::{InitialContent, Outcome, Simulation},
    trace::{
        ChangeKind, Meta, Program, Slot, SlotKind, Source, Trace, TraceChange, TransactionCall,
    },
};

/// (slot, transactions, changes). A transaction is a list of programs. A change is (number of
/// transactions before it, program, kind).
type Block = (u64, Vec<Vec<u32>>, Vec<(u32, u32, ChangeKind)>);

fn trace(without_code: &[u32], blocks: &[Block]) -> Trace {
    let mut trace = Trace::new(Meta {
        source: Source::Plain,
        cluster: String::new(),
        version: String::new(),
    });
    for program in 0..10 {
        let has_code = !without_code.contains(&program);
        trace
            .add_program(Program {
                address: None,
                loader: None,
                bytes: Some(10),
                has_code,
            })
            .unwrap();
    }
    for (slot, transactions, changes) in blocks {
        let calls: Vec<TransactionCall> = transactions
            .iter()
            .map(|programs| TransactionCall::new(trace.add_set(programs).unwrap(), false).unwrap())
            .collect();
        let header = Slot {
            slot: *slot,
            parent: slot - 1,
            transactions: calls.len() as u64,
            kind: SlotKind::Replayed,
        };
        trace.add_slot(header, &calls).unwrap();
        for (position, program, kind) in changes {
            let slot_index = trace.slots().len() as u32 - 1;
            trace
                .add_change(TraceChange {
                    slot_index,
                    position: *position,
                    program: *program,
                    kind: *kind,
                })
                .unwrap();
        }
    }
    trace
}

fn block(slot: u64, programs: &[u32]) -> Block {
    (
        slot,
        programs.iter().map(|program| vec![*program]).collect(),
        Vec::new(),
    )
}

fn run_with(trace: &Trace, version: &str, entries: u64, compile_us: &[u64], seed: u64) -> Outcome {
    let rules = CacheRules::of(version).unwrap();
    let setting = Setting {
        policy: Policy::Agave(rules),
        limit: Limit::Entries(entries),
        fill_percent: 100,
        includes_fees_only: rules.includes_fees_only,
    };
    Simulation {
        trace,
        setting,
        initial_content: InitialContent::Empty,
        first_slot: 0,
        compile_us,
        seed,
    }
    .run(|_, _| {})
    .unwrap()
}

fn run(trace: &Trace, version: &str, entries: u64) -> Counts {
    run_with(trace, version, entries, &[], 1).counts
}

/// Programs that are loaded at the end.
fn resident(trace: &Trace, version: &str, entries: u64, compile_us: &[u64], seed: u64) -> Vec<u32> {
    let rules = CacheRules::of(version).unwrap();
    let setting = Setting {
        policy: Policy::Agave(rules),
        limit: Limit::Entries(entries),
        fill_percent: 100,
        includes_fees_only: true,
    };
    let budget = Budget::new(trace, setting.limit, setting.fill_percent).unwrap();
    let mut cache = ProgramCache::new(rules, trace, budget, compile_us, seed);
    let simulation = Simulation {
        trace,
        setting,
        initial_content: InitialContent::Empty,
        first_slot: 0,
        compile_us,
        seed,
    };
    simulation.drive(&mut cache, true, |_, _| {});
    let mut left = Vec::new();
    cache.for_each_resident_program(&mut |program| left.push(program));
    left.sort_unstable();
    left
}

#[test]
fn each_version_has_its_eviction_rules_and_unknown_ones_are_refused() {
    let rules = |version: &str| CacheRules::of(version).unwrap();
    let capacity = |version: &str| Some(CacheRules::of(version).ok()?.stock_entries);
    for version in ["2.0.5", "2.0.15", "2.1.0"] {
        assert_eq!(capacity(version), Some(256), "{version}");
    }
    for version in [
        "2.0.16",
        "2.1.1",
        "2.1.14",
        "v2.3.9",
        "3.1.12",
        "4.0.0",
        "4.2.2-jito",
        "2.2.14 (src:1; client:Agave)",
    ] {
        assert_eq!(capacity(version), Some(512), "{version}");
    }
    assert_eq!(
        (capacity("4.3.0"), capacity("4.5.0-alpha.4")),
        (Some(1_024), Some(1_024))
    );
    assert_eq!(rules("4.0.9").eviction, Eviction::TwoDraws);
    assert_eq!(
        rules("4.1.0").eviction,
        Eviction::Score {
            clamp: RootClamp::Nothing
        }
    );
    assert_eq!(
        rules("4.4.0").eviction,
        Eviction::Score {
            clamp: RootClamp::Uses
        }
    );
    assert!(rules("2.3.1").includes_fees_only && !rules("3.0.0").includes_fees_only);
    assert!(
        rules("4.2.9").deployment == Deployment::Loaded
            && rules("4.3.0").deployment == Deployment::Unloaded
    );
    for version in [
        "1.18.26",
        "2.4.0",
        "3.2.0",
        "4.6.0",
        "5.0.0",
        "0.503.20214",
        "2.1",
        "2.1.x",
        "",
        "2.+1.0",
        "99999999999.1.1",
    ] {
        let error = CacheRules::of(version).unwrap_err().to_string();
        assert!(
            error.contains(&format!("{version:?}")) && error.contains("4.0 to 4.5"),
            "{error}"
        );
    }
}

#[test]
fn a_full_cache_of_512_shrinks_to_460_entries() {
    let rules = CacheRules::of("2.1.14").unwrap();
    let setting = Setting::agave(rules, 512);
    let mut trace = trace(&[], &[]);
    let program = trace.programs()[0];
    for _ in 10..600 {
        trace.add_program(program).unwrap();
    }
    let calls: Vec<TransactionCall> = (0..600)
        .map(|program| TransactionCall::new(trace.add_set(&[program]).unwrap(), false).unwrap())
        .collect();
    let header = Slot {
        slot: 7,
        parent: 6,
        transactions: 600,
        kind: SlotKind::Replayed,
    };
    trace.add_slot(header, &calls).unwrap();
    let simulation = Simulation {
        trace: &trace,
        setting,
        initial_content: InitialContent::Empty,
        first_slot: 0,
        compile_us: &[],
        seed: 1,
    };
    let outcome = simulation.run(|_, _| {}).unwrap();
    assert_eq!(
        (
            outcome.counts.misses,
            outcome.counts.evictions,
            outcome.entries
        ),
        (600, 140, 460)
    );
}

#[test]
fn in_every_version_a_large_enough_cache_misses_each_program_once() {
    let trace = trace(&[], &[block(1, &[0, 1, 0]), block(2, &[1, 2, 2])]);
    for version in ["2.1.14", "3.1.12", "4.2.2", "4.3.0", "4.4.0", "4.5.0"] {
        let counts = run(&trace, version, 3);
        assert_eq!(
            (
                counts.misses,
                counts.insertions,
                counts.reloads,
                counts.evictions
            ),
            (3, 3, 0, 0),
            "{version}"
        );
        assert_eq!(
            (counts.lookups, counts.loads, counts.transactions),
            (6, 3, 6),
            "{version}"
        );
    }
}

#[test]
fn eviction_waits_for_the_end_of_the_transaction_that_loads() {
    let all = (1, vec![vec![0, 1, 2], vec![0, 1, 2]], Vec::new());
    let counts = run(&trace(&[], &[all]), "2.1.14", 2);
    // The first transaction loads three programs, and one is evicted. The second misses and loads
    // it again, and one is evicted again.
    assert_eq!(
        (
            counts.misses,
            counts.insertions,
            counts.reloads,
            counts.evictions
        ),
        (4, 3, 1, 2)
    );
}

#[test]
fn the_less_used_of_two_draws_is_evicted_and_uses_persist() {
    // 0 has 100 uses when 1 is loaded. Only two draws of 0 evict it: 1 in 4.
    let mut programs = vec![0; 99];
    programs.push(1);
    let trace = trace(&[], &[block(1, &programs)]);
    let hot_stays = (0..400).filter(|seed| resident(&trace, "2.1.14", 1, &[], *seed) == [0]);
    let share = hot_stays.count() as f64 / 400.0;
    assert!((share - 0.75).abs() < 0.08, "{share}");
}

#[test]
fn through_2_3_a_load_counts_two_uses_preventing_one_hit_wonders() {
    let trace = trace(&[], &[block(1, &[0, 1, 2, 3])]);
    assert_eq!(run(&trace, "2.3.0", 1).one_hit_wonders, 0);
    assert_eq!(run(&trace, "3.0.0", 1).one_hit_wonders, 3);
}

#[test]
fn uses_are_halved_for_each_slot_without_one() {
    // Program 0 has 1,000 uses, but they were 70 slots ago, so they count less than the two uses of
    // 1.
    let mut blocks = vec![block(1, &[0; 1_000])];
    blocks.push(block(71, &[1]));
    let trace = trace(&[], &blocks);
    let evicts_old = (0..100).filter(|seed| {
        let outcome = run_with(&trace, "2.1.14", 1, &[], *seed);
        outcome.entries == 1 && outcome.counts.evictions == 1
    });
    assert_eq!(evicts_old.count(), 100);
}

#[test]
fn since_4_1_slow_to_compile_programs_stay_cached() {
    // Program 0 takes 2^20 times as long to compile as the others.
    let trace = trace(&[], &[block(1, &[0, 1, 2, 0])]);
    let compile_us = [1 << 20, 1, 1];
    // Two of three programs fit. A load of 2 exceeds the limit, so one of the three is evicted.
    let misses = |version: &str| -> u64 {
        (0..200)
            .map(|seed| {
                run_with(&trace, version, 2, &compile_us, seed)
                    .counts
                    .misses
            })
            .sum()
    };
    let (two_draws, score) = (misses("4.0.0"), misses("4.2.2"));
    assert!(score < two_draws, "{score} {two_draws}");
}

#[test]
fn since_4_4_a_load_is_newer_than_a_use() {
    // Programs 0 and 1 are used in slot 20, and since 4.4 this counts as a use in the root's slot,
    // the first. The load of 2 counts in slot 20, so 2 is evicted only if both draws are 2.
    let trace = trace(&[], &[block(1, &[0, 1]), block(20, &[0, 0, 1, 1, 2])]);
    let stays = |version: &str| {
        (0..400)
            .filter(|seed| resident(&trace, version, 2, &[1, 1, 1], *seed).contains(&2))
            .count() as f64
            / 400.0
    };
    let (before, since) = (stays("4.3.0"), stays("4.4.0"));
    assert!((before - 4.0 / 9.0).abs() < 0.08, "{before}");
    assert!((since - 8.0 / 9.0).abs() < 0.06, "{since}");
}

#[test]
fn through_2_3_fees_only_transactions_look_up_programs() {
    let mut trace = trace(&[], &[block(1, &[0])]);
    let set = trace.add_set(&[5]).unwrap();
    let slot = Slot {
        slot: 2,
        parent: 1,
        transactions: 1,
        kind: SlotKind::Replayed,
    };
    trace
        .add_slot(slot, &[TransactionCall::new(set, true).unwrap()])
        .unwrap();
    assert_eq!(run(&trace, "2.3.0", 4).misses, 2);
    assert_eq!(run(&trace, "3.0.0", 4).misses, 1);
}

#[test]
fn through_4_3_accounts_without_code_leave_a_tombstone_occupying_no_entry() {
    let trace = trace(&[5], &[block(1, &[5, 0, 5, 0])]);
    for (version, expected) in [
        ("2.1.14", (2, 2, 1, 0)),
        ("4.3.0", (2, 2, 1, 0)),
        ("4.4.0", (1, 1, 1, 0)),
    ] {
        let counts = run(&trace, version, 1);
        assert_eq!(
            (
                counts.misses,
                counts.insertions,
                counts.loads,
                counts.evictions
            ),
            expected,
            "{version}"
        );
    }
}

#[test]
fn through_4_2_a_deployed_program_is_cached_next_slot_later_lazily() {
    let deployed = (
        2,
        vec![vec![0], vec![0]],
        vec![(1, 0, ChangeKind::Deployed)],
    );
    let trace = trace(&[], &[block(1, &[0]), deployed, block(3, &[0])]);
    let counts = run(&trace, "4.2.2", 4);
    assert_eq!(
        (counts.misses, counts.insertions, counts.reloads),
        (1, 2, 0)
    );
    // In the slot of its deployment, the program is delayed, which is no miss.
    let counts = run(&trace, "4.3.0", 4);
    assert_eq!(
        (counts.misses, counts.insertions, counts.reloads),
        (2, 2, 1)
    );
}

#[test]
fn a_superseded_version_occupies_an_entry_until_the_root_passes_it() {
    let mut blocks = vec![block(1, &[0])];
    blocks.push((2, vec![vec![0]], vec![(1, 0, ChangeKind::Deployed)]));
    let both = run_with(&trace(&[], &blocks), "2.1.14", 4, &[], 1);
    assert_eq!((both.entries, both.counts.evictions), (2, 0));
    let entries = |last: u64| {
        let later = (3..=last).map(|slot| block(slot, &[0]));
        run_with(
            &trace(&[], &[blocks.clone(), later.collect()].concat()),
            "2.1.14",
            4,
            &[],
            1,
        )
    };
    // The root is 32 blocks behind: in slot 34 it is the slot of the deployment.
    assert_eq!((entries(34).entries, entries(35).entries), (2, 1));
    assert_eq!(
        (entries(40).counts.misses, entries(40).counts.evictions),
        (1, 0)
    );
}

#[test]
fn a_program_deployed_by_a_transaction_is_evicted_by_a_later_one() {
    let deployed = (1, vec![vec![0], vec![]], vec![(2, 1, ChangeKind::Deployed)]);
    let both = run_with(
        &trace(&[], std::slice::from_ref(&deployed)),
        "2.1.14",
        1,
        &[],
        1,
    );
    assert_eq!((both.entries, both.counts.evictions), (2, 0));
    let later = run_with(
        &trace(&[], &[deployed, block(2, &[2])]),
        "2.1.14",
        1,
        &[],
        1,
    );
    assert_eq!((later.entries, later.counts.evictions), (1, 2));
}

#[test]
fn a_closed_program_is_a_tombstone() {
    let closed = (2, vec![vec![0]], vec![(1, 0, ChangeKind::Closed)]);
    let counts = run(
        &trace(&[], &[block(1, &[0]), closed, block(3, &[0, 0])]),
        "2.1.14",
        4,
    );
    assert_eq!((counts.misses, counts.loads, counts.insertions), (1, 1, 2));
    // Since 4.4, a closed program is not looked up, however old its entry is.
    let closed = (2, vec![vec![0]], vec![(1, 0, ChangeKind::Closed)]);
    let mut blocks = vec![block(1, &[0]), closed];
    blocks.extend((0..40).map(|at| block(4_000 + at, &[0])));
    assert_eq!(run(&trace(&[], &blocks), "4.4.0", 4).misses, 1);
}

#[test]
fn since_4_4_a_program_evicted_long_ago_counts_as_new() {
    // All programs but one are evicted and then unused for 4,000 slots.
    let mut blocks = vec![block(1, &[0, 1, 2, 3, 4, 5, 6, 7, 8])];
    blocks.extend((0..40).map(|at| block(4_000 + at, &[9])));
    blocks.push(block(4_100, &[0, 1, 2, 3, 4, 5, 6, 7, 8]));
    let trace = trace(&[], &blocks);
    let (before, since) = (run(&trace, "4.3.0", 1), run(&trace, "4.4.0", 1));
    assert_eq!(before.insertions, 10);
    // A program that was never evicted is found.
    assert!((18..=19).contains(&since.insertions), "{since:?}");
}

#[test]
fn a_seed_decides_everything() {
    let programs: Vec<u32> = (0..500).map(|at| (at * 7 + at / 3) % 10).collect();
    let trace = trace(&[], &[block(1, &programs), block(2, &programs)]);
    for version in ["2.1.14", "4.2.2", "4.4.0"] {
        let misses = |seed| {
            run_with(&trace, version, 5, &[3, 1, 4, 1, 5], seed)
                .counts
                .misses
        };
        assert_eq!(misses(3), misses(3), "{version}");
        assert!((0..20).any(|seed| misses(seed) != misses(3)), "{version}");
    }
}

#[test]
fn since_4_5_a_deployed_program_is_inserted_at_its_first_lookup() {
    let deployed = |lookups: usize| {
        let changes = vec![(1, 0, ChangeKind::Deployed)];
        (2, vec![vec![0]; 1 + lookups], changes)
    };
    let counts = |lookups| {
        let blocks = [block(1, &[0]), deployed(lookups), block(3, &[0])];
        let counts = run(&trace(&[], &blocks), "4.5.0", 4);
        (counts.misses, counts.insertions, counts.reloads)
    };
    assert_eq!(counts(0), (2, 2, 0));
    // A lookup in the slot of the deployment compiles the program, too, although it cannot run yet.
    assert_eq!(counts(2), (2, 2, 0));
}

#[test]
fn since_4_5_an_old_version_remains_until_the_new_one_is_looked_up() {
    let changed = |kind| (2, vec![vec![0]], vec![(1, 0, kind)]);
    let entries = |kind, later: &[u32]| {
        let mut blocks = vec![block(1, &[0]), changed(kind)];
        blocks.extend((3..=40).map(|slot| block(slot, &[1])));
        blocks.push(block(41, later));
        blocks.push(block(42, &[1]));
        let outcome = run_with(&trace(&[], &blocks), "4.5.0", 4, &[], 1);
        (outcome.entries, outcome.counts.misses)
    };
    assert_eq!(entries(ChangeKind::Deployed, &[1]), (2, 2));
    assert_eq!(entries(ChangeKind::Deployed, &[0]), (2, 3));
    assert_eq!(entries(ChangeKind::Closed, &[0]), (2, 2));
}

#[test]
fn since_4_5_a_version_goes_once_a_later_one_was_looked_up() {
    let deployed = |slot, lookups: &[u32]| {
        let transactions = lookups.iter().map(|program| vec![*program]).collect();
        (slot, transactions, vec![(1, 0, ChangeKind::Deployed)])
    };
    let mut blocks = vec![block(1, &[0]), deployed(2, &[1, 0]), deployed(3, &[1])];
    blocks.extend((4..=42).map(|slot| block(slot, &[1])));
    let outcome = run_with(&trace(&[], &blocks), "4.5.0", 4, &[], 1);
    assert_eq!((outcome.entries, outcome.counts.misses), (2, 3));
}

#[test]
fn since_4_5_a_load_is_no_newer_than_a_use() {
    // Programs 0 and 1 are used and 2 is loaded in slot 20. All three count in the root's slot, so
    // the scores are equal and the first draw is evicted: 2 in one of three cases.
    let trace = trace(&[], &[block(1, &[0, 1]), block(20, &[0, 0, 1, 1, 2])]);
    let stays = (0..400)
        .filter(|seed| resident(&trace, "4.5.0", 2, &[0, 0, 0], *seed).contains(&2))
        .count() as f64
        / 400.0;
    assert!((stays - 2.0 / 3.0).abs() < 0.08, "{stays}");
}
