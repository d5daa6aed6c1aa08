//! Compares runs slot by slot: the network's load cancels out.

use super::{
    cells::{self, count, known, missing, table, words},
    comparison::reference,
    model::{Block, Cell, Table},
    scalars::Scalar,
    subject::{AA_SUFFIX, Subject, Subjects},
};
use crate::{
    measure::{SlotContents, cache_slots, contents, slots},
    run::ReplayedSlot,
};
use faultline_stats::{
    block::{Estimate, Plan},
    paired::{Effect, Pairs, join},
};

/// Minimum number of common slots for a pair.
const MIN_COMMON_SLOTS: usize = 100;

/// For runs of one turn (for a replay, of one replicate).
const MIN_COMMON_SLOTS_OF_A_TURN: usize = 30;

const MAX_ROWS: usize = 24;

const MAX_PAIRS: usize = 60;

/// Below this share of slots with equal contents, equal slot numbers are chance: every test cluster
/// counts from 0.
const MIN_EQUAL_SHARE: f64 = 0.95;

pub struct Quantity {
    pub name: &'static str,
    pub unit: &'static str,
    /// Prefixes of related run metrics.
    pub metrics: &'static [&'static str],
    of: fn(&Subject) -> Vec<(u64, f64)>,
}

/// Of every quantity.
pub const DECIMALS: u8 = 3;

pub static QUANTITIES: [Quantity; 6] = [
    quantity("Replay time", "ms", &["replay-"], |subject| {
        slots(&subject.run, subject.from_execution.window)
    }),
    quantity("Program cache time", "ms", &["cache-time"], |subject| {
        cache_slots(&subject.run, subject.from_execution.window)
    }),
    quantity("Cache misses", "", &["cache-misses"], |subject| {
        logged_counts(subject, |slot| slot.misses)
    }),
    quantity("Cache reloads", "", &["cache-reloads"], |subject| {
        logged_counts(subject, |slot| slot.reloads)
    }),
    quantity("Cache evictions", "", &["cache-evictions"], |subject| {
        logged_counts(subject, |slot| slot.evictions)
    }),
    quantity("Cache insertions", "", &[], |subject| {
        logged_counts(subject, |slot| slot.insertions)
    }),
];

const fn quantity(
    name: &'static str,
    unit: &'static str,
    metrics: &'static [&'static str],
    of: fn(&Subject) -> Vec<(u64, f64)>,
) -> Quantity {
    Quantity {
        name,
        unit,
        metrics,
        of,
    }
}

fn logged_counts(subject: &Subject, of: fn(&ReplayedSlot) -> Option<u64>) -> Vec<(u64, f64)> {
    subject
        .run
        .replayed
        .slots
        .iter()
        .filter_map(|slot| Some((slot.slot, of(slot)? as f64)))
        .collect()
}

pub struct PairedEffect {
    pub quantity: usize,
    pub reference: String,
    /// Equal to the reference for an A/A pair.
    pub other: String,
    /// Other minus reference, slot by slot.
    pub effect: Effect,
    /// With a 90 % interval, for two one-sided tests of 5 %. Only for A/A pairs.
    pub ratio_90: Option<Estimate>,
}

pub struct Paired {
    /// Runs of other arms with a partner in the reference.
    pub rows: usize,
    /// Whether all runs of other arms have a partner.
    pub complete: bool,
    pub matched: Vec<PairedEffect>,
    times: Table,
    counts: Table,
}

impl Paired {
    pub fn blocks(self) -> Vec<Block> {
        [self.times, self.counts]
            .into_iter()
            .filter(|table| !table.rows.is_empty())
            .map(Block::Table)
            .collect()
    }

    fn add(&mut self, partner: &Subject, other: &Subject, plan: &Plan) {
        let names = format!("{} against {}", other.name, partner.name);
        let twin = other.arm.ends_with(AA_SUFFIX);
        for (index, quantity) in QUANTITIES.iter().enumerate() {
            let pairs = join((quantity.of)(partner), (quantity.of)(other));
            let Some(effect) = pairs.effect(plan) else {
                continue;
            };
            let table = if quantity.unit.is_empty() {
                &mut self.counts
            } else {
                &mut self.times
            };
            if table.rows.len() < MAX_ROWS {
                table
                    .rows
                    .push(row(&names, quantity, &pairs, &effect, plan));
            }
            let ratio_90 = || {
                pairs
                    .effect(&Plan {
                        level: 0.90,
                        ..*plan
                    })?
                    .ratio_of_sums
            };
            self.matched.push(PairedEffect {
                quantity: index,
                reference: partner.arm.clone(),
                other: other.arm.trim_end_matches(AA_SUFFIX).to_owned(),
                ratio_90: if twin { ratio_90() } else { None },
                effect,
            });
        }
    }
}

