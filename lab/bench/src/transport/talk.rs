use crate::answer::{Decoded, result};
use crate::failure::Failure;
use crate::http::{Link, Opened};
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

#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    pub(super) poll: Duration,
    pub(super) timeout: Duration,
}

impl Patience {
    pub(super) async fn next_poll(self) {
        sleep(self.poll).await;
    }
}

#[derive(Debug, Default)]
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

    fn add(&mut self, phases: [Duration; 5]) {
        self.spent
            .iter_mut()
            .zip(phases)
            .for_each(|(sum, phase)| *sum += phase);
    }
}

#[derive(Deserialize)]
struct Kind {
    method: Option<IgnoredAny>,
}

pub(super) struct Talk {
    http: LinkKind,
    websocket: LinkKind,
    tls: Option<TlsConnector>,
    limit: usize,
    timeout: Duration,
    links: BTreeMap<Protocol, Link>,
    socket: Option<Socket>,
    /// At most `limit` bytes.
    news: VecDeque<Utf8Bytes>,
    id: u64,
}

impl Talk {
    pub(super) fn new(
        (http, websocket): (LinkKind, LinkKind),
        tls: Option<TlsConnector>,
        limits: (usize, Duration),
    ) -> Talk {
        let (limit, timeout) = limits;
        let (links, news) = (BTreeMap::new(), VecDeque::new());
        Talk {
            http,
            websocket,
            tls,
            limit,
            timeout,
            links,
            socket: None,
            news,
            id: 0,
        }
    }

    /// After a failure, late messages are possible.
    pub(super) fn give_up(&mut self) {
        self.links.clear();
        self.socket = None;
        self.news.clear();
    }

    /// Returns whether it is a new WebSocket, without subscriptions.
    pub(super) async fn connect(&mut self, protocol: Protocol) -> Result<bool, Failure> {
        let within = self.timeout;
        timeout(within, self.connected(protocol))
            .await
            .map_err(|_| Failure::Timeout)?
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
                self.news.clear();
                self.socket = Some(
                    Socket::open(&self.websocket, self.tls.as_ref(), self.limit, self.timeout)
                        .await?
                        .link,
                );
                Ok(true)
            }
        }
    }

    async fn open(&self, protocol: Protocol) -> Result<Opened<Link>, Failure> {
        Link::open(
            &LinkKind {
                protocol,
                ..self.http.clone()
            },
            self.tls.as_ref(),
            self.timeout,
        )
        .await
    }

    /// Drains notifications before an unrelated measurement.
    pub(super) fn forget_news(&mut self) {
        self.news.clear();
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
        params: &Value,
        meter: &mut Meter,
    ) -> Result<Value, Failure> {
        self.id += 1;
        let body = json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params})
            .to_string();
        let within = self.timeout;
        let exchange = async {
            match protocol {
                Protocol::WebSocket => self.over_socket(body, meter).await,
                Protocol::Http | Protocol::HttpNew | Protocol::Http2 => {
                    self.over_http(protocol, body, meter).await
                }
            }
        };
        timeout(within, exchange)
            .await
            .map_err(|_| Failure::Timeout)?
    }

    async fn over_http(
        &mut self,
        protocol: Protocol,
        body: String,
        meter: &mut Meter,
    ) -> Result<Value, Failure> {
        let begun = clock::uptime();
        let (mut link, connect, tls) = match self.links.remove(&protocol) {
            Some(link) => (link, Duration::ZERO, Duration::ZERO),
            None => {
                let opened = self.open(protocol).await?;
                (opened.link, opened.connect, opened.tls)
            }
        };
        let sent = begun + connect + tls;
        let raw = link.ask(Bytes::from(body), self.limit).await?;
        if raw.status != StatusCode::OK {
            return Err(Failure::of_status(raw.status, raw.retry_after));
        }
        let cpu = clock::thread_cpu();
        let value = result(&raw.body, self.id);
        meter.decode_cpu += clock::thread_cpu().saturating_sub(cpu);
        let phases = [
            raw.first_byte.saturating_sub(sent),
            raw.end.saturating_sub(raw.first_byte),
        ];
        meter.add([
            connect,
            tls,
            phases[0],
            phases[1],
            clock::uptime().saturating_sub(raw.end),
        ]);
        meter.sent += raw.sent;
        meter.received += raw.received;
        if protocol != Protocol::HttpNew {
            self.links.insert(protocol, link);
        }
        value
    }

    async fn over_socket(&mut self, body: String, meter: &mut Meter) -> Result<Value, Failure> {
        let socket = self.socket.as_mut().ok_or(Failure::Closed)?;
        let (begun, wire) = (
            clock::uptime(),
            (socket.wire.sent.get(), socket.wire.received.get()),
        );
        socket.plain.first_read.set(None);
        socket.send(body).await?;
        loop {
            let message = socket.next().await?;
            let first = socket.plain.first_read.replace(None).unwrap_or(message.end);
            let cpu = clock::thread_cpu();
            let kind: Kind = serde_json::from_str(&message.text).map_err(|_| Failure::Malformed)?;
            let answer = if kind.method.is_some() {
                None
            } else {
                Some(result(message.text.as_bytes(), self.id))
            };
            meter.decode_cpu += clock::thread_cpu().saturating_sub(cpu);
            let Some(answer) = answer else {
                let queued: usize = self.news.iter().map(|news| news.len()).sum();
                if queued + message.text.len() > self.limit {
                    return Err(Failure::TooLarge);
                }
                self.news.push_back(message.text);
                continue;
            };
            let phases = [
                first.saturating_sub(begun),
                message.end.saturating_sub(first),
            ];
            meter.add([
                Duration::ZERO,
                Duration::ZERO,
                phases[0],
                phases[1],
                clock::uptime().saturating_sub(message.end),
            ]);
            meter.sent += socket.wire.sent.get() - wire.0;
            meter.received += socket.wire.received.get() - wire.1;
            return answer;
        }
    }

    pub(super) async fn notified(&mut self, meter: &mut Meter) -> Result<Value, Failure> {
        if let Some(news) = self.news.pop_front() {
            return serde_json::from_str(&news).map_err(|_| Failure::Malformed);
        }
        let socket = self.socket.as_mut().ok_or(Failure::Closed)?;
        let received = socket.wire.received.get();
        let message = socket.next().await?;
        meter.received += socket.wire.received.get() - received;
        serde_json::from_str(&message.text).map_err(|_| Failure::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Endpoint;
    use crate::stream::Shape;
    use tokio::runtime::Builder;
    use tokio::task::LocalSet;

    #[test]
    fn a_node_that_accepts_and_says_nothing_is_waited_for_no_longer_than_asked() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let link = || LinkKind {
            endpoint: Endpoint::read(&url).unwrap(),
            shape: Shape::default(),
            protocol: Protocol::Http,
        };
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .unwrap();
        let found = LocalSet::new().block_on(&runtime, async {
            let mut talk = Talk::new(
                (link(), link()),
                None,
                (1 << 20, Duration::from_millis(200)),
            );
            let meter = &mut Meter::default();
            let both = async {
                let called = talk
                    .call(Protocol::Http, "eth_chainId", &json!([]), meter)
                    .await
                    .map(drop);
                (called, talk.connect(Protocol::WebSocket).await.map(drop))
            };
            timeout(Duration::from_secs(60), both).await
        });
        assert_eq!(
            found.ok(),
            Some((Err(Failure::Timeout), Err(Failure::Timeout)))
        );
    }
}
