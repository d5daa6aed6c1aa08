//! Builds and runs the daemon. Binds sockets and opens files before the worker groups start. Stops
//! the groups in the order of the data flow.

pub(crate) mod config_paths;
pub(crate) mod live;
mod recording;
mod servers;
mod signals;

use crate::{
    demo::{self, Demo},
    ready_file::{self, ReadyFile},
};
use anyhow::{Context, Result};
use faultline_core::{
    clock::Clock,
    config::{Config, ConfigError, TargetSelector},
    publish::Latest,
    socket::{InheritError, InheritedSockets},
    supervisor::WorkerGroup,
};
use faultline_datapoints::{
    forward,
    ingest::{self, Listener},
    validator::intake::Intake,
};
use faultline_http::web;
use faultline_kernel::HostConstants;
use faultline_metrics::Tick;
use faultline_recorder::{flight, manifest::ReportedFacts};
use faultline_recording::Error as RecordingError;
use faultline_sources::{
    Registry,
    discovery::{self, Finder, TargetHandle},
    tick::{BuildContext, Ticker},
};
pub use live::LiveConfig;
use sd_notify::NotifyState;
use signals::Signals;
use std::{env, path::PathBuf, time::Duration};

const WORKER_END_TIMEOUT: Duration = Duration::from_secs(7);
const MAX_BLOCKING_CALLS: usize = 4;

pub type ConfigLoader = Box<dyn Fn() -> Result<Config, Vec<ConfigError>> + Send + Sync>;

pub struct Options {
    /// `None` without a configuration file to reload.
    pub load_config: Option<ConfigLoader>,
    pub demo: bool,
    /// Sockets from systemd replace the configured listen addresses.
    pub inherited: InheritedSockets,
}

pub struct App {
    live_config: LiveConfig,
    clock: Clock,
    target_handle: TargetHandle,
    registry: Registry,
    push_addresses: Option<Vec<String>>,
    ticker: Ticker,
    newest_tick: Latest<Tick>,
    forwarder: Option<forward::Forwarder>,
    recorder: Option<recording::OpenRecorder>,
    flight_recorder: Option<flight::FlightRecorderHandle>,
    web: web::Server,
    /// The last field, so that it is dropped last.
    demo: Option<Demo>,
}

impl App {
    pub fn build(mut config: Config, options: Options) -> Result<Self> {
        let clock = Clock::start();
        let host_root = config.paths.clone();
        let host_constants =
            HostConstants::read(&host_root).context("procfs cannot be read; see paths.procfs")?;
        let intake = Intake::new(&config.datapoints);
        let pushes = servers::push_servers(&config, options.inherited.ingest, &intake, clock)?;
        let push_addresses = pushes.listener.as_ref().map(Listener::listen_addresses);
        let live = LiveConfig::new(config.clone(), options.load_config, intake.clone());
        let demo = options
            .demo
            .then(|| start_demo(&mut config, pushes.listener.as_ref()))
            .transpose()?;
        let prepared = recording::prepare(&config, clock);
        let finder = Finder::build(&config.target, host_root.clone(), clock);
        let target_handle = finder.target_handle.clone();
        let (lookup_root, lookup_target) = (host_root.clone(), target_handle.clone());
        intake.set_user_lookup(move || discovery::validator_uid(&lookup_root, &lookup_target));
        let context = BuildContext {
            config: &config,
            clock,
            root: &host_root,
            target_handle: &target_handle,
        };
        let mut registry = Registry::default();
        registry.on_start(|workers| workers.thread("target", |stop| finder.run(stop)));
        let (rpc, admin) = faultline_sources::register(
            &mut registry,
            &context,
            &intake,
            pushes.listener,
            pushes.forward_handle,
            live.config.clone(),
        );
        let reported_facts = ReportedFacts { rpc, admin };
        let state = servers::web_state(&context, prepared.as_ref(), live.status_config.clone());
        servers::register(&mut registry, &context, &intake, &state, options.demo);
        let samplers = std::mem::take(&mut registry.samplers);
        let ticker = Ticker::new(&context, host_constants, samplers, servers::sinks(&state));
        let (newest_tick, flight) = (state.newest_tick.clone(), state.flight_recorder.clone());
        let web = servers::web_server(&config.metrics, options.inherited.metrics, state)?;
        if let Some(last) = recording::last_push(&config, clock) {
            intake.set_previous_run_push(last);
        }
        let recorder = prepared
            .map(|recorder| recorder.open(&config, clock, reported_facts, demo.is_some()))
            .transpose()?;
        Ok(Self {
            live_config: live,
            clock,
            target_handle,
            registry,
            push_addresses,
            ticker,
            newest_tick,
            forwarder: pushes.forwarder,
            recorder,
            flight_recorder: flight,
            web,
            demo,
        })
    }

