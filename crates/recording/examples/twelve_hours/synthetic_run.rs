//! A synthetic run, second by second: what a daemon passes to its recorder while it follows a busy validator.

mod points;

use super::{
    random::Random,
    series::{Conditions, Series, source_of},
};
use faultline_metrics::{
    Batch, LabelText, Problem, ProblemKind, Reading, Source, Stamp, Tick,
    metrics::{cgroup, daemon as d, pools, validator as v},
};
use faultline_recording::{
    Event, EventKind, NewProcess, NewRecording, NewSession, PerTickTable, Point,
};
use std::{mem, sync::Arc, time::Duration};

/// 2026-09-21, a Monday.
const BEGAN: Duration = Duration::from_secs(1_789_970_400);
const FIRST_SLOT: u64 = 312_000_000;
const POOLS: usize = 70;
const POOLS_EVERY: u64 = 5;
const PUSH_EVERY: u64 = 10;
/// Number of programs that are called repeatedly.
const PROGRAMS: f64 = 640.0;

/// Share of the run after which each phase begins.
const PHASES: [(f64, &str); 10] = [
    (0.0, "initializing"),
    (0.002, "searching"),
    (0.004, "downloading"),
    (0.02, "unpacking"),
    (0.05, "replaying"),
    (0.06, "starting"),
    (0.065, "catching_up"),
    (0.15, "at_tip"),
    (0.60, "behind"),
    (0.62, "at_tip"),
];

/// What differs between arms.
#[derive(Debug, Clone)]
pub struct Arm {
    pub seconds: u64,
    /// Entries of the program cache.
    pub cache: f64,
    /// 1 means enough memory.
    pub memory_scarcity: f64,
    pub seed: u64,
    pub labels: Vec<(String, String)>,
    /// Second of an OOM kill of the validator, after which a new process runs.
    pub killed_at: Option<u64>,
    /// (first second, number of seconds) without ticks in the recording.
    pub gap: Option<(u64, u64)>,
}

impl Default for Arm {
    fn default() -> Self {
        Self {
            seconds: 43_200,
            cache: 512.0,
            memory_scarcity: 1.0,
            seed: 1,
            labels: Vec::new(),
            killed_at: None,
            gap: None,
        }
    }
}

#[derive(Debug)]
struct Pool {
    name: Arc<str>,
    threads: u64,
    /// Major and minor faults; seconds of user, system, run queue and block I/O.
    totals: [f64; 6],
}

/// One second of the run.
#[derive(Debug, Default)]
pub struct Second {
    /// The validator's new process, in the second in which it starts.
    pub process: Option<NewProcess>,
    pub events: Vec<Event>,
    /// `None` within a gap.
    pub tick: Option<Tick>,
    pub points: Vec<Point>,
}

#[derive(Debug)]
pub struct SyntheticRun {
    arm: Arm,
    random: Random,
    series: Vec<(PerTickTable, Vec<Series>)>,
    pools: Vec<Pool>,
    last_threads_batch: Option<Arc<Batch>>,
    phase: &'static str,
    slot: u64,
    second: u64,
    unpushed: Vec<Point>,
}

impl SyntheticRun {
    pub fn new(arm: Arm) -> Self {
        let series = |table: PerTickTable| {
            let all = table
                .columns()
                .iter()
                .map(|column| Series::of(table.name(), column))
                .collect();
            (table, all)
        };
        let pool = |i: usize| Pool {
            name: format!("solPool{i:02}").into(),
            threads: 1 + i as u64 % 9,
            totals: [0.0; 6],
        };
        Self {
            random: Random::new(arm.seed),
            series: PerTickTable::ALL.into_iter().map(series).collect(),
            pools: (0..POOLS).map(pool).collect(),
            last_threads_batch: None,
            phase: "absent",
            slot: FIRST_SLOT,
            second: 0,
            unpushed: Vec::new(),
            arm,
        }
    }

    pub fn header(&self) -> NewRecording {
        let manifest = serde_json::json!({
            "host": "sol-bench-1", "kernel": "6.8.0-45-generic", "cpu": "AMD EPYC 9354P", "cores": 32,
            "memory_bytes": 540_000_000_000u64, "made_up": true,
        });
        let session = NewSession {
            started: at(0),
            interval: Duration::from_secs(1),
            version: "0.1.0".into(),
            manifest,
        };
        NewRecording {
            labels: self.arm.labels.clone(),
            session,
        }
    }

    /// The end of the run.
    pub fn ended(&self) -> Stamp {
        at(self.second)
    }

