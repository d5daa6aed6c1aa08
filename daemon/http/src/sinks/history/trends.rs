//! Rates over the windows of the alerts, for the answers of `/status` and for plots.

mod growth;

use faultline_metrics::{
    LabelText, Metric, Tick, Value,
    metrics::{
        cgroup, consensus, daemon, host, memory, pools, process as p, validator as v, votes,
    },
};
use faultline_status::{AnswerInputs, RecentLeaderSlots};
use growth::MemoryGrowth;
use itertools::{Itertools, chain};
use std::{collections::VecDeque, ops::Add, time::Duration};

pub const TREND_SPAN: Duration = Duration::from_secs(300);
const ROW_INTERVAL: Duration = Duration::from_secs(10);

/// Minimum window of a rate per second.
const MIN_RATE_SPAN: Duration = Duration::from_secs(60);

/// For `because="growth"`, the alert AgaveOomAhead compares the present memory with that of the
/// six hours before the last half hour.
const MINUTE_ROWS_SPAN: Duration = Duration::from_secs(390 * 60);
const LEADER_SLOTS_SPAN: Duration = Duration::from_secs(3 * 3600);
const MINUTE: Duration = Duration::from_secs(60);
const OOM_KILLS_SPAN: Duration = Duration::from_secs(900);
const LATE_VOTES_SPAN: Duration = Duration::from_secs(1800);
const GROWTH_SPANS: [Duration; 2] = [Duration::from_secs(1800), Duration::from_secs(600)];
/// Time after a start, or after the migration to Alpenglow, in which some values are not judged.
const SETTLING_SPAN: Duration = Duration::from_secs(900);

/// For `fast_growth`, AgaveOomAhead takes the pace of four minutes, and needs growth in the last
/// two.
const PACE_SPAN: Duration = Duration::from_secs(240);
const RECENT_SPAN: Duration = Duration::from_secs(120);

static STARTING_PHASES: [&str; 8] = [
    "initializing",
    "searching",
    "downloading",
    "unpacking",
    "replaying",
    "starting",
    "waiting_for_supermajority",
    "halted",
];

/// Counters and gauges of one tick in ten seconds. Times are sums in seconds.
#[derive(Debug, Clone)]
struct Row {
    tick_uptime: Duration,
    program_cache_reloads: Option<f64>,
    replayed_slots: Option<f64>,
    program_cache_time: Option<f64>,
    replay_time: Option<f64>,
    major_faults: Option<f64>,
    process_ordinal: Option<f64>,
    cgroup_stall_seconds: Option<f64>,
    host_stall_seconds: Option<f64>,
    unreclaimable: Option<f64>,
    limit: Option<f64>,
    is_starting: bool,
    /// Major faults by thread pool; empty before the first reading of the threads.
    pool_faults: Vec<(LabelText, f64)>,
}

impl Row {
    fn from_tick(tick: &Tick, process_ordinal: Option<f64>) -> Self {
        let replay = count_and_sum(tick, &v::REPLAY_TIME, "total");
        let stalled = ["memory", "some"];
        let faults = tick
            .readings()
            .filter_map(|reading| match &reading.label_values[..] {
                [pool, kind] if std::ptr::eq(reading.metric, &pools::PAGE_FAULTS) => {
                    let major = kind.as_str() == "major";
                    major.then_some((pool.clone(), reading.value.number()?))
                }
                _ => None,
            });
        Self {
            tick_uptime: tick.at.uptime,
            program_cache_reloads: tick.value_of(&v::CACHE_RELOADS, &[]),
            replayed_slots: replay.map(|(count, _)| count),
            program_cache_time: count_and_sum(tick, &v::CACHE_TIME, "replay").map(|(_, sum)| sum),
            replay_time: replay.map(|(_, sum)| sum),
            major_faults: tick.value_of(&p::PAGE_FAULTS, &["major"]),
            process_ordinal,
            cgroup_stall_seconds: tick.value_of(&cgroup::PRESSURE, &stalled),
            host_stall_seconds: tick.value_of(&host::PRESSURE, &stalled),
            unreclaimable: tick.value_of(&memory::UNRECLAIMABLE, &[]),
            limit: tick.value_of(&memory::EFFECTIVE_LIMIT, &[]),
            is_starting: is_starting(tick),
            pool_faults: faults.collect(),
        }
    }
}

/// Numbers the followed processes; the ordinal is not the PID.
#[derive(Debug, Clone, Default)]
struct ProcessCounter {
    ordinal: f64,
    ends: f64,
    started: f64,
    /// Value of the counter when `started` was first read.
    clock_steps: f64,
}

