//! TCP and TLS connections that count their bytes.

mod shape;

use crate::{endpoint::Endpoint, failure::Failure, protocol::Protocol};
use anyhow::{Context as _, Result};
use faultline_common::clock;
use hyper::{StatusCode, body::Bytes};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use shape::ShapedStream;
pub use shape::{LinkShape, TIMER_PRECISION};
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

/// Connecting times out this long before the request, because its error names the addresses.
const CONNECT_MARGIN: Duration = Duration::from_millis(10);
const HTTP_1: &[u8] = b"http/1.1";
const HTTP_2: &[u8] = b"h2";

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

/// How an arm reaches its node.
#[derive(Debug, Clone)]
pub struct ConnectionConfig {
    pub endpoint: Endpoint,
    pub link_shape: LinkShape,
    pub protocol: Protocol,
}

impl ConnectionConfig {
    pub fn new(endpoint: Endpoint, protocol: Protocol) -> Self {
        Self {
            endpoint,
            link_shape: LinkShape::default(),
            protocol,
        }
    }
}

/// Bytes, and when the first was read. [`Traffic::reset`] resets only what [`Traffic`] reads.
#[derive(Default)]
pub struct TrafficCounter {
    pub first_read_at: Cell<Option<Duration>>,
    pub received: Cell<u64>,
    sent: Cell<u64>,
}

pub struct CountedStream {
    stream: Box<dyn Stream>,
    counter: Rc<TrafficCounter>,
}

impl AsyncRead for CountedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let read = buffer.filled().len() - before;
        let counter = &self.counter;
        if read > 0 && counter.first_read_at.get().is_none() {
            counter.first_read_at.set(Some(clock::uptime()));
        }
        counter.received.update(|bytes| bytes + read as u64);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for CountedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.counter.sent.update(|bytes| bytes + written as u64);
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

pub struct Traffic {
    /// Counts decrypted bytes: the first on the wire may be of a TLS session ticket.
    pub decrypted: Rc<TrafficCounter>,
    pub wire: Rc<TrafficCounter>,
    /// Time to connect, with name resolution; time of the TLS handshake, 0 without TLS.
    pub connect_and_tls_times: [Duration; 2],
}

impl Traffic {
    pub fn reset(&self) {
        self.decrypted.first_read_at.set(None);
        self.wire.received.set(0);
        self.wire.sent.set(0);
    }

    /// The answer to a request that was sent after the last reset.
    pub fn answer(&self, body: Bytes, end_at: Duration) -> RawAnswer {
        RawAnswer {
            status: StatusCode::OK,
            retry_after: None,
            body,
            first_byte_at: self.decrypted.first_read_at.get().unwrap_or(end_at),
            end_at,
            sent: self.wire.sent.get(),
            received: self.wire.received.get(),
        }
    }
}

pub struct RawAnswer {
    pub status: StatusCode,
    pub retry_after: Option<Duration>,
    pub body: Bytes,
    /// For HTTP/2, the time when the headers were read.
    pub first_byte_at: Duration,
    pub end_at: Duration,
    /// Bytes with headers and TLS, without TCP.
    pub sent: u64,
    pub received: u64,
}

impl RawAnswer {
    /// [`crate::results::PHASES`] without the first. The last phase, decoding, ends now. `begun` is
    /// the start of the request, before it opened a connection.
    pub fn phases(&self, begun: Duration, [connect, tls]: [Duration; 2]) -> [Duration; 5] {
        [
            connect,
            tls,
            self.first_byte_at.saturating_sub(begun + connect + tls),
            self.end_at.saturating_sub(self.first_byte_at),
            clock::uptime().saturating_sub(self.end_at),
        ]
    }
}

/// Fails with [`Failure::Connect`], or with [`Failure::NoHttp2`] if the node's TLS does not offer
/// HTTP/2.
pub async fn connect(
    config: &ConnectionConfig,
    tls: Option<&TlsConnector>,
    time_limit: Duration,
) -> Result<(CountedStream, Traffic), Failure> {
    let (endpoint, link_shape) = (&config.endpoint, config.link_shape);
    let begun = clock::uptime();
    let limit = time_limit.saturating_sub(CONNECT_MARGIN);
    let tcp = faultline_net::connect(&endpoint.host, endpoint.port, limit)
        .await
        .map_err(|error| Failure::Connect(error.to_string()))?;
    // The TCP handshake takes one round trip.
    sleep(link_shape.added_rtt).await;
    let connected = clock::uptime();
    let wire: Rc<TrafficCounter> = Rc::default();
    let mut stream = CountedStream {
        stream: if link_shape.has_no_effect() {
            Box::new(tcp)
        } else {
            Box::new(ShapedStream::new(Box::new(tcp), link_shape))
        },
        counter: wire.clone(),
    };
    let mut traffic = Traffic {
        decrypted: wire.clone(),
        wire,
        connect_and_tls_times: [connected.saturating_sub(begun), Duration::ZERO],
    };
    if endpoint.uses_tls
        && let Some(connector) = tls
    {
        let decrypted = handshake(connector, endpoint, config.protocol, stream).await?;
        traffic.connect_and_tls_times[1] = clock::uptime().saturating_sub(connected);
        traffic.decrypted = Rc::default();
        stream = CountedStream {
            stream: Box::new(decrypted),
            counter: traffic.decrypted.clone(),
        };
    }
    Ok((stream, traffic))
}

async fn handshake(
    connector: &TlsConnector,
    endpoint: &Endpoint,
    protocol: Protocol,
    tcp: CountedStream,
) -> Result<TlsStream<CountedStream>, Failure> {
    let node = &endpoint.authority;
    let failure = |error| {
        if protocol == Protocol::Http2 && is_no_http2(&error) {
            return Failure::NoHttp2;
        }
        Failure::Connect(format!("no TLS with {node} ({error})"))
    };
    let name = ServerName::try_from(endpoint.host.clone())
        .map_err(|error| failure(io::Error::other(error)))?;
    if protocol != Protocol::Http2 {
        return connector.connect(name, tcp).await.map_err(failure);
    }
    let stream = connector
        .with_alpn(vec![HTTP_2.to_vec()])
        .connect(name, tcp)
        .await
        .map_err(failure)?;
    match stream.get_ref().1.alpn_protocol() {
        Some(HTTP_2) => Ok(stream),
        _ => Err(Failure::NoHttp2),
    }
}

/// Whether the node refused the only protocol that was offered.
fn is_no_http2(error: &io::Error) -> bool {
    let alert = rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol);
    let cause = error.get_ref().and_then(|error| error.downcast_ref());
    cause == Some(&alert)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{net::TcpListener, thread};

    fn failure(url: &str, connector: Option<&TlsConnector>) -> String {
        let config = ConnectionConfig {
            endpoint: Endpoint::parse(url).unwrap(),
            link_shape: LinkShape::default(),
            protocol: Protocol::Http,
        };
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_io().enable_time().build().unwrap();
        match runtime.block_on(connect(&config, connector, Duration::from_secs(20))) {
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
