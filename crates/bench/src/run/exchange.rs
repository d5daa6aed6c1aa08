//! One request and its answer, over a connection that is kept.

use crate::answer::{Decoded, Decoder};
use crate::failure::Failure;
use crate::http::{Link, Opened, Raw};
use crate::plan::{Cell, Plan};
use faultline_command::clock;
use hyper::StatusCode;
use std::time::Duration;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// One worker's connections, one for each kind in the plan.
pub(crate) struct Connections {
    links: Vec<Option<Link>>,
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
        Connections { links: plan.links.iter().map(|_| None).collect(), tls }
    }

    /// Connects for that cell if there is no connection. One that fails is the next request's failure.
    pub(crate) async fn open(&mut self, plan: &Plan, cell: &Cell) {
        let place = cell.link;
        let (Some(kind), Some(kept)) = (plan.links.get(place), self.links.get_mut(place)) else { return };
        if kept.is_none() {
            let opened = timeout(plan.timeout, Link::open(kind, self.tls.as_ref())).await;
            *kept = opened.ok().and_then(Result::ok).map(|opened| opened.link);
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
        let place = cell.link;
        let begun = clock::uptime();
        let left = plan.timeout.saturating_sub(begun.saturating_sub(at));
        if left.is_zero() {
            // A timer that is over lets what it times begin: nothing is sent, and the connection is as good as before.
            return Err(Failure::Timeout);
        }
        let asked = match timeout(left, self.ask(plan, place, cell, id)).await {
            Ok(asked) => asked,
            Err(_) => Err(Failure::Timeout),
        };
        let (raw, connect, tls) = match asked {
            Ok(asked) => asked,
            Err(failure) => {
                self.links.get_mut(place).map(Option::take);
                return Err(failure);
            }
        };
        let cpu = clock::thread_cpu();
        let decoded = decoded(&raw, id, cell, decoder);
        let decode_cpu = clock::thread_cpu().saturating_sub(cpu);
        let done = clock::uptime();
        let first_byte = raw.first_byte.saturating_sub(begun + connect + tls);
        let transfer = raw.end.saturating_sub(raw.first_byte);
        let phases = [begun.saturating_sub(at), connect, tls, first_byte, transfer, done.saturating_sub(raw.end)];
        Ok(Exchanged { phases, decoded: decoded?, decode_cpu, sent: raw.sent, received: raw.received })
    }

    async fn ask(
        &mut self,
        plan: &Plan,
        place: usize,
        cell: &Cell,
        id: u64,
    ) -> Result<(Raw, Duration, Duration), Failure> {
        let (kind, kept) = plan.links.get(place).zip(self.links.get_mut(place)).ok_or(Failure::Connect)?;
        let usable = match kept {
            Some(link) => link.is_usable().await,
            None => false,
        };
        let (mut connect, mut tls) = (Duration::ZERO, Duration::ZERO);
        if !usable {
            let Opened { link, connect: took, tls: shook } = Link::open(kind, self.tls.as_ref()).await?;
            *kept = Some(link);
            (connect, tls) = (took, shook);
        }
        let link = kept.as_mut().ok_or(Failure::Connect)?;
        let raw = link.ask(&kind.endpoint, cell.body(id, (plan.seed, plan.round_of(id))), plan.limit).await?;
        Ok((raw, connect, tls))
    }
}

fn decoded(raw: &Raw, id: u64, cell: &Cell, decoder: &mut Decoder) -> Result<Decoded, Failure> {
    match raw.status {
        StatusCode::OK => decoder.decode(&raw.body, id, cell.expected),
        StatusCode::TOO_MANY_REQUESTS => Err(Failure::RateLimited(raw.retry_after)),
        other => Err(Failure::Http(other.as_u16())),
    }
}
