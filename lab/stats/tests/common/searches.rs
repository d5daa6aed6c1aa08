//! Searches for a threshold that is known, under noise.

use faultline_stats::staircase::{Next, Outcome, SearchConfig, Staircase};

/// A thing with a threshold.
#[derive(Debug, Clone, Copy)]
pub struct Thing {
    /// By how much the threshold differs from trial to trial: standard deviation of its logarithm.
    pub noise: f64,
    /// Scale of the logistic around it.
    pub scale: f64,
    /// How often a trial ends the other way for no reason.
    pub lapses: f64,
    /// What fails without a trial, as a share of the threshold.
    pub floor: Option<f64>,
}

/// What many searches came to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Searches {
    pub all: usize,
    pub found: usize,
    pub covers: usize,
    pub noisy: usize,
    pub other: usize,
    pub trials: usize,
    pub failures: usize,
    /// Sum of the distances of the middle from the threshold, as shares of it.
    pub off: f64,
}

impl Thing {
    fn keeps_up(&self, h: f64, threshold: f64, random: &mut fastrand::Rng) -> bool {
        let normal = (-2.0 * (1.0 - random.f64()).ln()).sqrt()
            * (std::f64::consts::TAU * random.f64()).cos();
        let above = threshold.ln() + self.noise * normal - h.ln();
        let fails = 1.0 / (1.0 + (-above / self.scale).exp());
        (random.f64() >= fails) != (random.f64() < self.lapses)
    }

    pub fn search(
        &self,
        wanted: SearchConfig,
        threshold: f64,
        random: &mut fastrand::Rng,
    ) -> Searches {
        let mut staircase = Staircase::new(wanted).expect("a search");
        let mut one = Searches {
            all: 1,
            ..Searches::default()
        };
        let floor = self.floor.map_or(0.0, |share| share * threshold);
        let least = threshold.max(floor);
        loop {
            staircase.raise_floor(floor);
            match staircase.next_trial() {
                Next::Try(h) => {
                    let passed = self.keeps_up(h, threshold, random);
                    one.trials += 1;
                    one.failures += usize::from(!passed);
                    staircase.add_trial(h, passed);
                }
                Next::Confirm {
                    value: h,
                    is_upper: high,
                } if h <= floor => staircase.add_end_trial(h, high, false),
                Next::Confirm {
                    value: h,
                    is_upper: high,
                } => {
                    let passed = self.keeps_up(h, threshold, random);
                    one.trials += 1;
                    one.failures += usize::from(!passed);
                    staircase.add_end_trial(h, high, passed);
                }
                Next::Over(Outcome::Found(interval)) => {
                    one.found = 1;
                    one.covers = usize::from(interval.low <= least && least <= interval.high);
                    one.off = (interval.middle / least - 1.0).abs();
                    return one;
                }
                Next::Over(Outcome::Noisy) => return Searches { noisy: 1, ..one },
                Next::Over(_) => return Searches { other: 1, ..one },
            }
        }
    }
}

impl Searches {
    pub fn add(&mut self, one: &Self) {
        self.all += one.all;
        self.found += one.found;
        self.covers += one.covers;
        self.noisy += one.noisy;
        self.other += one.other;
        self.trials += one.trials;
        self.failures += one.failures;
        self.off += one.off;
    }

    pub fn coverage(&self) -> f64 {
        self.covers as f64 / self.found as f64
    }
}

/// So many searches, each with a threshold of its own, from 20 to 90 % of the first value.
pub fn searches(thing: &Thing, many: usize, seed: u64) -> Searches {
    let mut random = fastrand::Rng::with_seed(seed);
    let wanted = SearchConfig {
        first_value: 24e9,
        max_width: 0.1,
        max_trials: 50,
    };
    let mut all = Searches::default();
    for _ in 0..many {
        let threshold =
            wanted.first_value * (0.2_f64.ln() + random.f64() * (0.9_f64 / 0.2).ln()).exp();
        all.add(&thing.search(wanted, threshold, &mut random));
    }
    all
}
