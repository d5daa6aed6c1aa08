//! HTTP over a unix socket.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;
use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

/// Connects to one socket, whatever host is asked for.
#[derive(Debug)]
pub(super) struct UnixConnector {
    path: PathBuf,
}

impl UnixConnector {
    pub(super) fn new(path: PathBuf) -> Self {
        UnixConnector { path }
    }
}

impl Connector for UnixConnector {
    type Out = UnixTransport;

    fn connect(
        &self,
        details: &ConnectionDetails,
        _chained: Option<()>,
    ) -> Result<Option<Self::Out>, Error> {
        let stream = UnixStream::connect(&self.path)?;
        let buffers = LazyBuffers::new(
            details.config.input_buffer_size(),
            details.config.output_buffer_size(),
        );
        Ok(Some(UnixTransport { stream, buffers }))
    }
}

/// Looks no name up: there is one place to connect to.
#[derive(Debug)]
pub(super) struct AnyName;

impl Resolver for AnyName {
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

/// One connection.
#[derive(Debug)]
pub(super) struct UnixTransport {
    stream: UnixStream,
    buffers: LazyBuffers,
}

impl Transport for UnixTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.set_write_timeout(limit(&timeout))?;
        let output = self.buffers.output().get(..amount).unwrap_or_default();
        self.stream
            .write_all(output)
            .map_err(|error| late(error, &timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.set_read_timeout(limit(&timeout))?;
        let read = loop {
            match self.stream.read(self.buffers.input_append_buf()) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other.map_err(|error| late(error, &timeout))?,
            }
        };
        self.buffers.input_appended(read);
        Ok(read > 0)
    }

    fn is_open(&mut self) -> bool {
        // A connection for each question: nothing is gained by keeping one on the same host.
        false
    }
}

fn limit(timeout: &NextTimeout) -> Option<Duration> {
    timeout.not_zero().map(|limit| *limit)
}

fn late(error: io::Error, timeout: &NextTimeout) -> Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => Error::Io(error),
    }
}
