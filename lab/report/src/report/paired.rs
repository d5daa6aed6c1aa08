//! Compares two runs slot by slot, so the effect of the workload cancels out. The runs are of one
//! turn if possible: a turn is the runs that an experiment executes at the same time on one host.
//! Offline replays (of a fixed range of slots from a ledger) have the same slots at any time. They
//! are of one replicate instead: one repetition of all arms.

use super::{
    cells::{self, count, missing, number_cell, table, text_cell},
    comparison::reference_and_others,
    measured_run::{AA_SUFFIX, MeasuredRun, MeasuredRuns},
    model::{Block, Cell, Table},
    run_metrics::RunMetric,
};
use crate::{
    measure::{SlotContents, cache_ms_by_slot, replay_ms_by_slot, slot_contents},
    run::OfflineReplaySlot,
};
use faultline_stats::{
    block_bootstrap::{Estimate, IntervalPlan},
    paired::{Effect, Pairs, join},
};
use itertools::Itertools;

/// Slots that two runs need in common if no plan made them a pair.
const MIN_COMMON_SLOTS: usize = 100;

/// Slots for two runs in the same turn or, for offline replays, the same replicate.
const MIN_COMMON_SLOTS_OF_A_TURN: usize = 30;

/// The note of a table names this number and [`MAX_PAIRS`].
const MAX_TABLE_ROWS: usize = 24;

/// Counts A/A pairs and other pairs apart. Later pairs are not compared.
const MAX_PAIRS: usize = 60;

/// Share of common slots with equal contents. If fewer are equal, the runs were on different
/// clusters: every test cluster numbers its slots from 0.
const MIN_EQUAL_SHARE: f64 = 0.95;

pub struct Quantity {
    pub name: &'static str,
    pub unit: &'static str,
    pub metric_id_prefixes: &'static [&'static str],
    by_slot: fn(&MeasuredRun) -> Vec<(u64, f64)>,
}

pub const QUANTITY_DECIMALS: u8 = 3;

pub static QUANTITIES: [Quantity; 6] = [
    quantity("Replay time", "ms", &["replay-"], |run| {
        replay_ms_by_slot(&run.recording, run.since_first_transaction.window)
    }),
    quantity("Program cache time", "ms", &["cache-time"], |run| {
        cache_ms_by_slot(&run.recording, run.since_first_transaction.window)
    }),
    quantity("Cache misses", "", &["cache-misses"], |run| {
        counts_of_offline_replay(run, |slot| slot.misses)
    }),
    quantity("Cache reloads", "", &["cache-reloads"], |run| {
        counts_of_offline_replay(run, |slot| slot.reloads)
    }),
    quantity("Cache evictions", "", &["cache-evictions"], |run| {
        counts_of_offline_replay(run, |slot| slot.evictions)
    }),
    quantity("Cache insertions", "", &[], |run| {
        counts_of_offline_replay(run, |slot| slot.insertions)
    }),
];

const fn quantity(
    name: &'static str,
    unit: &'static str,
    metric_id_prefixes: &'static [&'static str],
    by_slot: fn(&MeasuredRun) -> Vec<(u64, f64)>,
) -> Quantity {
    Quantity {
        name,
        unit,
        metric_id_prefixes,
        by_slot,
    }
}

/// Empty for other runs, which report no counts of slots.
fn counts_of_offline_replay(
    run: &MeasuredRun,
    count: fn(&OfflineReplaySlot) -> Option<u64>,
) -> Vec<(u64, f64)> {
    run.recording
        .offline_replay
        .slots
        .iter()
        .filter_map(|slot| Some((slot.slot, count(slot)? as f64)))
        .collect()
}

pub struct RunPairEffect {
    pub quantity_index: usize,
    pub reference: String,
    /// Equal to the reference for an A/A pair.
    pub other: String,
    /// Other minus reference, slot by slot.
    pub effect: Effect,
    /// The ratio of sums with a 90 % interval, for two one-sided tests at 5 %. Only for A/A pairs.
    pub ratio_90: Option<Estimate>,
}

pub struct PairedRuns {
    /// Whether all counted runs of other arms have a partner in the reference. `false` without
    /// another arm.
    pub all_are_paired: bool,
    pub effects: Vec<RunPairEffect>,
    pair_count: usize,
    /// Quantities with a unit.
    times: Table,
    /// Quantities without a unit.
    counts: Table,
}

