//! Policies against libCacheSim, which the authors of SIEVE and S3-FIFO maintain, on 1,000 random traces: `witness/make.py`.

mod common;

use std::fs;
use std::path::Path;

use faultline_cachesim::run::{Simulation, Start};
use faultline_cachesim::trace::Source;
use faultline_cachesim::{Limit, Policy, Setting, Trace};

const REQUESTS: u32 = 600;

/// The same numbers as in `make.py`.
fn random(seed: u64) -> Trace {
    let mut state = seed;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % 100
    };
    let program =
        |at: u32, draw: &mut dyn FnMut() -> u64| (draw().min(draw()) + if at >= REQUESTS / 2 { 50 } else { 0 }) % 100;
    let text: String = (0..REQUESTS).map(|at| format!("{at} {}\n", program(at, &mut draw))).collect();
    let trace = common::plain(&text);
    assert_eq!(trace.meta().source, Source::Plain);
    trace
}

#[test]
fn every_policy_misses_as_often_as_the_published_implementation() {
    let kept = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/misses.txt")).unwrap();
    let traces: Vec<Trace> = (0..1_000).map(random).collect();
    let mut differences = Vec::new();
    for line in kept.lines() {
        let mut words = line.split(' ');
        let (name, size) = (words.next().unwrap(), words.next().unwrap().parse().unwrap());
        let policy: Policy = name.parse().unwrap();
        let setting = Setting { policy, limit: Limit::Entries(size), fill: 100, fees_only: true };
        let expected: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
        assert_eq!(expected.len(), traces.len());
        let misses = |trace| {
            let simulation =
                Simulation { trace, setting, start: Start::Empty, first_slot: 0, compile_us: &[], seed: 1 };
            simulation.run(|_, _| {}).unwrap().counts.misses
        };
        let found: Vec<u64> = traces.iter().map(misses).collect();
        let differing = found.iter().zip(&expected).filter(|(found, expected)| found != expected).count();
        let mean = |all: &[u64]| all.iter().sum::<u64>() as f64 / all.len() as f64;
        println!("{name} {size}: {differing} differ, mean {} and {}", mean(&found), mean(&expected));
        if differing > 0 {
            differences.push((name, size, differing));
        }
    }
    assert!(differences.is_empty(), "{differences:?}");
}
