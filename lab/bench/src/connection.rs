//! Connections to nodes over HTTP/1.1, HTTP/2 and WebSocket.

use crate::{
    failure::Failure,
    plan::ConnectionConfig,
    protocol::Protocol,
    stream::{self, CountedStream, RawAnswer, Traffic},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use faultline_common::clock;
use faultline_net::{retry_after, unrequested_content_encoding};
use futures_util::{FutureExt, SinkExt, StreamExt, TryFutureExt, future::try_join};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{
    Request, Response, StatusCode, Uri,
    body::{Bytes, Incoming},
    client::conn::{http1, http2},
    header::{
        ACCEPT_ENCODING, CONNECTION, CONTENT_TYPE, HOST, HeaderValue, SEC_WEBSOCKET_ACCEPT,
        SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
    },
    http::response::Parts,
    rt::Executor,
};
use hyper_util::rt::TokioIo;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use std::{
    cell::RefCell,
    future::poll_fn,
    io::{self, ErrorKind},
    pin::{Pin, pin},
    rc::Rc,
    task::Poll,
    time::Duration,
};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message, Utf8Bytes,
        error::ProtocolError,
        protocol::{Role, WebSocketConfig},
    },
};

/// Appended to the client's key (RFC 6455, 1.3).
const WEBSOCKET_GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Limit between two requests. It allows a ping every 5 s for 14 hours.
const MAX_CONTROL_FRAMES: u32 = 10_000;

/// Limit of the queue for a node that does not read. The largest request and pongs fit into it.
const MAX_SEND_QUEUE_BYTES: usize = 80 << 20;

pub enum Connection {
    Http(HttpConnection),
    WebSocket(Box<WebSocket>),
}

impl Connection {
    pub async fn open(
        config: &ConnectionConfig,
        tls: Option<&TlsConnector>,
        max_bytes: usize,
        time_limit: Duration,
    ) -> Result<Self, Failure> {
        Ok(if config.protocol == Protocol::WebSocket {
            let socket = WebSocket::open(config, tls, max_bytes, time_limit).await?;
            Self::WebSocket(Box::new(socket))
        } else {
            Self::Http(HttpConnection::open(config, tls, time_limit).await?)
        })
    }

    pub fn connect_and_tls_times(&self) -> [Duration; 2] {
        match self {
            Self::Http(http) => http.traffic.connect_and_tls_times,
            Self::WebSocket(socket) => socket.traffic.connect_and_tls_times,
        }
    }

    pub async fn is_usable(&mut self) -> bool {
        match self {
            Self::Http(http) => http.is_usable().await,
            Self::WebSocket(socket) => socket.is_usable(),
        }
    }

    pub async fn request(&mut self, body: Bytes, max_bytes: usize) -> Result<RawAnswer, Failure> {
        match self {
            Self::Http(http) => http.request(body, max_bytes).await,
            Self::WebSocket(socket) => socket.request(&body).await,
        }
    }
}

#[derive(Clone, Default)]
struct LocalExecutor(Rc<RefCell<JoinSet<()>>>);

impl<F: Future + 'static> Executor<F> for LocalExecutor {
    fn execute(&self, task: F) {
        let mut tasks = self.0.borrow_mut();
        // Finished HTTP/2 requests are removed.
        while tasks.try_join_next().is_some() {}
        tasks.spawn_local(async move { drop(task.await) });
    }
}

/// Drives the I/O; `None` after the connection was closed.
type Driver = Option<Box<http1::Connection<TokioIo<CountedStream>, Full<Bytes>>>>;

enum Version {
    Http1 {
        sender: http1::SendRequest<Full<Bytes>>,
        driver: Driver,
        host: HeaderValue,
    },
    Http2 {
        sender: http2::SendRequest<Full<Bytes>>,
        _executor: LocalExecutor,
    },
}

pub struct HttpConnection {
    version: Version,
    target: Uri,
    pub traffic: Traffic,
}

impl HttpConnection {
    pub async fn open(
        config: &ConnectionConfig,
        tls: Option<&TlsConnector>,
        time_limit: Duration,
    ) -> Result<Self, Failure> {
        let (stream, traffic) = stream::connect(config, tls, time_limit).await?;
        let (stream, endpoint) = (TokioIo::new(stream), &config.endpoint);
        let (version, target) = if config.protocol == Protocol::Http2 {
            let executor = LocalExecutor::default();
            let (sender, connection) = http2::handshake(executor.clone(), stream)
                .await
                .map_err(|_| Failure::NoHttp2)?;
            executor.execute(connection);
            let version = Version::Http2 {
                sender,
                _executor: executor,
            };
            (version, endpoint.full_url())
        } else {
            let (sender, connection) = http1::handshake(stream)
                .await
                .map_err(|_| Failure::Closed)?;
            let version = Version::Http1 {
                sender,
                driver: Some(Box::new(connection)),
                host: HeaderValue::from_str(&endpoint.authority).map_err(|_| Failure::Malformed)?,
            };
            (version, endpoint.path_and_query.clone())
        };
        Ok(Self {
            version,
            target: target.parse().map_err(|_| Failure::Malformed)?,
            traffic,
        })
    }