impl PairedRuns {
    pub fn blocks(self) -> impl Iterator<Item = Block> {
        [self.times, self.counts]
            .into_iter()
            .filter(|table| !table.rows.is_empty())
            .map(Block::Table)
    }

    fn add(&mut self, partner: &MeasuredRun, other: &MeasuredRun, bootstrap: &IntervalPlan) {
        if self.pair_count == MAX_PAIRS {
            return;
        }
        self.pair_count += 1;
        let run_names = format!("{} against {}", other.name, partner.name);
        for (index, quantity) in QUANTITIES.iter().enumerate() {
            let slot_pairs = join((quantity.by_slot)(partner), (quantity.by_slot)(other));
            let Some(effect) = slot_pairs.effect(bootstrap) else {
                continue;
            };
            let table = if quantity.unit.is_empty() {
                &mut self.counts
            } else {
                &mut self.times
            };
            if table.rows.len() < MAX_TABLE_ROWS {
                let row = pair_row(&run_names, quantity, &slot_pairs, &effect, bootstrap);
                table.rows.push(row);
            }
            let ratio_90 = || {
                let bootstrap_90 = IntervalPlan {
                    level: 0.90,
                    ..*bootstrap
                };
                slot_pairs.effect(&bootstrap_90)?.ratio_of_sums
            };
            let is_second_run = other.arm.ends_with(AA_SUFFIX);
            self.effects.push(RunPairEffect {
                quantity_index: index,
                reference: partner.arm.clone(),
                other: other.arm.trim_end_matches(AA_SUFFIX).to_owned(),
                ratio_90: is_second_run.then(ratio_90).flatten(),
                effect,
            });
        }
    }
}

/// Pairs each counted run with the reference arm's run of the same turn or, for an offline replay,
/// replicate. Without one, the partner is the reference's run with most slots of equal contents,
/// then with the same index. The second run of an A/A pair is paired with the first.
pub fn pair_runs(runs: &MeasuredRuns, primary: &RunMetric, bootstrap: &IntervalPlan) -> PairedRuns {
    let mut paired = empty_tables();
    let Some((reference, others)) = reference_and_others(runs, primary) else {
        return paired;
    };
    let all_runs = runs.all.iter();
    for second_run in all_runs.filter(|run| run.arm.ends_with(AA_SUFFIX)) {
        let first_runs = runs_with_slot_contents(runs, second_run.arm.trim_end_matches(AA_SUFFIX));
        if let Some(first_run) = find_partner(&first_runs, second_run, 0)
            && is_same_turn(first_run, second_run)
        {
            paired.add(first_run, second_run, bootstrap);
        }
    }
    paired.pair_count = 0;
    paired.all_are_paired = !others.is_empty();
    let references = runs_with_slot_contents(runs, reference);
    for arm in others {
        let all_runs = runs.runs_of(arm).enumerate();
        for (index, other) in all_runs.filter(|(_, run)| runs.is_counted(run)) {
            let is_left_out = |run| is_same_turn(run, other) && !runs.is_counted(run);
            if let Some(partner) = find_partner(&references, other, index) {
                paired.add(partner, other, bootstrap);
            } else if !references.iter().any(|(run, _)| is_left_out(run)) {
                paired.all_are_paired = false;
            }
        }
    }
    paired
}

fn empty_tables() -> PairedRuns {
    let columns = |unit| {
        [
            ("Runs", ""),
            ("What", ""),
            ("Mean difference", unit),
            ("Median difference", unit),
            ("Ratio of sums", ""),
            ("Difference of p95", unit),
            ("Slots lower in the other", "%"),
            ("Slots of both", ""),
            ("Only reference", ""),
            ("Only other", ""),
        ]
    };
    let note = "Slot by slot, the other minus the reference, from the first executed transaction on, with 95 % intervals by block \
                bootstrap. An interval that would cover less is left out. Both runs replayed the same transactions in these slots, so \
                the network's load cancels out. Each pair is one replicate: its intervals do not include how much repeated runs \
                differ. The runs of a pair have at least 100 slots in common (30 if the experiment made them a pair). In at least 95 % of these, \
                both have as many transactions, entries and shreds, or the same bank hash. At most 60 A/A pairs and 60 other pairs are compared, and \
                at most 24 rows are shown.";
    PairedRuns {
        all_are_paired: false,
        effects: Vec::new(),
        pair_count: 0,
        times: table("paired", "The same slots in two runs", &columns("ms"), note),
        counts: table(
            "paired-counts",
            "The same slots in two runs: counts of the program cache",
            &columns(""),
            note,
        ),
    }
}

