//! The validator's metrics sink: an HTTP listener that takes what an Agave validator pushes to `SOLANA_METRICS_CONFIG`.
//!
//! * A push is `POST <anything>/write?db=&u=&p=&precision=n`. Its body is split into lines while it arrives and is never
//!   held whole; plain or gzip. The answer, 204, follows the last byte and waits for nobody.
//! * A bad line costs itself. A well-formed push is refused for three reasons only: 401 (other credentials than the
//!   configured ones), 403 (below) and 413 (more than [`MAX_BODY`] bytes). What cannot be read at all is 400 (broken gzip, unknown
//!   precision), 415 (another coding) or 408 (not complete within [`BODY_TIME`]); a body that breaks off is counted as
//!   `cut`. Lines that arrived before any of these count.
//! * Timestamps are nanoseconds, which is what Agave sends and Influx assumes. The lines of a push in another precision
//!   are not Agave's: each counts as bad, the push is answered 204 and passed on with its precision.
//! * Bodies answered with 204 are passed on if forwarding is configured, see [`crate::forward`].
//! * Agave 4 keeps its connection and pushes every 10 s, Agave 2 and 3 open one per push. An idle connection is kept for
//!   [`IDLE_TIME`], a head may take [`HEAD_TIME`] and a body [`BODY_TIME`]. Of [`MAX_CONNECTIONS`], one makes room for
//!   each new one at once, slow ones first (`connection_limit`): nobody keeps a push out by holding on. One that idles is told and
//!   heard on for a moment, one in the middle of a request is cut, and its complete lines count.
//! * A push of a page in a browser is refused (403): other sites may send one without asking.
//! * Where no password is configured, so is one of another user than the validator's, and one whose user is not known.
//!
//! Memory: a connection has a read buffer of at most 16 KiB, a push in progress what [`crate::push_memory`] allows.

mod connection;
mod decode;
mod lines;
mod meter;
mod reception;
mod request;

pub use lines::{Intake, PeerUser, Push};
pub use meter::Meter;

use crate::accept;
use crate::clock::Clock;
use crate::config::{self, Credentials};
use crate::connection_limit::{Connections, MAX_LEAVING};
use crate::forward;
use crate::push_memory::Budget;
use crate::socket::{self, Bound, ListenAddress, Stream};
use crate::supervisor::Stop;
use faultline_agave::config::MetricsConfig;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The longest body, decoded. Agave's own limit of 40,000 points per push makes 20 MiB.
pub const MAX_BODY: u64 = 64 * 1024 * 1024;
/// What is answered to who asks for `/health`.
pub(crate) const HEALTH: &str = "{\"status\":\"pass\"}\n";
/// How many connections are served at once: as many as there is memory for ([`crate::push_memory`]).
pub const MAX_CONNECTIONS: usize = 128;
/// Of these, on sockets in the file system.
const FILE_SYSTEM: usize = 16;
/// How long a connection may wait for its next request: well above Agave's 10 s, because a connection closed in the
/// moment of a push loses that push.
pub const IDLE_TIME: Duration = Duration::from_secs(75);
/// How long the head of a request may take from its first byte.
pub const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long a body may take. Agave itself gives up after 5 s.
pub const BODY_TIME: Duration = Duration::from_secs(60);

