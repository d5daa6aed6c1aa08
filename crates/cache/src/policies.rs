//! `faultline cache policies`: what other eviction policies would have done.

use crate::args::PoliciesArgs;
use crate::prepared::Prepared;
use faultline_cachesim::policy::OTHERS;
use faultline_cachesim::predict::Begin;
use faultline_cachesim::run::{Start, all};
use faultline_cachesim::{Limit, Policy, Setting, Simulation, Trace, with_attack};
use faultline_command::output::json;
use faultline_text::{count, number, table};
use serde::Serialize;

/// Shares of the entries that are used, in percent: Agave's, and all.
const FILLS: [u64; 2] = [90, 100];
/// One-hit programs for so many transactions, unless another number is asked for.
const ATTACK: usize = 10;

#[derive(Debug, Serialize)]
struct Said {
    version: String,
    /// Whether the recorded size is predicted within 10 %.
    self_test_passed: bool,
    entries: u64,
    /// One-hit programs in each block of the attack.
    attack: usize,
    policies: Vec<Row>,
}

/// Mean misses, of the attack without those of its own programs.
#[derive(Debug, Serialize)]
struct Row {
    policy: String,
    misses_fill_90: f64,
    misses_fill_100: f64,
    attacked_misses_fill_90: f64,
    attacked_misses_fill_100: f64,
}

/// Simulates all.
///
/// # Errors
/// Recording and trace cannot be used.
pub(crate) fn run(args: &PoliciesArgs) -> anyhow::Result<(String, u8)> {
    let prepared = Prepared::read(&args.run, &args.source)?;
    let tested = prepared.test()?;
    let (compile_us, self_test_passed) = (tested.compile_us, tested.test.passed());
    let entries = args.size.unwrap_or(prepared.entries);
    let (trace, slots) = (&prepared.trace, prepared.trace.slots().len());
    let usual = (trace.calls() / slots.max(1) / ATTACK).max(1);
    let attack = args.attack.map_or(Ok(usual), usize::try_from)?;
    let attacked = with_attack(trace, attack)?;
    let mut policies = vec![(format!("agave {}", prepared.version), Policy::Agave(prepared.rule))];
    policies.extend(OTHERS.map(|(name, policy)| (name.to_owned(), policy)));
    let first_slot = match prepared.begin {
        Begin::ValidatorStart => 0,
        Begin::Slot(slot) => slot,
    };
    let counted = trace.slots().iter().filter(|slot| slot.slot >= first_slot).count();
    let own = (attack * counted) as f64;
    let mut rows = Vec::new();
    for (name, policy) in policies {
        let misses = |trace: &Trace, fill| {
            let limit = Limit::Entries(entries);
            let setting = Setting { policy, limit, fill, fees_only: prepared.rule.fees_only };
            let seeds = if matches!(policy, Policy::Agave(_)) { args.source.seeds } else { 1 };
            mean_misses(trace, setting, &compile_us, first_slot, seeds)
        };
        let [plain_90, plain_100] = FILLS.map(|fill| misses(trace, fill));
        let [attacked_90, attacked_100] = FILLS.map(|fill| misses(&attacked, fill));
        rows.push(Row {
            policy: name,
            misses_fill_90: plain_90?,
            misses_fill_100: plain_100?,
            attacked_misses_fill_90: attacked_90? - own,
            attacked_misses_fill_100: attacked_100? - own,
        });
    }
    rows.sort_by(|a, b| b.misses_fill_90.total_cmp(&a.misses_fill_90));
    let said = Said { version: prepared.version.clone(), self_test_passed, entries, attack, policies: rows };
    Ok((if args.json { json(&said)? } else { page(&said) }, u8::from(!self_test_passed)))
}

fn mean_misses(
    trace: &Trace,
    setting: Setting,
    compile_us: &[u64],
    first_slot: u64,
    seeds: u64,
) -> anyhow::Result<f64> {
    let simulation = |seed| Simulation { trace, setting, start: Start::Empty, first_slot, compile_us, seed };
    let simulations: Vec<Simulation> = (1..=seeds).map(simulation).collect();
    let outcomes = all(&simulations, std::thread::available_parallelism().map_or(1, usize::from))?;
    Ok(outcomes.iter().map(|outcome| outcome.counts.misses as f64).sum::<f64>() / outcomes.len().max(1) as f64)
}

fn page(said: &Said) -> String {
    let least = said.policies.iter().find(|row| row.policy == "min").map(|row| row.misses_fill_90);
    let row = |row: &Row| {
        let of_least = least.filter(|least| *least > 0.0).map(|least| number(row.misses_fill_90 / least, 2));
        vec![
            row.policy.clone(),
            number(row.misses_fill_90, 0),
            number(row.misses_fill_100, 0),
            of_least.unwrap_or_else(|| "-".to_owned()),
            number(row.attacked_misses_fill_90, 0),
            number(row.attacked_misses_fill_100, 0),
        ]
    };
    let heads = ["policy", "misses at 90 %", "at 100 %", "times MIN", "attacked: at 90 %", "at 100 %"];
    format!(
        "Misses with {} entries, of which 90 % or 100 % are used; attacked by {} one-hit programs in each block, whose own \
         misses are not counted\n\n{}{}",
        count(said.entries),
        count(said.attack as u64),
        table(&heads, said.policies.iter().map(row).collect()),
        if said.self_test_passed {
            ""
        } else {
            "\nThe recorded size is not predicted within 10 %: see `faultline cache predict`.\n"
        }
    )
}
