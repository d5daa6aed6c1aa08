//! Listening sockets, bound here or inherited from systemd. Inherited sockets outlive the daemon:
//! during a restart the kernel queues new connections.

mod peer_user;

pub use peer_user::{PeerUserError, peer_uid};

use listenfd::ListenFd;
use rustix::{
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType},
};
use std::{
    fmt, io,
    net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener},
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    task::{Context, Poll},
    time::Duration,
};
use tokio_util::either::Either;

#[derive(Debug, Clone, PartialEq)]
pub enum ListenAddress {
    Tcp(SocketAddr),
    /// The path, whose permissions decide who may connect. Empty for a socket without a path.
    Unix(PathBuf),
}

impl ListenAddress {
    /// True if only this machine can reach it.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }

    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Connects to a Unix socket. Never waits for a listener that stopped accepting; may wait for an
/// unresponsive file system.
pub fn connect(path: &Path) -> Result<UnixStream, Errno> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &address)?;
    Ok(UnixStream::from(socket))
}

pub fn listen_addresses(sockets: &[BoundSocket]) -> Vec<String> {
    sockets
        .iter()
        .map(|socket| socket.listen_address.to_string())
        .collect()
}

#[derive(Debug)]
pub struct BoundSocket {
    pub listen_address: ListenAddress,
    socket: Socket,
    inherited: bool,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl BoundSocket {
    pub fn inherited_tcp(socket: TcpListener) -> io::Result<Self> {
        Self::new(Socket::Tcp(socket), true)
    }

    pub fn inherited_unix(socket: UnixListener) -> io::Result<Self> {
        Self::new(Socket::Unix(socket), true)
    }

    pub fn bind_tcp(address: SocketAddr) -> io::Result<Self> {
        Self::new(Socket::Tcp(TcpListener::bind(address)?), false)
    }

    fn new(socket: Socket, inherited: bool) -> io::Result<Self> {
        let listen_address = match &socket {
            Socket::Tcp(socket) => {
                socket.set_nonblocking(true)?;
                ListenAddress::Tcp(socket.local_addr()?)
            }
            Socket::Unix(socket) => {
                socket.set_nonblocking(true)?;
                ListenAddress::Unix(
                    socket
                        .local_addr()?
                        .as_pathname()
                        .map_or_else(PathBuf::new, PathBuf::from),
                )
            }
        };
        Ok(Self {
            listen_address,
            socket,
            inherited,
        })
    }
}

pub fn first_tcp_address(sockets: &[BoundSocket]) -> Option<SocketAddr> {
    sockets
        .iter()
        .find_map(|socket| socket.listen_address.tcp())
}

pub(crate) struct AcceptingSockets {
    sockets: Vec<AcceptingSocket>,
    /// The socket to poll first, so that none starves another.
    first: usize,
}

struct AcceptingSocket {
    listener: Either<tokio::net::TcpListener, tokio::net::UnixListener>,
    inherited: bool,
}

impl AcceptingSockets {
    /// Needs a runtime with I/O.
    pub fn register(bound: Vec<BoundSocket>) -> io::Result<Self> {
        let register = |bound: BoundSocket| {
            let listener = match bound.socket {
                Socket::Tcp(socket) => Either::Left(tokio::net::TcpListener::from_std(socket)?),
                Socket::Unix(socket) => Either::Right(tokio::net::UnixListener::from_std(socket)?),
            };
            Ok(AcceptingSocket {
                listener,
                inherited: bound.inherited,
            })
        };
        Ok(Self {
            sockets: bound.into_iter().map(register).collect::<io::Result<_>>()?,
            first: 0,
        })
    }

    /// Cancel-safe: a dropped future has accepted nothing.
    pub async fn accept(&mut self) -> io::Result<Stream> {
        std::future::poll_fn(|cx| self.poll_accept(cx)).await
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        let count = self.sockets.len();
        for offset in 0..count {
            let index = (self.first + offset) % count;
            let accepted = match &self.sockets[index].listener {
                Either::Left(socket) => socket
                    .poll_accept(cx)
                    .map_ok(|(stream, _)| Either::Left(stream)),
                Either::Right(socket) => socket
                    .poll_accept(cx)
                    .map_ok(|(stream, _)| Either::Right(stream)),
            };
            if accepted.is_ready() {
                self.first = index + 1;
                return accepted;
            }
        }
        Poll::Pending
    }

    /// Accepts at most `max_queued` queued connections and closes the sockets. The next process
    /// accepts the queued connections of inherited sockets.
    pub async fn close(mut self, max_queued: usize) -> Vec<Stream> {
        /// More than it takes to accept a queued connection.
        const QUEUED_ACCEPT_TIMEOUT: Duration = Duration::from_millis(20);
        self.sockets.retain(|socket| !socket.inherited);
        let mut queued = Vec::new();
        while !self.sockets.is_empty() && queued.len() < max_queued {
            match tokio::time::timeout(QUEUED_ACCEPT_TIMEOUT, self.accept()).await {
                Ok(Ok(stream)) => queued.push(stream),
                Ok(Err(_)) | Err(_) => break,
            }
        }
        queued
    }
}

/// A TCP connection (usually from loopback), or a connection of a Unix socket.
pub type Stream = Either<tokio::net::TcpStream, tokio::net::UnixStream>;

/// The other end of a connection, for limits per client. Only the first 64 bits of an IPv6 address
/// count, because one machine has many addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Peer(Option<IpAddr>);

impl Peer {
    pub const UNIX: Self = Self(None);

