//! Sockets from systemd: `LISTEN_FDS` sockets from descriptor 3, named by `FileDescriptorName=`.

use super::Bound;
use listenfd::ListenFd;
use std::io;

const INGEST: &str = "ingest";
const METRICS: &str = "metrics";

#[derive(Debug, thiserror::Error)]
pub enum InheritError {
    #[error("what systemd handed over cannot be read: {0}")]
    Variables(#[source] io::Error),
    #[error(
        "systemd handed over a socket called {0:?}: give its unit FileDescriptorName=ingest or FileDescriptorName=metrics"
    )]
    Name(String),
    /// Not a listening stream socket.
    #[error(
        "the socket {name} that systemd handed over cannot be listened on: {source}; is it ListenStream=, and Accept=no?"
    )]
    Socket { name: String, source: io::Error },
}

#[derive(Debug, Default)]
pub struct Inherited {
    pub ingest: Vec<Bound>,
    pub metrics: Vec<Bound>,
}

impl Inherited {
    /// Call it once, before a second thread exists, because it removes environment variables.
    ///
    /// # Errors
    /// A socket has an unknown name or does not listen.
    pub fn take() -> Result<Inherited, InheritError> {
        // Skips names meant for another process. It is also the only safe API for the sockets.
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
    match sockets.take_tcp_listener(number) {
        Ok(socket) => {
            let socket = socket.ok_or_else(gone)?;
            listens(&socket)?;
            Bound::handed_over(socket)
        }
        Err(_) => {
            let socket = sockets.take_unix_listener(number)?.ok_or_else(gone)?;
            listens(&socket)?;
            Bound::handed_over_unix(socket)
        }
    }
}

/// Rejects an accepted connection, as from `Accept=yes`.
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