/// Pairs each run with a run of the reference arm: that of the same turn or, for a fixed range, of
/// the same replicate. If there is none, the run with most common slots is taken; among equals, the
/// one with the same index. The second run of an A/A pair is paired with the first.
pub fn paired(subjects: &Subjects, primary: &Scalar, plan: &Plan) -> Paired {
    let mut paired = empty();
    let Some((reference, others)) = reference(subjects, primary) else {
        return paired;
    };
    let second_runs: Vec<&Subject> = subjects
        .all
        .iter()
        .filter(|subject| subject.arm.ends_with(AA_SUFFIX))
        .collect();
    let mut pairs = 0;
    for twin in &second_runs {
        let first = with_contents(subjects, twin.arm.trim_end_matches(AA_SUFFIX));
        if let Some(partner) = partner(&first, twin, 0).filter(|_| pairs < MAX_PAIRS) {
            pairs += 1;
            paired.add(partner, twin, plan);
        }
    }
    let mut complete = !others.is_empty();
    let references = with_contents(subjects, reference);
    for arm in others {
        for (index, other) in subjects.of(arm).enumerate() {
            let Some(partner) = partner(&references, other, index) else {
                complete = false;
                continue;
            };
            paired.rows += 1;
            if pairs < MAX_PAIRS {
                pairs += 1;
                paired.add(partner, other, plan);
            }
        }
    }
    paired.complete = complete;
    paired
}

fn empty() -> Paired {
    let columns = |unit| {
        [
            ("Runs", ""),
            ("What", ""),
            ("Mean difference", unit),
            ("Median difference", unit),
            ("Ratio of sums", ""),
            ("Difference of p95", unit),
            ("Lower in the other", "%"),
            ("Slots of both", ""),
            ("Only reference", ""),
            ("Only other", ""),
        ]
    };
    let note = "Slot by slot, the other minus the reference, from the first execution on, with 95 % intervals by block bootstrap, \
                left out where they would not keep that promise. Both \
                replayed the same transactions in these slots, so the network's load cancels out. A pair is one replicate: how much \
                runs differ by themselves is not in these intervals. At least 100 slots in common (30 of runs of one turn), \
                of which 95 % have as many transactions, entries and shreds, or the same bank hash, in both.";
    Paired {
        rows: 0,
        complete: false,
        matched: Vec::new(),
        times: table("paired", "The same slots in two runs", &columns("ms"), note),
        counts: table(
            "paired-counts",
            "The same slots in two runs: counts of the program cache",
            &columns(""),
            note,
        ),
    }
}

type Candidate<'s> = (&'s Subject, SlotContents);

fn with_contents<'s>(subjects: &'s Subjects, arm: &'s str) -> Vec<Candidate<'s>> {
    subjects
        .of(arm)
        .map(|subject| {
            (
                subject,
                contents(&subject.run, subject.from_execution.window),
            )
        })
        .collect()
}

/// Experiment, block and turn (for a replay, replicate).
pub fn pairing_key(subject: &Subject) -> Option<(Option<&str>, Option<&str>, &str)> {
    let label = |key| subject.run.label(key).filter(|value| !value.is_empty());
    let key = if subject.run.replayed.slots.is_empty() {
        "turn"
    } else {
        "run"
    };
    Some((label("experiment"), label("block"), label(key)?))
}

fn partner<'s>(
    references: &'s [Candidate<'s>],
    other: &Subject,
    index: usize,
) -> Option<&'s Subject> {
    let own = contents(&other.run, other.from_execution.window);
    let pairing = pairing_key(other);
    let same_turn = |subject: &Subject| pairing.is_some() && pairing_key(subject) == pairing;
    let known = references.iter().any(|(subject, _)| same_turn(subject));
    let min_common_slots = if known {
        MIN_COMMON_SLOTS_OF_A_TURN
    } else {
        MIN_COMMON_SLOTS
    };
    let common = |theirs: &SlotContents| {
        let both: Vec<bool> = own
            .iter()
            .filter_map(|(slot, what)| Some(theirs.get(slot)? == what))
            .collect();
        let same = both.iter().filter(|same| **same).count();
        (both.len() >= min_common_slots && same as f64 >= MIN_EQUAL_SHARE * both.len() as f64)
            .then_some(same)
    };
    let candidates = references
        .iter()
        .enumerate()
        .filter(|(_, (subject, _))| !known || same_turn(subject))
        .filter_map(|(at, (subject, theirs))| Some((common(theirs)?, at == index, *subject)));
    candidates
        .max_by_key(|(same, same_index, _)| (*same, *same_index))
        .map(|(.., subject)| subject)
}

fn row(names: &str, quantity: &Quantity, pairs: &Pairs, effect: &Effect, plan: &Plan) -> Vec<Cell> {
    let quantile = pairs.quantile_difference(0.95, plan);
    let share = effect.share_lower;
    let share = Estimate {
        value: 100.0 * share.value,
        low: 100.0 * share.low,
        high: 100.0 * share.high,
        ..share
    };
    vec![
        words(names),
        words(quantity.name),
        cell(Some(effect.mean_difference), DECIMALS),
        cell(Some(effect.median_difference), DECIMALS),
        cell(effect.ratio_of_sums, 3),
        cell(quantile, DECIMALS),
        cell(Some(share), 1),
        count(effect.slots),
        count(pairs.only_reference),
        count(pairs.only_other),
    ]
}

fn cell(estimate: Option<Estimate>, decimals: u8) -> Cell {
    match estimate {
        // Too low coverage could show a false difference.
        Some(estimate) if !estimate.reliable.is_reliable() => known(estimate.value, decimals),
        Some(estimate) => cells::estimate(estimate.ends(), decimals),
        None => missing("the reference's is 0"),
    }
}
