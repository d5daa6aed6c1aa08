//! The order of all runs, fixed before the first one.
//!
//! Default: ABBA with four replicates. With an even number, a steady drift adds equally to every
//! arm. With three it does not, and two are too few for a test.

use super::plan::{Order, Plan};
use serde::{Deserialize, Serialize};

/// Simultaneous runs: one, or one per arm and the second of the A/A pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// From 1 on.
    pub number: u32,
    pub runs: Vec<Scheduled>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduled {
    /// Unique, from 1 on.
    pub run: u32,
    pub arm: String,
    /// Within its arm, from 1 on.
    pub replicate: u32,
    pub lane: String,
    /// The second run of the A/A pair.
    #[serde(default)]
    pub second: bool,
}

impl Scheduled {
    /// With `second` in parentheses for the second run of the A/A pair.
    pub(crate) fn arm_name(&self, second: &str) -> String {
        if self.second {
            format!("{} ({second})", self.arm)
        } else {
            self.arm.clone()
        }
    }

    pub(crate) fn labels(&self, experiment: &str, turn: u32) -> Vec<(String, String)> {
        let mut all = vec![
            ("experiment", experiment.to_owned()),
            ("arm", self.arm.clone()),
            ("run", self.replicate.to_string()),
            ("turn", turn.to_string()),
            ("lane", self.lane.clone()),
        ];
        if self.second {
            all.push(("second", "1".to_owned()));
        }
        all.into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    }
}

/// A plan must have the same schedule in all versions of this program.
pub fn schedule(plan: &Plan) -> Vec<Turn> {
    let mut run = 0;
    let mut scheduled = |(arm, second): (usize, bool), replicate: u32, lane: &str| {
        let arm = plan.arms.get(arm)?.name.clone();
        run += 1;
        Some(Scheduled {
            run,
            arm,
            replicate: replicate + 1,
            lane: lane.to_owned(),
            second,
        })
    };
    let turns: Vec<Vec<Scheduled>> = match plan.concurrent {
        Some(concurrent) => (0..plan.replicates)
            .map(|replicate| {
                by_lane(plan, concurrent.twice, replicate)
                    .into_iter()
                    .zip(&plan.lanes)
                    .filter_map(|(arm, lane)| scheduled(arm, replicate, &lane.name))
                    .collect()
            })
            .collect(),
        None => {
            let lane = plan.lanes.first().map_or("", |lane| &lane.name);
            let runs = one_by_one(plan).into_iter();
            runs.map(|(arm, replicate)| Vec::from_iter(scheduled((arm, false), replicate, lane)))
                .collect()
        }
    };
    (1..)
        .zip(turns)
        .map(|(number, runs)| Turn { number, runs })
        .collect()
}

/// Arm and replicate, both from 0.
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

/// Arms, and whether each is the second run of the A/A pair. Each turn moves every arm one lane
/// further, so that lane effects cancel out. Runs start in lane order, so that effects of the start
/// order cancel out, too.
fn by_lane(plan: &Plan, twice: usize, replicate: u32) -> Vec<(usize, bool)> {
    let mut by_lane: Vec<(usize, bool)> = (0..plan.arms.len()).map(|arm| (arm, false)).collect();
    by_lane.push((twice, true));
    let lanes = by_lane.len();
    by_lane.rotate_right(replicate as usize % lanes);
    by_lane
}

/// Steele, Lea and Flood (2014). No library update can change the result of a seed.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// `bound` is not 0.
    fn below(&mut self, bound: u64) -> u64 {
        let max_unbiased = u64::MAX - u64::MAX % bound;
        loop {
            let drawn = self.next();
            if drawn < max_unbiased {
                return drawn % bound;
            }
        }
    }

    fn shuffle(&mut self, items: &mut [usize]) {
        for last in (1..items.len()).rev() {
            let chosen = self.below(last as u64 + 1) as usize;
            items.swap(last, chosen);
        }
    }
}

#[cfg(test)]
mod tests;
