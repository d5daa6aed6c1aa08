//! One connection to a node, and when what of an answer arrived on it.

use crate::endpoint::Endpoint;
use crate::failure::Failure;
use crate::plan::LinkKind;
use crate::stream::{self, Connected, Seen};
use crate::way::Way;
use faultline_command::clock;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, RETRY_AFTER};
use hyper::rt::Executor;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

/// Tasks of one connection, which end with it.
#[derive(Clone, Default)]
struct Tasks(Rc<RefCell<JoinSet<()>>>);

impl<F: Future + 'static> Executor<F> for Tasks {
    fn execute(&self, task: F) {
        let mut tasks = self.0.borrow_mut();
        // Of HTTP/2, each request is a task: those that have ended are forgotten.
        while tasks.try_join_next().is_some() {}
        tasks.spawn_local(async move { drop(task.await) });
    }
}

/// By version of HTTP.
enum Sender {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

/// An open connection; closed when dropped.
pub(crate) struct Link {
    send: Sender,
    /// Of what HTTP is, behind TLS: the first byte of an answer, and not of a session ticket.
    plain: Rc<Seen>,
    /// Of what is on the wire.
    wire: Rc<Seen>,
    _tasks: Tasks,
}

/// A new connection and what it took.
pub(crate) struct Opened<L> {
    pub(crate) link: L,
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
    /// Connects, with HTTP/2 or HTTP/1.1.
    ///
    /// # Errors
    /// [`Failure::Connect`], [`Failure::NoHttp2`].
    pub(crate) async fn open(kind: &LinkKind, tls: Option<&TlsConnector>) -> Result<Opened<Link>, Failure> {
        let Connected { stream, plain, wire, connect, tls } = stream::connect(kind, tls).await?;
        let (stream, tasks) = (TokioIo::new(stream), Tasks::default());
        // Errors of a connection reach whoever waits for an answer.
        let send = if kind.way == Way::Http2 {
            let shaken = http2::handshake(tasks.clone(), stream).await;
            let (send, connection) = shaken.map_err(|_| Failure::NoHttp2)?;
            tasks.execute(connection);
            Sender::Two(send)
        } else {
            let (send, connection) = http1::handshake(stream).await.map_err(|_| Failure::Connect)?;
            tasks.execute(connection);
            Sender::One(send)
        };
        Ok(Opened { link: Link { send, plain, wire, _tasks: tasks }, connect, tls })
    }

    /// Whether the next request can be sent. A node may have closed the connection meanwhile.
    pub(crate) async fn is_usable(&mut self) -> bool {
        match &mut self.send {
            Sender::One(send) => send.ready().await.is_ok(),
            Sender::Two(send) => send.ready().await.is_ok(),
        }
    }

    async fn send(&mut self, endpoint: &Endpoint, body: Bytes) -> Result<Response<Incoming>, Failure> {
        let request = |target: Result<Uri, _>| {
            let request =
                Request::post(target.map_err(|_| Failure::Malformed)?).header(CONTENT_TYPE, "application/json");
            Ok(request)
        };
        let whole = |_| Failure::Malformed;
        match &mut self.send {
            Sender::One(send) => {
                let request = request(endpoint.path.parse())?.header(HOST, endpoint.authority.as_str());
                send.send_request(request.body(Full::new(body)).map_err(whole)?).await
            }
            Sender::Two(send) => {
                let request = request(endpoint.whole().parse())?;
                send.send_request(request.body(Full::new(body)).map_err(whole)?).await
            }
        }
        .map_err(|error| failed(&error))
    }

    /// Sends one request and reads its whole answer, of at most `limit` bytes.
    ///
    /// # Errors
    /// [`Failure::Closed`], [`Failure::Malformed`] or [`Failure::TooLarge`]; the connection is of no further use then.
    pub(crate) async fn ask(&mut self, endpoint: &Endpoint, body: Bytes, limit: usize) -> Result<Raw, Failure> {
        self.plain.first_read.set(None);
        let (received, sent) = (self.wire.received.get(), self.wire.sent.get());
        let answer = self.send(endpoint, body).await?;
        let status = answer.status();
        let retry_after = retry_after(answer.headers());
        let body = Limited::new(answer.into_body(), limit).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                return Failure::TooLarge;
            }
            error.downcast_ref::<hyper::Error>().map_or(Failure::Closed, failed)
        })?;
        let end = clock::uptime();
        Ok(Raw {
            status,
            retry_after,
            body: body.to_bytes(),
            first_byte: self.plain.first_read.get().unwrap_or(end),
            end,
            sent: self.wire.sent.get() - sent,
            received: self.wire.received.get() - received,
        })
    }
}

/// How long a node wants no requests, if it says so in seconds.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

fn failed(error: &hyper::Error) -> Failure {
    if error.is_parse() { Failure::Malformed } else { Failure::Closed }
}
