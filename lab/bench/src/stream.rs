mod shape;

use crate::{endpoint::Endpoint, failure::Failure, protocol::Protocol};
use anyhow::{Context as _, Result};
use faultline_common::clock;
use hyper::{StatusCode, body::Bytes};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
pub use shape::LinkShape;
use shape::ShapedStream;
use std::{
    cell::Cell,
    io,
    path::Path,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::sleep,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Connecting ends this long before its request times out, so that the failure names the
/// addresses.
const CONNECT_MARGIN: Duration = Duration::from_millis(10);
const HTTP_1: &[u8] = b"http/1.1";
const HTTP_2: &[u8] = b"h2";

/// Trusts the certificates of the file, or the system's without one.
pub fn tls_connector(ca_file: Option<&Path>) -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(file) => {
            let named = || format!("--ca {}", file.display());
            for certificate in CertificateDer::pem_file_iter(file).with_context(named)? {
                roots
                    .add(certificate.with_context(named)?)
                    .with_context(named)?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    anyhow::ensure!(
        !roots.is_empty(),
        "no certificate to trust: name a PEM file with --ca"
    );
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![HTTP_1.to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

#[derive(Debug, Clone)]
pub struct LinkConfig {
    pub endpoint: Endpoint,
    pub shape: LinkShape,
    pub protocol: Protocol,
}

impl LinkConfig {
    pub fn new(endpoint: Endpoint, protocol: Protocol) -> LinkConfig {
        LinkConfig {
            endpoint,
            shape: LinkShape::default(),
            protocol,
        }
    }
}

/// Since the last reset.
#[derive(Debug, Default)]
pub struct TrafficCounter {
    pub first_read: Cell<Option<Duration>>,
    received: Cell<u64>,
    sent: Cell<u64>,
}

struct CountedStream<S> {
    stream: S,
    counter: Rc<TrafficCounter>,
}

impl<S: AsyncRead + Unpin> AsyncRead for CountedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let read = buffer.filled().len() - before;
        if read > 0 && self.counter.first_read.get().is_none() {
            self.counter.first_read.set(Some(clock::uptime()));
        }
        self.counter
            .received
            .set(self.counter.received.get() + read as u64);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CountedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.counter
            .sent
            .set(self.counter.sent.get() + written as u64);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

pub trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

/// The traffic of a connection.
pub struct Traffic {
    /// Decrypted bytes. The first one belongs to the answer, not to a TLS session ticket.
    pub plain: Rc<TrafficCounter>,
    /// Bytes on the wire.
    wire: Rc<TrafficCounter>,
    /// How long connecting took, with name resolution; then TLS, 0 without it.
    pub opened_in: [Duration; 2],
}

impl Traffic {
    /// Counts from zero again.
    pub fn reset(&self) {
        self.plain.first_read.set(None);
        self.wire.received.set(0);
        self.wire.sent.set(0);
    }

    pub fn received(&self) -> u64 {
        self.wire.received.get()
    }

    /// An answer that ended at `end`, to a request that was sent after the last reset.
    pub fn answer(&self, body: Bytes, end: Duration) -> RawAnswer {
        RawAnswer {
            status: StatusCode::OK,
            retry_after: None,
            body,
            first_byte: self.plain.first_read.get().unwrap_or(end),
            end,
            sent: self.wire.sent.get(),
            received: self.received(),
        }
    }
}

#[derive(Debug)]
pub struct RawAnswer {
    pub status: StatusCode,
    pub retry_after: Option<Duration>,
    pub body: Bytes,
    /// For HTTP/2, when the headers were read.
    pub first_byte: Duration,
    pub end: Duration,
    /// With headers and TLS, without TCP.
    pub sent: u64,
    pub received: u64,
}

impl RawAnswer {
    /// [`PHASES`](crate::results::PHASES) without the first, of an answer that is decoded now. Its
    /// connection was opened from `begun` on.
    pub fn phases(&self, begun: Duration, [connect, tls]: [Duration; 2]) -> [Duration; 5] {
        [
            connect,
            tls,
            self.first_byte.saturating_sub(begun + connect + tls),
            self.end.saturating_sub(self.first_byte),
            clock::uptime().saturating_sub(self.end),
        ]
    }
}

/// Fails with [`Failure::Connect`], or with [`Failure::NoHttp2`] if the TLS handshake does not
/// offer it.
pub async fn connect(
    kind: &LinkConfig,
    tls: Option<&TlsConnector>,
    time_limit: Duration,
) -> Result<(Box<dyn Stream>, Traffic), Failure> {
    let (endpoint, shape) = (&kind.endpoint, kind.shape);
    let begun = clock::uptime();
    let limit = time_limit.saturating_sub(CONNECT_MARGIN);
    let tcp = faultline_net::connect(&endpoint.host, endpoint.port, limit)
        .await
        .map_err(|error| Failure::Connect(error.to_string()))?;
    // The TCP handshake takes one round trip.
    sleep(shape.added).await;
    let connected = clock::uptime();
    let wire = Rc::new(TrafficCounter::default());
    let tcp: Box<dyn Stream> = if shape.is_none() {
        Box::new(tcp)
    } else {
        Box::new(ShapedStream::new(tcp, shape))
    };
    let tcp = CountedStream {
        stream: tcp,
        counter: wire.clone(),
    };
    let connect = connected.saturating_sub(begun);
    let Some(connector) = tls.filter(|_| endpoint.tls) else {
        let traffic = Traffic {
            plain: wire.clone(),
            wire,
            opened_in: [connect, Duration::ZERO],
        };
        return Ok((Box::new(tcp), traffic));
    };
    let stream = handshake(connector, endpoint, kind.protocol, tcp).await?;
    let tls = clock::uptime().saturating_sub(connected);
    let plain = Rc::new(TrafficCounter::default());
    let stream = CountedStream {
        stream,
        counter: plain.clone(),
    };
    let traffic = Traffic {
        plain,
        wire,
        opened_in: [connect, tls],
    };
    Ok((Box::new(stream), traffic))
}

async fn handshake<S: Stream>(
    connector: &TlsConnector,
    endpoint: &Endpoint,
    protocol: Protocol,
    tcp: S,
) -> Result<TlsStream<S>, Failure> {
    let node = &endpoint.authority;
    let no_tls = |error: io::Error| match is_no_http2(&error) && protocol == Protocol::Http2 {
        true => Failure::NoHttp2,
        false => Failure::Connect(format!("no TLS with {node} ({error})")),
    };
    let name = ServerName::try_from(endpoint.host.clone())
        .map_err(|error| no_tls(io::Error::other(error)))?;
    if protocol != Protocol::Http2 {
        return connector.connect(name, tcp).await.map_err(no_tls);
    }
    let with_http2 = connector.with_alpn(vec![HTTP_2.to_vec()]);
    let stream = with_http2.connect(name, tcp).await.map_err(no_tls)?;
    match stream.get_ref().1.alpn_protocol() {
        Some(HTTP_2) => Ok(stream),
        _ => Err(Failure::NoHttp2),
    }
}

fn is_no_http2(error: &io::Error) -> bool {
    let alert = rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol);
    let message = error
        .get_ref()
        .and_then(|error| error.downcast_ref::<rustls::Error>());
    message == Some(&alert)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{net::TcpListener, thread};

    fn failure(url: &str, connector: Option<&TlsConnector>) -> String {
        let kind = LinkConfig {
            endpoint: Endpoint::parse(url).unwrap(),
            shape: LinkShape::default(),
            protocol: Protocol::Http,
        };
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_io().enable_time().build().unwrap();
        match runtime.block_on(connect(&kind, connector, Duration::from_secs(20))) {
            Err(failure @ Failure::Connect(_)) => failure.to_string(),
            other => panic!("{:?}", other.map(drop)),
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a node has a thread of its own")]
    fn dns_connect_and_tls_failures_have_distinct_messages_with_the_address() {
        let closed = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        assert_eq!(
            failure(&format!("http://{closed}"), None),
            format!("no connection to {closed} (connection refused)")
        );
        let unknown = failure("http://node.invalid:1", None);
        assert!(
            unknown.starts_with("no address for node.invalid ("),
            "{unknown}"
        );
        let plain = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = plain.local_addr().unwrap();
        let node = thread::spawn(move || {
            let (mut stream, _) = plain.accept().unwrap();
            io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
            stream
        });
        let authority = rcgen::generate_simple_self_signed(["node".to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, authority.cert.pem()).unwrap();
        let connector = tls_connector(Some(&file)).unwrap();
        let no_tls = failure(&format!("https://{address}"), Some(&connector));
        assert!(
            no_tls.starts_with(&format!("no TLS with {address} (")),
            "{no_tls}"
        );
        node.join().unwrap();
    }
}