impl ProcessCounter {
    /// `None` without a process. Another start time is another process, such as a validator that
    /// replaces its wrapper, unless the clock was set.
    fn ordinal(&mut self, tick: &Tick) -> Option<f64> {
        let started = tick.value_of(&p::START_TIME, &[])?;
        let ends = tick
            .readings()
            .filter(|reading| std::ptr::eq(reading.metric, &p::ENDS))
            .filter_map(|reading| reading.value.number())
            .sum();
        let clock_steps = tick.value_of(&daemon::CLOCK_STEPS, &[]).unwrap_or(0.0);
        let has_moved = started != self.started;
        if ends != self.ends || (has_moved && clock_steps == self.clock_steps) {
            self.ordinal += 1.0;
        }
        if has_moved {
            self.clock_steps = clock_steps;
        }
        (self.ends, self.started) = (ends, started);
        Some(self.ordinal)
    }
}

fn is_starting(tick: &Tick) -> bool {
    let mut phases = STARTING_PHASES.iter();
    phases.any(|phase| tick.value_of(&v::PHASE, &[phase]) == Some(1.0))
}

fn count_and_sum(tick: &Tick, metric: &'static Metric, label: &str) -> Option<(f64, f64)> {
    let mut readings = tick.readings();
    let reading = readings
        .find(|reading| std::ptr::eq(reading.metric, metric) && reading.first_label() == label)?;
    match &reading.value {
        Value::Histogram(histogram) => Some((histogram.count() as f64, histogram.sum())),
        _ => None,
    }
}

/// Counters and gauges of one tick a minute, for windows of hours.
#[derive(Debug, Clone)]
struct MinuteRow {
    tick_uptime: Duration,
    process_oom_kills: Option<f64>,
    cgroup_oom_kills: Option<f64>,
    host_oom_kills: Option<f64>,
    late_votes: Option<f64>,
    finalized_slots: Option<f64>,
    slots_since_certified_vote: Option<f64>,
    process_ordinal: Option<f64>,
    is_migrating: bool,
    is_starting: bool,
    unreclaimable: Option<f64>,
    limit: Option<f64>,
    /// The node's leader slots of this epoch that have passed, and how many of these were skipped.
    leader_slots: [Option<f64>; 2],
    cluster_leader_slots: [Option<f64>; 2],
}

