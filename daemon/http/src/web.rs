//! The web server: `/metrics` for scrapers, `/` for people, `/status` for programs, `/healthz` and
//! `/readyz` for supervisors.
//!
//! Pages come from the newest tick and the history. A request holds their locks only to copy, so a
//! slow client never delays a tick. The number of connections, their time and the cached responses
//! are limited.

mod auth;
mod config;
mod health;
mod landing;
mod recording_requests;
mod request_checks;
mod router;
mod scrape;
mod tls;

pub use health::check_health;

use crate::sinks::{
    history::History,
    prometheus::{ConstantLabels, DroppedSeries},
};
use faultline_core::{
    auth_failures::AuthFailures,
    clock::Clock,
    config::{Metrics, TargetSelector},
    connection_limit::{Connection, Connections, Timeouts, accept},
    publish::Latest,
    socket::{self, BoundSocket, Stream, set_nodelay},
    supervisor::Stop,
};
use faultline_metrics::Tick;
use faultline_recorder::{flight, recorder};
use faultline_status::StatusConfig;
use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use request_checks::AllowedHosts;
use router::Router;
use std::{
    convert::Infallible, io, net::SocketAddr, path::PathBuf, pin::pin, sync::Arc, time::Duration,
};
use tokio_util::{either::Either, io::InspectReader};

/// TCP and Unix sockets have separate parts ([`faultline_core::connection_limit`]).
const MAX_CONNECTIONS: usize = 64;

const MAX_UNIX_CONNECTIONS: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum WebError {
    #[error(
        "metrics.listen: {listen} can be reached from other machines and nothing protects it: set metrics.listen to a \
         loopback address such as 127.0.0.1:9912, or set metrics.web_config to a file with TLS or passwords"
    )]
    Exposed { listen: SocketAddr },
    #[error(
        "metrics.listen: {listen} can be reached from other machines, and {path} has neither tls_server_config nor \
         basic_auth_users: add one of them, or set metrics.listen to a loopback address such as 127.0.0.1:9912"
    )]
    Unprotected { listen: SocketAddr, path: PathBuf },
    #[error("metrics.listen: cannot listen on {listen}: {source}{}", remedy(.source))]
    Bind {
        listen: SocketAddr,
        source: io::Error,
    },
    #[error("metrics.web_config: {path} cannot be read: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} is not a web config file: {what}")]
    Yaml { path: PathBuf, what: String },
    #[error("{path}: {key}: {what}")]
    Key {
        path: PathBuf,
        key: String,
        what: String,
    },
    #[error("the system provides no random bytes; password checks need them")]
    Random,
}

fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => {
            "; another program (or another faultlined) has this port: stop it, or choose another port in metrics.listen"
        }
        io::ErrorKind::AddrNotAvailable => "; this machine does not have this address",
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need CAP_NET_BIND_SERVICE: choose a higher one"
        }
        _ => "",
    }
}

#[derive(Debug)]
pub struct WebState {
    pub clock: Clock,
    pub tick_interval: Duration,
    /// The ticker needs a clone as a sink.
    pub newest_tick: Latest<Tick>,
    pub history: History,
    /// Replaced by a reload.
    pub status_config: Latest<StatusConfig>,
    pub constant_labels: ConstantLabels,
    pub page_info: PageInfo,
    /// Writes the file of `--record` and the flight recorder's ring.
    pub recorder: Option<recorder::RecorderHandle>,
    /// Saves the ring, which has the last minutes.
    pub flight_recorder: Option<flight::FlightRecorderHandle>,
    /// This machine's name, accepted as `Host:`. `None` if unknown.
    pub host_name: Option<String>,
    pub auth_failures: AuthFailures,
    pub dropped_series: DroppedSeries,
}

#[derive(Debug)]
pub struct PageInfo {
    pub version: &'static str,
    /// How the target is searched. Completes the sentence "The daemon looks for one ...".
    pub search: String,
}

