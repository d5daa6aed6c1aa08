//! One connection to a node, and when what of an answer arrived on it.

use crate::endpoint::Endpoint;
use crate::failure::Failure;
use crate::plan::LinkKind;
use crate::stream::{self, Connected, Seen};
use faultline_command::clock;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST, RETRY_AFTER};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

/// An open connection; closed when dropped.
pub(crate) struct Link {
    send: SendRequest<Full<Bytes>>,
    /// Of what HTTP is, behind TLS: the first byte of an answer, and not of a session ticket.
    plain: Rc<Seen>,
    /// Of what is on the wire.
    wire: Rc<Seen>,
    _driver: JoinSet<()>,
}

/// A new connection and what it took.
pub(crate) struct Opened {
    pub(crate) link: Link,
    /// Name, and TCP's handshake.
    pub(crate) connect: Duration,
    /// TLS's handshake; 0 without TLS.
    pub(crate) tls: Duration,
}

/// An answer's bytes and their times.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) status: StatusCode,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: Bytes,
    /// When the first byte of the answer was read.
    pub(crate) first_byte: Duration,
    /// When its last one was.
    pub(crate) end: Duration,
    /// Bytes on the wire: headers and TLS included, TCP and below not.
    pub(crate) sent: u64,
    /// The same of what came back.
    pub(crate) received: u64,
}

impl Link {
    /// Connects.
    ///
    /// # Errors
    /// [`Failure::Connect`].
    pub(crate) async fn open(kind: &LinkKind, tls: Option<&TlsConnector>) -> Result<Opened, Failure> {
        let Connected { stream, plain, wire, connect, tls } = stream::connect(&kind.endpoint, kind.shape, tls).await?;
        let (send, connection) = handshake(TokioIo::new(stream)).await.map_err(|_| Failure::Connect)?;
        let mut driver = JoinSet::new();
        // Its error reaches whoever waits for an answer.
        driver.spawn_local(async move { drop(connection.await) });
        Ok(Opened { link: Link { send, plain, wire, _driver: driver }, connect, tls })
    }

    /// Whether the next request can be sent. A node may have closed the connection meanwhile.
    pub(crate) async fn is_usable(&mut self) -> bool {
        self.send.ready().await.is_ok()
    }

    /// Sends one request and reads its whole answer, of at most `limit` bytes.
    ///
    /// # Errors
    /// [`Failure::Closed`], [`Failure::Malformed`] or [`Failure::TooLarge`]; the connection is of no further use then.
    pub(crate) async fn ask(&mut self, endpoint: &Endpoint, body: Bytes, limit: usize) -> Result<Raw, Failure> {
        self.plain.first_read.set(None);
        let (received, sent) = (self.wire.received.get(), self.wire.sent.get());
        let request = Request::post(endpoint.path.as_str())
            .header(HOST, endpoint.authority.as_str())
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|_| Failure::Malformed)?;
        let answer = self.send.send_request(request).await.map_err(|error| failed(&error))?;
        let status = answer.status();
        let retry_after = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let body = Limited::new(answer.into_body(), limit).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                return Failure::TooLarge;
            }
            error.downcast_ref::<hyper::Error>().map_or(Failure::Closed, failed)
        })?;
        let end = clock::uptime();
        Ok(Raw {
            status,
            retry_after: retry_after.map(Duration::from_secs),
            body: body.to_bytes(),
            first_byte: self.plain.first_read.get().unwrap_or(end),
            end,
            sent: self.wire.sent.get() - sent,
            received: self.wire.received.get() - received,
        })
    }
}

fn failed(error: &hyper::Error) -> Failure {
    if error.is_parse() { Failure::Malformed } else { Failure::Closed }
}
