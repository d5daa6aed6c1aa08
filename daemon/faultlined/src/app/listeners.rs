//! Listeners on the configured addresses, or on sockets from systemd.

use faultline_core::clock::Clock;
use faultline_core::config::{self, Config};
use faultline_core::push_memory::PushMemory;
use faultline_core::socket::{self, BoundSocket, ListenAddress};
use faultline_datapoints::forward;
use faultline_datapoints::ingest::{IngestParts, Listener};
use faultline_datapoints::validator::intake::Intake;
use faultline_http::web;
use std::net::SocketAddr;

/// The listener and the forwarder of pushes, if enabled.
pub(super) struct Pushes {
    pub(super) listener: Option<Listener<Intake>>,
    pub(super) forward: Option<forward::Handle>,
    pub(super) forwarder: Option<forward::Forwarder>,
}

pub(super) fn pushes(
    config: &Config,
    inherited: Vec<BoundSocket>,
    intake: &Intake,
    clock: Clock,
) -> anyhow::Result<Pushes> {
    let push_memory = PushMemory::default();
    let (forward, forwarder) = forwarding(config, clock, &push_memory)?;
    let parts = IngestParts {
        intake: intake.clone(),
        clock,
        push_memory,
        forward: forward.clone(),
    };
    Ok(Pushes {
        listener: listener(config, inherited, parts)?,
        forward,
        forwarder,
    })
}

type Forwarding = (Option<forward::Handle>, Option<forward::Forwarder>);

fn forwarding(
    config: &Config,
    clock: Clock,
    push_memory: &PushMemory,
) -> anyhow::Result<Forwarding> {
    let Some(forward) = &config.forward else {
        return Ok((None, None));
    };
    let (handle, forwarder) = forward::build(forward, clock, push_memory)?;
    Ok((Some(handle), Some(forwarder)))
}

fn listener(
    config: &Config,
    inherited: Vec<BoundSocket>,
    parts: IngestParts<Intake>,
) -> anyhow::Result<Option<Listener<Intake>>> {
    if !config.ingest.enabled {
        if !inherited.is_empty() {
            tracing::warn!(
                "a systemd socket accepts pushes, but the configuration disables ingest: pushes get no answer"
            );
        }
        return Ok(None);
    }
    if inherited.is_empty() {
        return Ok(Some(Listener::build(&config.ingest, parts)?));
    }
    warn_if_ignored(
        "ingest.listen",
        config.ingest.listen,
        config::Ingest::default().listen,
        &inherited,
    );
    Ok(Some(Listener::from_sockets(
        inherited,
        &config.ingest,
        parts,
    )?))
}

pub(super) fn exporter(
    config: &config::Metrics,
    inherited: Vec<BoundSocket>,
    state: web::WebState,
) -> Result<web::Server, web::WebError> {
    if inherited.is_empty() {
        return web::Server::build(config, state);
    }
    warn_if_ignored(
        "metrics.listen",
        config.listen,
        config::Metrics::default().listen,
        &inherited,
    );
    web::Server::from_sockets(inherited, config, state)
}

fn warn_if_ignored(
    key: &'static str,
    requested: SocketAddr,
    default: SocketAddr,
    inherited: &[BoundSocket],
) {
    if requested != default
        && !inherited
            .iter()
            .any(|bound| *bound.listen_address() == ListenAddress::Tcp(requested))
    {
        let (listening, requested) = (
            socket::listen_addresses(inherited).join(","),
            requested.to_string(),
        );
        tracing::warn!(
            key,
            requested,
            listening,
            "listen address ignored: the systemd socket unit sets it; change it there"
        );
    }
}
