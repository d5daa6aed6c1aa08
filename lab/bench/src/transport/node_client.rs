use crate::answer::{Decoded, result};
use crate::failure::Failure;
use crate::http::{Link, Opened, RawAnswer};
use crate::plan::LinkKind;
use crate::protocol::Protocol;
use crate::run::Exchanged;
use crate::socket::Socket;
use faultline_common::clock;
use futures_util::FutureExt as _;
use hyper::StatusCode;
use hyper::body::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// Fails with [`Failure::Timeout`].
pub(super) async fn in_time<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    timeout(limit, work).await.map_err(|_| Failure::Timeout)?
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Meter {
    /// By [`crate::results::PHASES`], without the first.
    spent: [Duration; 5],
    decode_cpu: Duration,
    sent: u64,
    received: u64,
}

impl Meter {
    /// The time outside of calls was spent waiting.
    pub(super) fn exchanged(self, took: Duration) -> Exchanged {
        let [connect, tls, first_byte, transfer, decode] = self.spent;
        let waited = took.saturating_sub(self.spent.iter().sum());
        Exchanged {
            phases: [waited, connect, tls, first_byte, transfer, decode],
            decoded: Decoded {
                slot: None,
                bytes: false,
            },
            decode_cpu: self.decode_cpu,
            sent: self.sent,
            received: self.received,
        }
    }

    /// A decoded answer, whose request was sent at `begun`.
    fn add(&mut self, [connect, tls]: [Duration; 2], begun: Duration, raw: &RawAnswer) {
        let phases = [
            connect,
            tls,
            raw.first_byte.saturating_sub(begun),
            raw.end.saturating_sub(raw.first_byte),
            clock::uptime().saturating_sub(raw.end),
        ];
        for (sum, phase) in self.spent.iter_mut().zip(phases) {
            *sum += phase;
        }
        self.sent += raw.sent;
        self.received += raw.received;
    }
}

#[derive(Deserialize)]
struct MessageKind {
    method: Option<IgnoredAny>,
}

pub(super) struct NodeClient {
    http: LinkKind,
    websocket: LinkKind,
    tls: Option<TlsConnector>,
    limit: usize,
    /// Of a call, and of an operation.
    pub(super) timeout: Duration,
    /// Between two polls.
    pub(super) poll: Duration,
    pub(super) meter: Meter,
    links: BTreeMap<Protocol, Link>,
    socket: Option<Socket>,
    /// Notifications that were not read yet, at most `limit` bytes.
    notifications: VecDeque<Utf8Bytes>,
    id: u64,
}

impl NodeClient {
    pub(super) fn new(
        [http, websocket]: [&LinkKind; 2],
        tls: Option<TlsConnector>,
        limit: usize,
        timeout: Duration,
        poll: Duration,
    ) -> NodeClient {
        NodeClient {
            http: http.clone(),
            websocket: websocket.clone(),
            tls,
            limit,
            timeout,
            poll,
            meter: Meter::default(),
            links: BTreeMap::new(),
            socket: None,
            notifications: VecDeque::new(),
            id: 0,
        }
    }

    pub(super) async fn next_poll(&self) {
        sleep(self.poll).await;
    }

    /// Drops all connections, because late messages are possible after a failure.
    pub(super) fn drop_connections(&mut self) {
        self.links.clear();
        self.socket = None;
        self.notifications.clear();
    }

    /// Returns whether it is a new WebSocket, without subscriptions.
    pub(super) async fn connect(&mut self, protocol: Protocol) -> Result<bool, Failure> {
        in_time(self.timeout, self.connected(protocol)).await
    }

    async fn connected(&mut self, protocol: Protocol) -> Result<bool, Failure> {
        match protocol {
            Protocol::HttpNew => Ok(false),
            Protocol::Http | Protocol::Http2 => {
                let usable = match self.links.get_mut(&protocol) {
                    Some(link) => link.is_usable().await,
                    None => false,
                };
                if !usable {
                    let link = self.open(protocol).await?.link;
                    self.links.insert(protocol, link);
                }
                Ok(false)
            }
            Protocol::WebSocket if self.socket.is_some() => Ok(false),
            Protocol::WebSocket => {
                self.notifications.clear();
                let tls = self.tls.as_ref();
                let opened = Socket::open(&self.websocket, tls, self.limit, self.timeout).await?;
                self.socket = Some(opened.link);
                Ok(true)
            }
        }
    }

    async fn open(&self, protocol: Protocol) -> Result<Opened<Link>, Failure> {
        let kind = LinkKind {
            protocol,
            ..self.http.clone()
        };
        Link::open(&kind, self.tls.as_ref(), self.timeout).await
    }

