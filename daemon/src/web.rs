//! The web face: `/metrics` for scrapers, `/` for people, `/status` for programs, `/healthz` and `/readyz` for whoever starts and watches.
//!
//! Everything is answered from the newest tick, of which a request copies a pointer: no client, however slow, holds a
//! tick up. What connections share is bounded (their number, time, pages kept).

mod answer;
mod auth;
mod config;
mod connection;
mod error;
mod flight_save;
mod guesses;
mod health;
mod landing;
mod mark;
mod request_checks;
mod scrape;
mod tls;

pub use error::WebError;
pub use health::{Stale, health};

use crate::accept;
use crate::auth_failures::AuthFailures;
use crate::clock::Clock;
use crate::config::{Find, Metrics};
use crate::connection_limit::Connections;
use crate::flight;
use crate::hub::Latest;
use crate::recorder;
use crate::sinks::history::History;
use crate::sinks::prometheus::{ConstantLabels, DroppedSeries};
use crate::socket::{self, Bound};
use crate::supervisor::Stop;
use answer::Site;
use faultline_catalog::Tick;
use request_checks::Names;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Open connections at once; each one more closes another ([`crate::connection_limit`]).
const MOST_CONNECTIONS: usize = 64;

/// Of these, on sockets in the file system.
const FILE_SYSTEM: usize = 16;

/// What the pages are made of.
#[derive(Debug, Clone)]
pub struct WebState {
    /// For ages and deadlines.
    pub clock: Clock,
    /// From tick to tick; what counts as too old follows from it.
    pub interval: Duration,
    /// The newest tick; register the same value as a sink of the hub.
    pub ticks: Latest<Tick>,
    /// The last minute; register the same value as a sink of the hub.
    pub history: History,
    /// Labels for every `agave_` series; empty unless `metrics.constant_labels_everywhere` is set.
    pub constant: ConstantLabels,
    /// What the landing page says beside the tick.
    pub page: Arc<PageInfo>,
    /// What takes marks; `None` if nothing is recorded.
    pub recorder: Option<recorder::Handle>,
    /// What saves the flight recording; `None` if it is off.
    pub flight: Option<flight::Handle>,
    /// The machine's own name, by which it may be asked for too; `None` if it is not known.
    pub host_name: Option<String>,
    pub auth_failures: AuthFailures,
    /// Counts series that pages leave out.
    pub dropped_series: DroppedSeries,
}

/// What the landing page says that is in no tick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageInfo {
    pub version: &'static str,
    /// How the validator is looked for, in words; ends a sentence that begins with "It is looked for".
    pub search: String,
    /// Address of the documentation; no link without it.
    pub docs: Option<String>,
}

impl PageInfo {
    /// Describes the search as configured.
    pub fn new(version: &'static str, find: &Find, docs: Option<String>) -> Self {
        let search = match find {
            Find::Scan => {
                "among all processes, by what validators are called and how they are started"
                    .to_owned()
            }
            Find::ProcessTree(pid) => format!("below process {pid} (--process-tree)"),
            Find::Pid(pid) => format!("as process {pid} (target.pid)"),
            Find::Ledger(ledger) => {
                format!(
                    "as the process that serves the ledger {} (target.ledger)",
                    faultline_text::path(ledger)
                )
            }
            Find::Unit(unit) => format!("in the systemd unit {unit} (target.unit)"),
            Find::ProcessName(name) => format!("as a process named {name} (target.process_name)"),
        };
        PageInfo {
            version,
            search,
            docs,
        }
    }
}

/// Reads the web config file and what it names, and binds nothing; every mistake.
pub fn check(config: &Metrics) -> Vec<WebError> {
    let Some(path) = &config.web_config else {
        return protected(config.listen, None).err().into_iter().collect();
    };
    let (web, mut mistakes) = config::WebConfig::read(path);
    mistakes.extend(web.tls.iter().flat_map(tls::TlsFiles::mistakes));
    if mistakes.is_empty() {
        mistakes.extend(protected(config.listen, Some(&web)).err());
    }
    mistakes
}

/// What an operator should know of the web config file although it can be used, at this time since 1970; and the files
/// with secrets: itself, and the key it names.
pub fn warnings(config: &Metrics, now: Duration) -> (Vec<String>, Vec<PathBuf>) {
    let (Some(path), Ok(Some(web))) = (&config.web_config, load(config)) else {
        return Default::default();
    };
    let key = web.tls.as_ref().map(|tls| tls.key.clone());
    let dated = web.tls.as_ref().and_then(|tls| tls.warning(now));
    let users = web.users.iter().flat_map(auth::Users::warnings);
    let told = users
        .map(|what| format!("{}: {what}", path.display()))
        .chain(dated)
        .collect();
    (told, std::iter::once(path.clone()).chain(key).collect())
}

