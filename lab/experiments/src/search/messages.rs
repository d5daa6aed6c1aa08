//! Input and output of a search.

use faultline_stats::staircase::{self, Interval};
use itertools::Itertools;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Memory is stable if its growth up to the horizon is at most this share of it.
const MAX_RELATIVE_GROWTH: f64 = 0.05;
const FORECAST_HOURS: [f64; 3] = [1.0, 12.0, 24.0];

/// What the runner reads about the validator at each poll. Unreadable values are absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// By the monotonic clock.
    pub at: Duration,
    /// Memory of the cgroup, in bytes.
    pub unreclaimable: Option<u64>,
    /// Memory of the cgroup with page cache, in bytes.
    pub memory: Option<u64>,
    /// Read back from the kernel, in bytes.
    pub applied_limit: Option<u64>,
    /// Whether the recorder works, whatever its newest sample says.
    pub has_recent_sample: bool,
    pub slots_behind: Option<u64>,
    pub tip_slot: Option<u64>,
    /// Total refaults of file pages.
    pub refaults: Option<u64>,
    /// PSI `full` of memory.
    pub stalled: Option<Duration>,
    /// Also true if a process was OOM-killed.
    pub out_of_memory: bool,
    /// Total times for which replay threads waited for a CPU and ran.
    pub replay_cpu: Option<(Duration, Duration)>,
    /// Reported since the last reading, up to ten seconds after their replay.
    pub replays: Vec<ReplayedSlot>,
}