    /// False if the node has closed the connection.
    pub async fn is_usable(&mut self) -> bool {
        match &mut self.version {
            Version::Http1 { sender, driver, .. } => drive(driver, sender.ready()).await.is_ok(),
            Version::Http2 { sender, .. } => sender.ready().await.is_ok(),
        }
    }

    /// After an error the connection is unusable.
    pub async fn request(&mut self, body: Bytes, max_bytes: usize) -> Result<RawAnswer, Failure> {
        self.traffic.reset();
        let mut request = Request::post(self.target.clone())
            .header(CONTENT_TYPE, "application/json")
            // Encodings of account data are measured, so HTTP must not compress.
            .header(ACCEPT_ENCODING, "identity")
            .body(Full::new(body))
            .map_err(|_| Failure::Malformed)?;
        let (head, body) = match &mut self.version {
            Version::Http1 {
                sender,
                driver,
                host,
            } => {
                request.headers_mut().insert(HOST, host.clone());
                let exchange = async {
                    // Nothing has driven the connection since the last answer.
                    sender.ready().await?;
                    read_answer(sender.send_request(request), max_bytes).await
                };
                drive(driver, exchange).await?
            }
            Version::Http2 { sender, .. } => {
                let sent = sender.send_request(request);
                let response = async {
                    let response = sent.await;
                    // Earlier bytes are frames of the connection, such as SETTINGS.
                    let first_read_at = &self.traffic.decrypted.first_read_at;
                    first_read_at.set(Some(clock::uptime()));
                    response
                };
                read_answer(response, max_bytes).await?
            }
        };
        let end_at = clock::uptime();
        if head.status.is_success()
            && let Some(coding) = unrequested_content_encoding(&head.headers)
        {
            return Err(Failure::Encoded(coding));
        }
        Ok(RawAnswer {
            status: head.status,
            retry_after: retry_after(&head.headers, clock::now()),
            ..self.traffic.answer(body, end_at)
        })
    }
}

/// Runs `work` and the driver in one task: a second task would cost wake-ups.
async fn drive<T>(driver: &mut Driver, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(|cx| {
        // `work` and the driver may each wait for the other, so both are polled twice.
        for _ in 0..2 {
            if let Some(connection) = driver
                && Pin::new(connection).poll(cx).is_ready()
            {
                *driver = None;
            }
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
        }
        Poll::Pending
    })
    .await
}

async fn read_answer(
    response: impl Future<Output = hyper::Result<Response<Incoming>>>,
    max_bytes: usize,
) -> Result<(Parts, Bytes), Failure> {
    let (head, body) = response.await?.into_parts();
    let body = Limited::new(body, max_bytes)
        .collect()
        .await
        .map_err(|error| {
            let source = error.source().and_then(|source| source.downcast_ref());
            let inner = source.and_then(io::Error::get_ref);
            match source.map(io::Error::kind) {
                _ if error.is::<LengthLimitError>() => Failure::TooLarge,
                // A TLS error also has the kind `InvalidData`, so it comes before that kind.
                _ if inner.is_some_and(|inner| inner.is::<rustls::Error>()) => Failure::Closed,
                // An invalid chunk.
                Some(ErrorKind::InvalidInput | ErrorKind::InvalidData) => Failure::Malformed,
                _ => Failure::Closed,
            }
        })?;
    Ok((head, body.to_bytes()))
}

impl From<hyper::Error> for Failure {
    fn from(error: hyper::Error) -> Self {
        if error.is_parse() {
            Self::Malformed
        } else {
            Self::Closed
        }
    }
}

pub struct WebSocket {
    stream: WebSocketStream<CountedStream>,
    /// The URL for error texts, without path and query, which may have an API key.
    redacted_url: String,
    /// Since the last request.
    control_frames: u32,
    pub traffic: Traffic,
}

pub struct ReceivedMessage {
    pub text: Utf8Bytes,
    pub end_at: Duration,
}