impl MinuteRow {
    fn from_tick(tick: &Tick, process_ordinal: Option<f64>) -> Self {
        let number = |metric, labels: &[&str]| tick.value_of(metric, labels);
        let states = ["passed", "skipped"];
        let finalized = ["fast", "slow"].map(|path| {
            count_and_sum(tick, &consensus::FINALIZATION, path).map(|(count, _)| count)
        });
        Self {
            tick_uptime: tick.at.uptime,
            process_oom_kills: number(&p::ENDS, &["oom_kill"]),
            cgroup_oom_kills: number(&cgroup::EVENTS, &["oom_kill"]),
            host_oom_kills: number(&host::OOM_KILLS, &[]),
            late_votes: number(&consensus::VOTES_MISSED, &["late"]),
            finalized_slots: finalized.into_iter().flatten().reduce(Add::add),
            slots_since_certified_vote: number(&votes::CERTIFICATE_DISTANCE, &["reward"]),
            process_ordinal,
            is_migrating: number(&v::CONSENSUS, &["migrating"]) == Some(1.0),
            is_starting: is_starting(tick),
            unreclaimable: number(&memory::UNRECLAIMABLE, &[]),
            limit: number(&memory::EFFECTIVE_LIMIT, &[]),
            leader_slots: states.map(|state| number(&votes::LEADER_SLOTS, &[state])),
            cluster_leader_slots: states
                .map(|state| number(&votes::CLUSTER_LEADER_SLOTS, &[state])),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Trends {
    rows: VecDeque<Row>,
    minute_rows: VecDeque<MinuteRow>,
    memory_growth: MemoryGrowth,
    process_counter: ProcessCounter,
}

impl Trends {
    pub fn add(&mut self, tick: &Tick) {
        let now = tick.at.uptime;
        let is_due = |last: Option<Duration>, interval| {
            last.is_none_or(|last| now.saturating_sub(last) >= interval)
        };
        let is_row_due = is_due(self.rows.back().map(|row| row.tick_uptime), ROW_INTERVAL);
        let is_minute_due = is_due(self.minute_rows.back().map(|row| row.tick_uptime), MINUTE);
        let process_ordinal = (is_row_due || is_minute_due)
            .then(|| self.process_counter.ordinal(tick))
            .flatten();
        if is_row_due {
            let row = Row::from_tick(tick, process_ordinal);
            match row.process_ordinal.filter(|_| !row.is_starting) {
                None => self.memory_growth = MemoryGrowth::default(),
                // While one limit on the validator's memory is unreadable, the binding limit is
                // unknown. That does not end the growth.
                Some(process) => {
                    if let Some((limit, bytes)) = row.limit.zip(row.unreclaimable) {
                        self.memory_growth.add(tick.at, (process, limit), bytes);
                    }
                }
            }
            self.rows.push_back(row);
            self.rows
                .retain(|row| now.saturating_sub(row.tick_uptime) <= TREND_SPAN);
        }
        if is_minute_due {
            self.minute_rows
                .push_back(MinuteRow::from_tick(tick, process_ordinal));
            self.minute_rows
                .retain(|row| now.saturating_sub(row.tick_uptime) <= MINUTE_ROWS_SPAN);
        }
    }

    /// The inputs that need a window of time; the others are `None`.
    pub fn answer_inputs(&self) -> AnswerInputs {
        let kills = self.increase(OOM_KILLS_SPAN, |row| row.process_oom_kills);
        let cgroup = self.increase(OOM_KILLS_SPAN, |row| row.cgroup_oom_kills);
        let host = self.increase(OOM_KILLS_SPAN, |row| row.host_oom_kills);
        // The cgroup's count also rises if the validator moves to a cgroup that had more kills. So
        // the host's count limits it.
        let in_cgroup = cgroup.map(|kills| host.map_or(kills, |host| kills.min(host)));
        let late = self.increase(LATE_VOTES_SPAN, |row| row.late_votes);
        let finalized = self.increase(LATE_VOTES_SPAN, |row| row.finalized_slots);
        let finalized = finalized.filter(|slots| *slots > 0.0);
        let faults = self.rate_per_second(|row| row.major_faults);
        let limit = self.rows.back().and_then(|row| row.limit);
        // `replayed_slots` sums datapoints of all processes: a new process begins with the old sum.
        // So the rows of a process count only after `replayed_slots` has grown.
        let first_slots = self.rows_of_process().find_map(|row| row.replayed_slots);
        AnswerInputs {
            forecast: limit.and(self.memory_growth.forecast()),
            seconds_to_enough_samples: self.seconds_to_enough_samples(|_| true),
            seconds_to_enough_replay: self
                .seconds_to_enough_samples(|row| row.replayed_slots > first_slots),
            seconds_to_limit_at_present_pace: self.seconds_to_limit_at_present_pace(),
            seconds_to_limit_by_half_hour_fit: self.seconds_to_limit_by_half_hour_fit(),
            has_migrated_lately: self
                .minute_rows_within(SETTLING_SPAN)
                .any(|row| row.is_migrating),
            fewest_slots_since_certified_vote: self.fewest_slots_since_certified_vote(),
            oom_kills: chain!(kills, in_cgroup).reduce(f64::max),
            memory_stalled_share: self
                .rate_per_second(|row| row.cgroup_stall_seconds)
                .or_else(|| self.rate_per_second(|row| row.host_stall_seconds)),
            major_faults_per_second: faults.filter(|_| !self.was_starting_lately()),
            reloads_per_slot: per_slot(self.rows_of_process(), |row| row.program_cache_reloads),
            cache_seconds_per_slot: per_slot(self.rows_of_process(), |row| row.program_cache_time),
            replay_seconds_per_slot: per_slot(self.rows_of_process(), |row| row.replay_time),
            late_votes_share: late.zip(finalized).map(|(late, slots)| late / slots),
            leader_slots: self.leader_slots(),
            ..AnswerInputs::default()
        }
    }

    /// Series of (age in seconds, mean per slot) of reloads, cache time and replay time.
    pub fn per_slot_series(&self) -> [Vec<(f64, f64)>; 3] {
        let newest = self
            .rows
            .back()
            .map_or(Duration::ZERO, |row| row.tick_uptime);
        let fields: [fn(&Row) -> Option<f64>; 3] = [
            |row| row.program_cache_reloads,
            |row| row.program_cache_time,
            |row| row.replay_time,
        ];
        fields.map(|field| {
            let mut rows = self.rows.iter();
            let first = rows.find(|row| row.replayed_slots.and(field(row)).is_some());
            let (mut points, mut before) = (Vec::new(), first);
            for row in rows {
                let pair = chain!(before, [row]);
                if let Some(mean) = per_slot(pair, field) {
                    points.push((newest.saturating_sub(row.tick_uptime).as_secs_f64(), mean));
                    before = Some(row);
                }
            }
            points
        })
    }

    /// Major faults per second of this process's thread pools that have any, the most first.
    pub fn pool_faults(&self) -> Vec<(String, f64)> {
        let rows = self.rows_of_process();
        let mut known = rows.filter(|row| !row.pool_faults.is_empty());
        let (Some(first), Some(last)) = (known.next(), known.next_back()) else {
            return Vec::new();
        };
        let seconds = last
            .tick_uptime
            .saturating_sub(first.tick_uptime)
            .as_secs_f64();
        last.pool_faults
            .iter()
            .filter_map(|(name, faults)| {
                let before = first.pool_faults.iter().find(|(pool, _)| pool == name);
                let growth = faults - before.map_or(0.0, |(_, faults)| *faults);
                (growth > 0.0).then(|| (name.to_string(), growth / seconds))
            })
            .sorted_by(|a, b| b.1.total_cmp(&a.1))
            .collect()
    }

    /// Seconds until this process's rows with `is_counted` span [`MIN_RATE_SPAN`]; `None` when they
    /// already do.
    fn seconds_to_enough_samples(&self, is_counted: impl Fn(&Row) -> bool) -> Option<f64> {
        let first = self.rows_of_process().find(|row| is_counted(row));
        let newest = self.rows.back().zip(first);
        let span =
            newest.map(|(newest, first)| newest.tick_uptime.saturating_sub(first.tick_uptime));
        let remaining = MIN_RATE_SPAN.saturating_sub(span.unwrap_or_default());
        (!remaining.is_zero()).then_some(remaining.as_secs_f64())
    }

    fn rows_of_process(&self) -> impl DoubleEndedIterator<Item = &Row> {
        let newest = self.rows.back().and_then(|row| row.process_ordinal);
        self.rows
            .iter()
            .filter(move |row| row.process_ordinal == newest)
    }

    /// True if the validator was starting at a row of the last five minutes.
    fn was_starting_lately(&self) -> bool {
        self.rows.iter().any(|row| row.is_starting)
    }

    /// `None` for less than [`MIN_RATE_SPAN`], or if the counter fell, because the process moved to
    /// another cgroup.
    fn rate_per_second(&self, total: fn(&Row) -> Option<f64>) -> Option<f64> {
        let mut known = self
            .rows_of_process()
            .filter_map(|row| Some((row.tick_uptime, total(row)?)));
        let (from, before) = known.next()?;
        let (to, after) = known.next_back()?;
        let span = to.checked_sub(from).filter(|span| *span >= MIN_RATE_SPAN)?;
        (after >= before).then(|| (after - before) / span.as_secs_f64())
    }

    fn seconds_to_limit_at_present_pace(&self) -> Option<f64> {
        if self.was_starting_lately() {
            return None;
        }
        let newest = self.rows.back()?;
        let (newest_bytes, limit) = (newest.unreclaimable?, newest.limit?);
        let age = |row: &Row| newest.tick_uptime.saturating_sub(row.tick_uptime);
        let oldest_within = |span: Duration| {
            let mut rows = self.rows.iter().filter(|row| row.limit == Some(limit));
            let row = rows.find(|row| age(row) <= span)?;
            Some((age(row), row.unreclaimable?))
        };
        let (_, recent_bytes) = oldest_within(RECENT_SPAN)?;
        let (span, pace_start_bytes) =
            oldest_within(PACE_SPAN).filter(|(span, _)| *span >= RECENT_SPAN)?;
        let pace = (newest_bytes - pace_start_bytes) / span.as_secs_f64();
        (newest_bytes > recent_bytes && pace > 0.0).then(|| (limit - newest_bytes).max(0.0) / pace)
    }

    fn minute_rows_within(&self, span: Duration) -> impl Iterator<Item = &MinuteRow> {
        let newest = self
            .minute_rows
            .back()
            .map_or(Duration::ZERO, |row| row.tick_uptime);
        let is_within = move |row: &&MinuteRow| newest.saturating_sub(row.tick_uptime) <= span;
        self.minute_rows.iter().filter(is_within)
    }

    /// The minimum in [`SETTLING_SPAN`]. `None` if the validator counts late votes, which are
    /// judged instead.
    fn fewest_slots_since_certified_vote(&self) -> Option<f64> {
        let counts_late_votes = self.minute_rows.back()?.late_votes.is_some();
        let distances = self
            .minute_rows_within(SETTLING_SPAN)
            .filter_map(|row| row.slots_since_certified_vote);
        distances.reduce(f64::min).filter(|_| !counts_late_votes)
    }

    /// The later of two least-squares forecasts, as for `growth` of AgaveOomAhead. `None` if the
    /// process used as much before the last half hour, or started within [`SETTLING_SPAN`].
    fn seconds_to_limit_by_half_hour_fit(&self) -> Option<f64> {
        let newest = self.minute_rows.back()?;
        let (newest_bytes, limit) = (newest.unreclaimable?, newest.limit?);
        let age = |row: &MinuteRow| newest.tick_uptime.saturating_sub(row.tick_uptime);
        let is_before = |row: &&MinuteRow| {
            row.process_ordinal == newest.process_ordinal && age(row) >= GROWTH_SPANS[0]
        };
        let mut before = self.minute_rows.iter().filter(is_before);
        let used_as_much =
            before.any(|row| row.unreclaimable.is_some_and(|bytes| bytes >= newest_bytes));
        if used_as_much
            || self
                .minute_rows_within(SETTLING_SPAN)
                .any(|row| row.is_starting)
        {
            return None;
        }
        let [long, short] = GROWTH_SPANS.map(|span| {
            let rows = self
                .minute_rows_within(span)
                .filter(|row| row.limit == Some(limit));
            let points = rows
                .filter_map(|row| Some((-age(row).as_secs_f64(), row.unreclaimable?)))
                .collect_vec();
            let slope = slope(&points).filter(|slope| *slope > 0.0)?;
            Some((limit - newest_bytes).max(0.0) / slope)
        });
        Some(long?.max(short?))
    }

    /// Growth of a counter within `span`. A counter that fell has restarted at zero.
    fn increase(&self, span: Duration, total: impl Fn(&MinuteRow) -> Option<f64>) -> Option<f64> {
        let mut known = self.minute_rows_within(span).filter_map(total);
        let mut before = known.next()?;
        let mut sum = 0.0;
        for value in known {
            sum += if value >= before {
                value - before
            } else {
                value
            };
            before = value;
        }
        Some(sum)
    }

    fn leader_slots(&self) -> Option<RecentLeaderSlots> {
        let passed = self.increase(LEADER_SLOTS_SPAN, |row| row.leader_slots[0]);
        let skipped = self.increase(LEADER_SLOTS_SPAN, |row| row.leader_slots[1])?;
        let cluster_passed = self.increase(LEADER_SLOTS_SPAN, |row| row.cluster_leader_slots[0]);
        let cluster_passed = cluster_passed.filter(|passed| *passed > 0.0);
        let cluster_skipped = self.increase(LEADER_SLOTS_SPAN, |row| row.cluster_leader_slots[1]);
        Some(RecentLeaderSlots {
            passed: passed.filter(|passed| *passed > 0.0)?,
            skipped,
            cluster_skipped_share: cluster_skipped
                .zip(cluster_passed)
                .map(|(skipped, all)| skipped / all),
        })
    }
}

/// Bytes per second of the least-squares line through (seconds, bytes). `None` for fewer than
/// six points.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    if points.len() < 6 {
        return None;
    }
    let count = points.len() as f64;
    let mean =
        |coordinate: fn(&(f64, f64)) -> f64| points.iter().map(coordinate).sum::<f64>() / count;
    let (mean_time, mean_bytes) = (mean(|point| point.0), mean(|point| point.1));
    let products = points
        .iter()
        .map(|(time, bytes)| (time - mean_time) * (bytes - mean_bytes));
    let squares = points.iter().map(|(time, _)| (time - mean_time).powi(2));
    Some(products.sum::<f64>() / squares.sum::<f64>())
}

/// Mean growth per replayed slot; `None` without one.
fn per_slot<'a>(
    rows: impl Iterator<Item = &'a Row>,
    total: fn(&Row) -> Option<f64>,
) -> Option<f64> {
    let mut known = rows.filter_map(|row| Some((row.replayed_slots?, total(row)?)));
    let (first, before) = known.next()?;
    let (last, after) = known.last()?;
    (last > first && after >= before).then(|| (after - before) / (last - first))
}

#[cfg(test)]
mod tests;
