//! In a dwell, the search keeps one headroom. The verdict says whether the validator kept up. Other
//! dwells are compared with references, which have no limit.

use super::{
    DwellEvidence, MAX_DATA_AGE, Reading, VALIDATOR_SILENT, Verdict, limit_control::push_recent,
    median,
};
use std::{collections::VecDeque, time::Duration};

/// Slots behind are compared between the first and the last part. Waiting for a CPU is measured
/// over each part.
const PARTS_OF_DWELL: u32 = 8;
/// In a shorter part, a single poll or late wake-up is a large share.
const MIN_PART_LENGTH: Duration = Duration::from_secs(1);
const REPLAY_TIME_QUANTILE: f64 = 0.95;
/// A dwell's quantile may be this multiple of that of the reference dwells.
const MAX_REPLAY_RATIO: f64 = 1.2;
/// Slots by which the mean distance to the tip may grow from the first part to the last.
const MAX_BEHIND_INCREASE: f64 = 1.0;
/// On a busy host, replay threads wait for a CPU for more than this share of their runnable time,
/// or of the elapsed time if that is longer.
const BUSY_WAIT_SHARE: f64 = 0.05;
/// On a busy host, the odds of this share are also above this multiple of the references' odds.
const BUSY_ODDS_RATIO: f64 = 2.0;
/// With a lower share of the references' slot rate, the cluster is slow and easy to follow.
const SLOW_CLUSTER_SHARE: f64 = 0.95;
/// In a shorter time, slots are not compared: at both ends, the recorder's newest sample may be a
/// second old.
const MIN_SLOT_COUNT_TIME: Duration = Duration::from_secs(30);
/// A dwell without failures is void at a lower share of the references' rate of replayed slots. The
/// validator may report the other slots after the dwell.
const MIN_REPLAY_SHARE: f64 = 0.25;
/// If memory was above the target in more polls, the limit had no effect.
const MAX_ABOVE_SHARE: f64 = 0.1;
/// A longer gap makes the dwell void.
const MAX_READING_GAP: Duration = Duration::from_secs(2);

/// References in a median: a cluster's load changes over hours.
const MEDIAN_OF_NEWEST: usize = 3;

#[derive(Default)]
pub struct References(pub Vec<DwellEvidence>);

impl References {
    pub fn replay_p95_us(&self) -> Option<f64> {
        self.median(|evidence| evidence.replay_p95_us)
    }

    pub fn replayed_slots_per_second(&self) -> Option<f64> {
        self.replay_p95_us()?;
        self.median(|evidence| {
            (evidence.seconds > 0.0).then(|| evidence.replayed_slots as f64 / evidence.seconds)
        })
    }

    /// Median at the end, rounded up.
    pub fn slots_behind(&self) -> Option<u64> {
        self.median(|evidence| evidence.slots_behind_last_eighth)
            .map(|behind| behind.ceil() as u64)
    }

    pub fn median(&self, measurement: impl Fn(&DwellEvidence) -> Option<f64>) -> Option<f64> {
        median(
            self.0
                .iter()
                .rev()
                .take(MEDIAN_OF_NEWEST)
                .filter_map(measurement)
                .collect(),
        )
    }
}

#[derive(Default)]
pub struct Dwell {
    pub began: Duration,
    length: Duration,
    first_reading: Reading,
    last_reading: Reading,
    /// When memory and slots behind were last read.
    last_complete_at: Duration,
    not_silent_at: Duration,
    /// Between two readings. Above [`MAX_DATA_AGE`], also the time in which readings lacked slots
    /// behind or memory, unless the validator was silent.
    longest_gap: Duration,
    /// The validator, for longer than [`MAX_DATA_AGE`].
    was_silent: bool,
    max_behind: Option<u64>,
    /// Sum and count of slots behind.
    behind_in_first_part: (u64, u64),
    behind_in_last_part: VecDeque<(Duration, u64)>,
    replay_times_us: Vec<f64>,
    /// PSI `full` of memory.
    max_stall_percent: Option<f64>,
    /// In the newest part: time, and how long replay threads have waited and run in total.
    replay_cpu: VecDeque<(Duration, Duration, Duration)>,
    /// For a CPU, in the busiest part.
    max_wait_share: Option<f64>,
    polls: u32,
    polls_above_target: u32,
}

