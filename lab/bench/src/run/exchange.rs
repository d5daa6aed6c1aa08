use crate::answer::{Decoded, Decoder};
use crate::failure::Failure;
use crate::http::{Link, Opened, RawAnswer};
use crate::plan::{Cell, LinkKind, Plan};
use crate::protocol::Protocol;
use crate::socket::Socket;
use faultline_common::clock;
use hyper::StatusCode;
use hyper::body::Bytes;
use std::time::Duration;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// For smaller answers, the elapsed time counts as CPU time.
const MIN_BYTES_FOR_CPU_CLOCK: usize = 512;

enum Connection {
    Http(Link),
    Socket(Box<Socket>),
}

impl Connection {
    async fn open(
        kind: &LinkKind,
        tls: Option<&TlsConnector>,
        limit: usize,
        time_limit: Duration,
    ) -> Result<Opened<Connection>, Failure> {
        Ok(if kind.protocol == Protocol::WebSocket {
            let opened = Socket::open(kind, tls, limit, time_limit).await?;
            opened.map(|socket| Connection::Socket(Box::new(socket)))
        } else {
            let opened = Link::open(kind, tls, time_limit).await?;
            opened.map(Connection::Http)
        })
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

pub(crate) struct Connections {
    links: Vec<Option<Connection>>,
    tls: Option<TlsConnector>,
}

#[derive(Debug)]
pub(crate) struct Exchanged {
    pub(crate) phases: [Duration; 6],
    pub(crate) decoded: Decoded,
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

    /// An error becomes the next request's failure.
    pub(crate) async fn open(&mut self, plan: &Plan, cell: &Cell) {
        let index = cell.link;
        let (Some(kind), Some(connection)) = (plan.links.get(index), self.links.get_mut(index))
        else {
            return;
        };
        if connection.is_none() && kind.protocol != Protocol::HttpNew {
            let opened = Connection::open(kind, self.tls.as_ref(), plan.limit, plan.timeout);
            if let Ok(Ok(opened)) = timeout(plan.timeout, opened).await {
                *connection = Some(opened.link);
            }
        }
    }

    /// Scheduled for `at`. A failure drops the connection.
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
            // Nothing was sent, so the connection stays usable.
            return Err(Failure::Timeout);
        }
        let requested = timeout(left, self.ask(plan, cell, id, left)).await;
        let requested = requested.unwrap_or(Err(Failure::Timeout));
        let (raw, connect, tls) = requested.inspect_err(|_| {
            self.links.get_mut(index).map(Option::take);
        })?;
        // Reading the CPU clock costs more than decoding a small answer.
        let cpu = (raw.body.len() >= MIN_BYTES_FOR_CPU_CLOCK).then(clock::thread_cpu);
        let decoded = decoded(&raw, id, cell, decoder);
        let decode_cpu = cpu.map(|cpu| clock::thread_cpu().saturating_sub(cpu));
        let done = clock::uptime();
        let is_unclear = matches!(decoded, Err(Failure::WrongId | Failure::Malformed));
        if let Some(link) = self.links.get_mut(index)
            && is_unclear
            && matches!(link, Some(Connection::Socket(_)))
        {
            // On an open socket, a late answer could be taken for the next one.
            *link = None;
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
        cell: &Cell,
        id: u64,
        left: Duration,
    ) -> Result<(RawAnswer, Duration, Duration), Failure> {
        let kind = plan.link(cell).ok_or(Failure::Closed)?;
        let connection = self.links.get_mut(cell.link).ok_or(Failure::Closed)?;
        let usable = match connection {
            Some(link) => link.is_usable().await,
            None => false,
        };
        let (mut connect, mut tls) = (Duration::ZERO, Duration::ZERO);
        if !usable {
            let opened = Connection::open(kind, self.tls.as_ref(), plan.limit, left).await?;
            (connect, tls) = (opened.connect, opened.tls);
            *connection = Some(opened.link);
        }
        let link = connection.as_mut().ok_or(Failure::Closed)?;
        let raw = link.ask(plan.body(cell, id), plan.limit).await?;
        if kind.protocol == Protocol::HttpNew {
            *connection = None;
        }
        Ok((raw, connect, tls))
    }
}

fn decoded(
    raw: &RawAnswer,
    id: u64,
    cell: &Cell,
    decoder: &mut Decoder,
) -> Result<Decoded, Failure> {
    match raw.status {
        StatusCode::OK => decoder.decode(&raw.body, id, cell.expected),
        other => Err(Failure::of_status(other, raw.retry_after)),
    }
}