type Candidate<'s> = (&'s MeasuredRun, SlotContents);

fn runs_with_slot_contents<'s>(runs: &'s MeasuredRuns, arm: &'s str) -> Vec<Candidate<'s>> {
    runs.runs_of(arm)
        .map(|run| {
            (
                run,
                slot_contents(&run.recording, run.since_first_transaction.window),
            )
        })
        .collect()
}

/// Runs with equal keys are a pair by plan. The key is the labels `experiment`, `block` and `turn`.
/// For an offline replay, `run` (its replicate) replaces `turn`.
fn pairing_key(run: &MeasuredRun) -> Option<(Option<&str>, Option<&str>, &str)> {
    let label = |key| run.recording.label(key).filter(|value| !value.is_empty());
    let is_offline_replay = !run.recording.offline_replay.slots.is_empty();
    let key = if is_offline_replay { "run" } else { "turn" };
    Some((label("experiment"), label("block"), label(key)?))
}

pub fn is_same_turn(run: &MeasuredRun, other: &MeasuredRun) -> bool {
    let key = pairing_key(other);
    key.is_some() && pairing_key(run) == key
}

fn find_partner<'s>(
    references: &'s [Candidate<'s>],
    other: &MeasuredRun,
    index: usize,
) -> Option<&'s MeasuredRun> {
    let other_contents = slot_contents(&other.recording, other.since_first_transaction.window);
    let has_same_turn = references.iter().any(|(run, _)| is_same_turn(run, other));
    let min_common_slots = if has_same_turn {
        MIN_COMMON_SLOTS_OF_A_TURN
    } else {
        MIN_COMMON_SLOTS
    };
    let equal_slots = |reference_contents: &SlotContents| {
        let common = other_contents
            .iter()
            .filter_map(|(slot, contents)| Some(reference_contents.get(slot)? == contents))
            .collect_vec();
        let equal = common.iter().filter(|is_equal| **is_equal).count();
        (common.len() >= min_common_slots && equal as f64 >= MIN_EQUAL_SHARE * common.len() as f64)
            .then_some(equal)
    };
    references
        .iter()
        .enumerate()
        .filter(|(_, (run, _))| !has_same_turn || is_same_turn(run, other))
        .filter_map(|(position, (run, contents))| {
            Some((equal_slots(contents)?, position == index, *run))
        })
        .max_by_key(|(equal, is_same_index, _)| (*equal, *is_same_index))
        .map(|(.., run)| run)
}

fn pair_row(
    run_names: &str,
    quantity: &Quantity,
    slot_pairs: &Pairs,
    effect: &Effect,
    bootstrap: &IntervalPlan,
) -> Vec<Cell> {
    let quantile = slot_pairs.quantile_difference(0.95, bootstrap);
    let share = effect.share_lower;
    let share = Estimate {
        value: 100.0 * share.value,
        low: 100.0 * share.low,
        high: 100.0 * share.high,
        ..share
    };
    vec![
        text_cell(run_names),
        text_cell(quantity.name),
        estimate_cell(Some(effect.mean_difference), QUANTITY_DECIMALS),
        estimate_cell(Some(effect.median_difference), QUANTITY_DECIMALS),
        estimate_cell(effect.ratio_of_sums, 3),
        estimate_cell(quantile, QUANTITY_DECIMALS),
        estimate_cell(Some(share), 1),
        count(effect.slots),
        count(slot_pairs.only_reference),
        count(slot_pairs.only_other),
    ]
}

fn estimate_cell(estimate: Option<Estimate>, decimals: u8) -> Cell {
    match estimate {
        // An unreliable interval covers less than 95 % and could show a false difference.
        Some(estimate) if !estimate.reliability.is_reliable() => {
            number_cell(estimate.value, decimals)
        }
        Some(estimate) => cells::estimate(estimate.value_and_ends(), decimals),
        None => missing("the reference's value is 0"),
    }
}
