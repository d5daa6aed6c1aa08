//! Random steps through a real `ProgramCache` and through the simulator, side by side.
//!
//! A step is a transaction: it looks programs up, and now and then deploys or closes one. Both see the same steps and draw on
//! their own what to evict, so the mean difference over many runs is zero if they follow the same rule.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use fastrand::Rng;
use faultline_cache_sim::run::{InitialContent, Simulation};
use faultline_cache_sim::trace::{
    Call, Change, ChangeKind, Meta, Program, SetInterner, Slot, SlotKind, Source,
};
use faultline_cache_sim::{CacheRules, Limit, Policy, Setting, Trace};

const STEPS: usize = 100_000;
const RUNS: u64 = 200;
/// A mean difference of so many standard errors is no accident.
const ERRORS: f64 = 3.0;
const FIRST_SLOT: u64 = 1_000;
/// The simulator's root is so many blocks behind.
const ROOT_BEHIND: usize = 32;
const THREADS: usize = 2;
/// Shares of the real cache's entries that are kept, in percent: Agave's, and a small cache.
const FILLS: [u8; 2] = [90, 20];
const COUNTERS: [&str; 5] = [
    "misses",
    "insertions",
    "reloads",
    "evictions",
    "one-hit wonders",
];

pub type Counts = [u64; COUNTERS.len()];

/// A real cache of one release, called as its transaction processor calls it.
pub trait Real {
    const VERSION: &'static str;
    /// Of another release, which must be told apart.
    const OTHER: &'static str;
    /// Entries of the crate's constant.
    const ENTRIES: usize;

    /// Empty, with a root. `compile_us` has a time for each program; those without code have none.
    fn new(root: u64, fill: u8, compile_us: &[Option<u64>]) -> Self;
    fn root(&mut self, slot: u64);
    fn transaction(&mut self, slot: u64, programs: &[u32], change: Option<(u32, ChangeKind)>);
    fn counts(&self) -> Counts;
}

struct Transaction {
    programs: Vec<u32>,
    change: Option<(u32, ChangeKind)>,
}

/// One run's steps.
struct Steps {
    /// Of each program; `None` has no code.
    compile_us: Vec<Option<u64>>,
    blocks: Vec<(u64, Vec<Transaction>)>,
}

impl Steps {
    fn random(seed: u64, kept: usize) -> Self {
        let mut rng = Rng::with_seed(seed);
        let programs = kept * 3 / 2;
        let time = |rng: &mut Rng| (2f64.powf(7.0 + 10.0 * rng.f64())) as u64;
        let mut compile_us: Vec<_> = (0..programs)
            .map(|_| (rng.u32(0..20) > 0).then(|| time(&mut rng)))
            .collect();
        // A program is used the less the higher its number is, about as in Zipf's law.
        let draw = |rng: &mut Rng| (programs as f64).powf(rng.f64()) as u32 - 1;
        let (mut blocks, mut slot, mut closed) = (Vec::new(), FIRST_SLOT, Vec::new());
        let mut left = STEPS;
        while left > 0 {
            let mut changed = Vec::new();
            let transactions = rng.usize(1..150).min(left);
            left -= transactions;
            let block = (0..transactions).map(|_| {
                let mut looked_up: Vec<u32> =
                    (0..rng.usize(1..4)).map(|_| draw(&mut rng)).collect();
                looked_up.sort_unstable();
                looked_up.dedup();
                let program = looked_up[0];
                let may_change =
                    compile_us[program as usize].is_some() && !closed.contains(&program);
                let change = match rng.u32(0..2_000) {
                    0..4 if may_change && !changed.contains(&program) => {
                        Some((program, ChangeKind::Deployed))
                    }
                    4 if may_change && !changed.contains(&program) => {
                        Some((program, ChangeKind::Closed))
                    }
                    // A new one, which nothing could look up before.
                    5 => {
                        compile_us.push(Some(time(&mut rng)));
                        looked_up.clear();
                        Some((compile_us.len() as u32 - 1, ChangeKind::Deployed))
                    }
                    // Later the new ones are used, too.
                    6..300 if compile_us.len() > programs => {
                        looked_up = vec![rng.u32(programs as u32..compile_us.len() as u32)];
                        None
                    }
                    _ => None,
                };
                changed.extend(change.map(|(program, _)| program));
                closed.extend(
                    change
                        .filter(|(_, kind)| *kind == ChangeKind::Closed)
                        .map(|(program, _)| program),
                );
                Transaction {
                    programs: looked_up,
                    change,
                }
            });
            blocks.push((slot, block.collect()));
            slot += if rng.u32(0..60) == 0 { 150 } else { 1 };
        }
        Steps { compile_us, blocks }
    }

    fn trace(&self) -> Trace {
        let mut trace = Trace::new(Meta {
            source: Source::Plain,
            cluster: String::new(),
            version: String::new(),
        });
        for time in &self.compile_us {
            let program = Program {
                address: None,
                loader: None,
                bytes: None,
                has_code: time.is_some(),
            };
            trace.add_program(program).expect("few programs");
        }
        let mut set_interner = SetInterner::default();
        let mut parent = FIRST_SLOT - 1;
        for (slot_index, (slot, block)) in (0..).zip(&self.blocks) {
            let mut call = |transaction: &Transaction| {
                let set = set_interner
                    .intern(&mut trace, &transaction.programs)
                    .expect("known programs");
                Call::new(set, false).expect("few sets")
            };
            let calls: Vec<Call> = block.iter().map(&mut call).collect();
            let header = Slot {
                slot: *slot,
                parent,
                transactions: calls.len() as u64,
                kind: SlotKind::Replayed,
            };
            trace.add_slot(header, &calls).expect("slots in order");
            for (position, transaction) in (1..).zip(block) {
                if let Some((program, kind)) = transaction.change {
                    trace
                        .add_change(Change {
                            slot_index,
                            position,
                            program,
                            kind,
                        })
                        .expect("in its slot");
                }
            }
            parent = *slot;
        }
        trace
    }