/// The web config file, if there is one.
fn load(config: &Metrics) -> Result<Option<config::WebConfig>, WebError> {
    let web = config
        .web_config
        .as_deref()
        .map(config::WebConfig::load)
        .transpose()?;
    protected(config.listen, web.as_ref())?;
    Ok(web)
}

/// Any address but loopback needs a web config file that protects it.
fn protected(listen: SocketAddr, web: Option<&config::WebConfig>) -> Result<(), WebError> {
    match web {
        _ if listen.ip().to_canonical().is_loopback() => Ok(()),
        None => Err(WebError::Exposed { listen }),
        Some(web) if !web.protects() => Err(WebError::Unprotected {
            listen,
            path: web.path.clone(),
        }),
        Some(_) => Ok(()),
    }
}

/// A bound socket and everything needed to answer on it.
#[derive(Debug)]
pub struct Server {
    sockets: Vec<Bound>,
    site: Arc<Site>,
    tls: Option<Arc<tls::Acceptor>>,
}

impl Server {
    /// Loads the web config file and binds the socket. Nothing is answered before [`Server::run`], but clients can
    /// connect from here on. Needs no runtime.
    ///
    /// # Errors
    /// The address cannot be bound; it is not loopback and nothing protects it; the web config file, or a file it
    /// names, cannot be read or used.
    pub fn build(config: &Metrics, state: WebState) -> Result<Server, WebError> {
        let listen = config.listen;
        let web = load(config)?;
        let bound = Bound::tcp(listen).map_err(|source| WebError::Bind { listen, source })?;
        Self::with(vec![bound], web, config, state)
    }

    /// The same with sockets that somebody else has bound, instead of the configured address.
    pub fn from_sockets(
        sockets: Vec<Bound>,
        config: &Metrics,
        state: WebState,
    ) -> Result<Server, WebError> {
        let web = config
            .web_config
            .as_deref()
            .map(config::WebConfig::load)
            .transpose()?;
        for listen in sockets.iter().filter_map(|socket| socket.place().tcp()) {
            protected(listen, web.as_ref())?;
        }
        Self::with(sockets, web, config, state)
    }

    fn with(
        sockets: Vec<Bound>,
        web: Option<config::WebConfig>,
        config: &Metrics,
        state: WebState,
    ) -> Result<Server, WebError> {
        let exposed = sockets.iter().find(|socket| !socket.place().is_local());
        if let (Some(socket), Some(web)) = (exposed, &web)
            && web.tls.is_none()
        {
            let (listen, file) = (socket.place(), web.path.display());
            tracing::warn!(%listen, %file, "passwords are sent in clear text: add tls_server_config");
        }
        let (tls, users, headers) = match web {
            Some(web) => (
                web.tls.map(tls::Acceptor::new).transpose()?,
                web.users,
                web.headers,
            ),
            None => Default::default(),
        };
        // Behind a password or a certificate a page of another site has nothing to gain from a name of its own.
        let names = (tls.is_none() && users.is_none())
            .then(|| Names::new(&config.hosts, state.host_name.as_deref()));
        let site = Site::new(state, users, headers, names, config.native_histograms);
        Ok(Server {
            sockets,
            site: Arc::new(site),
            tls: tls.map(Arc::new),
        })
    }

    /// Where it listens, with the ports the system chose if the configuration says 0.
    pub fn places(&self) -> Vec<String> {
        socket::places(&self.sockets)
    }

    /// Its first address, with its real port; `None` if it listens in the file system only.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        socket::first_tcp(&self.sockets)
    }

    /// The address of its landing page; `None` if it listens in the file system only.
    pub fn page(&self) -> Option<String> {
        let scheme = if self.is_tls() { "https" } else { "http" };
        self.local_addr()
            .map(|address| format!("{scheme}://{address}/"))
    }

    /// Whether it speaks TLS.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Answers until `stop`, then lets open requests finish. Runs on a tokio runtime with I/O and time.
    pub async fn run(self, stop: Stop) {
        let Server { sockets, site, tls } = self;
        let network = MOST_CONNECTIONS - FILE_SYSTEM;
        let connections = Connections::new("metrics", network, FILE_SYSTEM);
        let clock = site.clock();
        let serve = |stream, connection| {
            connection::serve(
                stream,
                tls.clone(),
                Arc::clone(&site),
                connection,
                stop.clone(),
            )
        };
        accept::run(sockets, connections, clock, &stop, serve).await;
    }
}

#[cfg(test)]
mod tests;
