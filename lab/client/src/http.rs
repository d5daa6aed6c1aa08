//! Agents of ureq that try every address of a host, or use one Unix socket, and texts of errors.

use anyhow::{Context, Result};
use faultline_net::connect_resolved_blocking;
use rustls::{CertificateError, InvalidMessage};
use socket2::{Domain, SockAddr, Socket, Type};
use std::{
    io::{self, ErrorKind, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use ureq::{
    Agent, Error,
    config::Config,
    http::Uri,
    tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem},
    unversioned::{
        resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver},
        transport::{
            Buffers, ConnectProxyConnector, ConnectionDetails, Connector, Either, LazyBuffers,
            NextTimeout, RustlsConnector, Transport,
        },
    },
};

pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Uses the address of the host that answers first.
pub fn agent(config: Config) -> Agent {
    let connector =
        ().chain(ConnectProxyConnector::default())
            .chain(TcpConnector)
            .chain(RustlsConnector::default());
    Agent::with_parts(config, connector, DefaultResolver::default())
}

pub fn unix_agent(config: Config, path: PathBuf) -> Agent {
    Agent::with_parts(config, UnixConnector { path }, FixedResolver)
}

/// Short text of an error. Most I/O errors have the system's text in lower case, without number.
pub fn reason(error: &Error) -> String {
    match error {
        Error::Io(error) => io_reason(error),
        Error::Timeout(_) => "no answer in time".to_owned(),
        Error::HostNotFound => "no host of this name".to_owned(),
        Error::Protocol(_) => {
            "the answer is not HTTP; if the server uses TLS, write https://".to_owned()
        }
        Error::Other(error) => error.to_string(),
        other => other.to_string(),
    }
}

fn io_reason(error: &io::Error) -> String {
    let tls = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            "the server does not use TLS: write http://".to_owned()
        }
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "the certificate is not signed by a trusted CA: name the CA with --ca or SSL_CERT_FILE"
                .to_owned()
        }
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(other)))
            if other.to_string().contains("CaUsedAsEndEntity") =>
        {
            "the certificate is that of an authority (CA:TRUE) and not a server's: make one with \
             `openssl req -x509 -addext basicConstraints=critical,CA:FALSE`, or sign one"
                .to_owned()
        }
        _ => error
            .to_string()
            .split(" (os error")
            .next()
            .unwrap_or_default()
            .to_lowercase(),
    }
}

/// Whether the host is this machine, which a proxy cannot reach.
pub fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let ip = host.parse::<IpAddr>().map(|ip| ip.to_canonical());
    host.eq_ignore_ascii_case("localhost") || ip.is_ok_and(|ip| ip.is_loopback())
}

#[derive(Debug)]
struct TcpConnector;

impl<In: Transport> Connector<In> for TcpConnector {
    type Out = Either<In, SocketTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        if let Some(to_proxy) = chained {
            return Ok(Some(Either::A(to_proxy)));
        }
        let transport = SocketTransport::new(
            connect_resolved_blocking(
                &details.addrs,
                limit(&details.timeout).unwrap_or(CONNECT_TIMEOUT),
            )
            .map_err(|error| Error::Other(Box::new(error)))?
            .into(),
            details.config,
        );
        Ok(Some(Either::B(transport)))
    }
}

#[derive(Debug)]
struct UnixConnector {
    path: PathBuf,
}

impl Connector for UnixConnector {
    type Out = SocketTransport;

    fn connect(
        &self,
        details: &ConnectionDetails,
        _chained: Option<()>,
    ) -> Result<Option<Self::Out>, Error> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        // It also limits the wait for a place in the queue of the listener.
        socket.set_write_timeout(limit(&details.timeout))?;
        socket
            .connect(&SockAddr::unix(&self.path)?)
            .map_err(|error| timeout_error(error, &details.timeout))?;
        Ok(Some(SocketTransport::new(socket, details.config)))
    }
}

/// Resolves no name, because the address is the socket's path.
#[derive(Debug)]
struct FixedResolver;

