//! The daemon's real sources with a host that is only a folder. The test sets the times of the
//! ticks.

#![allow(dead_code, reason = "each test program needs a part of it")]

use faultline_core::{
    clock::{Clock, DueTick},
    config::Config,
    publish::{Latest, Sink},
};
use faultline_datapoints::validator::intake::Intake;
use faultline_http::sinks::history::History;
use faultline_kernel::{HostConstants, HostRoot};
use faultline_metrics::{Reading, Source, Stamp, Tick};
use faultline_sources::{
    Registry,
    discovery::{Finder, Target},
    own_process,
    tick::{BuildContext, Ticker},
};
use faultline_testkit::host::FakeHost;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
    time::Duration,
};

/// Process id of the validator of every fake host.
pub const PID: u32 = 4242;

/// The sources that read the kernel's files.
pub static KERNEL_SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| {
    let (config, clock, root) = (Config::default(), Clock::start(), HostRoot::default());
    let finder = Finder::build(&config.target, root.clone(), clock);
    let mut registry = Registry::default();
    let context = BuildContext {
        config: &config,
        clock,
        root: &root,
        target_handle: &finder.target_handle,
    };
    faultline_sources::register_kernel(&mut registry, &context);
    let sources = registry.samplers.iter().map(|(source, _)| *source);
    // The finder reads the files of the source `target`.
    sources.filter(|source| *source != Source::Target).collect()
});

/// A daemon without threads, sockets and clocks.
pub struct FakeDaemon {
    pub host: FakeHost,
    pub intake: Intake,
    pub history: History,
    pub target: Option<Arc<Target>>,
    pub uptime: Duration,
    /// Wall clock at the start; a test may change it.
    pub started: Duration,
    finder: Finder,
    ticker: Ticker,
}

impl FakeDaemon {
    /// Uses a copy of a fake host. No process is followed yet.
    pub fn new(fixture: &str, config: &Config) -> Self {
        let host = FakeHost::from_fixture(&fixtures().join(fixture)).unwrap();
        let root = HostRoot::below(host.root());
        Self::build(host, root, config)
    }

    /// Uses the machine on which the test runs. The fake host stays empty.
    pub fn real(config: &Config) -> Self {
        Self::build(FakeHost::empty().unwrap(), HostRoot::default(), config)
    }

    fn build(host: FakeHost, root: HostRoot, config: &Config) -> Self {
        let clock = Clock::start();
        let finder = Finder::build(&config.target, root.clone(), clock);
        let (intake, history) = (Intake::new(&config.datapoints), History::default());
        let context = BuildContext {
            config,
            clock,
            root: &root,
            target_handle: &finder.target_handle,
        };
        let live = Latest::default();
        live.set(Some(Arc::new(config.clone())));
        // Sources that get data from a task have none, except the intake.
        let mut registry = Registry::default();
        faultline_sources::register(&mut registry, &context, &intake, None, None, live);
        // The daemon's own process is the real one.
        own_process::register(&mut registry, &HostRoot::default(), "0.0.0", false, |_| ());
        let sinks: Vec<Box<dyn Sink>> = vec![Box::new(history.clone())];
        let ticker = Ticker::new(&context, constants(&root), registry.samplers, sinks);
        let started = Duration::from_secs(1_795_225_000);
        Self {
            host,
            intake,
            history,
            target: None,
            uptime: Duration::ZERO,
            started,
            finder,
            ticker,
        }
    }

    /// Like `new`, and finds the validator.
    pub fn with_target(fixture: &str) -> Self {
        let mut fake = Self::new(fixture, &Config::default());
        fake.find();
        assert!(fake.target.is_some(), "{fixture}: no process was found");
        fake
    }

    /// Searches for the validator. If there is none, no process is followed.
    pub fn find(&mut self) {
        self.target = self.finder.find_once();
    }

    pub fn now(&self) -> Stamp {
        Stamp {
            uptime: self.uptime,
            unix: self.started + self.uptime,
        }
    }

    /// Advances the time and takes a tick.
    pub fn tick_after(&mut self, passed: Duration) -> Arc<Tick> {
        self.uptime += passed;
        let due = DueTick {
            number: self.uptime.as_secs(),
            lateness: Duration::from_millis(1),
            missed: 0,
        };
        self.ticker.tick_at(self.now(), due, self.target.as_deref())
    }

    /// Takes a tick one second later.
    pub fn tick(&mut self) -> Arc<Tick> {
        self.tick_after(Duration::from_secs(1))
    }

    pub fn push(&self, body: &str) {
        let mut push = self.intake.begin_trusted(self.now());
        body.lines().for_each(|line| push.add_line(line.as_bytes()));
        self.intake.commit(push, self.now());
    }
}

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/testkit/fixtures/hosts")
}

/// The series of a reading: its name and labels.
pub fn series(reading: &Reading) -> String {
    let own = reading
        .metric
        .label_names
        .iter()
        .copied()
        .zip(reading.label_values.iter().map(|text| text.as_str()));
    let tags = reading
        .tags
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let labels: Vec<String> = own
        .chain(tags)
        .map(|(name, value)| format!("{name}={value:?}"))
        .collect();
    format!("{}{{{}}}", reading.metric.name, labels.join(","))
}

/// The units of the machines from which the fake hosts were copied. Those of this machine do not
/// matter.
fn constants(root: &HostRoot) -> HostConstants {
    HostConstants {
        page_size: 4096,
        clock_ticks_per_second: 100,
        ..HostConstants::read(root).unwrap()
    }
}
