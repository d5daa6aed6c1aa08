use super::Reading;
use faultline_stats::staircase::{self, Interval};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Maximum relative growth up to the horizon.
const MAX_RELATIVE_GROWTH: f64 = 0.05;
const FORECAST_HOURS: [f64; 3] = [1.0, 12.0, 24.0];

/// In bytes, with numbers of successes and failures.
pub type EndTrials = staircase::EndTrials<u64>;

/// Memory in bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub outcome: Outcome,
    pub confirmed: Option<EndTrials>,
    /// Peak of unreclaimable memory before the tip. A start cannot be tried at several limits: this
    /// is only a lower bound of what it needs.
    pub start: u64,
    /// Unreclaimable memory at the end.
    pub unreclaimable: Option<u64>,
    /// Peak in any dwell; sufficient memory is this plus the headroom. Absent in journals of older
    /// versions.
    #[serde(default)]
    pub highest: Option<u64>,
    /// Growth in bytes per hour; absent with too few samples.
    pub grows: Option<f64>,
    /// Growth up to the horizon stays below 5 %; absent if unknown.
    pub settles: Option<bool>,
    /// Sufficient memory, with the upper end of the headroom. One entry (for the horizon) if it
    /// settles, else for 1, 12 and 24 h at the tip.
    pub memory: Vec<Memory>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// At the tip.
    pub hours: f64,
    pub bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    /// The minimum headroom lies in this 90 % interval.
    Found { low: u64, middle: u64, high: u64 },
    /// The time ended before both ends of this 90 % interval were confirmed.
    Unconfirmed { low: u64, middle: u64, high: u64 },
    /// Equal dwells differ too much for an interval.
    Noisy,
    /// The first headroom is too small.
    AboveStart,
    /// Even the smallest headroom is enough.
    NeverFailed { lowest: u64 },
    /// The time ended before the interval was narrow enough.
    OutOfTime,
    /// No conclusion is possible.
    Inconclusive { why: String },
}

impl Outcome {
    pub(crate) fn interval(&self) -> Option<[u64; 3]> {
        match *self {
            Outcome::Found { low, middle, high } | Outcome::Unconfirmed { low, middle, high } => {
                Some([low, middle, high])
            }
            _ => None,
        }
    }

    fn sufficient_headroom(&self) -> Option<u64> {
        match self {
            Outcome::NeverFailed { lowest } => Some(*lowest),
            _ => self.interval().map(|[_, _, high]| high),
        }
    }
}

pub fn ends(interval: &Interval) -> [u64; 3] {
    [interval.low, interval.middle, interval.high].map(|bytes| bytes as u64)
}

impl Answer {
    pub(super) fn new(
        outcome: Outcome,
        confirmed: Option<EndTrials>,
        start: u64,
        growth: &Growth,
        horizon: Duration,
    ) -> Self {
        let (line, newest) = (growth.line(), growth.newest_and_highest);
        let settles = line.zip(newest).map(|(line, (now, _))| {
            line.slope * horizon.as_secs_f64() <= MAX_RELATIVE_GROWTH * now as f64
        });
        let after = |hours: f64| -> Option<Memory> {
            let (line, (_, highest)) = (line?, newest?);
            let unreclaimable = if settles? {
                highest
            } else {
                (line.at(hours * 3600.0) as u64).max(highest)
            };
            Some(Memory {
                hours,
                bytes: start
                    .max(unreclaimable)
                    .saturating_add(outcome.sufficient_headroom()?),
            })
        };
        let memory = match settles {
            Some(true) => vec![after(horizon.as_secs_f64() / 3600.0)],
            _ => FORECAST_HOURS.map(after).to_vec(),
        };
        Answer {
            confirmed,
            start,
            unreclaimable: newest.map(|(now, _)| now),
            highest: newest.map(|(_, highest)| highest),
            grows: line.map(|line| line.slope * 3600.0),
            settles,
            memory: memory.into_iter().flatten().collect(),
            outcome,
        }
    }
}

const MAX_GROWTH_SAMPLES: usize = 256;
const GROWTH_INTERVAL: Duration = Duration::from_secs(1);

/// Estimates growth: if unreclaimable memory does not settle, no limit is enough forever.
#[derive(Debug, Default)]
pub struct Growth {
    began: Option<Duration>,
    /// How often samples were thinned. Each time, the interval doubles.
    thinnings: u32,
    samples: Vec<(f64, f64)>,
    sampled_at: Option<Duration>,
    /// The newest and the highest bytes of all readings.
    pub newest_and_highest: Option<(u64, u64)>,
}

/// `base + slope * seconds`, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Trend {
    pub base: f64,
    pub slope: f64,
}

impl Growth {
    pub fn take(&mut self, reading: &Reading) {
        let Some(bytes) = reading.unreclaimable else {
            return;
        };
        let began = *self.began.get_or_insert(reading.at);
        let before = self.newest_and_highest.map_or(0, |(_, highest)| highest);
        self.newest_and_highest = Some((bytes, bytes.max(before)));
        if self.sampled_at.is_some_and(|last| {
            reading.at.saturating_sub(last) < GROWTH_INTERVAL * (1 << self.thinnings)
        }) {
            return;
        }
        self.sampled_at = Some(reading.at);
        self.samples
            .push((reading.at.saturating_sub(began).as_secs_f64(), bytes as f64));
        if self.samples.len() >= MAX_GROWTH_SAMPLES {
            let mut keep = false;
            self.samples.retain(|_| {
                keep = !keep;
                keep
            });
            self.thinnings += 1;
        }
    }

    /// Theil-Sen, robust against jumps; `None` with fewer than ten samples.
    pub fn line(&self) -> Option<Trend> {
        if self.samples.len() < 10 {
            return None;
        }
        let mut slopes = Vec::new();
        for (index, (at, bytes)) in self.samples.iter().enumerate() {
            let later = self
                .samples
                .iter()
                .skip(index + 1)
                .filter(|(then, _)| then > at);
            slopes.extend(later.map(|(then, more)| (more - bytes) / (then - at)));
        }
        let slope = median(slopes)?;
        let base = median(
            self.samples
                .iter()
                .map(|(at, bytes)| bytes - slope * at)
                .collect(),
        )?;
        Some(Trend { base, slope })
    }
}

impl Trend {
    /// In bytes, after the first sample.
    pub fn at(&self, seconds: f64) -> f64 {
        (self.base + self.slope * seconds).max(0.0)
    }
}

/// The median; of two middle values, the upper one.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
