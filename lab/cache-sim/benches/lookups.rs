//! What a simulated lookup costs: 100 M of them at 8 sizes with 8 seeds have 4 minutes on one core, that is 37.5 ns each, and
//! 500 MB. Two million lookups are measured; with a number as argument so many, one a transaction, which takes the most memory.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a benchmark stops at what it did not expect and reads a clock"
)]

use std::time::Instant;

use faultline_cache_sim::{
    CacheRules, Limit, Policy, Setting, Trace,
    policy::NAMED_POLICIES,
    run::{InitialContent, Simulation},
    trace::{Meta, Program, SetInterner, Slot, SlotKind, Source, TransactionCall},
};

const TRANSACTIONS: u64 = 1_000;
const PROGRAMS: u64 = 5_000;
const SIZES: [u64; 8] = [256, 384, 512, 768, 1_024, 2_048, 4_096, 8_192];

/// Transactions that look two programs up, drawn with a skew: of 5,000 programs the first 512 have 91 % of lookups with 24, and
/// 68 % with 6.
fn trace(skew: i32, lookups: u64, each: usize) -> Trace {
    let mut trace = Trace::new(Meta {
        source: Source::Plain,
        cluster: String::new(),
        version: String::new(),
    });
    let mut set_interner = SetInterner::default();
    for program in 0..PROGRAMS {
        let bytes = Some(10_000 + program * 7_919 % 400_000);
        trace
            .add_program(Program {
                address: None,
                loader: None,
                bytes,
                has_code: true,
            })
            .unwrap();
    }
    let mut rng = fastrand::Rng::with_seed(1);
    for slot in 0..lookups / TRANSACTIONS / each as u64 {
        let calls = (0..TRANSACTIONS).map(|_| {
            let mut program =
                || ((rng.f64().powi(skew) * PROGRAMS as f64) as u32).min(PROGRAMS as u32 - 1);
            let programs = [program(), program()];
            TransactionCall::new(
                set_interner.intern(&mut trace, &programs[..each]).unwrap(),
                false,
            )
            .unwrap()
        });
        let calls: Vec<TransactionCall> = calls.collect();
        let slot = Slot {
            slot: slot + 1,
            parent: slot,
            transactions: TRANSACTIONS,
            kind: SlotKind::Replayed,
        };
        trace.add_slot(slot, &calls).unwrap();
    }
    trace
}

fn main() {
    if let Some(lookups) = std::env::args().find_map(|argument| argument.parse().ok()) {
        let whole = trace(24, lookups, 1);
        agave(&whole, &[], "2.1.14");
        return memory();
    }
    for (skew, what) in [(24, "most lookups hit"), (6, "the cache thrashes")] {
        println!("{what}:");
        measure(&trace(skew, 2_000_000, 2));
    }
    memory();
}

fn memory() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!(
        "{}",
        status
            .lines()
            .find(|line| line.starts_with("VmHWM"))
            .unwrap_or("no VmHWM")
    );
}

fn measure(trace: &Trace) {
    let compile_us: Vec<u64> = (0..PROGRAMS)
        .map(|program| 500 + program * 37 % 9_000)
        .collect();
    ["2.1.14", "4.2.2", "4.4.0"]
        .iter()
        .for_each(|version| agave(trace, &compile_us, version));
    for (name, policy) in NAMED_POLICIES {
        let (ns, missed) = run(trace, &compile_us, policy, 512);
        println!(
            "{name}, 512 entries: {ns:.1} ns, {:.2} % missed",
            100.0 * missed
        );
    }
}

fn agave(trace: &Trace, compile_us: &[u64], version: &str) {
    let policy = Policy::Agave(CacheRules::of(version).unwrap());
    let all = SIZES.map(|entries| run(trace, compile_us, policy, entries));
    let mean = all.iter().map(|(ns, _)| ns).sum::<f64>() / 8.0;
    let minutes = mean * 100e6 * 64.0 / 60e9;
    println!(
        "{version}: {mean:.1} ns a lookup (budget 37.5); 100 M x 8 sizes x 8 seeds: {minutes:.1} min (budget 4)"
    );
    for (entries, (ns, missed)) in SIZES.iter().zip(all) {
        println!(
            "  {entries} entries: {ns:.1} ns, {:.2} % missed",
            100.0 * missed
        );
    }
}

/// Nanoseconds a lookup, and the share that missed.
fn run(trace: &Trace, compile_us: &[u64], policy: Policy, entries: u64) -> (f64, f64) {
    let setting = Setting {
        policy,
        limit: Limit::Entries(entries),
        fill_percent: 90,
        includes_fees_only: true,
    };
    let simulation = Simulation {
        trace,
        setting,
        initial_content: InitialContent::Empty,
        first_slot: 0,
        compile_us,
        seed: 1,
    };
    let begin = Instant::now();
    let counts = simulation.run(|_, _| {}).unwrap().counts;
    (
        begin.elapsed().as_secs_f64() * 1e9 / counts.lookups as f64,
        counts.misses as f64 / counts.lookups as f64,
    )
}