    /// The next second; `None` at the end.
    pub fn next(&mut self) -> Option<Second> {
        if self.second == self.arm.seconds {
            return None;
        }
        let now = at(self.second);
        let mut second = Second::default();
        if self.second == 0 {
            second
                .events
                .push(event(now, EventKind::DaemonStart, String::new()));
            self.follow(now, 4242, &mut second);
        }
        if self.arm.killed_at == Some(self.second) {
            second
                .events
                .push(event(now, EventKind::OomKill, String::new()));
            self.follow(now, 4711, &mut second);
            second.events.push(event(
                now,
                EventKind::Restart,
                r#"{"reason":"oom_kill"}"#.into(),
            ));
        }
        self.change_phase(now, &mut second);
        self.add_slots(now);
        let in_gap = self
            .arm
            .gap
            .is_some_and(|(from, long)| (from..from + long).contains(&self.second));
        let tick = self.tick(now);
        if !in_gap {
            second.tick = Some(tick);
        }
        if let Some((from, long)) = self
            .arm
            .gap
            .filter(|(from, long)| from + long == self.second)
        {
            let detail = format!(r#"{{"from_second":{from},"seconds":{long}}}"#);
            second.events.push(event(now, EventKind::Gap, detail));
        }
        if self.second.is_multiple_of(PUSH_EVERY) || self.second + 1 == self.arm.seconds {
            second.points = mem::take(&mut self.unpushed);
            if in_gap {
                second.points.clear();
            }
        }
        self.second += 1;
        Some(second)
    }

    fn follow(&mut self, now: Stamp, pid: u32, second: &mut Second) {
        let manifest =
            serde_json::json!({"exe": "/usr/local/bin/agave-validator", "version": "2.1.14"});
        let started_unix = Some(now.unix.saturating_sub(Duration::from_secs(3)));
        second.process = Some(NewProcess {
            pid,
            started_unix,
            seen: now,
            manifest,
        });
        second
            .events
            .push(event(now, EventKind::Start, format!(r#"{{"pid":{pid}}}"#)));
        // The counters of a new process begin at zero.
        if self.second > 0 {
            for (table, series) in &mut self.series {
                if *table == PerTickTable::Process {
                    series.iter_mut().for_each(Series::restart_counter);
                }
            }
            self.pools
                .iter_mut()
                .for_each(|pool| pool.totals = [0.0; 6]);
        }
    }

    fn progress(&self) -> f64 {
        self.second as f64 / self.arm.seconds as f64
    }

    fn conditions(&self) -> Conditions {
        let load = match self.phase {
            "at_tip" => 1.0,
            "catching_up" | "behind" => 1.6,
            "absent" | "initializing" | "searching" => 0.05,
            _ => 0.5,
        };
        let memory_scarcity = if self.phase == "behind" {
            self.arm.memory_scarcity * 2.0
        } else {
            self.arm.memory_scarcity
        };
        Conditions {
            load,
            memory_scarcity,
            progress: self.progress(),
        }
    }

    fn change_phase(&mut self, now: Stamp, second: &mut Second) {
        let progress = self.progress();
        let phase = PHASES
            .iter()
            .rev()
            .find(|(from, _)| progress >= *from)
            .map_or("absent", |(_, phase)| phase);
        if phase != self.phase {
            let detail = format!(r#"{{"from":"{}","to":"{phase}"}}"#, self.phase);
            second.events.push(event(now, EventKind::Phase, detail));
            match phase {
                "at_tip" => second
                    .events
                    .push(event(now, EventKind::AtTip, String::new())),
                "behind" => second
                    .events
                    .push(event(now, EventKind::Behind, String::new())),
                _ => {}
            }
            self.phase = phase;
        }
    }

    fn tick(&mut self, now: Stamp) -> Tick {
        let conditions = self.conditions();
        let mut by_source: Vec<Vec<Reading>> = vec![Vec::new(); Source::ALL.len()];
        for (table, series) in &mut self.series {
            for one in series {
                let reading = one.step(conditions, &mut self.random);
                by_source[source_of(*table, one.metric) as usize].push(reading);
            }
        }
        self.add_other_readings(&mut by_source);
        let distinct_phases = PHASES.iter().take(9);
        let phase_readings = distinct_phases
            .map(|(_, phase)| Reading::flag(&v::PHASE, [(*phase).into()], *phase == self.phase));
        by_source[Source::Conclusions as usize].extend(phase_readings);
        if self.last_threads_batch.is_none() || self.second.is_multiple_of(POOLS_EVERY) {
            let mut readings = mem::take(&mut by_source[Source::Threads as usize]);
            self.pool_readings(conditions, &mut readings);
            self.last_threads_batch = Some(Arc::new(batch(Source::Threads, now, readings)));
        }
        let batches = Source::ALL
            .into_iter()
            .filter(|source| *source != Source::Log)
            .map(|source| match (source, &self.last_threads_batch) {
                (Source::Threads, Some(last)) => Arc::clone(last),
                _ => Arc::new(batch(
                    source,
                    now,
                    mem::take(&mut by_source[source as usize]),
                )),
            });
        Tick {
            number: self.second + 1,
            at: now,
            batches: batches.collect(),
        }
    }

    /// Readings without a column of their own: those of devices, and those in the table `series`.
    fn add_other_readings(&mut self, by_source: &mut [Vec<Reading>]) {
        let io_seconds = self.second as f64 * self.arm.memory_scarcity;
        for (name, read, written) in [
            ("nvme0n1", 90e6, 4e6),
            ("nvme1n1", 30e6, 60e6),
            ("sda", 0.0, 20_000.0),
        ] {
            let total = |rate: f64, random: &mut Random| {
                ((io_seconds * rate * random.about_one(1e-6)) / 4096.0) as u64 * 4096
            };
            let reading = |direction: &'static str, bytes| {
                Reading::integer(&cgroup::IO_BYTES, [name.into(), direction.into()], bytes)
            };
            by_source[Source::Cgroup as usize].push(reading("read", total(read, &mut self.random)));
            by_source[Source::Cgroup as usize]
                .push(reading("write", total(written, &mut self.random)));
        }
        for source in Source::ALL {
            let count = u64::from(source == Source::AdminRpc);
            let problems = Reading::integer(
                &d::SOURCE_PROBLEMS,
                [source.name().into(), "forbidden".into()],
                count,
            );
            by_source[Source::Daemon as usize].push(problems);
        }
        // Each push contains a datapoint that `datapoints.allow` names.
        let last_push = self.second / PUSH_EVERY * PUSH_EVERY;
        for worker in ["1", "2", "3", "4"] {
            let labels = [
                "banking_stage_worker_counts".into(),
                "transactions_attempted_processing_count".into(),
            ];
            let sum = Reading::integer(&v::DATAPOINT_SUM, labels, last_push * 400);
            by_source[Source::Datapoints as usize]
                .push(sum.with_tags(vec![("id".into(), worker.into())]));
        }
    }

    fn pool_readings(&mut self, conditions: Conditions, out: &mut Vec<Reading>) {
        for pool in &mut self.pools {
            // A third of the pools did something.
            if self.random.unit() < 0.33 {
                let rates = [
                    4.0 * conditions.memory_scarcity,
                    900.0,
                    0.9,
                    0.2,
                    0.02,
                    0.01 * conditions.memory_scarcity,
                ];
                for (total, rate) in pool.totals.iter_mut().zip(rates) {
                    *total += rate * conditions.load * self.random.about_one(1.5);
                }
            }
            let name = || LabelText::Shared(Arc::clone(&pool.name));
            let [major, minor, user, system, queue, block] = pool.totals;
            let hundredths = |x: f64| (x * 100.0).floor() / 100.0;
            out.push(Reading::integer(&pools::THREADS, [name()], pool.threads));
            out.push(Reading::integer(
                &pools::PAGE_FAULTS,
                [name(), "major".into()],
                major as u64,
            ));
            out.push(Reading::integer(
                &pools::PAGE_FAULTS,
                [name(), "minor".into()],
                minor as u64,
            ));
            out.push(Reading::real(
                &pools::CPU,
                [name(), "user".into()],
                hundredths(user),
            ));
            out.push(Reading::real(
                &pools::CPU,
                [name(), "system".into()],
                hundredths(system),
            ));
            out.push(Reading::real(
                &pools::RUN_QUEUE,
                [name()],
                (queue * 1e9).floor() / 1e9,
            ));
            out.push(Reading::real(
                &pools::BLOCK_IO_DELAY,
                [name()],
                hundredths(block),
            ));
        }
    }
}

fn at(second: u64) -> Stamp {
    // A tick is never quite on time.
    let since =
        Duration::from_secs(second) + Duration::from_nanos(120_000 + second * 7919 % 90_000);
    Stamp {
        uptime: since,
        unix: BEGAN + since,
    }
}

fn batch(source: Source, at: Stamp, readings: Vec<Reading>) -> Batch {
    let problems = match source {
        Source::AdminRpc => vec![Problem::new(
            ProblemKind::Forbidden,
            "admin.rpc: permission denied",
        )],
        _ => Vec::new(),
    };
    Batch {
        source,
        at,
        duration: Duration::from_micros(300),
        readings,
        problems,
        up: true,
    }
}

fn event(at: Stamp, kind: EventKind, detail: String) -> Event {
    Event { at, kind, detail }
}
