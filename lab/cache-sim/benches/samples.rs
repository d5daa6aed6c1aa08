//! How wrong misses are that are predicted from a part of the lookups: from some of the blocks, joined, or from some of the
//! programs in a cache that is as much smaller ([decision 24](../../../docs/decisions/0024-no-prediction-in-the-daemon.md)).
//!
//! On the load of the captures (`tests/fixtures/load.trace`), on one of 5,000 programs drawn with a skew, and on the same with bursts: a
//! third of all calls are of ten programs, each of which is called a hundred times within some eight slots and then not for long. The
//! first half warms the cache, the misses of the second are compared.
#![expect(
    clippy::unwrap_used,
    reason = "a benchmark stops at what it did not expect"
)]

use fastrand::Rng;
use faultline_cache_sim::{
    CacheRules, Setting, Trace,
    run::{InitialContent, Simulation},
    trace::{Meta, Program, SetInterner, Slot, SlotKind, Source, TransactionCall},
};

const SEEDS: u64 = 4;
/// Samples of each kind.
const SAMPLES: u64 = 40;
const SLOTS: u64 = 1_500;
const TRANSACTIONS: u64 = 400;
const PROGRAMS: u32 = 5_000;

fn main() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/load.trace");
    let captured =
        faultline_cache_sim::file::read(std::fs::read(path).unwrap().as_slice()).unwrap();
    study("captured load, 640 programs", &captured, &[512, 768]);
    study(
        "5,000 programs, drawn anew each time",
        &drawn(0.0),
        &[512, 2_048],
    );
    study("the same with bursts", &drawn(0.33), &[512, 2_048]);
}

/// Calls of one program each.
fn drawn(bursts: f64) -> Trace {
    let mut rng = Rng::with_seed(1);
    // A program, and how often it is still called.
    let mut running = [(0, 0); 10];
    let slots = (0..SLOTS).map(|_| {
        let mut call = || {
            if rng.f64() >= bursts {
                return ((rng.f64().powi(12) * f64::from(PROGRAMS)) as u32).min(PROGRAMS - 1);
            }
            let burst = &mut running[rng.usize(..10)];
            if burst.1 == 0 {
                *burst = (rng.u32(..PROGRAMS), 100);
            }
            burst.1 -= 1;
            burst.0
        };
        (0..TRANSACTIONS).map(|_| call()).collect::<Vec<u32>>()
    });
    trace(PROGRAMS, slots)
}

fn trace(programs: u32, slots: impl Iterator<Item = Vec<u32>>) -> Trace {
    let mut trace = Trace::new(Meta {
        source: Source::Plain,
        cluster: String::new(),
        version: String::new(),
    });
    for _ in 0..programs {
        trace
            .add_program(Program {
                address: None,
                loader: None,
                bytes: None,
                has_code: true,
            })
            .unwrap();
    }
    let mut set_interner = SetInterner::default();
    for (number, programs) in (1..).zip(slots) {
        let call = |program: &u32| {
            TransactionCall::new(set_interner.intern(&mut trace, &[*program]).unwrap(), false)
                .unwrap()
        };
        let calls: Vec<TransactionCall> = programs.iter().map(call).collect();
        let slot = Slot {
            slot: number,
            parent: number - 1,
            transactions: calls.len() as u64,
            kind: SlotKind::Replayed,
        };
        trace.add_slot(slot, &calls).unwrap();
    }
    trace
}

/// The first program of each call, slot by slot.
fn calls(trace: &Trace) -> Vec<Vec<u32>> {
    let of = |at: usize| {
        trace
            .transactions_of(at)
            .iter()
            .filter_map(|call| trace.programs_of_set(call.set_number()).first().copied())
            .collect()
    };
    (0..trace.slots().len()).map(of).collect()
}

/// Mean misses in the second half.
fn misses(trace: &Trace, entries: u64) -> f64 {
    let setting = Setting::agave(CacheRules::of("2.1.14").unwrap(), entries);
    let first_slot = trace.slots()[trace.slots().len() / 2].slot;
    let run = |seed| {
        let simulation = Simulation {
            trace,
            setting,
            initial_content: InitialContent::Empty,
            first_slot,
            compile_us: &[],
            seed,
        };
        simulation.run(|_, _| {}).unwrap().counts.misses as f64
    };
    (1..=SEEDS).map(run).sum::<f64>() / SEEDS as f64
}

fn study(what: &str, whole: &Trace, sizes: &[u64]) {
    let (slots, programs) = (calls(whole), whole.programs().len() as u32);
    for entries in sizes {
        let truth = misses(whole, *entries);
        println!("{what}, {entries} entries: {truth:.0} misses");
        for share in [2, 8] {
            let blocks = |sample: u64| {
                let some = slots
                    .iter()
                    .skip((sample % share) as usize)
                    .step_by(share as usize)
                    .cloned();
                misses(&trace(programs, some), *entries)
            };
            say(
                &format!("one block in {share}, joined"),
                truth,
                (0..share).map(|s| share as f64 * blocks(s)),
            );
            // Whether a program is in the sample depends on its number and on nothing else, as with a hash of its address.
            let of_programs = |sample: u64| {
                let is_in = |program: &u32| {
                    Rng::with_seed(sample << 32 | u64::from(*program))
                        .u64(..)
                        .is_multiple_of(share)
                };
                let some = slots
                    .iter()
                    .map(|slot| slot.iter().copied().filter(is_in).collect());
                misses(&trace(programs, some), entries / share)
            };
            say(
                &format!("one program in {share}"),
                truth,
                (0..SAMPLES).map(|s| share as f64 * of_programs(s)),
            );
        }
    }
}

/// The mean error, the standard deviation over samples, and the worst, in percent.
fn say(what: &str, truth: f64, predicted: impl Iterator<Item = f64>) {
    let errors: Vec<f64> = predicted
        .map(|misses| 100.0 * (misses / truth - 1.0))
        .collect();
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let sd = (errors
        .iter()
        .map(|error| (error - mean).powi(2))
        .sum::<f64>()
        / errors.len() as f64)
        .sqrt();
    let worst = errors
        .iter()
        .copied()
        .max_by(|a, b| a.abs().total_cmp(&b.abs()))
        .unwrap_or(0.0);
    println!(
        "  {what}: {mean:+.1} % in the mean, sd {sd:.1}, worst {worst:+.1} ({} samples)",
        errors.len()
    );
}