impl PageInfo {
    pub fn new(version: &'static str, selector: &TargetSelector) -> Self {
        let search = match selector {
            TargetSelector::Scan => "among all processes, by name and arguments".to_owned(),
            TargetSelector::ProcessTree(pid) => format!("below process {pid} (--process-tree)"),
            TargetSelector::Pid(pid) => format!("as process {pid} (target.pid)"),
            TargetSelector::Ledger(ledger) => {
                format!(
                    "as the process that serves the ledger {} (target.ledger)",
                    faultline_text::path(ledger)
                )
            }
            TargetSelector::Unit(unit) => format!("in the systemd unit {unit} (target.unit)"),
            TargetSelector::ProcessName(name) => {
                format!("as a process named {name} (target.process_name)")
            }
        };
        Self { version, search }
    }
}

/// Reads the web config file and the files that it names, without binding. Returns every error.
pub fn check(config: &Metrics) -> Vec<WebError> {
    let read = config.web_config.as_deref().map(config::WebConfig::read);
    let (web_config, errors) = read.unzip();
    let mut errors = errors.unwrap_or_default();
    let tls = web_config
        .as_ref()
        .and_then(|web_config| web_config.tls.as_ref());
    errors.extend(tls.into_iter().flat_map(tls::TlsFiles::errors));
    if errors.is_empty() {
        errors.extend(check_protection(config.listen, web_config.as_ref()).err());
    }
    errors
}

/// Warnings about a valid web config file; `now` is Unix time. Also returns the files with secrets:
/// the web config file and the TLS key.
pub fn web_config_warnings(config: &Metrics, now: Duration) -> (Vec<String>, Vec<PathBuf>) {
    let path = config.web_config.as_deref();
    let web_config = path.and_then(|path| config::WebConfig::load(path).ok());
    let is_protected = |web_config: &_| check_protection(config.listen, Some(web_config)).is_ok();
    let Some(web_config) = web_config.filter(is_protected) else {
        return Default::default();
    };
    let key = web_config.tls.as_ref().map(|tls| tls.key.clone());
    let expiry_warning = web_config
        .tls
        .as_ref()
        .and_then(|tls| tls.expiry_warning(now));
    let users = web_config
        .users
        .iter()
        .flat_map(auth::Users::hash_cost_warnings);
    let messages = users
        .map(|what| format!("{}: {what}", web_config.path.display()))
        .chain(expiry_warning)
        .collect();
    (messages, [web_config.path].into_iter().chain(key).collect())
}

/// Any address but loopback needs a web config file that protects it.
fn check_protection(
    listen: SocketAddr,
    web_config: Option<&config::WebConfig>,
) -> Result<(), WebError> {
    match web_config {
        _ if listen.ip().to_canonical().is_loopback() => Ok(()),
        None => Err(WebError::Exposed { listen }),
        Some(web_config) if !web_config.protects() => Err(WebError::Unprotected {
            listen,
            path: web_config.path.clone(),
        }),
        Some(_) => Ok(()),
    }
}

#[derive(Debug)]
pub struct Server {
    sockets: Vec<BoundSocket>,
    router: Arc<Router>,
    tls: Option<Arc<tls::Acceptor>>,
}

impl Server {
    /// Loads the web config file. Binds the configured address if there are no `sockets`. Clients
    /// can connect, but get no response before [`Server::run`]. Needs no runtime.
    ///
    /// # Errors
    /// The address cannot be bound, or is public without protection. The web config file, or a file
    /// it names, is unreadable or invalid.
    pub fn build(
        config: &Metrics,
        mut sockets: Vec<BoundSocket>,
        state: WebState,
    ) -> Result<Self, WebError> {
        let path = config.web_config.as_deref();
        let web_config = path.map(config::WebConfig::load).transpose()?;
        if sockets.is_empty() {
            let listen = config.listen;
            check_protection(listen, web_config.as_ref())?;
            let bound = BoundSocket::bind_tcp(listen);
            sockets.push(bound.map_err(|source| WebError::Bind { listen, source })?);
        }
        for socket in &sockets {
            if let Some(listen) = socket.listen_address.tcp() {
                check_protection(listen, web_config.as_ref())?;
            }
        }
        let exposed = sockets
            .iter()
            .find(|socket| !socket.listen_address.is_local());
        if let (Some(socket), Some(web_config)) = (exposed, &web_config)
            && web_config.tls.is_none()
        {
            tracing::warn!(
                listen = %socket.listen_address,
                file = %web_config.path.display(),
                "passwords are sent in clear text: add tls_server_config"
            );
        }
        let (tls, users, headers) = match web_config {
            Some(web_config) => (
                web_config.tls.map(tls::Acceptor::new).transpose()?,
                web_config.users,
                web_config.headers,
            ),
            None => Default::default(),
        };
        // With TLS or passwords, DNS rebinding is harmless, so host names are not checked.
        let allowed_hosts = (tls.is_none() && users.is_none())
            .then(|| AllowedHosts::new(&config.allowed_hosts, state.host_name.as_deref()));
        let router = Router::new(
            state,
            users,
            headers,
            allowed_hosts,
            config.native_histograms,
        );
        Ok(Self {
            sockets,
            router: Arc::new(router),
            tls: tls.map(Arc::new),
        })
    }