impl WebSocket {
    /// The time of the upgrade counts as connect time. A message has at most `max_bytes`.
    pub async fn open(
        config: &ConnectionConfig,
        tls: Option<&TlsConnector>,
        max_bytes: usize,
        time_limit: Duration,
    ) -> Result<Self, Failure> {
        let (stream, mut traffic) = stream::connect(config, tls, time_limit).await?;
        let begun = clock::uptime();
        let (mut sender, mut connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|_| Failure::Closed)?;
        let key = STANDARD.encode(fastrand::u128(..).to_le_bytes());
        let request = Request::get(config.endpoint.path_and_query.as_str())
            .header(HOST, config.endpoint.authority.as_str())
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key)
            .body(Full::new(Bytes::new()))
            .map_err(|_| Failure::Malformed)?;
        let upgrade = async {
            let answer = sender.send_request(request).await?;
            check_upgrade(&answer, &key)
        };
        let driver = poll_fn(|cx| connection.poll_without_shutdown(cx));
        try_join(upgrade, driver.map_err(|_| Failure::Closed)).await?;
        let parts = connection.into_parts();
        let limits = WebSocketConfig::default()
            .max_message_size(Some(max_bytes))
            .max_frame_size(Some(max_bytes))
            .max_write_buffer_size(MAX_SEND_QUEUE_BYTES);
        let (stream, read) = (parts.io.into_inner(), parts.read_buf.to_vec());
        let stream =
            WebSocketStream::from_partially_read(stream, read, Role::Client, Some(limits)).await;
        traffic.connect_and_tls_times[0] += clock::uptime().saturating_sub(begun);
        Ok(Self {
            stream,
            redacted_url: config.endpoint.redacted_url(),
            control_frames: 0,
            traffic,
        })
    }

    /// False if the node has closed the connection. Drops unsolicited messages.
    pub fn is_usable(&mut self) -> bool {
        loop {
            match self.next().now_or_never() {
                None => return true,
                Some(Ok(_)) => {}
                Some(Err(_)) => return false,
            }
        }
    }

    pub async fn request(&mut self, body: &Bytes) -> Result<RawAnswer, Failure> {
        let text = std::str::from_utf8(body).map_err(|_| Failure::Malformed)?;
        self.traffic.reset();
        self.send(text.to_owned()).await?;
        let message = self.next().await?;
        Ok(self.traffic.answer(message.text.into(), message.end_at))
    }

    pub async fn send(&mut self, text: String) -> Result<(), Failure> {
        self.control_frames = 0;
        let sent = self.stream.send(Message::text(text)).await;
        sent.map_err(|error| self.failure(&error))
    }

    pub async fn next(&mut self) -> Result<ReceivedMessage, Failure> {
        loop {
            match self.stream.next().await {
                Some(Ok(Message::Text(text))) => {
                    return Ok(ReceivedMessage {
                        text,
                        end_at: clock::uptime(),
                    });
                }
                // Each ping queues a pong in memory, until the node reads it.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {
                    self.control_frames += 1;
                    if self.control_frames > MAX_CONTROL_FRAMES {
                        return Err(Failure::Flooded(self.redacted_url.clone()));
                    }
                }
                Some(Ok(Message::Binary(_))) => return Err(Failure::Malformed),
                Some(Ok(Message::Close(_))) | None => return Err(Failure::Closed),
                Some(Err(error)) => return Err(self.failure(&error)),
            }
        }
    }

    fn failure(&self, error: &Error) -> Failure {
        match error {
            Error::ConnectionClosed
            | Error::AlreadyClosed
            | Error::Io(_)
            | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => Failure::Closed,
            Error::Capacity(_) => Failure::TooLarge,
            Error::WriteBufferFull(_) => Failure::Flooded(self.redacted_url.clone()),
            _ => Failure::Malformed,
        }
    }
}

fn check_upgrade<B>(answer: &Response<B>, key: &str) -> Result<(), Failure> {
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(Failure::of_status(
            answer.status(),
            retry_after(answer.headers(), clock::now()),
        ));
    }
    let expected = STANDARD.encode(digest(
        &SHA1_FOR_LEGACY_USE_ONLY,
        format!("{key}{WEBSOCKET_GUID}").as_bytes(),
    ));
    let accept = answer.headers().get(SEC_WEBSOCKET_ACCEPT);
    if accept.is_none_or(|value| value.as_bytes() != expected.as_bytes()) {
        return Err(Failure::Malformed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_websocket_accept_header_for_this_key_is_accepted() {
        // The example of RFC 6455.
        let answer = |status: u16, accept: &str| {
            Response::builder()
                .status(status)
                .header(SEC_WEBSOCKET_ACCEPT, accept)
                .body(())
                .unwrap()
        };
        let (key, right) = ("dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(check_upgrade(&answer(101, right), key), Ok(()));
        assert_eq!(
            check_upgrade(&answer(101, "another"), key),
            Err(Failure::Malformed)
        );
        assert_eq!(
            check_upgrade(&answer(404, right), key),
            Err(Failure::Http(404))
        );
        assert_eq!(
            check_upgrade(&answer(429, right), key),
            Err(Failure::RateLimited(None))
        );
    }
}
