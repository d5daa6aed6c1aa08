//! Blocks of both arms, and their comparison.

use std::{ops::Range, time::Duration};

use faultline_testkit::{
    Result,
    daemon::{Daemon, value},
};

use crate::witness::{Replayed, Snapshot, memory};

/// Resamples of the bootstrap, and the seed of its random numbers.
const RESAMPLES: usize = 20_000;
const SEED: u64 = 20_241_121;
/// A smaller relative difference does not matter.
pub const MARGIN: f64 = 0.02;
/// Fewer pairs of blocks give no reliable interval.
const MIN_PAIRS: usize = 6;

/// A time in one arm.
#[derive(Debug)]
pub struct Block {
    /// Whether the daemon ran.
    pub with_daemon: bool,
    /// The measured part, in nanoseconds since 1970.
    pub span: Range<i64>,
    /// Slots that ended in it.
    pub points: Vec<Replayed>,
    /// Run-queue delay of replay threads: seconds per second, summed over the threads.
    pub run_queue_delay: f64,
    /// CPU time of replay threads: seconds per second, summed over the threads.
    pub cpu_time: f64,
    /// Load average of the machine at its end.
    pub load: f64,
    /// Of the daemon; `None` without it.
    pub cost: Option<Cost>,
}

impl Block {
    /// A quantile of `of` over the slots; `None` without slots.
    pub fn quantile(&self, share: f64, of: impl Fn(&Replayed) -> f64) -> Option<f64> {
        let mut values: Vec<f64> = self.points.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        quantile(&values, share)
    }
}

/// CPU and memory of the daemon, and its work.
#[derive(Debug)]
pub struct Cost {
    /// Duration of the measurement.
    pub over: Duration,
    /// CPU, as a share of one core.
    pub cores: f64,
    /// Resident bytes: at the end, and the maximum.
    pub resident: (u64, u64),
    /// Missed ticks.
    pub missed: f64,
    /// Lines of pushes that the daemon used.
    pub lines: f64,
}

impl Cost {
    pub fn between(
        before: &Snapshot,
        after: &Snapshot,
        over: Duration,
        daemon: &Daemon,
    ) -> Result<Self> {
        let cores = after.daemon_since(before).as_secs_f64() / over.as_secs_f64();
        let resident = (
            memory(daemon.pid(), "VmRSS")?,
            memory(daemon.pid(), "VmHWM")?,
        );
        let page = daemon.scrape()?;
        let missed = value(&page, "faultline_missed_ticks_total", &[])?;
        let lines = page
            .get("faultline_ingest_lines_total", &[("result", "used")])
            .unwrap_or_default();
        Ok(Self {
            over,
            cores,
            resident,
            missed,
            lines,
        })
    }
}

/// Two arms compared: means of block values, and the relative difference of the second arm to the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Number of compared pairs of blocks.
    pub pairs: usize,
    pub off: f64,
    pub on: f64,
    pub difference: f64,
    /// Intervals of the difference, for a test of difference at 5 % and one of equivalence at 5 %.
    pub interval_95: (f64, f64),
    pub interval_90: (f64, f64),
}

impl Comparison {
    /// Over (off, on) pairs of neighbouring blocks; `None` without pairs. Whole pairs are resampled, since slots of one
    /// block depend on each other and neighbours share the state of the machine.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        if pairs.is_empty() {
            return None;
        }
        let (off, on) = means(pairs.iter().copied());
        let mut random = Random(SEED);
        let mut differences: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                let (off, on) = means((0..pairs.len()).map(|_| pairs[random.below(pairs.len())]));
                on / off - 1.0
            })
            .collect();
        differences.sort_by(f64::total_cmp);
        let between = |tail: f64| {
            Some((
                quantile(&differences, tail)?,
                quantile(&differences, 1.0 - tail)?,
            ))
        };
        let (interval_95, interval_90) = (between(0.025)?, between(0.05)?);
        Some(Self {
            pairs: pairs.len(),
            off,
            on,
            difference: on / off - 1.0,
            interval_95,
            interval_90,
        })
    }

    /// The conclusion in words.
    pub fn verdict(&self) -> &'static str {
        let (low, high) = self.interval_90;
        if self.pairs < MIN_PAIRS {
            "too few blocks to say"
        } else if low >= -MARGIN && high <= MARGIN {
            "equivalent within 2 %"
        } else if self.interval_95.0 > 0.0 {
            "higher with the daemon"
        } else if self.interval_95.1 < 0.0 {
            "lower with the daemon"
        } else {
            "no difference found; too noisy to claim 2 %"
        }
    }
}

fn means(pairs: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    let (count, off, on) = pairs.fold((0.0, 0.0, 0.0), |(count, off, on), pair| {
        (count + 1.0, off + pair.0, on + pair.1)
    });
    (off / count, on / count)
}

/// Of sorted values, interpolated linearly; `None` without values.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let position = share.clamp(0.0, 1.0) * (sorted.len().checked_sub(1)?) as f64;
    let (low, high) = (
        *sorted.get(position.floor() as usize)?,
        *sorted.get(position.ceil() as usize)?,
    );
    Some(low + (high - low) * position.fract())
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten pairs around 100 with noise of at most one, the second arm larger by `more`.
    fn pairs(more: f64) -> Vec<(f64, f64)> {
        let noise = [0.3, -0.7, 0.9, -0.2, 0.1, -1.0, 0.6, -0.4, 0.8, -0.5];
        noise
            .iter()
            .zip(noise.iter().rev())
            .map(|(a, b)| (100.0 + a, (100.0 + b) * (1.0 + more)))
            .collect()
    }

    #[test]
    fn similar_arms_are_equivalent_and_different_arms_are_distinguished() {
        assert_eq!(
            Comparison::of(&pairs(0.0)).map(|c| c.verdict()),
            Some("equivalent within 2 %")
        );
        assert_eq!(
            Comparison::of(&pairs(0.05)).map(|c| c.verdict()),
            Some("higher with the daemon")
        );
        assert_eq!(
            Comparison::of(&pairs(-0.05)).map(|c| c.verdict()),
            Some("lower with the daemon")
        );
        assert_eq!(
            Comparison::of(&pairs(0.05)[..5]).map(|c| c.verdict()),
            Some("too few blocks to say")
        );
        assert_eq!(Comparison::of(&[]), None);
    }

    #[test]
    fn noise_larger_than_the_margin_proves_nothing() {
        let noisy: Vec<_> = (0..10)
            .map(|n| {
                if n % 2 == 0 {
                    (80.0, 120.0)
                } else {
                    (120.0, 80.0)
                }
            })
            .collect();
        let comparison = Comparison::of(&noisy).unwrap();
        assert_eq!(
            comparison.verdict(),
            "no difference found; too noisy to claim 2 %"
        );
        assert!(comparison.interval_95.0 <= comparison.interval_90.0);
    }

    #[test]
    fn a_quantile_lies_between_its_neighbours() {
        let values = [1.0, 2.0, 3.0, 5.0];
        assert_eq!(
            [0.0, 0.5, 1.0].map(|share| quantile(&values, share)),
            [Some(1.0), Some(2.5), Some(5.0)]
        );
        assert_eq!(quantile(&[], 0.5), None);
    }
}
