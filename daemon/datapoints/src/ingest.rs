//! The HTTP listener for the pushes of `SOLANA_METRICS_CONFIG`.
//!
//! A push is `POST <anything>/write?db=&u=&p=&precision=n`, plain or gzip. The body is split into
//! lines while it arrives and is never stored as a whole. The response 204 follows the last byte at
//! once.
//!
//! A bad line does not affect the other lines. Rejected pushes get 401 (wrong credentials), 403
//! (see below) or 413 (larger than [`LIMITS`] allow). Unreadable pushes get 400 (broken gzip,
//! unknown precision), 415 (a content coding other than gzip) or 408 (not complete in time). A body
//! that breaks off is counted as `cut`. Complete lines before an error are still counted.
//!
//! Timestamps are in nanoseconds, as Agave sends them and Influx expects by default. A push with
//! another precision that Influx knows gets 204 and is forwarded, but its lines count as bad.
//!
//! Agave 4 keeps its connection and pushes every 10 s, Agave 2 and 3 open one per push. [`LIMITS`]
//! has the timeouts of an idle connection, a head and a body. TCP and Unix sockets each have a
//! maximum number of connections (`connection_limit`). A connection that is closed within a request
//! to make room is cut at once, and its complete lines count.
//!
//! Pushes from browser pages get 403, because any site can send them. If no password is configured,
//! the user id of the sender decides. A sender gets 403 if its id cannot be found. Once the
//! validator's user is known, a sender gets 403 if it is neither that user nor in `allow_users`.
//!
//! Memory: a read buffer of at most 16 KiB per connection; [`faultline_core::push_memory`] limits
//! the pushes.

mod connection;
mod counters;
mod handler;
mod request;

pub use counters::IngestCounters;

use crate::{forward, validator::intake};
use faultline_agave::config::SolanaMetricsConfig;
use faultline_core::{
    clock::Clock,
    config::{self, Credentials},
    connection_limit::{Connections, MAX_CLOSING_CONNECTIONS, accept},
    push_memory::PushMemoryBudget,
    socket::{self, BoundSocket, ListenAddress, PeerUserError, Stream},
    supervisor::Stop,
};
use faultline_metrics::Stamp;
use std::{io, net::SocketAddr, sync::Arc, time::Duration};

pub const HEALTH_RESPONSE: &str = "{\"status\":\"pass\"}\n";
/// Limited, because each connection may need memory for a push ([`faultline_core::push_memory`]).
const MAX_CONNECTIONS: usize = 128;
/// Share of [`MAX_CONNECTIONS`] for Unix sockets.
const MAX_UNIX_CONNECTIONS: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "ingest.listen: {0} is not a loopback address; pushes carry their password in the clear, so listen on 127.0.0.1 or [::1], or set beyond_loopback = true with db, user and password_file"
    )]
    NotLoopback(ListenAddress),
    #[error(
        "ingest.listen: {0} is in use: `ss -ltnp` shows by which program; stop it, or set ingest.listen to a free port, and the same port in the validator's SOLANA_METRICS_CONFIG"
    )]
    InUse(SocketAddr),
    #[error("ingest.listen: cannot listen on {address}: {source}")]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
}

/// The user of a connection's peer. It decides whether the pushes are accepted.
#[derive(Clone, Copy)]
pub enum PeerUser {
    /// Not looked up: a password decides.
    Unchecked,
    /// A user of `allow_users`, who may relay pushes of other users.
    Allowed,
    /// Pushes of this user count only if the validator runs as it.
    Other(u32),
    Unknown(PeerUserError),
}

impl PeerUser {
    fn lookup(stream: &Stream, config: &config::Ingest) -> Self {
        if config.credentials.is_some() {
            return Self::Unchecked;
        }
        match socket::peer_uid(stream) {
            Ok(user) if config.allow_users.contains(&user) => Self::Allowed,
            Ok(user) => Self::Other(user),
            Err(error) => Self::Unknown(error),
        }
    }
}

/// Receives pushes. Implemented by [`intake::Intake`], and by tests.
pub trait PushSink: Clone + Send + Sync + 'static {
    type Push: LineSink;

    fn admits(&self, user: PeerUser, now: Stamp) -> bool;

    fn begin(&self, user: PeerUser, now: Stamp) -> Self::Push;

    /// Called exactly once for every [`PushSink::begin`], complete or not.
    fn commit(&self, push: Self::Push, at: Stamp);
}

pub trait LineSink: Send + 'static {
    fn add_line(&mut self, line: &[u8]);

    /// Counts an incomplete line, or one with invalid content.
    fn count_bad_line(&mut self);
}

impl PushSink for intake::Intake {
    type Push = intake::Push;

    fn admits(&self, user: PeerUser, now: Stamp) -> bool {
        match user {
            PeerUser::Unchecked | PeerUser::Allowed => true,
            PeerUser::Other(user) => self.admits_user(user, now),
            PeerUser::Unknown(error) => {
                self.record_refusal(error.to_string(), now);
                false
            }
        }
    }

