use super::{Plan, by_slot};
use crate::cache::Counts;
use crate::cost::Observed;
use crate::error::Error;

/// A larger bias than this, in percent, forbids extrapolation.
const MOST_BIAS: f64 = 10.0;
const FEW: u64 = 100;
const FEW_OFF: f64 = 10.0;
const BLOCK: u64 = 1_000;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bias {
    pub counter: &'static str,
    pub recorded: u64,
    pub predicted: f64,
}

impl Bias {
    /// Relative to the recorded value; `None` if that is 0.
    pub fn percent(&self) -> Option<f64> {
        let recorded = self.recorded as f64;
        (self.recorded > 0).then(|| 100.0 * (self.predicted - recorded) / recorded)
    }

    pub fn is_small(&self) -> bool {
        if self.recorded < FEW {
            return (self.predicted - self.recorded as f64).abs() <= FEW_OFF;
        }
        self.percent()
            .is_some_and(|percent| percent.abs() <= MOST_BIAS)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Block {
    pub slot: u64,
    pub recorded: u64,
    pub predicted: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SelfTest {
    pub counters: Vec<Bias>,
    /// Blocks of at least 1,000 transactions. An incomplete last block is left out.
    pub blocks: Vec<Block>,
}

impl SelfTest {
    pub fn passed(&self) -> bool {
        self.counters.iter().all(Bias::is_small)
    }
}

/// Simulates the recorded size and compares it with the recording, for the slots of both. The
/// caller sums datapoints of the same slot.
pub fn self_test(plan: &Plan, entries: u64, observed: &[Observed]) -> Result<SelfTest, Error> {
    let simulated = by_slot(plan, entries)?;
    let found = |o: &Observed| {
        simulated
            .slots
            .binary_search_by_key(&o.slot, |(slot, _)| *slot)
            .ok()
    };
    let mut pairs: Vec<(&Observed, &Counts)> = observed
        .iter()
        .filter_map(|o| Some((o, &simulated.slots[found(o)?].1)))
        .collect();
    pairs.sort_by_key(|(o, _)| o.slot);
    let runs = simulated.runs.max(1) as f64;
    let bias = |counter, recorded: fn(&Observed) -> u64, predicted: fn(&Counts) -> u64| Bias {
        counter,
        recorded: pairs
            .iter()
            .fold(0, |sum: u64, (o, _)| sum.saturating_add(recorded(o))),
        predicted: pairs.iter().map(|(_, c)| predicted(c)).sum::<u64>() as f64 / runs,
    };
    let counters = vec![
        bias("misses", |o| o.misses, |c| c.misses),
        bias("evictions", |o| o.evictions, |c| c.evictions),
        bias("reloads", |o| o.reloads, |c| c.reloads),
        bias("insertions", |o| o.insertions, |c| c.insertions),
    ];
    Ok(SelfTest {
        counters,
        blocks: blocks(&pairs, runs),
    })
}

fn blocks(pairs: &[(&Observed, &Counts)], runs: f64) -> Vec<Block> {
    let (mut blocks, mut current, mut transactions) = (Vec::new(), None::<Block>, 0);
    for (observed, counts) in pairs {
        let block = current.get_or_insert(Block {
            slot: observed.slot,
            recorded: 0,
            predicted: 0.0,
        });
        block.recorded = block.recorded.saturating_add(observed.misses);
        block.predicted += counts.misses as f64 / runs;
        transactions = observed.transactions.saturating_add(transactions);
        if transactions >= BLOCK {
            blocks.extend(current.take());
            transactions = 0;
        }
    }
    blocks
}
