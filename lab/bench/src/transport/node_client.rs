use super::MAX_ANSWER_BYTES;
use crate::{
    answer::parse_result,
    connection::{HttpConnection, WebSocket},
    failure::Failure,
    plan::ConnectionConfig,
    protocol::Protocol,
    results::{Timing, ns},
    stream::RawAnswer,
};
use faultline_common::clock;
use hyper::StatusCode;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::Utf8Bytes;

pub async fn with_timeout<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    timeout(limit, work).await.map_err(|_| Failure::Timeout)?
}

/// Only notifications have a method.
#[derive(Deserialize)]
struct MessageKind {
    method: Option<IgnoredAny>,
}

pub struct NodeClient {
    http: ConnectionConfig,
    websocket: ConnectionConfig,
    tls: Option<TlsConnector>,
    /// Limit of a call, and of a write or read, which may need several calls.
    pub timeout: Duration,
    pub poll_interval: Duration,
    /// The last write or read failed, and may have changed the chain's state.
    pub must_refetch_state: bool,
    /// Sums of the calls since they were last cleared. The caller sets the first phase, queued.
    pub sums: Timing,
    http_connections: BTreeMap<Protocol, HttpConnection>,
    socket: Option<WebSocket>,
    /// Unread notifications that came while a call waited for its answer.
    notifications: VecDeque<Utf8Bytes>,
    last_id: u64,
}

impl NodeClient {
    pub fn new(
        [http, websocket]: [ConnectionConfig; 2],
        tls: Option<TlsConnector>,
        timeout: Duration,
        poll_interval: Duration,
    ) -> Self {
        Self {
            http,
            websocket,
            tls,
            timeout,
            poll_interval,
            must_refetch_state: false,
            sums: Timing::default(),
            http_connections: BTreeMap::new(),
            socket: None,
            notifications: VecDeque::new(),
            last_id: 0,
        }
    }

    /// After a failure, a late message could be taken for the next answer.
    pub fn drop_connections(&mut self) {
        self.http_connections.clear();
        self.socket = None;
        self.notifications.clear();
    }

    /// Returns whether a WebSocket was opened, which has no subscriptions yet.
    pub async fn connect(&mut self, protocol: Protocol) -> Result<bool, Failure> {
        with_timeout(self.timeout, async {
            match protocol {
                Protocol::HttpNewConnection => {}
                Protocol::Http | Protocol::Http2 => {
                    let usable = match self.http_connections.get_mut(&protocol) {
                        Some(connection) => connection.is_usable().await,
                        None => false,
                    };
                    if !usable {
                        let connection = self.open(protocol).await?;
                        self.http_connections.insert(protocol, connection);
                    }
                }
                Protocol::WebSocket => {
                    if !self.socket.as_mut().is_some_and(WebSocket::is_usable) {
                        self.notifications.clear();
                        let tls = self.tls.as_ref();
                        let socket =
                            WebSocket::open(&self.websocket, tls, MAX_ANSWER_BYTES, self.timeout);
                        self.socket = Some(socket.await?);
                        return Ok(true);
                    }
                }
            }
            Ok(false)
        })
        .await
    }

    async fn open(&self, protocol: Protocol) -> Result<HttpConnection, Failure> {
        let config = ConnectionConfig {
            protocol,
            ..self.http.clone()
        };
        HttpConnection::open(&config, self.tls.as_ref(), self.timeout).await
    }

    /// Drops notifications from before a measurement.
    pub fn drain_notifications(&mut self) {
        self.notifications.clear();
        // An error occurs again at the next use.
        if let Some(socket) = &mut self.socket {
            socket.is_usable();
        }
    }

