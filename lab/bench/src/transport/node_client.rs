use crate::{
    answer::result,
    failure::Failure,
    http::HttpConnection,
    plan::LinkConfig,
    protocol::Protocol,
    results::{Timing, ns},
    socket::Socket,
    stream::RawAnswer,
};
use faultline_common::clock;
use futures_util::FutureExt as _;
use hyper::{StatusCode, body::Bytes};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// Fails with [`Failure::Timeout`].
pub async fn in_time<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    timeout(limit, work).await.map_err(|_| Failure::Timeout)?
}

#[derive(Deserialize)]
struct MessageKind {
    method: Option<IgnoredAny>,
}

pub struct NodeClient {
    http: LinkConfig,
    websocket: LinkConfig,
    tls: Option<TlsConnector>,
    limit: usize,
    /// Of a call, and of an operation.
    pub timeout: Duration,
    /// Between two polls.
    pub poll: Duration,
    /// The sums of calls, without the phase in which an operation waits.
    pub meter: Timing,
    links: BTreeMap<Protocol, HttpConnection>,
    socket: Option<Socket>,
    /// Notifications that were not read yet, at most `limit` bytes.
    notifications: VecDeque<Utf8Bytes>,
    id: u64,
}

impl NodeClient {
    pub fn new(
        [http, websocket]: [&LinkConfig; 2],
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
            meter: Timing::default(),
            links: BTreeMap::new(),
            socket: None,
            notifications: VecDeque::new(),
            id: 0,
        }
    }

    pub async fn next_poll(&self) {
        sleep(self.poll).await;
    }

    /// Drops all connections, because late messages are possible after a failure.
    pub fn drop_connections(&mut self) {
        self.links.clear();
        self.socket = None;
        self.notifications.clear();
    }

    /// Returns whether it is a new WebSocket, without subscriptions.
    pub async fn connect(&mut self, protocol: Protocol) -> Result<bool, Failure> {
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
                    let link = self.open(protocol).await?;
                    self.links.insert(protocol, link);
                }
                Ok(false)
            }
            Protocol::WebSocket if self.socket.is_some() => Ok(false),
            Protocol::WebSocket => {
                self.notifications.clear();
                let tls = self.tls.as_ref();
                let socket = Socket::open(&self.websocket, tls, self.limit, self.timeout).await?;
                self.socket = Some(socket);
                Ok(true)
            }
        }
    }

    async fn open(&self, protocol: Protocol) -> Result<HttpConnection, Failure> {
        let kind = LinkConfig {
            protocol,
            ..self.http.clone()
        };
        HttpConnection::open(&kind, self.tls.as_ref(), self.timeout).await
    }

    /// Drains notifications before an unrelated measurement.
    pub fn drain_notifications(&mut self) {
        self.notifications.clear();
        let Some(socket) = &mut self.socket else {
            return;
        };
        // An error occurs again at the next use.
        while let Some(Ok(_)) = socket.next().now_or_never() {}
    }

    /// Fails with [`Failure::Missing`] on null.
    pub async fn call(
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
        let (mut link, opened_in) = match self.links.remove(&protocol) {
            Some(link) => (link, [Duration::ZERO; 2]),
            None => {
                let link = self.open(protocol).await?;
                let opened_in = link.traffic.opened_in;
                (link, opened_in)
            }
        };
        let raw = link.ask(Bytes::from(body), self.limit).await?;
        if raw.status != StatusCode::OK {
            return Err(Failure::of_status(raw.status, raw.retry_after));
        }
        let cpu = clock::thread_cpu();
        let value = result(&raw.body, self.id);
        self.meter.decode_cpu_ns += ns(clock::thread_cpu().saturating_sub(cpu));
        self.measure(&raw, begun, opened_in);
        if protocol != Protocol::HttpNew {
            self.links.insert(protocol, link);
        }
        value
    }

    async fn over_socket(&mut self, body: String) -> Result<Value, Failure> {
        let socket = self.socket.as_mut().ok_or(Failure::Closed)?;
        let begun = clock::uptime();
        socket.traffic.reset();
        socket.send(body).await?;
        loop {
            let message = socket.next().await?;
            let cpu = clock::thread_cpu();
            let kind: MessageKind =
                serde_json::from_str(&message.text).map_err(|_| Failure::Malformed)?;
            let answer = kind
                .method
                .is_none()
                .then(|| result(message.text.as_bytes(), self.id));
            self.meter.decode_cpu_ns += ns(clock::thread_cpu().saturating_sub(cpu));
            let Some(answer) = answer else {
                socket.traffic.plain.first_read.set(None);
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
            let raw = socket.traffic.answer(message.text.into(), message.end);
            self.measure(&raw, begun, [Duration::ZERO; 2]);
            return answer;
        }
    }

    /// Adds an answer that was decoded, to a request for which a connection was opened from `begun`
    /// on.
    fn measure(&mut self, raw: &RawAnswer, begun: Duration, opened_in: [Duration; 2]) {
        let sums = self.meter.phases.iter_mut().skip(1);
        for (sum, phase) in sums.zip(raw.phases(begun, opened_in)) {
            *sum += ns(phase);
        }
        self.meter.sent += raw.sent;
        self.meter.received += raw.received;
    }

    pub async fn next_notification(&mut self) -> Result<Value, Failure> {
        let text = match self.notifications.pop_front() {
            Some(notifications) => notifications,
            None => {
                let socket = self.socket.as_mut().ok_or(Failure::Closed)?;
                socket.traffic.reset();
                let text = socket.next().await?.text;
                self.meter.received += socket.traffic.received();
                text
            }
        };
        serde_json::from_str(&text).map_err(|_| Failure::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{endpoint::Endpoint, stream::LinkShape};
    use tokio::{runtime::Builder, task::LocalSet};

    #[test]
    fn a_node_that_accepts_without_responding_times_out() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let link = || LinkConfig {
            endpoint: Endpoint::parse(&url).unwrap(),
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