    pub fn listen_addresses(&self) -> Vec<String> {
        socket::listen_addresses(&self.sockets)
    }

    pub fn local_addr(&self) -> Option<SocketAddr> {
        socket::first_tcp_address(&self.sockets)
    }

    pub fn page_url(&self) -> Option<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        self.local_addr()
            .map(|address| format!("{scheme}://{address}/"))
    }

    /// Serves until `stop`; then open requests have two seconds to finish. Needs a runtime with I/O
    /// and time.
    pub async fn run(self, stop: Stop) {
        let Self {
            sockets,
            router,
            tls,
        } = self;
        let max_tcp = MAX_CONNECTIONS - MAX_UNIX_CONNECTIONS;
        let connections = Connections::new("metrics", max_tcp, MAX_UNIX_CONNECTIONS);
        let clock = router.state.clock;
        let serve = |stream, connection| {
            serve_connection(
                stream,
                tls.clone(),
                Arc::clone(&router),
                connection,
                stop.clone(),
            )
        };
        accept(sockets, connections, clock, &stop, serve).await;
    }
}

const TIMEOUTS: Timeouts = Timeouts {
    // From one request to the next, including sending the response. Longer than the slowest usual
    // scrape interval of a minute.
    idle: Duration::from_secs(75),
    // From the first byte of a request to the end of its head. For the first request, from the
    // start of the connection, TLS included.
    head: Duration::from_secs(10),
    // Time to respond; only password checks and saves of the flight recording take long.
    serving: Duration::from_secs(30),
};

/// hyper's buffer, which limits a request's head. A scraper sends a few hundred bytes.
const MAX_HEAD_BYTES: usize = 16 * 1024;

async fn serve_connection(
    stream: Stream,
    tls: Option<Arc<tls::Acceptor>>,
    router: Arc<Router>,
    connection: Arc<Connection>,
    stop: Stop,
) {
    // The client begins with the TLS handshake, which counts as part of the head.
    connection.begin_head();
    tokio::select! {
        biased;
        served_result = serve_http(stream, tls, &router, &connection, &stop) => {
            // The client disconnected, or sent invalid HTTP or TLS.
            if let Err(error) = served_result {
                tracing::debug!(error, "a web connection ended early");
            }
        }
        () = connection.phase_timeout(TIMEOUTS) => tracing::debug!(
            "a web connection was too slow or idle and was closed"
        ),
        () = connection.close_requested() => tracing::debug!(
            "connection limit: a web connection was closed"
        ),
    }
}

async fn serve_http(
    stream: Stream,
    tls: Option<Arc<tls::Acceptor>>,
    router: &Router,
    connection: &Connection,
    stop: &Stop,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    // Responses are written in one piece: waiting for more only delays them.
    set_nodelay(&stream)?;
    // Connections of a Unix socket need passwords but no TLS.
    let stream = match tls.filter(|_| !connection.peer.is_unix()) {
        None => Either::Left(stream),
        Some(acceptor) => Either::Right(acceptor.accept(stream).await?),
    };
    let io = TokioIo::new(InspectReader::new(stream, |bytes: &[u8]| {
        connection.bytes_received(bytes)
    }));
    let service = service_fn(|request: Request<Incoming>| async move {
        connection.begin_serving();
        let response = router.respond(request.map(drop), connection.peer).await;
        connection.finish_request(!response.status().is_client_error());
        Ok::<_, Infallible>(response)
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    let mut http_connection = pin!(
        http.max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(io, service)
    );
    tokio::select! {
        served_result = http_connection.as_mut() => return Ok(served_result?),
        () = stop.wait() => http_connection.as_mut().graceful_shutdown(),
    }
    Ok(http_connection.await?)
}

#[cfg(test)]
mod tests;