    pub fn from_address(address: IpAddr) -> Self {
        Self(Some(match address.to_canonical() {
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
            v4 @ IpAddr::V4(_) => v4,
        }))
    }

    pub fn is_unix(self) -> bool {
        self == Self::UNIX
    }

    /// True for a Unix socket, for loopback, and for a peer whose address a reset has cleared.
    pub fn is_same_host(self) -> bool {
        self.0.is_none_or(|address| match address {
            IpAddr::V4(address) => address.is_loopback(),
            // [`Peer::from_address`] keeps the first 64 bits, which are zero for ::1.
            IpAddr::V6(network) => network.is_unspecified(),
        })
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(IpAddr::V4(v4)) => v4.fmt(f),
            Some(IpAddr::V6(v6)) => write!(f, "{v6}/64"),
            None => f.write_str("a local socket"),
        }
    }
}

pub fn peer(stream: &Stream) -> Peer {
    match stream {
        // After a reset by the peer, a socket has no peer address.
        Either::Left(stream) => stream.peer_addr().map_or(
            Peer::from_address(Ipv6Addr::UNSPECIFIED.into()),
            |address| Peer::from_address(address.ip()),
        ),
        Either::Right(_) => Peer::UNIX,
    }
}

pub fn set_nodelay(stream: &Stream) -> io::Result<()> {
    match stream {
        Either::Left(stream) => stream.set_nodelay(true),
        Either::Right(_) => Ok(()),
    }
}

/// A second handle of a socket. It shuts down writing while the first handle still reads.
pub struct WriteShutdown(OwnedFd);

impl WriteShutdown {
    pub fn new(stream: &Stream) -> io::Result<Self> {
        let descriptor = match stream {
            Either::Left(stream) => stream.as_fd(),
            Either::Right(stream) => stream.as_fd(),
        };
        descriptor.try_clone_to_owned().map(WriteShutdown)
    }

    /// The peer sees the end of the stream. Data that it has sent stays readable.
    pub fn shut_down(&self) {
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Write);
    }
}

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
    #[error(
        "cannot listen on the socket {name} from systemd: {source}; its unit needs ListenStream= and Accept=no"
    )]
    Socket { name: String, source: io::Error },
}

/// Sockets from systemd: `LISTEN_FDS` sockets from descriptor 3, named by `FileDescriptorName=`.
#[derive(Default)]
pub struct InheritedSockets {
    pub ingest: Vec<BoundSocket>,
    pub metrics: Vec<BoundSocket>,
}

impl InheritedSockets {
    /// Call it once, before a second thread exists, because it removes environment variables.
    ///
    /// # Errors
    /// Variables from systemd are malformed, or a socket has an unknown name or does not listen.
    pub fn take() -> Result<Self, InheritError> {
        // `sd_notify` gives no names if the sockets are for another process. `ListenFd` opens the
        // sockets, so that no unsafe code is needed here.
        let names: Vec<String> = sd_notify::listen_fds_with_names()
            .map_err(InheritError::Variables)?
            .map(|(_, name)| name)
            .collect();
        let mut inherited = Self::default();
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
            match take_listener(&mut sockets, index) {
                Ok(bound) => listener_sockets.push(bound),
                Err(source) => return Err(InheritError::Socket { name, source }),
            }
        }
        Ok(inherited)
    }
}

fn take_listener(sockets: &mut ListenFd, index: usize) -> io::Result<BoundSocket> {
    match sockets.take_tcp_listener(index) {
        Ok(socket) => BoundSocket::inherited_tcp(listening(socket)?),
        Err(_) => BoundSocket::inherited_unix(listening(sockets.take_unix_listener(index)?)?),
    }
}

/// Rejects an accepted connection, as from `Accept=yes`.
fn listening<S: AsFd>(socket: Option<S>) -> io::Result<S> {
    let socket = socket.ok_or(io::ErrorKind::NotFound)?;
    if rustix::net::sockopt::socket_acceptconn(&socket)? {
        Ok(socket)
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a listening socket",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_machine_with_many_addresses_is_one_peer() {
        let peer = |address: &str| Peer::from_address(address.parse().unwrap());
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::ffff:1"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert_eq!(peer("::ffff:192.0.2.1"), peer("192.0.2.1"));
        assert_ne!(peer("192.0.2.1"), peer("192.0.2.2"));
        assert!(!peer("::1").is_unix() && Peer::UNIX.is_unix());
        for same_host in ["::1", "127.0.0.1", "127.3.2.1", "::ffff:127.0.0.1"] {
            assert!(peer(same_host).is_same_host(), "{same_host}");
        }
        for other in ["192.0.2.1", "2001:db8::1", "fe80::1", "::ffff:192.0.2.1"] {
            assert!(!peer(other).is_same_host(), "{other}");
        }
    }
}
