//! Sockets from systemd: `LISTEN_FDS` sockets from descriptor 3, named by `FileDescriptorName=`.

use super::BoundSocket;
use listenfd::ListenFd;
use std::io;

const INGEST: &str = "ingest";
const METRICS: &str = "metrics";

#[derive(Debug, thiserror::Error)]
pub enum InheritError {
    #[error("the list of sockets from systemd cannot be read: {0}")]
    Variables(#[source] io::Error),
    #[error(
        "systemd passed a socket with the unknown name {0:?}: set FileDescriptorName=ingest or FileDescriptorName=metrics in its unit"
    )]
    Name(String),
    /// Not a listening stream socket.
    #[error(
        "cannot listen on the socket {name} from systemd: {source}; its unit needs ListenStream= and Accept=no"
    )]
    Socket { name: String, source: io::Error },
}

#[derive(Default)]
pub struct InheritedSockets {
    pub ingest: Vec<BoundSocket>,
    pub metrics: Vec<BoundSocket>,
}

impl InheritedSockets {
    /// Call it once, before a second thread exists, because it removes environment variables.
    ///
    /// # Errors
    /// A socket has an unknown name or does not listen.
    pub fn take() -> Result<InheritedSockets, InheritError> {
        // `sd_notify` skips sockets meant for another process. `ListenFd` needs no unsafe code.
        let names: Vec<String> = sd_notify::listen_fds_with_names()
            .map_err(InheritError::Variables)?
            .map(|(_, name)| name)
            .collect();
        let mut inherited = InheritedSockets::default();
        if names.is_empty() {
            return Ok(inherited);
        }
        let mut sockets = ListenFd::from_env();
        for (index, name) in names.into_iter().enumerate() {
            let listener_sockets = match name.as_str() {
                INGEST => &mut inherited.ingest,
                METRICS => &mut inherited.metrics,
                _ => return Err(InheritError::Name(name)),
            };
            match take(&mut sockets, index) {
                Ok(bound) => listener_sockets.push(bound),
                Err(source) => return Err(InheritError::Socket { name, source }),
            }
        }
        Ok(inherited)
    }
}

fn take(sockets: &mut ListenFd, index: usize) -> io::Result<BoundSocket> {
    let missing = || io::Error::from(io::ErrorKind::NotFound);
    match sockets.take_tcp_listener(index) {
        Ok(socket) => {
            let socket = socket.ok_or_else(missing)?;
            require_listening(&socket)?;
            BoundSocket::inherited_tcp(socket)
        }
        Err(_) => {
            let socket = sockets.take_unix_listener(index)?.ok_or_else(missing)?;
            require_listening(&socket)?;
            BoundSocket::inherited_unix(socket)
        }
    }
}

/// Rejects an accepted connection, as from `Accept=yes`.
fn require_listening(socket: &impl std::os::fd::AsFd) -> io::Result<()> {
    if rustix::net::sockopt::socket_acceptconn(socket)? {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "no process listens on it",
        ))
    }
}