    /// Runs until a stop signal. True if nothing failed before the signal, every worker group
    /// ended in time, and no second signal came.
    pub fn run(self, ready_file: Option<ReadyFile>) -> Result<bool> {
        let runtime = runtime()?;
        let outcome = runtime.block_on(self.run_worker_groups(ready_file));
        runtime.shutdown_timeout(Duration::from_secs(1));
        outcome
    }

    async fn run_worker_groups(self, mut ready_file: Option<ReadyFile>) -> Result<bool> {
        let demo = self.demo;
        // Signals are handled before the ready file exists: its reader may send a signal at once.
        let signals = Signals::subscribe()?;
        let handle = tokio::runtime::Handle::current();
        let mut worker_groups =
            ["sources", "ticker", "sinks", "web"].map(|name| WorkerGroup::new(name, &handle));
        let [source_workers, ticker_workers, sink_workers, web_workers] = &mut worker_groups;
        let metrics = self.web.listen_addresses();
        let pushes = self.push_addresses;
        let addresses = (metrics.join(","), pushes.as_ref().map(|all| all.join(",")));
        let page = self.web.page_url();
        // The ready file is created before anything starts that needs an orderly stop. Until the
        // servers run, clients queue in the sockets.
        ready_file
            .as_mut()
            .map(|file| file.create(metrics, pushes))
            .transpose()?;
        self.registry
            .start(source_workers)
            .context("a thread cannot be started")?;
        ticker_workers.thread("tick", move |stop| self.ticker.run(stop))?;
        if let Some(forwarder) = self.forwarder {
            sink_workers.task("forward", |stop| forwarder.run(stop));
        }
        if let Some(recorder) = self.recorder {
            recorder.start(sink_workers)?;
        }
        web_workers.task_thread("web", MAX_BLOCKING_CALLS, |stop| self.web.run(stop))?;
        tracing::info!(
            metrics = %addresses.0,
            ingest = addresses.1.map(tracing::field::display),
            "listening"
        );
        if let Some(page) = demo.as_ref().and(page) {
            tracing::info!("demo started: open {page} in a browser");
        }
        let until_stop = signals.run_until_stop(
            &self.live_config,
            self.flight_recorder.as_ref(),
            &self.newest_tick,
            self.clock,
            &worker_groups,
        );
        let stop_requested = tokio::select! {
            stop_requested = until_stop => stop_requested,
            never = ready_file::update_until_dropped(ready_file, self.target_handle) => match never {},
        };
        signals::notify(&[NotifyState::Stopping]);
        let Some(all_in_time) = end_in_order(worker_groups, self.clock).await else {
            return Ok(false);
        };
        let graceful = stop_requested && all_in_time;
        tracing::info!(graceful, "stopped");
        Ok(graceful)
    }
}

/// True if every worker group ended in time; `None` after a second signal.
async fn end_in_order(worker_groups: [WorkerGroup; 4], clock: Clock) -> Option<bool> {
    // Subscribed before the first group ends, so that a signal between two groups counts.
    let mut second_signal = std::pin::pin!(signals::second_signal(clock));
    let mut all_in_time = true;
    for workers in worker_groups {
        let name = workers.name;
        all_in_time &= tokio::select! {
            busy = workers.end(WORKER_END_TIMEOUT) => busy.is_empty(),
            () = &mut second_signal => {
                tracing::warn!(
                    group = name,
                    "forced exit after a second signal: unwritten and unsent data is lost"
                );
                return None;
            }
        };
    }
    Some(all_in_time)
}

