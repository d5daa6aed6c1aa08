use crate::{
    answer::Decoder,
    connection::Connection,
    failure::Failure,
    plan::{Case, Plan},
    protocol::Protocol,
    results::{Timing, ns},
    stream::RawAnswer,
};
use faultline_common::clock;
use hyper::StatusCode;
use std::time::Duration;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// For smaller answers, the elapsed time counts as CPU time.
const MIN_BYTES_FOR_CPU_CLOCK: usize = 512;

pub struct Connections {
    /// By index in [`Plan::connections`].
    opened: Vec<Option<Connection>>,
    tls: Option<TlsConnector>,
}

impl Connections {
    pub fn new(plan: &Plan, tls: Option<TlsConnector>) -> Self {
        Self {
            opened: plan.connections.iter().map(|_| None).collect(),
            tls,
        }
    }

    /// Ignores an error, which the next request reports.
    pub async fn open(&mut self, plan: &Plan, case: &Case) {
        let (config, connection) = (
            plan.connection(case),
            &mut self.opened[case.connection_index],
        );
        if connection.is_none() && config.protocol != Protocol::HttpNewConnection {
            let opened = Connection::open(
                config,
                self.tls.as_ref(),
                plan.max_answer_bytes,
                plan.timeout,
            );
            if let Ok(Ok(opened)) = timeout(plan.timeout, opened).await {
                *connection = Some(opened);
            }
        }
    }

    /// Drops the connection if a sent request gets no answer. Drops a WebSocket also after a
    /// malformed answer or a wrong id.
    pub async fn exchange(
        &mut self,
        plan: &Plan,
        case: &Case,
        id: u64,
        decoder: &mut Decoder,
        counted_from: Duration,
    ) -> Result<Timing, Failure> {
        let begun = clock::uptime();
        let left = plan
            .timeout
            .saturating_sub(begun.saturating_sub(counted_from));
        if left.is_zero() {
            // Nothing was sent, so the connection stays usable.
            return Err(Failure::Timeout);
        }
        let requested = timeout(left, self.request(plan, case, id, left))
            .await
            .unwrap_or(Err(Failure::Timeout));
        let (raw, connect_and_tls_times) =
            requested.inspect_err(|_| self.opened[case.connection_index] = None)?;
        // Reading the CPU clock costs more than decoding a small answer.
        let cpu = (raw.body.len() >= MIN_BYTES_FOR_CPU_CLOCK).then(clock::thread_cpu);
        let decoded = match raw.status {
            StatusCode::OK => decoder.decode(&raw.body, id, case.expected),
            status => Err(Failure::of_status(status, raw.retry_after)),
        };
        let decode_cpu = cpu.map(|cpu| clock::thread_cpu().saturating_sub(cpu));
        let [connect, tls, first_byte, transfer, decode] = raw.phases(begun, connect_and_tls_times);
        let is_unclear = matches!(decoded, Err(Failure::WrongId | Failure::Malformed));
        if is_unclear {
            // On an open socket, a late answer could be taken for that to the next request.
            self.opened[case.connection_index]
                .take_if(|open| matches!(open, Connection::WebSocket(_)));
        }
        decoded.map_err(|failure| {
            failure.without_address(&plan.connection(case).endpoint.full_url())
        })?;
        let queued = begun.saturating_sub(counted_from);
        Ok(Timing {
            phases: [queued, connect, tls, first_byte, transfer, decode].map(ns),
            decode_cpu_ns: ns(decode_cpu.unwrap_or(decode)),
            sent: raw.sent,
            received: raw.received,
        })
    }

    /// Also returns `Traffic::connect_and_tls_times` of a new connection, or zeros.
    async fn request(
        &mut self,
        plan: &Plan,
        case: &Case,
        id: u64,
        left: Duration,
    ) -> Result<(RawAnswer, [Duration; 2]), Failure> {
        let (config, connection) = (
            plan.connection(case),
            &mut self.opened[case.connection_index],
        );
        let is_usable = match connection {
            Some(open) => open.is_usable().await,
            None => false,
        };
        let mut connect_and_tls_times = [Duration::ZERO; 2];
        if !is_usable {
            let opened =
                Connection::open(config, self.tls.as_ref(), plan.max_answer_bytes, left).await?;
            connect_and_tls_times = opened.connect_and_tls_times();
            *connection = Some(opened);
        }
        let raw = connection
            .as_mut()
            .ok_or(Failure::Closed)?
            .request(plan.body(case, id), plan.max_answer_bytes)
            .await?;
        if config.protocol == Protocol::HttpNewConnection {
            *connection = None;
        }
        Ok((raw, connect_and_tls_times))
    }
}