    fn real<R: Real>(&self, fill: u8) -> Counts {
        let mut cache = R::new(FIRST_SLOT, fill, &self.compile_us);
        for (index, (slot, block)) in self.blocks.iter().enumerate() {
            if let Some((root, _)) = index
                .checked_sub(ROOT_BEHIND)
                .map(|root| &self.blocks[root])
            {
                cache.root(*root);
            }
            for transaction in block {
                cache.transaction(*slot, &transaction.programs, transaction.change);
            }
        }
        cache.counts()
    }

    fn simulated(&self, version: &str, entries: usize, fill: u8, seed: u64) -> Counts {
        let trace = self.trace();
        let compile_us: Vec<u64> = self
            .compile_us
            .iter()
            .map(|time| time.unwrap_or(0))
            .collect();
        let policy = Policy::Agave(CacheRules::of(version).expect("a known version"));
        let limit = Limit::Entries(entries as u64);
        let setting = Setting {
            policy,
            limit,
            fill_percent: u64::from(fill),
            includes_fees_only: true,
        };
        let simulation = Simulation {
            trace: &trace,
            setting,
            initial_content: InitialContent::Empty,
            first_slot: 0,
            compile_us: &compile_us,
            seed,
        };
        let counts = simulation
            .run(|_, _| {})
            .expect("a setting that makes sense")
            .counts;
        [
            counts.misses,
            counts.insertions,
            counts.reloads,
            counts.evictions,
            counts.one_hit_wonders,
        ]
    }
}

/// Of one seed: what the real cache counted, its simulation, and that of another release.
type Run = [Counts; 3];

fn runs<R: Real>(fill: u8, seeds: std::ops::Range<u64>) -> Vec<Run> {
    let next = AtomicU64::new(seeds.start);
    let work = || {
        let mut done = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return done;
            }
            let steps = Steps::random(seed, R::ENTRIES * usize::from(fill) / 100);
            let simulated = |version| steps.simulated(version, R::ENTRIES, fill, seed);
            done.push([
                steps.real::<R>(fill),
                simulated(R::VERSION),
                simulated(R::OTHER),
            ]);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("no run fails"))
            .collect()
    })
}

/// By how many standard errors the mean of a counter differs from the real one's.
fn errors(runs: &[Run], which: usize, counter: usize) -> f64 {
    let differences: Vec<f64> = runs
        .iter()
        .map(|run| run[which][counter] as f64 - run[0][counter] as f64)
        .collect();
    let count = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / count;
    let variance = differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / (count - 1.0);
    if mean == 0.0 {
        0.0
    } else {
        mean / (variance / count).sqrt()
    }
}

fn compare<R: Real>(fill: u8, seeds: std::ops::Range<u64>) -> bool {
    let (begin, count) = (Instant::now(), seeds.end - seeds.start);
    let runs = runs::<R>(fill, seeds);
    let kept = R::ENTRIES * usize::from(fill) / 100;
    println!(
        "{}, {kept} entries, {count} runs of {STEPS} steps, {} s",
        R::VERSION,
        begin.elapsed().as_secs()
    );
    println!(
        "  {:<16} {:>10} {:>10} {:>8} {:>7}",
        "mean", "real", "simulated", "off by", "errors"
    );
    let mean = |which: usize, counter: usize| {
        runs.iter()
            .map(|run| run[which][counter] as f64)
            .sum::<f64>()
            / runs.len() as f64
    };
    let mut agree = true;
    for (counter, name) in COUNTERS.iter().enumerate() {
        let (real, simulated, off) = (
            mean(0, counter),
            mean(1, counter),
            errors(&runs, 1, counter),
        );
        let percent = if real > 0.0 {
            (simulated / real - 1.0) * 100.0
        } else {
            0.0
        };
        println!("  {name:<16} {real:>10.1} {simulated:>10.1} {percent:>6.2} % {off:>7.1}");
        agree &= off.abs() <= ERRORS;
    }
    let other = (0..COUNTERS.len())
        .map(|counter| errors(&runs, 2, counter).abs())
        .fold(0.0, f64::max);
    println!(
        "  by the rule of {}: off by up to {other:.0} errors",
        R::OTHER
    );
    assert!(
        other > ERRORS,
        "these steps cannot tell {} from {}",
        R::VERSION,
        R::OTHER
    );
    agree
}

/// A difference beyond three standard errors is an accident once in 370 counters, so it has to show in runs of other seeds again.
pub fn main<R: Real>() -> ExitCode {
    let runs = std::env::args()
        .nth(1)
        .and_then(|runs| runs.parse().ok())
        .unwrap_or(RUNS)
        .max(2);
    let differs = |fill: &u8| !compare::<R>(*fill, 0..runs) && !compare::<R>(*fill, runs..2 * runs);
    let differing = FILLS.iter().filter(|fill| differs(fill)).count();
    println!(
        "{}: {}",
        R::VERSION,
        if differing == 0 { "agrees" } else { "DIFFERS" }
    );
    ExitCode::from(u8::from(differing > 0))
}