impl Resolver for FixedResolver {
    fn resolve(
        &self,
        _uri: &Uri,
        _config: &Config,
        _timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let mut addresses = self.empty();
        addresses.push(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        Ok(addresses)
    }
}

#[derive(Debug)]
struct SocketTransport {
    socket: Socket,
    buffers: LazyBuffers,
}

impl SocketTransport {
    fn new(socket: Socket, config: &Config) -> Self {
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Self { socket, buffers }
    }
}

impl Transport for SocketTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.socket.set_write_timeout(limit(&timeout))?;
        let output = self.buffers.output().get(..amount).unwrap_or_default();
        self.socket
            .write_all(output)
            .map_err(|error| timeout_error(error, &timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.socket.set_read_timeout(limit(&timeout))?;
        let read = loop {
            match self.socket.read(self.buffers.input_append_buf()) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other.map_err(|error| timeout_error(error, &timeout))?,
            }
        };
        self.buffers.input_appended(read);
        Ok(read > 0)
    }

    /// Data or an end before the next request makes a connection unusable.
    fn is_open(&mut self) -> bool {
        let read = self
            .socket
            .set_nonblocking(true)
            .and_then(|()| self.socket.read(&mut [0]));
        let is_silent = read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        is_silent && self.socket.set_nonblocking(false).is_ok()
    }
}

fn limit(timeout: &NextTimeout) -> Option<Duration> {
    timeout.not_zero().map(|limit| *limit)
}

fn timeout_error(error: io::Error, timeout: &NextTimeout) -> Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => Error::Io(error),
    }
}

/// Trusts the certificates of `ca_file`. Without a file, trusts those of the system.
pub fn tls_config(ca_file: Option<&Path>) -> Result<TlsConfig> {
    let roots: Vec<Certificate<'static>> = match ca_file {
        Some(file) => {
            let named = || format!("--ca {}", file.display());
            let pem = std::fs::read(file).with_context(named)?;
            let items: Vec<PemItem<'static>> = parse_pem(&pem)
                .collect::<Result<_, _>>()
                .with_context(named)?;
            items
                .into_iter()
                .filter_map(|item| match item {
                    PemItem::Certificate(certificate) => Some(certificate),
                    _ => None,
                })
                .collect()
        }
        None => rustls_native_certs::load_native_certs()
            .certs
            .iter()
            .map(|der| Certificate::from_der(der).to_owned())
            .collect(),
    };
    anyhow::ensure!(
        !roots.is_empty(),
        "no certificate to trust: name a PEM file that has one with --ca or SSL_CERT_FILE, or install ca-certificates"
    );
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_local_machine_is_recognised_by_its_names_and_addresses() {
        for here in [
            "localhost",
            "LOCALHOST",
            "127.0.0.1",
            "127.8.9.1",
            "[::1]",
            "[::ffff:127.0.0.1]",
        ] {
            assert!(is_loopback(here), "{here}");
        }
        for elsewhere in ["localhost.example.org", "10.0.0.1", "[::2]", ""] {
            assert!(!is_loopback(elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn a_unix_socket_that_accepts_no_connection_is_given_up_in_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let address = SockAddr::unix(&path).unwrap();
        let socket = || Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        let listener = socket();
        listener.bind(&address).unwrap();
        listener.listen(0).unwrap();
        let mut queued = Vec::new();
        loop {
            let client = socket();
            client.set_nonblocking(true).unwrap();
            if client.connect(&address).is_err() {
                break;
            }
            queued.push(client);
        }
        // Without a timeout, the connection waits until the listener is closed.
        let (done, ended) = std::sync::mpsc::channel::<()>();
        let close = std::thread::Builder::new().spawn(move || {
            let _ = ended.recv_timeout(Duration::from_secs(20));
            drop((listener, queued));
        });
        let limit = Some(Duration::from_millis(50));
        let config = Config::builder().timeout_global(limit).proxy(None).build();
        let error = unix_agent(config, path).get("http://localhost/").call();
        assert_eq!(reason(&error.unwrap_err()), "no answer in time");
        drop(done);
        close.unwrap().join().unwrap();
    }
}
