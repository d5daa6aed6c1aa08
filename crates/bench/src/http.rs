//! One connection to a node, and when what of an answer arrived on it.

use crate::failure::Failure;
use crate::plan::LinkKind;
use crate::protocol::Protocol;
use crate::stream::{self, Connected, Seen, Stream};
use faultline_command::clock;
use faultline_net::{retry_after, unrequested_coding};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::header::{ACCEPT_ENCODING, CONTENT_TYPE, HOST, HeaderValue};
use hyper::http::response::Parts;
use hyper::rt::Executor;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
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

type Io = TokioIo<Box<dyn Stream>>;

/// By version of HTTP.
enum Version {
    One {
        send: http1::SendRequest<Full<Bytes>>,
        /// What reads and writes, until the connection is closed.
        connection: Option<Box<http1::Connection<Io, Full<Bytes>>>>,
        host: HeaderValue,
    },
    Two {
        send: http2::SendRequest<Full<Bytes>>,
        _tasks: Tasks,
    },
}

/// An open connection; closed when dropped.
pub(crate) struct Link {
    version: Version,
    /// What is asked there.
    target: Uri,
    /// Of what HTTP is, behind TLS: the first byte of an answer, and not of a session ticket.
    plain: Rc<Seen>,
    /// Of what is on the wire.
    wire: Rc<Seen>,
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
    /// When the first byte of the answer was read; over HTTP/2, its headers.
    pub(crate) first_byte: Duration,
    /// When its last one was.
    pub(crate) end: Duration,
    /// Bytes on the wire: headers and TLS included, TCP and below not.
    pub(crate) sent: u64,
    /// The same of what came back.
    pub(crate) received: u64,
}

impl Link {
    /// Connects `within` that time, with HTTP/2 or HTTP/1.1.
    ///
    /// # Errors
    /// [`Failure::Connect`], [`Failure::NoHttp2`].
    pub(crate) async fn open(
        kind: &LinkKind,
        tls: Option<&TlsConnector>,
        within: Duration,
    ) -> Result<Opened<Link>, Failure> {
        let Connected {
            stream,
            plain,
            wire,
            connect,
            tls,
        } = stream::connect(kind, tls, within).await?;
        let (stream, endpoint) = (TokioIo::new(stream), &kind.endpoint);
        // Errors of a connection reach whoever waits for an answer.
        let (version, target) = if kind.protocol == Protocol::Http2 {
            let tasks = Tasks::default();
            let shaken = http2::handshake(tasks.clone(), stream).await;
            let (send, connection) = shaken.map_err(|_| Failure::NoHttp2)?;
            tasks.execute(connection);
            (
                Version::Two {
                    send,
                    _tasks: tasks,
                },
                endpoint.whole(),
            )
        } else {
            let (send, connection) = http1::handshake(stream)
                .await
                .map_err(|_| Failure::Closed)?;
            let host =
                HeaderValue::from_str(&endpoint.authority).map_err(|_| Failure::Malformed)?;
            (
                Version::One {
                    send,
                    connection: Some(Box::new(connection)),
                    host,
                },
                endpoint.path.clone(),
            )
        };
        let target = target.parse().map_err(|_| Failure::Malformed)?;
        Ok(Opened {
            link: Link {
                version,
                target,
                plain,
                wire,
            },
            connect,
            tls,
        })
    }

    /// Whether the next request can be sent. A node may have closed the connection meanwhile.
    pub(crate) async fn is_usable(&mut self) -> bool {
        match &mut self.version {
            Version::One {
                send, connection, ..
            } => driven(connection, send.ready()).await.is_ok(),
            Version::Two { send, .. } => send.ready().await.is_ok(),
        }
    }

    /// Sends one request and reads its whole answer, of at most `limit` bytes.
    ///
    /// # Errors
    /// [`Failure::Closed`], [`Failure::Malformed`], [`Failure::Encoded`] or [`Failure::TooLarge`]; the connection is of no
    /// further use then.
    pub(crate) async fn ask(&mut self, body: Bytes, limit: usize) -> Result<Raw, Failure> {
        self.plain.first_read.set(None);
        let (received, sent) = (self.wire.received.get(), self.wire.sent.get());
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.target.clone();
        request
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // What is measured is the encoding of the answer itself.
        request
            .headers_mut()
            .insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let (head, body) = match &mut self.version {
            Version::One {
                send,
                connection,
                host,
            } => {
                request.headers_mut().insert(HOST, host.clone());
                let answered = async {
                    // Nothing else has driven the connection since the last answer.
                    send.ready().await.map_err(|error| failed(&error))?;
                    whole(send.send_request(request), limit).await
                };
                driven(connection, answered).await?
            }
            Version::Two { send, .. } => {
                let answer = send.send_request(request);
                let answer = async {
                    let answer = answer.await;
                    // What came before were frames of the connection.
                    self.plain.first_read.set(Some(clock::uptime()));
                    answer
                };
                whole(answer, limit).await?
            }
        };
        let end = clock::uptime();
        if let Some(coding) = unrequested_coding(&head.headers).filter(|_| head.status.is_success())
        {
            return Err(Failure::Encoded(coding));
        }
        Ok(Raw {
            status: head.status,
            retry_after: retry_after(&head.headers, clock::now()),
            body,
            first_byte: self.plain.first_read.get().unwrap_or(end),
            end,
            sent: self.wire.sent.get() - sent,
            received: self.wire.received.get() - received,
        })
    }
}

/// Does `work`, and what the connection has to do for it: in a task of its own that would cost wake-ups.
async fn driven<T>(
    connection: &mut Option<Box<http1::Connection<Io, Full<Bytes>>>>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    poll_fn(|cx| {
        // The work may wait for the connection, and the connection for the work.
        for _ in 0..2 {
            if connection
                .as_mut()
                .is_some_and(|connection| Pin::new(connection).poll(cx).is_ready())
            {
                *connection = None;
            }
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
        }
        Poll::Pending
    })
    .await
}

/// An answer with its body.
async fn whole(
    answer: impl Future<Output = hyper::Result<Response<Incoming>>>,
    limit: usize,
) -> Result<(Parts, Bytes), Failure> {
    let (head, body) = answer.await.map_err(|error| failed(&error))?.into_parts();
    let body = Limited::new(body, limit).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() {
            return Failure::TooLarge;
        }
        error
            .downcast_ref::<hyper::Error>()
            .map_or(Failure::Closed, failed)
    })?;
    Ok((head, body.to_bytes()))
}

fn failed(error: &hyper::Error) -> Failure {
    if error.is_parse() {
        Failure::Malformed
    } else {
        Failure::Closed
    }
}
