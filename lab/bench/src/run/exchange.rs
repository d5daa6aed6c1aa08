use crate::{
    answer::Decoder,
    failure::Failure,
    http::HttpConnection,
    plan::{Cell, LinkConfig, Plan},
    protocol::Protocol,
    results::{Timing, ns},
    socket::Socket,
    stream::RawAnswer,
};
use faultline_common::clock;
use hyper::{StatusCode, body::Bytes};
use std::time::Duration;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// For smaller answers, the elapsed time counts as CPU time.
const MIN_BYTES_FOR_CPU_CLOCK: usize = 512;

enum Connection {
    Http(HttpConnection),
    Socket(Box<Socket>),
}

impl Connection {
    async fn open(
        kind: &LinkConfig,
        tls: Option<&TlsConnector>,
        limit: usize,
        time_limit: Duration,
    ) -> Result<Connection, Failure> {
        Ok(if kind.protocol == Protocol::WebSocket {
            let socket = Socket::open(kind, tls, limit, time_limit).await?;
            Connection::Socket(Box::new(socket))
        } else {
            Connection::Http(HttpConnection::open(kind, tls, time_limit).await?)
        })
    }

    fn opened_in(&self) -> [Duration; 2] {
        match self {
            Connection::Http(link) => link.traffic.opened_in,
            Connection::Socket(socket) => socket.traffic.opened_in,
        }
    }

    async fn is_usable(&mut self) -> bool {
        match self {
            Connection::Http(link) => link.is_usable().await,
            Connection::Socket(socket) => socket.is_usable(),
        }
    }

    async fn ask(&mut self, body: Bytes, limit: usize) -> Result<RawAnswer, Failure> {
        match self {
            Connection::Http(link) => link.ask(body, limit).await,
            Connection::Socket(socket) => socket.ask(&body).await,
        }
    }
}

pub struct Connections {
    links: Vec<Option<Connection>>,
    tls: Option<TlsConnector>,
}

impl Connections {
    pub fn new(plan: &Plan, tls: Option<TlsConnector>) -> Connections {
        Connections {
            links: plan.links.iter().map(|_| None).collect(),
            tls,
        }
    }

    /// An error becomes the next request's failure.
    pub async fn open(&mut self, plan: &Plan, cell: &Cell) {
        let (kind, connection) = (plan.link(cell), &mut self.links[cell.link]);
        if connection.is_none() && kind.protocol != Protocol::HttpNew {
            let opened = Connection::open(kind, self.tls.as_ref(), plan.limit, plan.timeout);
            if let Ok(Ok(opened)) = timeout(plan.timeout, opened).await {
                *connection = Some(opened);
            }
        }
    }

    /// Scheduled for `at`. A failure drops the connection.
    pub async fn exchange(
        &mut self,
        plan: &Plan,
        cell: &Cell,
        id: u64,
        decoder: &mut Decoder,
        at: Duration,
    ) -> Result<Timing, Failure> {
        let begun = clock::uptime();
        let left = plan.timeout.saturating_sub(begun.saturating_sub(at));
        if left.is_zero() {
            // Nothing was sent, so the connection stays usable.
            return Err(Failure::Timeout);
        }
        let requested = timeout(left, self.ask(plan, cell, id, left)).await;
        let requested = requested.unwrap_or(Err(Failure::Timeout));
        let (raw, opened_in) = requested.inspect_err(|_| self.links[cell.link] = None)?;
        // Reading the CPU clock costs more than decoding a small answer.
        let cpu = (raw.body.len() >= MIN_BYTES_FOR_CPU_CLOCK).then(clock::thread_cpu);
        let decoded = decoded(&raw, id, cell, decoder);
        let decode_cpu = cpu.map(|cpu| clock::thread_cpu().saturating_sub(cpu));
        let [connect, tls, first_byte, transfer, decode] = raw.phases(begun, opened_in);
        let is_unclear = matches!(decoded, Err(Failure::WrongId | Failure::Malformed));
        if is_unclear && matches!(self.links[cell.link], Some(Connection::Socket(_))) {
            // On an open socket, a late answer could be taken for the next one.
            self.links[cell.link] = None;
        }
        decoded?;
        let queued = begun.saturating_sub(at);
        Ok(Timing {
            phases: [queued, connect, tls, first_byte, transfer, decode].map(ns),
            decode_cpu_ns: ns(decode_cpu.unwrap_or(decode)),
            sent: raw.sent,
            received: raw.received,
        })
    }

    async fn ask(
        &mut self,
        plan: &Plan,
        cell: &Cell,
        id: u64,
        left: Duration,
    ) -> Result<(RawAnswer, [Duration; 2]), Failure> {
        let (kind, connection) = (plan.link(cell), &mut self.links[cell.link]);
        let usable = match connection {
            Some(link) => link.is_usable().await,
            None => false,
        };
        let mut opened_in = [Duration::ZERO; 2];
        if !usable {
            let opened = Connection::open(kind, self.tls.as_ref(), plan.limit, left).await?;
            opened_in = opened.opened_in();
            *connection = Some(opened);
        }
        let link = connection.as_mut().ok_or(Failure::Closed)?;
        let raw = link.ask(plan.body(cell, id), plan.limit).await?;
        if kind.protocol == Protocol::HttpNew {
            *connection = None;
        }
        Ok((raw, opened_in))
    }
}

fn decoded(raw: &RawAnswer, id: u64, cell: &Cell, decoder: &mut Decoder) -> Result<(), Failure> {
    match raw.status {
        StatusCode::OK => decoder.decode(&raw.body, id, cell.expected),
        other => Err(Failure::of_status(other, raw.retry_after)),
    }
}
