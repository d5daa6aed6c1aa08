//! One slot number over time: the validator's own slot, or the tip that the validator knows.

use std::time::Duration;

/// Longest time over which the pace of a track is measured.
const PACE_WINDOW: Duration = Duration::from_secs(10);

/// Fewer slots do not show a pace, because a starved validator also replays one or two at a time.
const MIN_PACE_SLOTS: u64 = 3;
/// The number of slots in this time also suffices. It is smaller if the slot time is long.
const MIN_PACE_TIME: Duration = Duration::from_millis(1300);

/// Reports further apart are an interruption, not the cadence of a source.
const MAX_CADENCE: Duration = Duration::from_secs(25);

/// Limits of the pace, in slots per slot time.
const MIN_RATE: f64 = 0.4;
const MAX_RATE: f64 = 1.6;

/// Maximum slots that a cluster makes in `duration`; unlimited while the slot time is unknown.
pub fn max_slots(duration: Duration, slot_time: Option<Duration>) -> u64 {
    slot_time.map_or(u64::MAX, |slot_time| {
        slots_at_rate(duration, slot_time, MAX_RATE)
    })
}

fn slots_at_rate(duration: Duration, slot_time: Duration, rate: f64) -> u64 {
    (rate * duration.as_secs_f64() / slot_time.as_secs_f64()) as u64
}

#[derive(Debug, Clone, Copy)]
pub struct SlotTrack {
    pub slot: u64,
    /// Time of the last report, or of a later tick at which the process was stopped or frozen: its
    /// slot then stands still, so the next step is judged by the time since.
    pub known_at: Duration,
    pub advanced_at: Duration,
    /// The last report at which the slot kept pace with the slot time.
    pub last_at_pace: Duration,
    /// The last step was larger than a cluster can make.
    pub is_fast: bool,
    /// Slot and time from which the pace is measured.
    pace_start: (u64, Duration),
    reported_at: Duration,
    /// Time between two reports; `None` before the second one.
    cadence: Option<Duration>,
}

impl SlotTrack {
    pub fn new(slot: u64, at: Duration) -> Self {
        Self {
            slot,
            known_at: at,
            advanced_at: at,
            last_at_pace: at,
            is_fast: false,
            pace_start: (slot, at),
            reported_at: at,
            cadence: None,
        }
    }

    /// Compares with the previous report, not with the highest slot: one wrong slot must not hide
    /// the next ones.
    pub fn update(&mut self, slot: u64, at: Duration, slot_time: Option<Duration>) {
        // Two seconds more, for skipped slots and late answers.
        let since = at.saturating_sub(self.known_at) + Duration::from_secs(2);
        self.is_fast = slot.saturating_sub(self.slot) > max_slots(since, slot_time);
        if slot > self.slot {
            self.advanced_at = at;
        }
        let passed = at.saturating_sub(self.pace_start.1);
        let needed_slots = slot_time.map_or(MIN_PACE_SLOTS, |slot_time| {
            let min_slots = slots_at_rate(MIN_PACE_TIME, slot_time, 1.0).clamp(1, MIN_PACE_SLOTS);
            slots_at_rate(passed, slot_time, MIN_RATE).max(min_slots)
        });
        let keeps_pace = slot.saturating_sub(self.pace_start.0) >= needed_slots;
        if keeps_pace {
            self.last_at_pace = at;
            // The next measurement includes this interval: one alone may have too few slots.
            self.pace_start = (self.slot, self.reported_at);
        } else if passed >= PACE_WINDOW || slot < self.pace_start.0 {
            self.pace_start = (slot, at);
        }
        let cadence = at.saturating_sub(self.reported_at);
        if !cadence.is_zero() && cadence <= MAX_CADENCE {
            self.cadence = Some(cadence);
        }
        (self.slot, self.known_at, self.reported_at) = (slot, at, at);
    }

    /// The phase is unknown this long after the last evidence (a report at which the slot kept
    /// pace). A stall begins at the earliest this long after `advanced_at`.
    pub fn max_silence(&self) -> Duration {
        self.cadence.map_or(MAX_CADENCE, |cadence| {
            (cadence * 5 / 2).clamp(PACE_WINDOW, MAX_CADENCE)
        })
    }
}
