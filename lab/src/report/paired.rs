//! Runs that replayed the same slots: the network's load cancels out.

use super::model::{Block, Cell, Table};
use super::subject::{Subject, Subjects};
use super::words::{count, table};
use crate::measure::{Contents, cache_slots, contents, slots};
use faultline_stats::block::{Estimate, Plan};
use faultline_stats::paired::{Pairs, join};

/// With fewer slots in common there is nothing to pair.
const FEWEST: usize = 100;

/// Rows of the table at most.
const MOST: usize = 24;

/// Slots whose contents are the same in both runs, of all slots that both have; below this the numbers are the same by chance,
/// as two test clusters both count from 0.
const SAME: f64 = 0.95;

/// What is paired: its name, and its value by slot in milliseconds.
type Quantity = (&'static str, fn(&Subject<'_>) -> Vec<(u64, f64)>);

const QUANTITIES: [Quantity; 2] = [
    ("Replay time", |subject| slots(subject.run, subject.usual.window)),
    ("Program cache time", |subject| cache_slots(subject.run, subject.usual.window)),
];

/// Whether runs of different arms replayed the same slots, and what follows.
pub(crate) struct Paired {
    /// Runs of other arms that have a partner in the reference.
    pub(crate) rows: usize,
    /// Whether all of them have.
    pub(crate) complete: bool,
    table: Table,
}

impl Paired {
    /// The table; nothing if no runs could be paired.
    pub(crate) fn blocks(self) -> Vec<Block> {
        if self.table.rows.is_empty() { Vec::new() } else { vec![Block::Table(self.table)] }
    }
}

/// Pairs each run of the other arms with the run of the first arm with which it has most slots in common; among equals with the
/// one at the same place.
pub(crate) fn paired(subjects: &Subjects<'_>, plan: &Plan) -> Paired {
    let columns = [
        ("Runs", ""),
        ("What", ""),
        ("Mean difference", "ms"),
        ("Median difference", "ms"),
        ("Ratio of sums", ""),
        ("Difference of p95", "ms"),
        ("Lower in the other", "%"),
        ("Slots of both", ""),
        ("Only reference", ""),
        ("Only other", ""),
    ];
    let note = "Slot by slot, the other minus the reference, from the first execution on, with 95 % intervals by block bootstrap. Both \
                replayed the same transactions in these slots, so the network's load cancels out. A pair is one replicate: how much \
                runs differ by themselves is not in these intervals. At least 100 slots in common, \
                of which 95 % have as many transactions, entries and shreds in both.";
    let mut paired =
        Paired { rows: 0, complete: false, table: table("paired", "The same slots in two runs", &columns, note) };
    let Some((reference, others)) = subjects.arms.split_first() else { return paired };
    let mut complete = !others.is_empty();
    let references: Vec<(&Subject<'_>, Contents)> =
        subjects.of(reference).map(|subject| (subject, contents(subject.run, subject.usual.window))).collect();
    for arm in others {
        for (place, other) in subjects.of(arm).enumerate() {
            let Some(partner) = partner(&references, other, place) else {
                complete = false;
                continue;
            };
            paired.rows += 1;
            if paired.table.rows.len() >= MOST {
                continue;
            }
            let names = format!("{} against {}", other.name, partner.name);
            let rows =
                QUANTITIES.iter().filter_map(|(name, of)| row(&names, name, &join(of(partner), of(other)), plan));
            paired.table.rows.extend(rows);
        }
    }
    paired.complete = complete;
    paired
}

/// The run of the reference with the same slots, if there is one.
fn partner<'s, 'r>(
    references: &'s [(&'s Subject<'r>, Contents)],
    other: &Subject<'_>,
    place: usize,
) -> Option<&'s Subject<'r>> {
    let own = contents(other.run, other.usual.window);
    let common = |theirs: &Contents| {
        let both: Vec<bool> = own.iter().filter_map(|(slot, what)| Some(theirs.get(slot)? == what)).collect();
        let same = both.iter().filter(|same| **same).count();
        (both.len() >= FEWEST && same as f64 >= SAME * both.len() as f64).then_some(same)
    };
    let candidates = references
        .iter()
        .enumerate()
        .filter_map(|(at, (subject, theirs))| Some((common(theirs)?, at == place, *subject)));
    candidates.max_by_key(|(same, here, _)| (*same, *here)).map(|(.., subject)| subject)
}

fn row(names: &str, what: &str, pairs: &Pairs, plan: &Plan) -> Option<Vec<Cell>> {
    let effect = pairs.effect(plan)?;
    let quantile = pairs.quantile_difference(0.95, plan);
    let share = effect.share_lower;
    let share = Estimate { value: 100.0 * share.value, low: 100.0 * share.low, high: 100.0 * share.high, ..share };
    Some(vec![
        Cell::Text(names.to_owned()),
        Cell::Text(what.to_owned()),
        cell(Some(effect.mean_difference), 3),
        cell(Some(effect.median_difference), 3),
        cell(effect.ratio_of_sums, 3),
        cell(quantile, 3),
        cell(Some(share), 1),
        count(effect.slots),
        count(pairs.only_reference),
        count(pairs.only_other),
    ])
}

fn cell(estimate: Option<Estimate>, decimals: u8) -> Cell {
    match estimate {
        Some(Estimate { value, low, high, .. }) => Cell::Estimate { value, low, high, decimals },
        None => Cell::Missing("the reference's is 0".to_owned()),
    }
}