impl Dwell {
    pub fn begin(reading: &Reading, length: Duration) -> Self {
        let first = Reading {
            replays: Vec::new(),
            ..reading.clone()
        };
        let mut dwell = Self {
            began: reading.at,
            length,
            last_reading: first.clone(),
            first_reading: first.clone(),
            last_complete_at: reading.at,
            not_silent_at: reading.at,
            ..Self::default()
        };
        dwell.add(&first);
        dwell
    }

    fn part_length(&self) -> Duration {
        (self.length / PARTS_OF_DWELL).max(MIN_PART_LENGTH)
    }

    pub fn add(&mut self, reading: &Reading) {
        let (at, part) = (reading.at, self.part_length());
        self.longest_gap = self
            .longest_gap
            .max(at.saturating_sub(self.last_reading.at));
        if !reading.is_silent() {
            self.not_silent_at = at;
        }
        if reading.slots_behind.is_some() && reading.unreclaimable.is_some() {
            self.last_complete_at = at;
        } else if at.saturating_sub(self.not_silent_at) > MAX_DATA_AGE {
            self.was_silent = true;
        } else if at.saturating_sub(self.last_complete_at) > MAX_DATA_AGE {
            self.longest_gap = self
                .longest_gap
                .max(at.saturating_sub(self.last_complete_at));
        }
        if let Some(behind) = reading.slots_behind {
            self.max_behind = self.max_behind.max(Some(behind));
            if at.saturating_sub(self.began) <= part {
                self.behind_in_first_part.0 += behind;
                self.behind_in_first_part.1 += 1;
            }
        }
        push_recent(
            &mut self.behind_in_last_part,
            part,
            at,
            reading.slots_behind,
        );
        // Earlier slots were under another limit.
        let dwell_replays = reading
            .replays
            .iter()
            .filter(|slot| slot.at >= self.began && slot.replay_us.is_finite());
        self.replay_times_us
            .extend(dwell_replays.map(|slot| slot.replay_us));
        self.record_replay_cpu(reading, part);
        self.last_reading = reading.clone();
    }

    pub fn record_stall(&mut self, percent: Option<f64>) {
        self.max_stall_percent = max_known(self.max_stall_percent, percent);
    }

    pub fn record_target_excess(&mut self, memory_exceeds_target: bool) {
        self.polls += 1;
        self.polls_above_target += u32::from(memory_exceeds_target);
    }

    fn record_replay_cpu(&mut self, reading: &Reading, part: Duration) {
        let Some((waited, ran)) = reading.replay_cpu else {
            return;
        };
        self.replay_cpu.push_back((reading.at, waited, ran));
        while self.replay_cpu.len() > 2
            && self
                .replay_cpu
                .get(1)
                .is_some_and(|(then, ..)| reading.at.saturating_sub(*then) >= part)
        {
            self.replay_cpu.pop_front();
        }
        if let Some((first, ..)) = self.replay_cpu.front()
            && reading.at.saturating_sub(*first) >= part
        {
            self.max_wait_share = max_known(self.max_wait_share, self.newest_wait_share());
        }
    }

    /// `waited / max(waited + ran, elapsed)` of replay threads in the newest part. With the elapsed
    /// time, a late wake-up of a thread that hardly runs counts little.
    fn newest_wait_share(&self) -> Option<f64> {
        let ((then, waited_before, ran_before), (now, waited, ran)) =
            (self.replay_cpu.front()?, self.replay_cpu.back()?);
        let waited = waited.saturating_sub(*waited_before);
        let ran = ran.saturating_sub(*ran_before);
        let all = (waited + ran).max(now.saturating_sub(*then)).as_secs_f64();
        (all > 0.0).then(|| waited.as_secs_f64() / all)
    }

