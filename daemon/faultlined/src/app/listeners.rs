//! Listeners on the configured addresses, or on sockets from systemd.

use faultline_core::{
    clock::Clock,
    config::{self, Config},
    push_memory::PushMemory,
    socket::{self, BoundSocket, ListenAddress},
};
use faultline_datapoints::{
    forward,
    ingest::{IngestParts, Listener},
    validator::intake::Intake,
};
use faultline_http::web;
use std::net::SocketAddr;

/// The listener and the forwarder of pushes, if enabled.
pub struct Pushes {
    pub listener: Option<Listener<Intake>>,
    pub forward: Option<forward::Handle>,
    pub forwarder: Option<forward::Forwarder>,
}

pub fn pushes(
    config: &Config,
    inherited: Vec<BoundSocket>,
    intake: &Intake,
    clock: Clock,
) -> anyhow::Result<Pushes> {
    let push_memory = PushMemory::default();
    let build = |forward| forward::build(forward, clock, &push_memory);
    let (forward, forwarder) = config.forward.as_ref().map(build).transpose()?.unzip();
    if config.ingest.enabled {
        let default = config::Ingest::default().listen;
        warn_if_ignored("ingest.listen", config.ingest.listen, default, &inherited);
    } else if !inherited.is_empty() {
        tracing::warn!(
            "a systemd socket accepts pushes, but the configuration disables ingest: pushes get no answer"
        );
    }
    let parts = IngestParts {
        intake: intake.clone(),
        clock,
        push_memory,
        forward: forward.clone(),
    };
    let listen = || Listener::build(&config.ingest, inherited, parts);
    Ok(Pushes {
        listener: config.ingest.enabled.then(listen).transpose()?,
        forward,
        forwarder,
    })
}

pub fn exporter(
    config: &config::Metrics,
    inherited: Vec<BoundSocket>,
    state: web::WebState,
) -> Result<web::Server, web::WebError> {
    let default = config::Metrics::default().listen;
    warn_if_ignored("metrics.listen", config.listen, default, &inherited);
    web::Server::build(config, inherited, state)
}

fn warn_if_ignored(
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
