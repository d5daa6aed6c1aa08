//! Binds sockets and opens files before it starts anything. Stops the stages in the order of the
//! data flow.

mod listeners;
mod live;
mod permanent_errors;
mod places;
mod pollers;
mod recording;
mod secrets;
mod shared;
mod signals;

pub use live::Live;
pub use permanent_errors::is_permanent;

use crate::demo::{self, Demo};
use crate::ready_file::{self, ReadyFile};
use anyhow::Context;
use faultline_agave::identify::Program;
use faultline_core::clock::Clock;
use faultline_core::config::{Config, ConfigError, Find};
use faultline_core::hub::{Hub, Latest};
use faultline_core::socket::Inherited;
use faultline_core::supervisor::Stage;
use faultline_datapoints::forward;
use faultline_datapoints::ingest::{self, Listener};
use faultline_datapoints::tail::{self, LogTail};
use faultline_datapoints::validator::intake::Intake;
use faultline_http::sinks::history::History;
use faultline_http::web;
use faultline_kernel::{HostConstants, HostRoot};
use faultline_metrics::Tick;
use faultline_recorder::flight;
use faultline_sources::admin::{PollTarget, PollTargetLookup};
use faultline_sources::discovery::{self, Finder, Following};
use faultline_sources::tick::Ticker;
use faultline_sources::{listening, resources};
use pollers::Pollers;
use shared::Shared;
use signals::Signals;
use std::path::PathBuf;
use std::time::Duration;

const GRACE: Duration = Duration::from_secs(7);
/// Maximum concurrent blocking calls of one runtime.
const CALLS: usize = 4;

pub type Reload = Box<dyn Fn() -> Result<Config, Vec<ConfigError>> + Send + Sync>;

#[derive(Default)]
pub struct Options {
    /// `None` without a configuration file to reload.
    pub reload: Option<Reload>,
    pub demo: bool,
    /// Sockets from systemd replace the configured listen addresses.
    pub inherited: Inherited,
}

pub struct App {
    live: Live,
    clock: Clock,
    finder: Finder,
    ticker: Ticker,
    ticks: Latest<Tick>,
    ingest: Option<Listener<Intake>>,
    forwarder: Option<forward::Forwarder>,
    log: Option<LogTail>,
    pollers: Pollers,
    recording: Option<recording::Recording>,
    flight: Option<flight::Handle>,
    web: web::Server,
    /// Declared last, so that it is dropped last.
    demo: Option<Demo>,
}

impl App {
    pub fn build(mut config: Config, options: Options) -> anyhow::Result<App> {
        let clock = Clock::start();
        let root = root(&config);
        let host = HostConstants::read(&root)
            .context("the kernel's own folder cannot be read; see paths.procfs")?;
        let intake = Intake::new(&config.datapoints);
        let pushes = listeners::pushes(&config, options.inherited.ingest, &intake, clock)?;
        let demo = options
            .demo
            .then(|| stand_in(&mut config, pushes.listener.as_ref()))
            .transpose()?;
        let recording = recording::prepare(&config, clock);
        let finder = Finder::build(&config.target, root.clone(), clock);
        let shared = Shared::new(
            &config,
            clock,
            (root, finder.following()),
            recording.as_ref(),
        );
        let (host_root, followed) = (shared.root.clone(), shared.following.clone());
        intake.set_user_lookup(move || discovery::validators_user(&host_root, &followed));
        let log = log_tail(&config, &intake, clock);
        let pollers = Pollers::new(&config, clock, &shared.following);
        let live = Live::new(config.clone(), options.reload, intake.clone());
        let facts = pollers.facts();
        let listening = listening::Datapoints {
            intake: intake.clone(),
            meter: pushes.listener.as_ref().map(Listener::meter),
            forward: pushes.forward,
        };
        let inputs = pollers.inputs(intake.clone(), log.as_ref());
        let mut sources = shared.sources(listening, inputs, live.config());
        sources.push(shared.selfwatch(options.demo));
        let (ticks, history) = (Latest::default(), History::default());
        let sinks = shared.sinks(&ticks, &history);
        let state = shared.web_state(ticks.clone(), history);
        let web = listeners::exporter(&config.metrics, options.inherited.metrics, state)?;
        let ticker = Ticker::new(shared.tick_parts(host, sources), Hub::new(sinks));
        recording::last_push(&config, clock)
            .into_iter()
            .for_each(|last| intake.resume(last));
        let flight = shared.flight;
        let recording = recording
            .map(|prepared| prepared.open(&config, clock, facts, demo.is_some()))
            .transpose()?;
        Ok(App {
            live,
            clock,
            finder,
            ticker,
            ticks,
            ingest: pushes.listener,
            forwarder: pushes.forwarder,
            log,
            pollers,
            recording,
            flight,
            web,
            demo,
        })
    }

