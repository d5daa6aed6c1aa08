//! A simulated validator in virtual time, whose least headroom is known.

use super::super::{Reading, ReplayedSlot};
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// Virtual time between two readings.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The simulated validator. It falls behind if its page cache is below `knee`.
pub struct Plant {
    knee: u64,
    now: Duration,
    unreclaimable: u64,
    cache: u64,
    /// Size of all files that can be cached.
    files: u64,
    behind: f64,
    tip: f64,
    refaults: f64,
    waited: Duration,
    ran: Duration,
    stalled: Duration,
    random: fastrand::Rng,
    /// Bytes per second.
    pub leak: u64,
    /// Load of other programs: from this time within each period to its end, and the period.
    pub loaded: Option<(Duration, Duration)>,
    pub limit: Option<u64>,
    pub killed: u32,
    /// Page cache that the kernel cannot reclaim, whatever the limit.
    pub stuck: u64,
    /// Replay threads run for a thousandth of the time, and wake up late.
    pub idle: bool,
}

impl Plant {
    pub fn new(knee: u64, seed: u64) -> Self {
        Self {
            knee,
            now: Duration::ZERO,
            unreclaimable: 300 * MIB,
            cache: 0,
            files: 1000 * MIB,
            behind: 100.0,
            tip: 1e6,
            refaults: 0.0,
            waited: Duration::ZERO,
            ran: Duration::ZERO,
            stalled: Duration::ZERO,
            random: fastrand::Rng::with_seed(seed),
            leak: 0,
            loaded: None,
            limit: None,
            killed: 0,
            stuck: 0,
            idle: false,
        }
    }

    pub fn limit(&mut self, limit: Option<u64>) {
        self.limit = limit;
    }

    fn is_loaded(&self) -> bool {
        self.loaded.is_some_and(|(half, period)| {
            Duration::from_nanos((self.now.as_nanos() % period.as_nanos()) as u64) >= half
        })
    }

    /// Simulates one poll interval, and returns the reading at its end.
    pub fn read(&mut self) -> Reading {
        let step = POLL_INTERVAL.as_secs_f64();
        self.now += POLL_INTERVAL;
        self.tip += 2.5 * step;
        self.unreclaimable += (self.leak as f64 * step) as u64;
        let free = self
            .limit
            .unwrap_or(u64::MAX)
            .saturating_sub(self.unreclaimable);
        self.killed += u32::from(free == 0);
        // Page cache grows at the speed of the disk, and is reclaimed at once.
        self.cache = (self.cache + (60.0 * MIB as f64 * step) as u64)
            .min(self.files)
            .min(free.max(self.stuck));
        // The working set varies by half a percent around the knee.
        let needed = self.knee as f64 * (1.0 + 0.01 * (self.random.f64() - 0.5));
        let short = 1.0 - self.cache as f64 / needed;
        let squeezed = self.limit.is_some() && short > 0.0;
        let loaded = self.is_loaded();
        let late = if squeezed { 0.0008 } else { 0.00004 };
        let (share, wait) = match (loaded, self.idle) {
            (true, _) => (0.6, 0.4),
            (false, true) => (0.001, late),
            (false, false) => (0.4, 0.002),
        };
        self.ran += POLL_INTERVAL.mul_f64(share);
        self.waited += POLL_INTERVAL.mul_f64(wait);
        self.stalled += POLL_INTERVAL.mul_f64(if squeezed { 0.05 } else { 0.0 });
        self.refaults += step * if squeezed { 2000.0 } else { 5.0 };
        let gains = if squeezed || loaded {
            0.5 + 10.0 * short.max(0.0)
        } else {
            -4.0
        };
        self.behind = (self.behind + gains * step).clamp(0.0, 300.0);
        let slots = if self.random.f64() < 2.5 * step { 1 } else { 0 };
        let slower = if squeezed { 1.5 } else { 1.0 };
        Reading {
            at: self.now,
            unreclaimable: Some(self.unreclaimable),
            memory: Some(self.unreclaimable + self.cache),
            applied_limit: self.limit,
            has_recent_sample: true,
            slots_behind: Some(self.behind as u64),
            tip_slot: Some(self.tip as u64),
            refaults: Some(self.refaults as u64),
            stalled: Some(self.stalled),
            out_of_memory: free == 0,
            replay_cpu: Some((self.waited, self.ran)),
            replays: (0..slots)
                .map(|_| ReplayedSlot {
                    at: self.now,
                    replay_us: slower * (2500.0 + 1000.0 * self.random.f64()),
                })
                .collect(),
        }
    }
}
