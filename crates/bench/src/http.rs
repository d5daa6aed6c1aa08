//! One connection to a node, and when what of an answer arrived on it.

use crate::endpoint::Endpoint;
use crate::failure::Failure;
use anyhow::Context as _;
use faultline_command::clock;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST, RETRY_AFTER};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::cell::Cell;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

/// Which certificates are trusted: the system's, or those of a file.
///
/// # Errors
/// The file cannot be read or used, or there is no certificate.
pub(crate) fn trusting(authorities: Option<&Path>) -> anyhow::Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(file) => {
            let named = || format!("--ca {}", file.display());
            for certificate in CertificateDer::pem_file_iter(file).with_context(named)? {
                roots.add(certificate.with_context(named)?).with_context(named)?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    anyhow::ensure!(!roots.is_empty(), "no certificate to trust: name a PEM file with --ca");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// What passed on a connection since it was last looked at.
#[derive(Debug, Default)]
struct Seen {
    first_read: Cell<Option<Duration>>,
    received: Cell<u64>,
    sent: Cell<u64>,
}

/// A stream that keeps when bytes arrived and how many passed.
struct Watched<S> {
    stream: S,
    seen: Rc<Seen>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let read = buffer.filled().len() - before;
        if read > 0 && self.seen.first_read.get().is_none() {
            self.seen.first_read.set(Some(clock::uptime()));
        }
        self.seen.received.set(self.seen.received.get() + read as u64);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.seen.sent.set(self.seen.sent.get() + written as u64);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

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
    pub(crate) async fn open(endpoint: &Endpoint, tls: Option<&TlsConnector>) -> Result<Opened, Failure> {
        let begun = clock::uptime();
        let tcp = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await.map_err(|_| Failure::Connect)?;
        tcp.set_nodelay(true).map_err(|_| Failure::Connect)?;
        let connected = clock::uptime();
        let wire = Rc::new(Seen::default());
        let tcp = Watched { stream: tcp, seen: wire.clone() };
        let (link, tls_time) = match tls.filter(|_| endpoint.tls) {
            None => (Link::over(tcp, wire.clone(), wire).await?, Duration::ZERO),
            Some(connector) => {
                let name = ServerName::try_from(endpoint.host.clone()).map_err(|_| Failure::Connect)?;
                let stream = connector.connect(name, tcp).await.map_err(|_| Failure::Connect)?;
                let took = clock::uptime().saturating_sub(connected);
                let plain = Rc::new(Seen::default());
                (Link::over(Watched { stream, seen: plain.clone() }, plain, wire).await?, took)
            }
        };
        Ok(Opened { link, connect: connected.saturating_sub(begun), tls: tls_time })
    }

    async fn over<S>(stream: S, plain: Rc<Seen>, wire: Rc<Seen>) -> Result<Link, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let (send, connection) = handshake(TokioIo::new(stream)).await.map_err(|_| Failure::Connect)?;
        let mut driver = JoinSet::new();
        // Its error reaches whoever waits for an answer.
        driver.spawn_local(async move { drop(connection.await) });
        Ok(Link { send, plain, wire, _driver: driver })
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