    /// Runs until a stop signal. True if every stage ended in time.
    pub fn run(self, ready_file: Option<ReadyFile>) -> anyhow::Result<bool> {
        let runtime = runtime()?;
        let outcome = runtime.block_on(self.live(ready_file));
        runtime.shutdown_timeout(Duration::from_secs(1));
        outcome
    }

    async fn live(self, mut ready_file: Option<ReadyFile>) -> anyhow::Result<bool> {
        let demo = self.demo;
        // Before the ready file exists: another program may send a signal at once.
        let signals = Signals::hear()?;
        let handle = tokio::runtime::Handle::current();
        let mut stages = ["sources", "hub", "sinks", "admin"].map(|name| Stage::new(name, &handle));
        let [sources, hub, sinks, face] = &mut stages;
        let (metrics, pushes) = (
            self.web.places(),
            self.ingest.as_ref().map(Listener::places),
        );
        let places = (metrics.join(","), pushes.as_ref().map(|all| all.join(",")));
        let (page, following) = (self.web.page(), self.finder.following());
        // Before anything starts that needs an orderly stop. Clients queue in the sockets
        // meanwhile.
        ready_file
            .as_mut()
            .map(|file| file.appear(metrics, pushes))
            .transpose()?;
        let (ticker, web) = (self.ticker, self.web);
        start_inputs(sources, self.finder, self.ingest, self.log, self.pollers)?;
        hub.thread("tick", move |stop| ticker.run(stop))?;
        if let Some(forwarder) = self.forwarder {
            sinks.task("forward", |stop| forwarder.run(stop));
        }
        if let Some(recording) = self.recording {
            recording.start(sinks)?;
        }
        face.task_thread("web", CALLS, |stop| web.run(stop))?;
        tracing::info!(metrics = %places.0, ingest = places.1.map(tracing::field::display), "listening");
        if let Some(page) = demo.as_ref().and(page) {
            tracing::info!("demo started: open {page} in a browser");
        }
        let on_time = tokio::select! {
            watched = signals.watch(&self.live, self.flight.as_ref(), &self.ticks, self.clock, &stages) => watched,
            never = ready_file::keep(ready_file, following) => match never {},
        };
        signals::stopping();
        let Some(ended) = end_in_order(stages, self.clock).await else {
            return Ok(false);
        };
        let graceful = on_time && ended;
        tracing::info!(graceful, "stopped");
        Ok(graceful)
    }
}

/// Starts what fills the intake and the latest values.
fn start_inputs(
    sources: &mut Stage,
    finder: Finder,
    ingest: Option<Listener<Intake>>,
    log: Option<LogTail>,
    mut pollers: Pollers,
) -> anyhow::Result<()> {
    sources
        .thread("target", move |stop| finder.run(stop))
        .context("a thread cannot be started")?;
    if let Some(ingest) = ingest {
        sources.task("ingest", |stop| ingest.run(stop));
    }
    match log {
        Some(LogTail::File(file)) => sources.path_thread("log", move |stop| file.run(stop))?,
        Some(LogTail::Journal(journal)) => sources.task("journal", |stop| journal.run(stop)),
        None => {}
    }
    if let Some(resources) = pollers.resources.take() {
        sources.task_thread("resources", resources::MOST_CALLS, |stop| {
            resources.run(stop)
        })?;
    }
    if !pollers.is_empty() {
        sources.task_thread("rpc", CALLS, |stop| pollers.run(stop))?;
    }
    Ok(())
}

