//! Policies against libCacheSim, which the authors of SIEVE and S3-FIFO maintain, on 1,000 random traces: `witness/make.py`.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops at what it did not expect, in its helpers too"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use faultline_cache_sim::{
    Limit, Policy, Setting, Trace,
    policy::NAMED_POLICIES,
    run::{InitialContent, Simulation},
    trace::{Meta, Program, Slot, SlotKind, Source, TransactionCall},
};

const TRACES: u64 = 1_000;
/// The cost of each program in libCacheSim.
const COMPILE_US: [u64; 100] = [1_000_000; 100];

/// The same numbers as in `make.py` and `Caffeine.java`.
fn random(seed: u64, requests: u64, programs: u32) -> Trace {
    let mut trace = Trace::new(Meta {
        source: Source::Plain,
        cluster: String::new(),
        version: String::new(),
    });
    for program in 0..programs {
        let bytes = Some(1 + u64::from(program * program % 17));
        let number = trace
            .add_program(Program {
                address: None,
                loader: None,
                bytes,
                has_code: true,
            })
            .unwrap();
        assert_eq!(trace.add_set(&[number]).unwrap(), program);
    }
    let mut state = seed;
    let mut draw = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32 % programs
    };
    for slot in 1..=requests {
        let program =
            (draw().min(draw()) + if slot > requests / 2 { programs / 2 } else { 0 }) % programs;
        let header = Slot {
            slot,
            parent: slot - 1,
            transactions: 1,
            kind: SlotKind::Replayed,
        };
        trace
            .add_slot(header, &[TransactionCall::new(program, false).unwrap()])
            .unwrap();
    }
    trace
}

fn misses(trace: &Trace, policy: Policy, limit: Limit) -> u64 {
    let setting = Setting {
        policy,
        limit,
        fill_percent: 100,
        includes_fees_only: true,
    };
    let simulation = Simulation {
        trace,
        setting,
        initial_content: InitialContent::Empty,
        first_slot: 0,
        compile_us: &COMPILE_US,
        seed: 1,
    };
    simulation.run(|_, _| {}).unwrap().counts.misses
}

fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(path)
}

/// Caffeine is the witness of W-TinyLFU. `policies.rs` compares MIN with all others.
#[test]
fn all_policies_except_w_tinylfu_and_min_are_compared_with_libcachesim() {
    let stored = fs::read_to_string(fixture("fixtures/misses.txt")).unwrap();
    let names = stored.lines().filter_map(|line| line.split(' ').next());
    let mut compared: Vec<&str> = names.chain(["w-tinylfu", "min"]).collect();
    compared.sort_unstable();
    compared.dedup();
    let mut all = NAMED_POLICIES.map(|(name, _)| name);
    all.sort_unstable();
    assert_eq!(compared, all);
}

#[test]
fn policies_miss_as_often_as_in_libcachesim() {
    let partial = fs::read_to_string(fixture("fixtures/misses.txt")).unwrap();
    let traces: Vec<Trace> = (0..TRACES).map(|seed| random(seed, 600, 100)).collect();
    let mut differences = Vec::new();
    for line in partial.lines() {
        let mut words = line.split(' ');
        let (name, amount) = (
            words.next().unwrap(),
            words.next().unwrap().parse().unwrap(),
        );
        let unit = words.next().unwrap();
        let limit = if unit == "bytes" {
            Limit::Bytes(amount)
        } else {
            Limit::Entries(amount)
        };
        let expected: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
        assert_eq!(expected.len(), traces.len());
        let policy: Policy = name.parse().unwrap();
        let found: Vec<u64> = traces
            .iter()
            .map(|trace| misses(trace, policy, limit))
            .collect();
        let differing = found
            .iter()
            .zip(&expected)
            .filter(|(found, expected)| found != expected)
            .count();
        let mean = |all: &[u64]| all.iter().sum::<u64>() as f64 / all.len() as f64;
        println!(
            "{name} {amount} {unit}: {differing} differ, mean {} and {}",
            mean(&found),
            mean(&expected)
        );
        if differing > 0 {
            differences.push((name, amount, unit, differing));
        }
    }
    assert!(differences.is_empty(), "{differences:?}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test starts programs itself")]
fn the_stored_misses_are_those_that_libcachesim_computes() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/bin/python3");
    let has_it = |python: &PathBuf| {
        let tried = Command::new(python)
            .args(["-c", "import libcachesim"])
            .output();
        tried.is_ok_and(|output| output.status.success())
    };
    let Some(python) = [own, "python3".into()].into_iter().find(has_it) else {
        eprintln!("SKIPPED: no Python with libcachesim; scripts/python-witness makes one");
        return;
    };
    let output = Command::new(python)
        .arg(fixture("witness/make.py"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let partial = fs::read_to_string(fixture("fixtures/misses.txt")).unwrap();
    // Not by `assert_eq!`, which would print them all.
    assert!(
        partial == String::from_utf8(output.stdout).unwrap(),
        "fixtures/misses.txt differs from the output of witness/make.py"
    );
}

/// Caffeine counts uses in a sketch, not before the cache is half full, and admits one in 128 at random of what it would refuse.
#[test]
fn w_tinylfu_has_nearly_as_many_misses_as_caffeine() {
    let partial = fs::read_to_string(fixture("fixtures/caffeine.txt")).unwrap();
    let expected: Vec<u64> = partial
        .split_whitespace()
        .skip(3)
        .map(|word| word.parse().unwrap())
        .collect();
    assert_eq!(expected.len() as u64, TRACES);
    let found = (0..TRACES).map(|seed| {
        misses(
            &random(seed, 1_900, 1_000),
            Policy::WTinyLfu,
            Limit::Entries(200),
        )
    });
    let off: Vec<f64> = found
        .zip(&expected)
        .map(|(found, real)| found as f64 / *real as f64 - 1.0)
        .collect();
    let mean = off.iter().sum::<f64>() / off.len() as f64;
    let worst = off.iter().fold(0.0, |worst: f64, off| worst.max(off.abs()));
    println!("mean {:.3} %, worst {:.3} %", mean * 100.0, worst * 100.0);
    assert!(mean.abs() < 0.01 && worst < 0.05, "{mean} {worst}");
}