/// Why the listener cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Others could push, and nobody has said that they may.
    #[error(
        "ingest.listen: {0} is not a loopback address; pushes carry their password in the clear, so listen on 127.0.0.1 or [::1], or set beyond_loopback = true with db, user and password_file"
    )]
    NotLoopback(ListenAddress),
    /// Somebody else listens there.
    #[error(
        "ingest.listen: {0} is in use: `ss -ltnp` shows by which program; stop it, or set ingest.listen to a free port, and the same port in the validator's SOLANA_METRICS_CONFIG"
    )]
    InUse(SocketAddr),
    #[error("ingest.listen: cannot listen on {address}: {source}")]
    Listen {
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// What a listener works with.
pub struct IngestParts<I> {
    pub intake: I,
    /// Tells the time of a push.
    pub clock: Clock,
    pub budget: Budget,
    /// Where bodies are passed on to, if they are.
    pub forward: Option<forward::Handle>,
}

pub struct Listener<I> {
    sockets: Vec<Bound>,
    shared: Arc<Shared<I>>,
}

/// What all connections have in common.
struct Shared<I> {
    parts: IngestParts<I>,
    config: config::Ingest,
    meter: Meter,
    limits: Limits,
}

/// Times and sizes; others in tests.
#[derive(Debug, Clone, Copy)]
struct Limits {
    body: u64,
    connections: usize,
    idle: Duration,
    head: Duration,
    body_time: Duration,
}

const LIMITS: Limits = Limits {
    body: MAX_BODY,
    connections: MAX_CONNECTIONS - FILE_SYSTEM - MAX_LEAVING,
    idle: IDLE_TIME,
    head: HEAD_TIME,
    body_time: BODY_TIME,
};

/// Whether the configured address may be listened on; binds nothing.
///
/// # Errors
/// Not a loopback address, and nobody has said that others may push.
pub fn check(config: &config::Ingest) -> Result<(), Error> {
    allowed(config, &ListenAddress::Tcp(config.listen))
}

/// Whether pushes of a validator with this configuration carry the wanted credentials.
pub(crate) fn accepts(wanted: &Credentials, pushed: &MetricsConfig) -> bool {
    let url = pushed.write_url();
    url.rsplit_once('?')
        .is_some_and(|(_, query)| request::Query::parse(query).names(wanted))
}

fn allowed(config: &config::Ingest, place: &ListenAddress) -> Result<(), Error> {
    if place.is_local() || config.beyond_loopback {
        Ok(())
    } else {
        Err(Error::NotLoopback(place.clone()))
    }
}

impl<I: Intake> Listener<I> {
    /// Binds the configured address.
    ///
    /// # Errors
    /// Not a loopback address, or the system does not give it.
    pub fn build(config: &config::Ingest, parts: IngestParts<I>) -> Result<Self, Error> {
        check(config)?;
        let address = config.listen;
        let bound = Bound::tcp(address).map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => Error::InUse(address),
            _ => Error::Listen { address, source },
        })?;
        Self::from_sockets(vec![bound], config, parts)
    }

    /// Takes sockets that somebody else has bound, such as systemd.
    ///
    /// # Errors
    /// One of them is not on a loopback address.
    pub fn from_sockets(
        sockets: Vec<Bound>,
        config: &config::Ingest,
        parts: IngestParts<I>,
    ) -> Result<Self, Error> {
        sockets
            .iter()
            .try_for_each(|socket| allowed(config, socket.place()))?;
        let shared = Arc::new(Shared {
            parts,
            config: config.clone(),
            meter: Meter::default(),
            limits: LIMITS,
        });
        Ok(Listener { sockets, shared })
    }

    /// Where it listens, with the ports the system chose if 0 was configured.
    pub fn places(&self) -> Vec<String> {
        socket::places(&self.sockets)
    }

    /// Its first address, with its real port; `None` if it listens in the file system only.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        socket::first_tcp(&self.sockets)
    }

    /// What it counts, for as long as the daemon lives.
    pub fn meter(&self) -> Meter {
        self.shared.meter.clone()
    }

    /// Serves until `stop`. Connections are tasks that end with this one.
    pub async fn run(self, stop: Stop) {
        let Listener { sockets, shared } = self;
        let connections = Connections::new("ingest", shared.limits.connections, FILE_SYSTEM);
        let serve = |stream: Stream, connection| {
            // At once: a sender that has closed its socket has no user any more.
            let user = PeerUser::of(&stream, &shared.config);
            connection::serve(
                (stream, user),
                connection,
                Arc::clone(&shared),
                stop.clone(),
            )
        };
        accept::run(sockets, connections, shared.parts.clock, &stop, serve).await;
    }
}

#[cfg(test)]
impl<I: Intake> Listener<I> {
    fn with_limits(mut self, limits: Limits) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.limits = limits;
        }
        self
    }
}

#[cfg(test)]
mod tests;