/// Whether every stage ended in time; `None` after a second signal.
async fn end_in_order(stages: [Stage; 4], clock: Clock) -> Option<bool> {
    // Created before the first stage ends, so that a signal between two stages counts.
    let mut forced = std::pin::pin!(signals::forced(clock));
    let mut on_time = true;
    for stage in stages {
        let name = stage.name();
        on_time &= tokio::select! {
            busy = stage.end(GRACE) => busy.is_empty(),
            () = &mut forced => {
                tracing::warn!(stage = name, "forced exit after a second signal: unwritten and unsent data is lost");
                return None;
            }
        };
    }
    Some(on_time)
}

fn log_tail(config: &Config, intake: &Intake, clock: Clock) -> Option<LogTail> {
    let parts = tail::Parts {
        intake: intake.clone(),
        clock,
    };
    config.log.as_ref().map(|log| LogTail::build(log, parts))
}

pub fn checked(read: (Config, Vec<ConfigError>)) -> Result<Config, Vec<ConfigError>> {
    let (config, mut mistakes) = read;
    mistakes.extend(self::mistakes(&config, &mistakes));
    if mistakes.is_empty() {
        Ok(config)
    } else {
        Err(mistakes)
    }
}

/// Checks what parsing cannot: files and public addresses. Omits errors that only follow from
/// `known`.
pub fn mistakes(config: &Config, known: &[ConfigError]) -> Vec<ConfigError> {
    let right = |keys: &[&str]| {
        !known
            .iter()
            .any(|mistake| keys.iter().any(|key| mistake.is_about(key)))
    };
    let mut found: Vec<String> = Vec::new();
    if right(&["metrics.web_config"]) {
        found.extend(web::check(&config.metrics).iter().map(ToString::to_string));
    }
    if right(&["ingest.beyond_loopback"]) {
        found.extend(
            ingest::check(&config.ingest)
                .err()
                .map(|error| error.to_string()),
        );
    }
    found.extend(
        config
            .forward
            .as_ref()
            .and_then(|forward| forward::check(forward).err())
            .map(|error| error.to_string()),
    );
    if right(&["metrics.listen", "ingest.listen", "ingest.enabled"]) {
        found.extend(places::one_address_for_both(config));
    }
    found.extend(places::mistakes(config));
    found
        .into_iter()
        .map(ConfigError::new)
        .chain(recording::mistakes(config))
        .collect()
}

pub fn warnings(config: &Config) -> Vec<String> {
    places::warnings(config)
        .into_iter()
        .chain(recording::warnings(config))
        .chain(exposures(config))
        .collect()
}

pub fn exposures(config: &Config) -> Vec<String> {
    let (pollers_inputs, files) = web::warnings(&config.metrics, Clock::start().now().unix);
    pollers_inputs
        .into_iter()
        .chain(secrets::warnings(
            config,
            files.iter().map(PathBuf::as_path),
        ))
        .collect()
}

/// Two workers: one may parse a large push while the other serves the other senders.
pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(CALLS)
        .thread_name("faultlined-io")
        .enable_all()
        .build()
        .context("the runtime cannot be started")
}

pub(crate) fn root(config: &Config) -> HostRoot {
    let paths = config.paths.clone();
    HostRoot {
        procfs: paths.procfs,
        sysfs: paths.sysfs,
        cgroup: paths.cgroup,
    }
}

/// Starts the built-in mock validator, which pushes to `ingest`, and makes it the target. Shortens
/// the at-tip times to match its short start.
fn stand_in(config: &mut Config, ingest: Option<&Listener<Intake>>) -> anyhow::Result<Demo> {
    let ingest =
        ingest.context("--demo needs the ingest listener: leave [log] and ingest.enabled out")?;
    let demo = demo::start(
        ingest
            .local_addr()
            .context("--demo needs an ingest listener with an address")?,
    )?;
    config.target.find = Find::Pid(demo.pid());
    config.phase.at_tip_for = Duration::from_secs(5);
    Ok(demo)
}

pub(crate) fn target_lookup(following: &Following) -> PollTargetLookup {
    let following = following.clone();
    Box::new(move || {
        let target = following.current()?;
        let validator = target.validator.as_ref()?;
        // A test validator serves JSON-RPC on 8899 by default; the others serve none.
        let default = (validator.program == Program::TestValidator).then_some(8899);
        let rpc_port = validator.rpc_port.or(default);
        Some(PollTarget {
            process: target.process,
            rpc_port,
            rpc_host: validator.rpc_host.clone(),
            vote_account: validator.vote_account,
            ledger: target.ledger.clone(),
        })
    })
}