    fn begin(&self, user: PeerUser, now: Stamp) -> intake::Push {
        match user {
            PeerUser::Unchecked => self.begin_trusted(now),
            PeerUser::Other(user) => self.begin_from_user(user, now),
            // An unknown user is not admitted and never gets here.
            PeerUser::Allowed | PeerUser::Unknown(_) => self.begin_unproven(now),
        }
    }

    fn commit(&self, push: intake::Push, at: Stamp) {
        Self::commit(self, push, at);
    }
}

impl LineSink for intake::Push {
    fn add_line(&mut self, line: &[u8]) {
        Self::add_line(self, line);
    }

    fn count_bad_line(&mut self) {
        Self::count_bad_line(self);
    }
}

pub struct Listener<I> {
    sockets: Vec<BoundSocket>,
    shared: Arc<Shared<I>>,
}

struct Shared<I> {
    intake: I,
    clock: Clock,
    push_memory: PushMemoryBudget,
    forward: Option<forward::Handle>,
    config: config::Ingest,
    counters: IngestCounters,
    limits: Limits,
}

#[derive(Clone, Copy)]
struct Limits {
    /// Decoded bytes.
    body_bytes: u64,
    tcp_connections: usize,
    idle_timeout: Duration,
    /// From the first byte of a request to the end of its head.
    head_timeout: Duration,
    body_timeout: Duration,
}

const LIMITS: Limits = Limits {
    // Agave's own limit of 40,000 points per push makes 20 MiB.
    body_bytes: 64 * 1024 * 1024,
    tcp_connections: MAX_CONNECTIONS - MAX_UNIX_CONNECTIONS - MAX_CLOSING_CONNECTIONS,
    // Well above Agave's 10 s: a connection that closes at the moment of a push loses it.
    idle_timeout: Duration::from_secs(75),
    head_timeout: Duration::from_secs(10),
    // Agave itself gives up after 5 s.
    body_timeout: Duration::from_secs(60),
};

/// Checks the configured address without binding it.
///
/// # Errors
/// The address is not loopback, and the configuration does not allow others.
pub fn check(config: &config::Ingest) -> Result<(), Error> {
    check_address(config, &ListenAddress::Tcp(config.listen))
}

/// True if a validator with this `SOLANA_METRICS_CONFIG` sends the required credentials.
pub fn has_credentials(metrics_config: &SolanaMetricsConfig, required: &Credentials) -> bool {
    metrics_config
        .write_url()
        .rsplit_once('?')
        .is_some_and(|(_, query)| request::Query(query).matches_credentials(required))
}

fn check_address(config: &config::Ingest, listen_address: &ListenAddress) -> Result<(), Error> {
    if listen_address.is_local() || config.beyond_loopback {
        Ok(())
    } else {
        Err(Error::NotLoopback(listen_address.clone()))
    }
}

impl<I: PushSink> Listener<I> {
    /// Binds the configured address if `sockets` is empty.
    ///
    /// # Errors
    /// An address is not loopback, or cannot be bound.
    pub fn build(
        config: &config::Ingest,
        mut sockets: Vec<BoundSocket>,
        intake: I,
        clock: Clock,
        push_memory: PushMemoryBudget,
        forward: Option<forward::Handle>,
    ) -> Result<Self, Error> {
        if sockets.is_empty() {
            check(config)?;
            let address = config.listen;
            let bound = BoundSocket::bind_tcp(address).map_err(|source| match source.kind() {
                io::ErrorKind::AddrInUse => Error::InUse(address),
                _ => Error::Listen { address, source },
            });
            sockets.push(bound?);
        }
        for socket in &sockets {
            check_address(config, &socket.listen_address)?;
        }
        let shared = Arc::new(Shared {
            intake,
            clock,
            push_memory,
            forward,
            config: config.clone(),
            counters: IngestCounters::default(),
            limits: LIMITS,
        });
        Ok(Self { sockets, shared })
    }

    pub fn listen_addresses(&self) -> Vec<String> {
        socket::listen_addresses(&self.sockets)
    }

    pub fn local_addr(&self) -> Option<SocketAddr> {
        socket::first_tcp_address(&self.sockets)
    }

    pub fn counters(&self) -> IngestCounters {
        self.shared.counters.clone()
    }

    /// Serves until `stop`. Connections are tasks that end with this one.
    pub async fn run(self, stop: Stop) {
        let Self { sockets, shared } = self;
        let connections = Connections::new(
            "ingest",
            shared.limits.tcp_connections,
            MAX_UNIX_CONNECTIONS,
        );
        let serve = |stream: Stream, connection| {
            // Looked up at once, because a closed socket has no user.
            let user = PeerUser::lookup(&stream, &shared.config);
            connection::serve(stream, user, connection, Arc::clone(&shared), stop.clone())
        };
        accept(sockets, connections, shared.clock, &stop, serve).await;
    }
}

#[cfg(test)]
mod tests;
