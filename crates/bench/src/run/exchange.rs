//! One request and its answer, over a connection that is kept.

use crate::answer::{Decoded, Decoder};
use crate::failure::Failure;
use crate::http::{Link, Opened, Raw};
use crate::plan::{Cell, LinkKind, Plan};
use crate::protocol::Protocol;
use crate::socket::Socket;
use faultline_command::clock;
use hyper::StatusCode;
use hyper::body::Bytes;
use std::time::Duration;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Bytes of an answer from which on the CPU time of decoding is measured; that of a smaller one is the time that it takes.
const CPU_FROM: usize = 512;

/// A connection, by what is spoken over it.
enum Connection {
    Http(Link),
    Socket(Box<Socket>),
}

impl Connection {
    async fn open(
        kind: &LinkKind,
        tls: Option<&TlsConnector>,
        limit: usize,
        within: Duration,
    ) -> Result<Opened<Connection>, Failure> {
        if kind.protocol == Protocol::WebSocket {
            let Opened { link, connect, tls } = Socket::open(kind, tls, limit, within).await?;
            return Ok(Opened {
                link: Connection::Socket(Box::new(link)),
                connect,
                tls,
            });
        }
        let Opened { link, connect, tls } = Link::open(kind, tls, within).await?;
        Ok(Opened {
            link: Connection::Http(link),
            connect,
            tls,
        })
    }

    async fn is_usable(&mut self) -> bool {
        match self {
            Connection::Http(link) => link.is_usable().await,
            Connection::Socket(socket) => socket.is_usable(),
        }
    }

    async fn ask(&mut self, body: Bytes, limit: usize) -> Result<Raw, Failure> {
        match self {
            Connection::Http(link) => link.ask(body, limit).await,
            Connection::Socket(socket) => socket.ask(&body).await,
        }
    }
}

/// One worker's connections, one for each kind in the plan.
pub(crate) struct Connections {
    links: Vec<Option<Connection>>,
    tls: Option<TlsConnector>,
}

/// A request that was answered.
#[derive(Debug)]
pub(crate) struct Exchanged {
    /// By [`crate::results::PHASES`].
    pub(crate) phases: [Duration; 6],
    pub(crate) decoded: Decoded,
    /// CPU time of decoding.
    pub(crate) decode_cpu: Duration,
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

impl Connections {
    pub(crate) fn new(plan: &Plan, tls: Option<TlsConnector>) -> Connections {
        Connections {
            links: plan.links.iter().map(|_| None).collect(),
            tls,
        }
    }

    /// Connects for that cell if there is no connection. One that fails is the next request's failure.
    pub(crate) async fn open(&mut self, plan: &Plan, cell: &Cell) {
        let index = cell.link;
        let (Some(kind), Some(connection)) = (plan.links.get(index), self.links.get_mut(index))
        else {
            return;
        };
        if connection.is_none() && kind.protocol != Protocol::HttpNew {
            let opened = timeout(
                plan.timeout,
                Connection::open(kind, self.tls.as_ref(), plan.limit, plan.timeout),
            )
            .await;
            *connection = opened.ok().and_then(Result::ok).map(|opened| opened.link);
        }
    }

    /// Sends a request that was to be sent at `at`, and decodes its answer. After a failure the connection is given up.
    pub(crate) async fn exchange(
        &mut self,
        plan: &Plan,
        cell: &Cell,
        id: u64,
        decoder: &mut Decoder,
        at: Duration,
    ) -> Result<Exchanged, Failure> {
        let index = cell.link;
        let begun = clock::uptime();
        let left = plan.timeout.saturating_sub(begun.saturating_sub(at));
        if left.is_zero() {
            // A timer that is over lets what it times begin: nothing is sent, and the connection is as good as before.
            return Err(Failure::Timeout);
        }
        let requested = match timeout(left, self.ask(plan, (index, cell), id, left)).await {
            Ok(requested) => requested,
            Err(_) => Err(Failure::Timeout),
        };
        let (raw, connect, tls) = match requested {
            Ok(requested) => requested,
            Err(failure) => {
                self.links.get_mut(index).map(Option::take);
                return Err(failure);
            }
        };
        // To read the clock of CPU time costs more than to decode a small answer.
        let cpu = (raw.body.len() >= CPU_FROM).then(clock::thread_cpu);
        let decoded = decoded(&raw, id, cell, decoder);
        let decode_cpu = cpu.map(|cpu| clock::thread_cpu().saturating_sub(cpu));
        let done = clock::uptime();
        let is_unclear = matches!(decoded, Err(Failure::WrongId | Failure::Malformed));
        if is_unclear
            && plan
                .links
                .get(index)
                .is_some_and(|kind| kind.protocol == Protocol::WebSocket)
        {
            // What comes next may be the answer to this one.
            self.links.get_mut(index).map(Option::take);
        }
        let first_byte = raw.first_byte.saturating_sub(begun + connect + tls);
        let transfer = raw.end.saturating_sub(raw.first_byte);
        let phases = [
            begun.saturating_sub(at),
            connect,
            tls,
            first_byte,
            transfer,
            done.saturating_sub(raw.end),
        ];
        let decode_cpu = decode_cpu.unwrap_or_else(|| done.saturating_sub(raw.end));
        Ok(Exchanged {
            phases,
            decoded: decoded?,
            decode_cpu,
            sent: raw.sent,
            received: raw.received,
        })
    }

    async fn ask(
        &mut self,
        plan: &Plan,
        (index, cell): (usize, &Cell),
        id: u64,
        left: Duration,
    ) -> Result<(Raw, Duration, Duration), Failure> {
        let (kind, connection) = plan
            .links
            .get(index)
            .zip(self.links.get_mut(index))
            .ok_or(Failure::Closed)?;
        let usable = match connection {
            Some(link) => link.is_usable().await,
            None => false,
        };
        let (mut connect, mut tls) = (Duration::ZERO, Duration::ZERO);
        if !usable {
            let Opened {
                link,
                connect: took,
                tls: shook,
            } = Connection::open(kind, self.tls.as_ref(), plan.limit, left).await?;
            *connection = Some(link);
            (connect, tls) = (took, shook);
        }
        let link = connection.as_mut().ok_or(Failure::Closed)?;
        let raw = link.ask(plan.body(cell, id), plan.limit).await?;
        if kind.protocol == Protocol::HttpNew {
            *connection = None;
        }
        Ok((raw, connect, tls))
    }
}

fn decoded(raw: &Raw, id: u64, cell: &Cell, decoder: &mut Decoder) -> Result<Decoded, Failure> {
    match raw.status {
        StatusCode::OK => decoder.decode(&raw.body, id, cell.expected),
        other => Err(Failure::of_status(other, raw.retry_after)),
    }
}
