//! Servers on configured addresses or sockets from systemd, and the state that the web server
//! shares with the tick.

use super::{live::constant_labels, recording::PreparedRecorder};
use faultline_core::{
    auth_failures::AuthFailures,
    clock::Clock,
    config::{self, Config},
    publish::{Latest, Sink},
    push_memory::PushMemoryBudget,
    socket::{self, BoundSocket, ListenAddress},
};
use faultline_datapoints::{forward, ingest::Listener, validator::intake::Intake};
use faultline_http::{
    sinks::{history::History, prometheus::DroppedSeries},
    web,
};
use faultline_metrics::Source;
use faultline_recorder::recorder;
use faultline_sources::{Registry, host::host_name, own_process, tick::BuildContext};
use faultline_status::StatusConfig;
use std::net::SocketAddr;

pub struct PushServers {
    pub listener: Option<Listener<Intake>>,
    pub forward_handle: Option<forward::Handle>,
    pub forwarder: Option<forward::Forwarder>,
}

/// The listener takes the pushes that `config.ingest` allows, and passes their lines to `intake`.
pub fn push_servers(
    config: &Config,
    inherited: Vec<BoundSocket>,
    intake: &Intake,
    clock: Clock,
) -> anyhow::Result<PushServers> {
    let push_memory = PushMemoryBudget::default();
    let build = |config| forward::build(config, clock, &push_memory);
    let (forward_handle, forwarder) = config.forward.as_ref().map(build).transpose()?.unzip();
    if config.ingest.enabled {
        warn_if_listen_ignored(
            "ingest.listen",
            config.ingest.listen,
            config::Ingest::default().listen,
            &inherited,
        );
    } else if !inherited.is_empty() {
        tracing::warn!(
            "a systemd socket accepts pushes, but the configuration disables ingest: pushes get no answer"
        );
    }
    let build_listener = || {
        Listener::build(
            &config.ingest,
            inherited,
            intake.clone(),
            clock,
            push_memory,
            forward_handle.clone(),
        )
    };
    Ok(PushServers {
        listener: config.ingest.enabled.then(build_listener).transpose()?,
        forward_handle,
        forwarder,
    })
}

pub fn web_server(
    config: &config::Metrics,
    inherited: Vec<BoundSocket>,
    state: web::WebState,
) -> Result<web::Server, web::WebError> {
    warn_if_listen_ignored(
        "metrics.listen",
        config.listen,
        config::Metrics::default().listen,
        &inherited,
    );
    web::Server::build(config, inherited, state)
}

fn warn_if_listen_ignored(
    key: &'static str,
    requested: SocketAddr,
    default: SocketAddr,
    inherited: &[BoundSocket],
) {
    if requested != default
        && !inherited.is_empty()
        && !inherited
            .iter()
            .any(|bound| bound.listen_address == ListenAddress::Tcp(requested))
    {
        let listening = socket::listen_addresses(inherited).join(",");
        let requested = requested.to_string();
        tracing::warn!(
            key,
            requested,
            listening,
            "listen address ignored: the systemd socket unit sets it; change it there"
        );
    }
}

pub fn web_state(
    context: &BuildContext<'_>,
    recording: Option<&PreparedRecorder>,
    status_config: Latest<StatusConfig>,
) -> web::WebState {
    let config = context.config;
    web::WebState {
        clock: context.clock,
        tick_interval: config.sampling.interval,
        newest_tick: Latest::default(),
        history: History::default(),
        status_config,
        constant_labels: constant_labels(config),
        page_info: web::PageInfo::new(crate::VERSION, &config.target.selector),
        recorder: recording.map(|prepared| prepared.handle.clone()),
        flight_recorder: recording.and_then(|prepared| prepared.flight_recorder.clone()),
        host_name: host_name(context.root),
        auth_failures: AuthFailures::new("metrics"),
        dropped_series: DroppedSeries::default(),
    }
}

/// Registers the samplers of the recorder and of the daemon's own process. Also connects the
/// recorder with the intake.
pub fn register(
    registry: &mut Registry,
    context: &BuildContext<'_>,
    intake: &Intake,
    state: &web::WebState,
    demo: bool,
) {
    if let Some(recorder) = &state.recorder {
        intake.set_recorder(recorder.point_recorder());
        let target_handle = context.target_handle.clone();
        let flight_recorder = state.flight_recorder.clone();
        let report = move |output: &mut _| {
            flight_recorder
                .iter()
                .for_each(|flight_recorder| flight_recorder.report(output))
        };
        let sampler = recorder.sampler(target_handle, report);
        registry.samplers.push((Source::Recorder, sampler));
    }
    let auth_failures = state.auth_failures.clone();
    let dropped = state.dropped_series.clone();
    own_process::register(
        registry,
        context.root,
        crate::VERSION,
        demo,
        move |readings| {
            readings.push(auth_failures.reading());
            dropped.add_readings(readings);
        },
    );
}

pub fn sinks(state: &web::WebState) -> Vec<Box<dyn Sink>> {
    let mut sinks: Vec<Box<dyn Sink>> = vec![
        Box::new(state.history.clone()),
        Box::new(state.newest_tick.clone()),
    ];
    sinks.extend(state.recorder.as_ref().map(recorder::RecorderHandle::sink));
    sinks
}