impl Reading {
    /// Whether the validator does not answer, although recorder and memory are readable. With a
    /// tip, the validator answers, though the cluster may have stopped.
    pub(super) fn is_silent(&self) -> bool {
        self.has_recent_sample
            && self.slots_behind.is_none()
            && self.tip_slot.is_none()
            && self.unreclaimable.is_some()
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplayedSlot {
    /// End of the replay, on the clock of the readings.
    pub at: Duration,
    pub replay_us: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// In bytes; `None` lifts the limit.
    SetLimit(Option<u64>),
    /// To be written before the next action. At a danger, the limit is lifted first, because
    /// writing waits for a disk.
    Journal(SearchEvent),
    Over(Box<SearchAnswer>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "search")]
pub enum SearchEvent {
    /// From now on the limit is unreclaimable memory plus `headroom`.
    Limit {
        headroom: Option<u64>,
        why: String,
    },
    Dwell(DwellResult),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DwellResult {
    /// In bytes; `None` for a reference.
    pub headroom: Option<u64>,
    /// Whether the dwell confirms an end of the interval, at double length.
    pub confirms: bool,
    pub verdict: Verdict,
    pub evidence: Box<DwellEvidence>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The validator was near the tip throughout, no farther behind at the end, and replayed about
    /// as fast as in the references.
    KeptUp,
    /// No cause except the limit is known.
    Failed,
    /// Another cause is possible, or data is missing. The search repeats the dwell.
    Void,
}

impl Verdict {
    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Self::KeptUp => "kept up",
            Self::Failed => "failed",
            Self::Void => "void",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DwellEvidence {
    pub seconds: f64,
    #[serde(rename = "behind_most")]
    pub max_slots_behind: Option<u64>,
    /// Mean.
    #[serde(rename = "behind_first")]
    pub slots_behind_first_eighth: Option<f64>,
    /// Mean.
    #[serde(rename = "behind_last")]
    pub slots_behind_last_eighth: Option<f64>,
    /// Not stored.
    #[serde(skip)]
    pub replayed_slots: usize,
    pub replay_p95_us: Option<f64>,
    /// Counts only file pages.
    #[serde(rename = "refaults")]
    pub refaults_per_second: Option<f64>,
    /// In the busiest eighth of the dwell, of the time in which the threads ran or waited, or of
    /// the elapsed time if that is longer.
    #[serde(rename = "waited")]
    pub replay_cpu_wait_share: Option<f64>,
    #[serde(rename = "cluster")]
    pub cluster_slots_per_second: Option<f64>,
    /// PSI `full` of memory, averaged over ten seconds.
    #[serde(rename = "memory_full")]
    pub max_stall_percent: Option<f64>,
    /// At the end of the dwell, in bytes.
    pub unreclaimable: Option<u64>,
    /// With page cache, at the end of the dwell, in bytes.
    pub memory: Option<u64>,
    /// Empty if the validator kept up.
    pub why: Vec<String>,
}

/// Headroom in bytes at each end of the interval, and the verdicts of its confirming dwells.
pub type EndTrials = staircase::EndTrials<u64>;

/// Memory is in bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchAnswer {
    pub outcome: SearchOutcome,
    pub confirmed: Option<EndTrials>,
    /// Unreclaimable memory until the validator was at the tip. The search tries no limit in the
    /// start, so the start may need more.
    #[serde(rename = "start")]
    pub startup_peak_bytes: u64,
    /// In the last reading of a dwell.
    pub unreclaimable: Option<u64>,
    /// In any dwell. This plus the headroom is sufficient memory. Absent in journals of older
    /// versions.
    #[serde(default, rename = "highest")]
    pub peak_unreclaimable_bytes: Option<u64>,
    /// Absent with too few samples.
    #[serde(rename = "grows")]
    pub growth_bytes_per_hour: Option<f64>,
    /// Whether unreclaimable memory grows by at most 5 % up to the horizon.
    #[serde(rename = "settles")]
    pub is_stable: Option<bool>,
    /// With the upper end of the headroom's interval, or the smallest headroom tried if no dwell
    /// failed. One entry (for the horizon) if unreclaimable memory is stable, else for 1, 12 and 24
    /// h.
    #[serde(rename = "memory")]
    pub sufficient_sizes: Vec<SufficientSize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SufficientSize {
    /// Time at the tip for which the size is enough.
    pub hours: f64,
    pub bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum SearchOutcome {
    /// The minimum headroom lies in this 90 % interval.
    Found(HeadroomInterval),
    /// The time ended before both ends of this 90 % interval were confirmed.
    Unconfirmed(HeadroomInterval),
    /// The results differ too much, were too few, or did not confirm an interval.
    Noisy,
    #[serde(rename = "above_start")]
    FirstHeadroomTooSmall,
    NeverFailed {
        lowest: u64,
    },
    /// The time ended before the interval was narrow enough.
    OutOfTime,
    Inconclusive {
        why: String,
    },
}

/// In bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HeadroomInterval {
    pub low: u64,
    pub middle: u64,
    pub high: u64,
}

impl From<Interval> for HeadroomInterval {
    fn from(interval: Interval) -> Self {
        Self {
            low: interval.low as u64,
            middle: interval.middle as u64,
            high: interval.high as u64,
        }
    }
}

impl SearchOutcome {
    pub(crate) fn interval(&self) -> Option<HeadroomInterval> {
        match self {
            Self::Found(interval) | Self::Unconfirmed(interval) => Some(*interval),
            _ => None,
        }
    }
}

impl SearchAnswer {
    /// Peak of unreclaimable memory, in dwells and in the start.
    pub(crate) fn overall_peak_bytes(&self) -> Option<u64> {
        let peak = self.peak_unreclaimable_bytes.or(self.unreclaimable)?;
        Some(peak.max(self.startup_peak_bytes))
    }

    pub(super) fn new(
        outcome: SearchOutcome,
        confirmed: Option<EndTrials>,
        startup_peak_bytes: u64,
        growth: &Growth,
        horizon: Duration,
    ) -> Self {
        let trend = growth.trend();
        let (unreclaimable, peak_unreclaimable_bytes) = growth.newest_and_highest.unzip();
        let is_stable = trend.zip(unreclaimable).map(|(trend, now)| {
            trend.slope * horizon.as_secs_f64() <= MAX_RELATIVE_GROWTH * now as f64
        });
        let sufficient_headroom = match outcome {
            SearchOutcome::NeverFailed { lowest } => Some(lowest),
            _ => outcome.interval().map(|interval| interval.high),
        };
        let after = |hours| {
            let (trend, highest) = (trend?, peak_unreclaimable_bytes?);
            let unreclaimable = if is_stable? {
                highest
            } else {
                (trend.bytes_after(hours * 3600.0) as u64).max(highest)
            };
            Some(SufficientSize {
                hours,
                bytes: startup_peak_bytes
                    .max(unreclaimable)
                    .saturating_add(sufficient_headroom?),
            })
        };
        let sizes = match is_stable {
            Some(true) => vec![after(horizon.as_secs_f64() / 3600.0)],
            _ => FORECAST_HOURS.map(after).to_vec(),
        };
        Self {
            confirmed,
            startup_peak_bytes,
            unreclaimable,
            peak_unreclaimable_bytes,
            growth_bytes_per_hour: trend.map(|trend| trend.slope * 3600.0),
            is_stable,
            sufficient_sizes: sizes.into_iter().flatten().collect(),
            outcome,
        }
    }
}

const MAX_GROWTH_SAMPLES: usize = 256;
const GROWTH_INTERVAL: Duration = Duration::from_secs(1);

/// Growth of unreclaimable memory: while this memory grows, no limit is enough forever.
#[derive(Default)]
pub struct Growth {
    began: Option<Duration>,
    /// How often every second sample was dropped.
    thinnings: u32,
    /// Seconds after `began`, and bytes.
    samples: Vec<(f64, f64)>,
    sampled_at: Option<Duration>,
    /// Bytes, of all readings in dwells.
    pub newest_and_highest: Option<(u64, u64)>,
}

/// `base + slope * seconds`, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Trend {
    pub base: f64,
    pub slope: f64,
}

impl Growth {
    pub fn add(&mut self, reading: &Reading) {
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
            self.samples = self.samples.iter().copied().step_by(2).collect();
            self.thinnings += 1;
        }
    }

    /// Theil-Sen, robust against jumps; `None` with fewer than ten samples.
    pub fn trend(&self) -> Option<Trend> {
        if self.samples.len() < 10 {
            return None;
        }
        let slopes = self
            .samples
            .iter()
            .tuple_combinations()
            .filter(|((at, _), (later, _))| later > at)
            .map(|((at, bytes), (later, more))| (more - bytes) / (later - at));
        let slope = median(slopes.collect())?;
        let bases = self.samples.iter().map(|(at, bytes)| bytes - slope * at);
        let base = median(bases.collect())?;
        Some(Trend { base, slope })
    }
}

impl Trend {
    /// `seconds` count from the first sample.
    pub fn bytes_after(&self, seconds: f64) -> f64 {
        (self.base + self.slope * seconds).max(0.0)
    }
}

/// Returns the upper of two middle values.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
