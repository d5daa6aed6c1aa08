//! The order of all runs, fixed before the first one.
//!
//! Default: ABBA with four replicates. With an even number of replicates, a steady drift adds
//! equally to every arm. With three, a part of the drift remains. Two are too few for a test.

use super::plan::{Lane, Order, Plan};
use itertools::{Itertools, chain};
use serde::{Deserialize, Serialize};

/// The runs that execute at the same time: a single run, or with `[concurrent]` one run per arm and
/// the second run of the A/A pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// From 1 on.
    pub number: u32,
    pub runs: Vec<ScheduledRun>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledRun {
    /// Unique in the experiment, from 1 on.
    pub run: u32,
    pub arm: String,
    /// Number of the repetition of the arm, from 1 on.
    pub replicate: u32,
    /// Name of the lane: the folders, ports and CPUs of the run.
    pub lane: String,
    /// This is the second run of the A/A pair: two runs of one arm in one turn, which should not
    /// differ.
    #[serde(default, rename = "second")]
    pub is_second_aa_run: bool,
}

impl ScheduledRun {
    /// The name of the arm. For the second run of the A/A pair, adds `suffix` in parentheses.
    pub(crate) fn arm_name(&self, suffix: &str) -> String {
        if self.is_second_aa_run {
            format!("{} ({suffix})", self.arm)
        } else {
            self.arm.clone()
        }
    }

    pub(crate) fn labels(&self, experiment: &str, turn: u32) -> Vec<(String, String)> {
        let labels = [
            ("experiment", experiment.to_owned()),
            ("arm", self.arm.clone()),
            // Reports name a run by its arm and this label, as in `512 GB, run 2`.
            ("run", self.replicate.to_string()),
            ("turn", turn.to_string()),
            ("lane", self.lane.clone()),
        ];
        chain!(
            labels,
            self.is_second_aa_run.then(|| ("second", "1".to_owned()))
        )
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
    }
}

/// A plan must have the same schedule in all versions of this program.
pub fn schedule(plan: &Plan) -> Vec<Turn> {
    let mut run = 0;
    let mut schedule_run = |(arm, is_second_aa_run): (usize, bool), replicate: u32, lane: &Lane| {
        let arm = plan.arms.get(arm)?.name.clone();
        run += 1;
        Some(ScheduledRun {
            run,
            arm,
            replicate: replicate + 1,
            lane: lane.name.clone(),
            is_second_aa_run,
        })
    };
    let mut turns = Vec::new();
    let mut add_turn = |runs| {
        let number = turns.len() as u32 + 1;
        turns.push(Turn { number, runs });
    };
    if let Some(concurrent) = plan.concurrent {
        for replicate in 0..plan.replicates {
            add_turn(
                arms_by_lane(plan, concurrent.repeated_arm, replicate)
                    .into_iter()
                    .zip(&plan.lanes)
                    .filter_map(|(arm, lane)| schedule_run(arm, replicate, lane))
                    .collect(),
            );
        }
    } else {
        let no_lane = Lane::default();
        let lane = plan.lanes.first().unwrap_or(&no_lane);
        for (arm, replicate) in arms_and_replicates(plan) {
            add_turn(Vec::from_iter(schedule_run((arm, false), replicate, lane)));
        }
    }
    turns
}

/// Arm and replicate of each run, both from 0, if the runs execute one by one.
fn arms_and_replicates(plan: &Plan) -> Vec<(usize, u32)> {
    let arms = plan.arms.len();
    if plan.order == Order::Sequential {
        return (0..arms).cartesian_product(0..plan.replicates).collect();
    }
    let mut random = SplitMix64(plan.seed);
    let mut ordered = Vec::new();
    for replicate in 0..plan.replicates {
        let mut order = (0..arms).collect_vec();
        match plan.order {
            Order::Abba if replicate % 2 == 1 => order.reverse(),
            Order::LatinSquare if arms > 0 => order.rotate_left(replicate as usize % arms),
            Order::Random => random.shuffle(&mut order),
            _ => {}
        }
        ordered.extend(order.into_iter().map(|arm| (arm, replicate)));
    }
    ordered
}

/// The arm of each lane, and whether its run is the second of the A/A pair. Each turn moves every
/// arm one lane further. Runs start in the order of the lanes. After as many turns as lanes, the
/// effects of the lane and of the start order cancel out.
fn arms_by_lane(plan: &Plan, repeated_arm: usize, replicate: u32) -> Vec<(usize, bool)> {
    let mut by_lane = (0..plan.arms.len()).map(|arm| (arm, false)).collect_vec();
    by_lane.push((repeated_arm, true));
    let lanes = by_lane.len();
    by_lane.rotate_right(replicate as usize % lanes);
    by_lane
}

/// By Steele, Lea and Flood (2014). With a library, an update could give the same seed
/// another order.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// `bound` is not 0.
    fn next_below(&mut self, bound: u64) -> u64 {
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
            items.swap(last, self.next_below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests;
