//! The whole daemon except its sockets, with random events of a validator: restarts, reused process
//! ids, ends, steps of the wall clock, and pushes twice or out of order. The daemon's own counters
//! must never fall and never disappear. Counters of the kernel must belong to one process.
#![allow(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use crate::support::fake_daemon::{FakeDaemon, KERNEL_SOURCES, PID, fixtures, series};
use faultline_core::config;
use faultline_http::sinks::history::PLOTS;
use faultline_kernel::ProcessId;
use faultline_metrics::{
    Histogram, Kind, Reading, Source, Tick, Value,
    metrics::{pools, process as p},
};
use proptest::prelude::*;
use std::{collections::BTreeMap, fs, path::Path, time::Duration};

const HOST: &str = "linux-6.1-v2";
const IDENTITY: &str = "J2xccRtuG43drESLYznHhLhQkLTdfepcKYbiQ9BsJVaf";

/// After this time, all threads that ran were read.
const COMPLETE: Duration = Duration::from_secs(31);

/// An event between two ticks.
#[derive(Debug, Clone)]
enum Event {
    /// The faults of the process and of its threads grow.
    Faults { minor: u64, major: u64, thread: u64 },
    /// The process ends without a successor.
    End,
    /// Another process gets the same id. Its counters start at zero.
    Restart { faults: u64 },
    /// The captured push with this number arrives, for the first time or again.
    Push(usize),
    /// The wall clock is set.
    Clock(i64),
    /// The tick is late.
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..5000u64, 0..500u64, 0..5000u64).prop_map(|(minor, major, thread)| Event::Faults { minor, major, thread }),
        1 => Just(Event::End),
        2 => (0..300u64).prop_map(|faults| Event::Restart { faults }),
        4 => (0..3usize).prop_map(Event::Push),
        1 => (-100_000i64..100_000).prop_map(Event::Clock),
        2 => (1..90u64).prop_map(Event::Wait),
    ]
}

/// The parts of the fake validator that change.
struct Model {
    fake: FakeDaemon,
    pushes: Vec<String>,
    /// `None` while no process runs.
    alive: Option<Life>,
    starts: u64,
}

#[derive(Debug, Clone, Copy)]
struct Life {
    start: u64,
    minor: u64,
    major: u64,
    /// Minor faults of the thread that has them; never more than the process's.
    thread: u64,
}

impl Model {
    fn new() -> Self {
        let config = config::parse(&format!("[target]\nidentity = \"{IDENTITY}\"\n")).unwrap();
        let case =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/follower-thrashing/points.lp");
        let pushes = fs::read_to_string(case)
            .unwrap()
            .split("\n\n")
            .map(str::to_owned)
            .collect();
        let mut model = Self {
            fake: FakeDaemon::new(HOST, &config),
            pushes,
            alive: None,
            starts: 1000,
        };
        model.restart(0);
        model
    }

    fn restart(&mut self, faults: u64) {
        self.end();
        self.starts += 7;
        let life = Life {
            start: self.starts,
            minor: faults,
            major: faults,
            thread: faults / 2,
        };
        let process = fixtures().join(HOST).join(format!("proc/{PID}"));
        copy(&process, &self.fake.host.path(&format!("proc/{PID}")));
        self.alive = Some(life);
        self.write(life);
        self.fake.find();
    }

    fn end(&mut self) {
        // The first process is that of the fixture.
        let _ = self.fake.host.remove(&format!("proc/{PID}"));
        (self.alive, self.fake.target) = (None, None);
    }

    /// Writes the files that depend on the process. Only one thread has faults.
    fn write(&self, life: Life) {
        let text = |path: &str, minor: u64, major: u64| {
            let whole = fs::read_to_string(fixtures().join(HOST).join(path)).unwrap();
            let (head, rest) = whole.rsplit_once(") ").unwrap();
            let mut fields: Vec<String> = rest.split(' ').map(str::to_owned).collect();
            // Index 0 is the state, which is field 3.
            (fields[7], fields[9], fields[19]) =
                (minor.to_string(), major.to_string(), life.start.to_string());
            self.fake
                .host
                .write(path, format!("{head}) {}", fields.join(" ")))
                .unwrap();
        };
        text(&format!("proc/{PID}/stat"), life.minor, life.major);
        for thread in 0..4 {
            let faults = if thread == 1 { life.thread } else { 0 };
            text(&format!("proc/{PID}/task/{}/stat", PID + thread), faults, 0);
        }
    }

    fn happen(&mut self, event: &Event) {
        match *event {
            Event::Faults {
                minor,
                major,
                thread,
            } => {
                if let Some(life) = &mut self.alive {
                    (life.minor, life.major) = (life.minor + minor, life.major + major);
                    life.thread += thread.min(minor);
                    let life = *life;
                    self.write(life);
                }
            }
            Event::End => self.end(),
            Event::Restart { faults } => self.restart(faults),
            Event::Push(number) => self.fake.push(&self.pushes[number]),
            Event::Clock(seconds) => {
                self.fake.started = self.fake.started.saturating_add_signed_seconds(seconds);
            }
            Event::Wait(seconds) => self.fake.uptime += Duration::from_secs(seconds),
        }
    }
}

trait Set {
    fn saturating_add_signed_seconds(self, seconds: i64) -> Self;
}

impl Set for Duration {
    fn saturating_add_signed_seconds(self, seconds: i64) -> Self {
        Self::from_secs(self.as_secs().saturating_add_signed(seconds))
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else if !path.is_symlink() {
            fs::write(target, fs::read(path).unwrap()).unwrap();
        }
    }
}