    /// In the busiest part. Of a dwell shorter than a part, in the whole dwell.
    fn wait_share(&self) -> Option<f64> {
        self.max_wait_share.or_else(|| self.newest_wait_share())
    }

    pub fn is_over(&self) -> bool {
        self.elapsed() >= self.length
    }

    /// Whether more slots were slow than the whole dwell allows: to continue would only prolong the
    /// recovery. On a busy host the dwell continues: the host may become quiet.
    pub fn has_failed(&self, references: &References) -> bool {
        let (Some(us), Some(rate)) = (
            references.replay_p95_us(),
            references.replayed_slots_per_second(),
        ) else {
            return false;
        };
        let min_elapsed = if self.length >= MIN_SLOT_COUNT_TIME {
            MIN_SLOT_COUNT_TIME
        } else {
            self.part_length()
        };
        if self.elapsed() < min_elapsed || busy_host_reason(self.wait_share(), references).is_some()
        {
            return false;
        }
        let is_slow = |slot_us: &&f64| **slot_us > MAX_REPLAY_RATIO * us;
        let slow = self.replay_times_us.iter().filter(is_slow).count() as f64;
        let expected = (rate * self.length.as_secs_f64()).max(self.replay_times_us.len() as f64);
        slow > (1.0 - REPLAY_TIME_QUANTILE) * expected + 1.0
    }

    fn elapsed(&self) -> Duration {
        self.last_reading.at.saturating_sub(self.began)
    }

    pub fn evidence(&mut self) -> DwellEvidence {
        let seconds = self.elapsed().as_secs_f64();
        let rate = |first: Option<u64>, last: Option<u64>| {
            let grown = last?.checked_sub(first?)? as f64;
            (seconds > 0.0).then_some(grown / seconds)
        };
        let mean = |sum: u64, count: u64| (count > 0).then(|| sum as f64 / count as f64);
        self.replay_times_us.sort_unstable_by(f64::total_cmp);
        // By the nearest-rank method.
        let rank = (REPLAY_TIME_QUANTILE * self.replay_times_us.len() as f64).ceil() as usize;
        DwellEvidence {
            seconds,
            replayed_slots: self.replay_times_us.len(),
            max_slots_behind: self.max_behind,
            slots_behind_first_eighth: mean(
                self.behind_in_first_part.0,
                self.behind_in_first_part.1,
            ),
            slots_behind_last_eighth: mean(
                self.behind_in_last_part
                    .iter()
                    .map(|(_, behind)| behind)
                    .sum(),
                self.behind_in_last_part.len() as u64,
            ),
            replay_p95_us: rank
                .checked_sub(1)
                .and_then(|rank| self.replay_times_us.get(rank))
                .copied(),
            refaults_per_second: rate(self.first_reading.refaults, self.last_reading.refaults),
            replay_cpu_wait_share: self.wait_share(),
            cluster_slots_per_second: rate(self.first_reading.tip_slot, self.last_reading.tip_slot),
            max_stall_percent: self.max_stall_percent,
            unreclaimable: self.last_reading.unreclaimable,
            memory: self.last_reading.memory,
            why: Vec::new(),
        }
    }