    /// Drains notifications before an unrelated measurement.
    pub(super) fn drain_notifications(&mut self) {
        self.notifications.clear();
        let Some(socket) = &mut self.socket else {
            return;
        };
        // An error occurs again at the next use.
        while let Some(Ok(_)) = socket.next().now_or_never() {}
    }

    /// Fails with [`Failure::Missing`] on null.
    pub(super) async fn call(
        &mut self,
        protocol: Protocol,
        method: &str,
        params: Value,
    ) -> Result<Value, Failure> {
        self.id += 1;
        let body = json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params})
            .to_string();
        in_time(self.timeout, async {
            if protocol == Protocol::WebSocket {
                self.over_socket(body).await
            } else {
                self.over_http(protocol, body).await
            }
        })
        .await
    }

    async fn over_http(&mut self, protocol: Protocol, body: String) -> Result<Value, Failure> {
        let begun = clock::uptime();
        let (mut link, connect, tls) = match self.links.remove(&protocol) {
            Some(link) => (link, Duration::ZERO, Duration::ZERO),
            None => {
                let opened = self.open(protocol).await?;
                (opened.link, opened.connect, opened.tls)
            }
        };
        let raw = link.ask(Bytes::from(body), self.limit).await?;
        if raw.status != StatusCode::OK {
            return Err(Failure::of_status(raw.status, raw.retry_after));
        }
        let cpu = clock::thread_cpu();
        let value = result(&raw.body, self.id);
        self.meter.decode_cpu += clock::thread_cpu().saturating_sub(cpu);
        self.meter.add([connect, tls], begun + connect + tls, &raw);
        if protocol != Protocol::HttpNew {
            self.links.insert(protocol, link);
        }
        value
    }

    async fn over_socket(&mut self, body: String) -> Result<Value, Failure> {
        let socket = self.socket.as_mut().ok_or(Failure::Closed)?;
        let (begun, wire) = (clock::uptime(), socket.wire.clone());
        let (sent, received) = (wire.sent.get(), wire.received.get());
        socket.plain.first_read.set(None);
        socket.send(body).await?;
        loop {
            let message = socket.next().await?;
            let first_byte = socket.plain.first_read.replace(None).unwrap_or(message.end);
            let cpu = clock::thread_cpu();
            let kind: MessageKind =
                serde_json::from_str(&message.text).map_err(|_| Failure::Malformed)?;
            let answer = kind
                .method
                .is_none()
                .then(|| result(message.text.as_bytes(), self.id));
            self.meter.decode_cpu += clock::thread_cpu().saturating_sub(cpu);
            let Some(answer) = answer else {
                let queued: usize = self
                    .notifications
                    .iter()
                    .map(|notifications| notifications.len())
                    .sum();
                if queued + message.text.len() > self.limit {
                    return Err(Failure::TooLarge);
                }
                self.notifications.push_back(message.text);
                continue;
            };
            let raw = RawAnswer {
                status: StatusCode::OK,
                retry_after: None,
                body: message.text.into(),
                first_byte,
                end: message.end,
                sent: wire.sent.get() - sent,
                received: wire.received.get() - received,
            };
            self.meter.add([Duration::ZERO; 2], begun, &raw);
            return answer;
        }
    }

    pub(super) async fn next_notification(&mut self) -> Result<Value, Failure> {
        let text = match self.notifications.pop_front() {
            Some(notifications) => notifications,
            None => {
                let socket = self.socket.as_mut().ok_or(Failure::Closed)?;
                let received = socket.wire.received.get();
                let text = socket.next().await?.text;
                self.meter.received += socket.wire.received.get() - received;
                text
            }
        };
        serde_json::from_str(&text).map_err(|_| Failure::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Endpoint;
    use crate::stream::LinkShape;
    use tokio::runtime::Builder;
    use tokio::task::LocalSet;

    #[test]
    fn a_node_that_accepts_without_responding_times_out() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let link = || LinkKind {
            endpoint: Endpoint::read(&url).unwrap(),
            shape: LinkShape::default(),
            protocol: Protocol::Http,
        };
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .unwrap();
        let found = LocalSet::new().block_on(&runtime, async {
            let limit = Duration::from_millis(200);
            let mut client = NodeClient::new([&link(), &link()], None, 1 << 20, limit, limit);
            let both = async {
                let called = client
                    .call(Protocol::Http, "eth_chainId", json!([]))
                    .await
                    .map(drop);
                (called, client.connect(Protocol::WebSocket).await.map(drop))
            };
            timeout(Duration::from_secs(60), both).await
        });
        assert_eq!(
            found.ok(),
            Some((Err(Failure::Timeout), Err(Failure::Timeout)))
        );
    }
}