pub fn check_config(
    (config, mut config_errors): (Config, Vec<ConfigError>),
) -> Result<Config, Vec<ConfigError>> {
    config_errors.extend(find_config_errors(&config, &config_errors));
    if config_errors.is_empty() {
        Ok(config)
    } else {
        Err(config_errors)
    }
}

/// Checks what the parser cannot check: files and public addresses. Omits consequences of the
/// errors in `known`.
pub fn find_config_errors(config: &Config, known: &[ConfigError]) -> Vec<ConfigError> {
    let has_no_error = |keys: &[&str]| {
        !known
            .iter()
            .any(|error| keys.iter().any(|key| error.is_about(key)))
    };
    let mut errors: Vec<String> = Vec::new();
    if has_no_error(&["metrics.web_config"]) {
        errors.extend(web::check(&config.metrics).iter().map(ToString::to_string));
    }
    if has_no_error(&["ingest.beyond_loopback"]) {
        errors.extend(
            ingest::check(&config.ingest)
                .err()
                .map(|error| error.to_string()),
        );
    }
    errors.extend(
        config
            .forward
            .as_ref()
            .and_then(|forward| forward::check(forward).err())
            .map(|error| error.to_string()),
    );
    if has_no_error(&["metrics.listen", "ingest.listen", "ingest.enabled"]) {
        errors.extend(config_paths::port_conflict(config));
    }
    errors.extend(config_paths::path_errors(config));
    errors
        .into_iter()
        .map(ConfigError::new)
        .chain(recording::path_errors(config))
        .collect()
}

pub use recording::content_error;

pub fn warnings(config: &Config) -> Vec<String> {
    let file_problem = live::read_status_config(config).evidence_file_problem;
    config_paths::path_warnings(config)
        .into_iter()
        .chain(recording::shared_disk_warnings(config))
        .chain(file_problem.map(|problem| format!("status.evidence: {problem}")))
        .chain(security_warnings(config))
        .collect()
}

pub fn security_warnings(config: &Config) -> Vec<String> {
    let (web_warnings, files) =
        web::web_config_warnings(&config.metrics, Clock::start().now().unix);
    web_warnings
        .into_iter()
        .chain(config_paths::secret_warnings(
            config,
            files.iter().map(PathBuf::as_path),
        ))
        .collect()
}

/// Has two threads, so that one can parse a large push while the other serves other senders.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(MAX_BLOCKING_CALLS)
        .thread_name("faultlined-io")
        .enable_all()
        .build()
        .context("the runtime cannot be started")
}

/// Starts the built-in mock validator, which pushes to `ingest`, and makes it the target.
fn start_demo(config: &mut Config, ingest: Option<&Listener<Intake>>) -> Result<Demo> {
    let ingest = ingest
        .context("--demo needs the ingest listener: remove [log] and `ingest.enabled = false`")?;
    let demo = demo::start(
        &env::current_exe().context("the daemon's own program is not known")?,
        ingest
            .local_addr()
            .context("--demo needs an ingest listener with an address")?,
        config.ingest.credentials.as_ref(),
        config.target.program_cache_entries,
    )?;
    config.target.selector = TargetSelector::Pid(demo.pid());
    Ok(demo)
}

/// True if a restart cannot help, because the configuration, the systemd units or the recording
/// file must be changed first.
pub fn is_permanent(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref()
            .is_some_and(RecordingError::is_permanent)
            || matches!(cause.downcast_ref(), Some(ingest::Error::NotLoopback(_)))
            || matches!(
                cause.downcast_ref(),
                Some(web::WebError::Exposed { .. } | web::WebError::Unprotected { .. })
            )
            || cause.is::<InheritError>()
            || cause
                .downcast_ref()
                .is_some_and(ready_file::Error::is_permanent)
    })
}