    /// Judges a dwell under a limit. `danger` is why the limit was lifted.
    pub fn verdict(
        mut self,
        at_tip_slots: u64,
        references: &References,
        danger: Option<&str>,
    ) -> (Verdict, DwellEvidence) {
        let evidence = self.evidence();
        let mut failures = Vec::from_iter(danger.map(str::to_owned));
        if self.was_silent && danger != Some(VALIDATOR_SILENT) {
            failures.push(VALIDATOR_SILENT.to_owned());
        }
        failures.extend(behind_reasons(&evidence, at_tip_slots));
        if let (Some(now), Some(reference)) = (evidence.replay_p95_us, references.replay_p95_us())
            && now > MAX_REPLAY_RATIO * reference
        {
            failures.push(format!(
                "95 % of the slots were replayed within {now:.0} us, in the references within {reference:.0} us"
            ));
        }
        let mut void = self.missing_data_reasons(&evidence);
        let is_long = self.elapsed() >= MIN_SLOT_COUNT_TIME;
        if let (Some(now), Some(reference)) = (
            evidence.cluster_slots_per_second,
            references.median(|evidence| evidence.cluster_slots_per_second),
        ) && is_long
            && now < SLOW_CLUSTER_SHARE * reference
        {
            void.push(format!(
                "the cluster made {now:.2} slots a second, in the references {reference:.2}"
            ));
        }
        // On a busy host, a failed dwell is void. A dwell that kept up counts: it would keep up on
        // a quiet host, too.
        if !failures.is_empty() {
            void.extend(busy_host_reason(evidence.replay_cpu_wait_share, references));
        } else if is_long
            && references.replayed_slots_per_second().is_some_and(|rate| {
                (evidence.replayed_slots as f64) < MIN_REPLAY_SHARE * rate * evidence.seconds
            })
        {
            void.push(format!(
                "the validator reported the replay of only {} slots",
                evidence.replayed_slots
            ));
        } else if f64::from(self.polls_above_target) > MAX_ABOVE_SHARE * f64::from(self.polls) {
            void.push(
                "its memory exceeded unreclaimable memory plus the headroom: the kernel could not reclaim enough"
                    .to_owned(),
            );
        }
        let (verdict, why) = if !void.is_empty() {
            (Verdict::Void, void)
        } else if failures.is_empty() {
            (Verdict::KeptUp, failures)
        } else {
            (Verdict::Failed, failures)
        };
        (verdict, DwellEvidence { why, ..evidence })
    }

    /// Kept up or void.
    pub fn reference_verdict(
        mut self,
        at_tip_slots: u64,
        references: &References,
    ) -> (Verdict, DwellEvidence) {
        let evidence = self.evidence();
        let mut why = self.missing_data_reasons(&evidence);
        why.extend(self.was_silent.then(|| VALIDATOR_SILENT.to_owned()));
        why.extend(behind_reasons(&evidence, at_tip_slots));
        why.extend(busy_host_reason(evidence.replay_cpu_wait_share, references));
        let verdict = if why.is_empty() {
            Verdict::KeptUp
        } else {
            Verdict::Void
        };
        (verdict, DwellEvidence { why, ..evidence })
    }

    fn missing_data_reasons(&self, evidence: &DwellEvidence) -> Vec<String> {
        let mut why = Vec::new();
        if self.longest_gap > MAX_READING_GAP {
            why.push(format!(
                "memory or slots behind were not read for {:.1} s",
                self.longest_gap.as_secs_f64()
            ));
        }
        if evidence.max_slots_behind.is_none() {
            why.push("it is not known how far behind it was".to_owned());
        }
        why
    }
}

fn behind_reasons(evidence: &DwellEvidence, at_tip_slots: u64) -> Vec<String> {
    let mut why = Vec::new();
    if let Some(most) = evidence
        .max_slots_behind
        .filter(|most| *most > at_tip_slots)
    {
        why.push(format!("it was {most} slots behind"));
    }
    if let (Some(first), Some(last)) = (
        evidence.slots_behind_first_eighth,
        evidence.slots_behind_last_eighth,
    ) && last > first + MAX_BEHIND_INCREASE
    {
        why.push(format!(
            "it was {first:.1} slots behind at the beginning and {last:.1} at the end"
        ));
    }
    why
}

fn busy_host_reason(wait_share: Option<f64>, references: &References) -> Option<String> {
    let wait_share = wait_share.filter(|share| *share > BUSY_WAIT_SHARE)?;
    let reference = references.median(|evidence| evidence.replay_cpu_wait_share)?;
    (odds(wait_share) > BUSY_ODDS_RATIO * odds(reference)).then(|| {
        format!(
            "replay threads waited for a CPU for {:.0} % of the time, in the references for {:.0} %",
            100.0 * wait_share,
            100.0 * reference
        )
    })
}

/// Only odds can be compared by a factor: a share of one half cannot more than double.
fn odds(share: f64) -> f64 {
    share / (1.0 - share).max(f64::EPSILON)
}

fn max_known(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::max)
}
