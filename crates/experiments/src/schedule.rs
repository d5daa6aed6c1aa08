//! Which run comes when: decided once, before the first run, and written down.
//!
//! Forwards and backwards in turn (ABBA) is the usual order, with four replicates unless the plan says otherwise: with an
//! even number, what changes steadily over the days adds as much to each arm as to any other; with three it does not, and
//! two are too few for a test.

use super::plan::{Order, Plan};
use serde::{Deserialize, Serialize};

/// What happens at the same time: one run, or in a concurrent plan one of each arm and the second of the A/A pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// From 1 on.
    pub number: u32,
    /// Its runs, each in a lane of its own.
    pub runs: Vec<Scheduled>,
}

/// One run to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduled {
    /// From 1 on, unique in the experiment.
    pub run: u32,
    /// Name of its arm.
    pub arm: String,
    /// From 1 on, in its arm.
    pub replicate: u32,
    /// Name of its lane.
    pub lane: String,
    /// Whether it is the second of the A/A pair.
    #[serde(default)]
    pub second: bool,
}

/// All turns of a plan. The same plan gives the same schedule, in every version of this program.
pub fn schedule(plan: &Plan) -> Vec<Turn> {
    let mut run = 0..;
    let turns: Vec<Vec<Scheduled>> = match plan.concurrent {
        Some(concurrent) => (0..plan.replicates)
            .map(|replicate| together(plan, concurrent.twice, replicate, &mut run))
            .collect(),
        None => {
            let lane = plan
                .lanes
                .first()
                .map(|lane| lane.name.clone())
                .unwrap_or_default();
            let alone = |(arm, replicate): (usize, u32)| {
                let (run, lane) = (run.next()? + 1, lane.clone());
                let arm = plan.arms.get(arm)?.name.clone();
                Some(vec![Scheduled {
                    run,
                    arm,
                    replicate: replicate + 1,
                    lane,
                    second: false,
                }])
            };
            one_by_one(plan).into_iter().filter_map(alone).collect()
        }
    };
    (1..)
        .zip(turns)
        .map(|(number, runs)| Turn { number, runs })
        .collect()
}

/// Arms and replicates, both from 0 on, in the order in which they are run.
fn one_by_one(plan: &Plan) -> Vec<(usize, u32)> {
    let arms = plan.arms.len();
    if plan.order == Order::Sequential {
        return (0..arms)
            .flat_map(|arm| (0..plan.replicates).map(move |replicate| (arm, replicate)))
            .collect();
    }
    let mut random = SplitMix64(plan.seed);
    let mut all = Vec::new();
    for replicate in 0..plan.replicates {
        let mut order: Vec<usize> = (0..arms).collect();
        match plan.order {
            Order::Abba if replicate % 2 == 1 => order.reverse(),
            Order::LatinSquare if arms > 0 => order.rotate_left(replicate as usize % arms),
            Order::Random => random.shuffle(&mut order),
            _ => {}
        }
        all.extend(order.into_iter().map(|arm| (arm, replicate)));
    }
    all
}

/// All arms at once, and one of them twice. In each turn every arm is one lane further, so that lanes cancel out; the runs
/// stand in the order of their lanes, so that the order in which they are started does as well.
fn together(
    plan: &Plan,
    twice: usize,
    replicate: u32,
    run: &mut impl Iterator<Item = u32>,
) -> Vec<Scheduled> {
    let mut sits: Vec<(usize, bool)> = (0..plan.arms.len()).map(|arm| (arm, false)).collect();
    sits.push((twice, true));
    let lanes = sits.len();
    sits.rotate_right(replicate as usize % lanes);
    let sat = sits
        .into_iter()
        .zip(&plan.lanes)
        .filter_map(|((arm, second), lane)| {
            let arm = plan.arms.get(arm)?.name.clone();
            Some(Scheduled {
                run: run.next()? + 1,
                arm,
                replicate: replicate + 1,
                lane: lane.name.clone(),
                second,
            })
        });
    sat.collect()
}

/// The generator of Steele, Lea and Flood (2014): a few lines that no library can change under a logged seed.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A whole number below `bound`, which is not 0; each as likely as the others.
    fn below(&mut self, bound: u64) -> u64 {
        let fair = u64::MAX - u64::MAX % bound;
        loop {
            let drawn = self.next();
            if drawn < fair {
                return drawn % bound;
            }
        }
    }

    /// Fisher and Yates.
    fn shuffle(&mut self, items: &mut [usize]) {
        for last in (1..items.len()).rev() {
            let chosen = self.below(last as u64 + 1) as usize;
            items.swap(last, chosen);
        }
    }
}

#[cfg(test)]
mod tests;
