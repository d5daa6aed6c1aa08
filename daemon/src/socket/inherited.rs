//! What systemd hands over: `LISTEN_FDS` sockets from descriptor 3 on, named by `FileDescriptorName=` of their units.

use super::{Bound, Socket};
use listenfd::ListenFd;
use std::io;

/// The name of sockets for pushes.
const INGEST: &str = "ingest";
/// The name of sockets for /metrics.
const METRICS: &str = "metrics";

/// Why what was handed over cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InheritError {
    /// The variables contradict each other.
    #[error("what systemd handed over cannot be read: {0}")]
    Variables(#[source] io::Error),
    /// A socket without a use.
    #[error(
        "systemd handed over a socket called {0:?}: give its unit FileDescriptorName=ingest or FileDescriptorName=metrics"
    )]
    Name(String),
    /// No stream socket that listens.
    #[error(
        "the socket {name} that systemd handed over cannot be listened on: {source}; is it ListenStream=, and Accept=no?"
    )]
    Socket {
        /// By its `FileDescriptorName=`.
        name: String,
        /// What the system said.
        source: io::Error,
    },
}

/// Sockets by their use; none where systemd hands none over.
#[derive(Debug, Default)]
pub struct Inherited {
    pub ingest: Vec<Bound>,
    /// For /metrics and the pages.
    pub metrics: Vec<Bound>,
}

impl Inherited {
    /// Takes what was handed over to this process. Once in its life, and before it has a second thread, since the
    /// variables are taken out of the environment.
    ///
    /// # Errors
    /// A socket that has no known name, or is none to listen on.
    pub fn take() -> Result<Inherited, InheritError> {
        // The names, without those that were meant for another process; and the only safe way to the sockets.
        let names: Vec<String> = sd_notify::listen_fds_with_names()
            .map_err(InheritError::Variables)?
            .map(|(_, name)| name)
            .collect();
        let mut inherited = Inherited::default();
        if names.is_empty() {
            return Ok(inherited);
        }
        let mut sockets = ListenFd::from_env();
        for (number, name) in names.into_iter().enumerate() {
            let uses = match name.as_str() {
                INGEST => &mut inherited.ingest,
                METRICS => &mut inherited.metrics,
                _ => return Err(InheritError::Name(name)),
            };
            match take(&mut sockets, number) {
                Ok(bound) => uses.push(bound),
                Err(source) => return Err(InheritError::Socket { name, source }),
            }
        }
        Ok(inherited)
    }
}

fn take(sockets: &mut ListenFd, number: usize) -> io::Result<Bound> {
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let socket = match sockets.take_tcp_listener(number) {
        Ok(socket) => {
            let socket = socket.ok_or_else(gone)?;
            listens(&socket)?;
            Socket::Tcp(socket)
        }
        Err(_) => {
            let socket = sockets.take_unix_listener(number)?.ok_or_else(gone)?;
            listens(&socket)?;
            Socket::Unix(socket)
        }
    };
    Bound::new(socket, true)
}

/// A connection that was accepted for us, as with `Accept=yes`, is none to listen on.
fn listens(socket: &impl std::os::fd::AsFd) -> io::Result<()> {
    if rustix::net::sockopt::socket_acceptconn(socket)? {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "no process listens on it",
        ))
    }
}