    /// Fails with [`Failure::Missing`] on null.
    pub async fn call(
        &mut self,
        protocol: Protocol,
        method: &str,
        params: Value,
    ) -> Result<Value, Failure> {
        self.last_id += 1;
        let body =
            json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})
                .to_string();
        with_timeout(self.timeout, async {
            let (answer, config) = if protocol == Protocol::WebSocket {
                (self.call_over_socket(body).await, &self.websocket)
            } else {
                (self.call_over_http(protocol, body).await, &self.http)
            };
            answer.map_err(|failure| failure.without_address(&config.endpoint.full_url()))
        })
        .await
    }

    async fn call_over_http(&mut self, protocol: Protocol, body: String) -> Result<Value, Failure> {
        let begun = clock::uptime();
        let mut connect_and_tls_times = [Duration::ZERO; 2];
        let mut connection = match self.http_connections.remove(&protocol) {
            Some(connection) => connection,
            None => {
                let connection = self.open(protocol).await?;
                connect_and_tls_times = connection.traffic.connect_and_tls_times;
                connection
            }
        };
        let raw = connection.request(body.into(), MAX_ANSWER_BYTES).await?;
        if raw.status != StatusCode::OK {
            return Err(Failure::of_status(raw.status, raw.retry_after));
        }
        let cpu = clock::thread_cpu();
        let value = parse_result(&raw.body, self.last_id);
        self.sums.decode_cpu_ns += ns(clock::thread_cpu().saturating_sub(cpu));
        self.add_to_sums(&raw, begun, connect_and_tls_times);
        if protocol != Protocol::HttpNewConnection {
            self.http_connections.insert(protocol, connection);
        }
        value
    }

    async fn call_over_socket(&mut self, body: String) -> Result<Value, Failure> {
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
                .then(|| parse_result(message.text.as_bytes(), self.last_id));
            self.sums.decode_cpu_ns += ns(clock::thread_cpu().saturating_sub(cpu));
            let Some(answer) = answer else {
                socket.traffic.decrypted.first_read_at.set(None);
                let queued: usize = self.notifications.iter().map(|text| text.len()).sum();
                if queued + message.text.len() > MAX_ANSWER_BYTES {
                    return Err(Failure::TooLarge);
                }
                self.notifications.push_back(message.text);
                continue;
            };
            let raw = socket.traffic.answer(message.text.into(), message.end_at);
            self.add_to_sums(&raw, begun, [Duration::ZERO; 2]);
            return answer;
        }
    }

    /// `raw` was just decoded; its call began at `begun`.
    fn add_to_sums(
        &mut self,
        raw: &RawAnswer,
        begun: Duration,
        connect_and_tls_times: [Duration; 2],
    ) {
        let sums = self.sums.phases.iter_mut().skip(1);
        for (sum, phase) in sums.zip(raw.phases(begun, connect_and_tls_times)) {
            *sum += ns(phase);
        }
        self.sums.sent += raw.sent;
        self.sums.received += raw.received;
    }

    pub async fn next_notification(&mut self) -> Result<Value, Failure> {
        let text = match self.notifications.pop_front() {
            Some(text) => text,
            None => {
                let socket = self.socket.as_mut().ok_or(Failure::Closed)?;
                socket.traffic.reset();
                let text = socket.next().await?.text;
                self.sums.received += socket.traffic.wire.received.get();
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
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
    use std::{
        io::{BufRead as _, BufReader, Write as _},
        net::{TcpListener, TcpStream},
        thread,
    };
    use tokio::{runtime::Builder, task::LocalSet};

    fn accept_websocket(listener: &TcpListener) -> TcpStream {
        let (mut stream, _) = listener.accept().unwrap();
        let lines = BufReader::new(&stream).lines().map(Result::unwrap);
        let request: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        let key = request
            .iter()
            .find_map(|line| line.strip_prefix("sec-websocket-key: "));
        let accepted = format!("{}258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key.unwrap());
        let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, accepted.as_bytes());
        let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket";
        let accept = STANDARD.encode(hash);
        write!(stream, "{head}\r\nSec-WebSocket-Accept: {accept}\r\n\r\n").unwrap();
        stream
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a node has a thread of its own")]
    fn a_websocket_that_the_node_closed_is_opened_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let (close, closed) = std::sync::mpsc::channel();
        let node = thread::spawn(move || {
            let first = accept_websocket(&listener);
            closed.recv().unwrap();
            drop(first);
            let second = accept_websocket(&listener);
            closed.recv().unwrap();
            drop(second);
        });
        let config = || ConnectionConfig {
            endpoint: Endpoint::parse_websocket(&url).unwrap(),
            link_shape: LinkShape::default(),
            protocol: Protocol::WebSocket,
        };
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_io().enable_time().build().unwrap();
        let limit = Duration::from_secs(60);
        let mut client = NodeClient::new([config(), config()], None, limit, limit);
        let opened = LocalSet::new().block_on(&runtime, async {
            let first = client.connect(Protocol::WebSocket).await;
            let second = client.connect(Protocol::WebSocket).await;
            close.send(()).unwrap();
            // The end arrives some time after the node closed the connection.
            let reopen = async {
                loop {
                    match client.connect(Protocol::WebSocket).await {
                        Ok(false) => tokio::time::sleep(Duration::from_millis(10)).await,
                        opened => return opened,
                    }
                }
            };
            let third = tokio::time::timeout(limit, reopen).await.unwrap();
            [first, second, third]
        });
        assert_eq!(opened, [Ok(true), Ok(false), Ok(true)]);
        close.send(()).unwrap();
        node.join().unwrap();
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a node has a thread of its own")]
    fn a_message_does_not_contain_the_key_of_the_address() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/SECRETKEY", listener.local_addr().unwrap());
        let node = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut body = BufReader::new(&stream).lines().map(Result::unwrap);
            body.find(String::is_empty);
            let answer = r#"{"id": null, "error": {"code": 1, "message": "limit of /SECRETKEY"}}"#;
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}", answer.len());
            write!(stream, "{head}\r\n\r\n{answer}").unwrap();
        });
        let config = || ConnectionConfig {
            endpoint: Endpoint::parse(&url).unwrap(),
            link_shape: LinkShape::default(),
            protocol: Protocol::Http,
        };
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_io().enable_time().build().unwrap();
        let limit = Duration::from_secs(60);
        let mut client = NodeClient::new([config(), config()], None, limit, limit);
        let call = client.call(Protocol::Http, "eth_chainId", json!([]));
        let called = LocalSet::new().block_on(&runtime, call);
        assert_eq!(called, Err(Failure::rpc(1, "limit of /***")));
        node.join().unwrap();
    }

    #[test]
    fn a_node_that_accepts_without_responding_times_out() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let config = || ConnectionConfig {
            endpoint: Endpoint::parse(&url).unwrap(),
            link_shape: LinkShape::default(),
            protocol: Protocol::Http,
        };
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .unwrap();
        let found = LocalSet::new().block_on(&runtime, async {
            let limit = Duration::from_millis(200);
            let mut client = NodeClient::new([config(), config()], None, limit, limit);
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