/// The parts of a reading that never fall: a counter's value, or a histogram's count and sum.
fn grows(reading: &Reading) -> Option<Vec<f64>> {
    let of = |histogram: &Histogram| {
        histogram
            .cumulative()
            .map(|(_, n)| n as f64)
            .chain([histogram.sum()])
            .collect()
    };
    match (&reading.value, reading.metric.kind) {
        (Value::Histogram(histogram), _) => Some(of(histogram)),
        (value, Kind::Counter) => value.number().map(|number| vec![number]),
        _ => None,
    }
}

fn counters(tick: &Tick, of: impl Fn(Source) -> bool) -> BTreeMap<String, Vec<f64>> {
    let batches = tick.batches.iter().filter(|batch| of(batch.source));
    batches
        .flat_map(|batch| &batch.readings)
        .filter_map(|reading| Some((series(reading), grows(reading)?)))
        .collect()
}

/// Checks that nothing of `before` fell in `now`. With `for_good`, nothing may be missing either.
fn never_falls(
    before: &BTreeMap<String, Vec<f64>>,
    now: &BTreeMap<String, Vec<f64>>,
    for_good: bool,
) -> Result<(), TestCaseError> {
    for (series, old) in before {
        match now.get(series) {
            Some(new) => {
                prop_assert!(
                    old.iter().zip(new).all(|(old, new)| new >= old),
                    "{series}: {old:?} then {new:?}"
                )
            }
            None => prop_assert!(!for_good, "{series} went away"),
        }
    }
    Ok(())
}

/// At a tick that read the threads, the faults of all pools must add up to those of the process.
/// This holds for major faults always, and for minor ones after a complete read. Otherwise the
/// pools have fewer.
fn pools_add_up(tick: &Tick, life: Life, complete: bool) -> Result<(), TestCaseError> {
    let threads = tick
        .batches
        .iter()
        .find(|batch| batch.source == Source::Threads)
        .unwrap();
    if threads.at != tick.at {
        return Ok(());
    }
    for (kind, faults) in [("minor", life.minor), ("major", life.major)] {
        let of_kind = |reading: &&Reading| {
            reading.metric.name == pools::PAGE_FAULTS.name
                && reading.label_values[1].as_str() == kind
        };
        let sum: f64 = threads
            .readings
            .iter()
            .filter(of_kind)
            .filter_map(|reading| reading.value.number())
            .sum();
        let exact = complete || kind == "major";
        prop_assert!(sum <= faults as f64, "{kind} faults: {sum} of {faults}");
        prop_assert!(
            !exact || sum == faults as f64,
            "{kind} faults: {sum} of {faults}"
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn counters_never_decrease_across_restarts_and_clock_steps(events in prop::collection::vec(event(), 1..40)) {
        let mut model = Model::new();
        let first = model.fake.tick();
        let mut own = counters(&first, |source| !KERNEL_SOURCES.contains(&source));
        let mut kernels = counters(&first, |source| KERNEL_SOURCES.contains(&source));
        let mut followed: Option<ProcessId> = model.fake.target.as_ref().map(|target| target.process);
        for event in &events {
            model.happen(event);
            let tick = model.fake.tick();

            let now = counters(&tick, |source| !KERNEL_SOURCES.contains(&source));
            never_falls(&own, &now, true)?;
            own = now;

            let process = model.fake.target.as_ref().map(|target| target.process);
            let now = counters(&tick, |source| KERNEL_SOURCES.contains(&source));
            if process == followed {
                never_falls(&kernels, &now, process.is_some())?;
            }
            (kernels, followed) = (now, process);

            match model.alive {
                Some(life) => {
                    prop_assert_eq!(process, Some(ProcessId { pid: PID, start_ticks: life.start }));
                    prop_assert_eq!(tick.value_of(&p::PAGE_FAULTS, &["minor"]), Some(life.minor as f64));
                    let started = tick.value_of(&p::START_TIME, &[]).unwrap();
                    prop_assert!((started - 1_763_000_000.0 - life.start as f64 / 100.0).abs() < 1e-3);
                    pools_add_up(&tick, life, false)?;
                }
                None => {
                    let left = kernels.keys().find(|series| !series.starts_with("agave_host_"));
                    prop_assert!(left.is_none(), "{left:?} outlives its process");
                }
            }
            let plots = PLOTS.iter().zip(model.fake.history.plot_series());
            for ((title, _), points) in plots.filter(|((_, figure), _)| figure.is_counter()) {
                prop_assert!(points.iter().all(|(_, rate)| *rate >= 0.0), "{title}: {points:?}");
            }
        }
        if let Some(life) = model.alive {
            pools_add_up(&model.fake.tick_after(COMPLETE), life, true)?;
        }
    }
}

#[test]
fn a_push_that_arrives_twice_is_counted_once() {
    let mut model = Model::new();
    model.fake.tick();
    model.happen(&Event::Push(1));
    let once = model.fake.tick();
    model.happen(&Event::Push(1));
    let twice = model.fake.tick();
    let of_datapoints = |tick: &Tick| {
        let mut counters = counters(tick, |source| source == Source::Datapoints);
        counters.retain(|series, _| series.starts_with("agave_"));
        counters
    };
    assert!(of_datapoints(&once).values().flatten().sum::<f64>() > 0.0);
    assert_eq!(of_datapoints(&once), of_datapoints(&twice));
}
