//! Sockets that are listened on: bound here, or handed over by systemd. Those outlive the daemon, so that nobody is
//! refused while it is started anew: the kernel keeps who comes meanwhile.

mod inherited;
mod owner;

pub use inherited::{InheritError, Inherited};
pub use owner::OwnerError;
pub(crate) use owner::owner;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio_util::either::Either;

/// Where a socket listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// An address with its real port.
    Tcp(SocketAddr),
    /// A socket in the file system; its permissions say who may connect.
    Unix(PathBuf),
}

impl ListenAddress {
    /// Whether only this machine reaches it.
    pub fn is_local(&self) -> bool {
        match self {
            ListenAddress::Tcp(address) => address.ip().to_canonical().is_loopback(),
            ListenAddress::Unix(_) => true,
        }
    }

    /// The address; `None` for a socket in the file system.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            ListenAddress::Tcp(address) => Some(*address),
            ListenAddress::Unix(_) => None,
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Tcp(address) => write!(f, "{address}"),
            ListenAddress::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Connects to a socket in the file system. Never waits for a listener that has stopped accepting, but for a file system
/// that does not answer.
pub(crate) fn connect(path: &Path) -> Result<UnixStream, Errno> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &address)?;
    Ok(UnixStream::from(socket))
}

/// Several places, in words.
pub fn places(sockets: &[Bound]) -> Vec<String> {
    sockets
        .iter()
        .map(|socket| socket.place.to_string())
        .collect()
}

/// A socket that listens and does not block.
#[derive(Debug)]
pub struct Bound {
    place: ListenAddress,
    socket: Socket,
    inherited: bool,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Bound {
    pub fn tcp(address: SocketAddr) -> io::Result<Bound> {
        Self::new(Socket::Tcp(TcpListener::bind(address)?), false)
    }

    fn new(socket: Socket, inherited: bool) -> io::Result<Bound> {
        let place = match &socket {
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
        Ok(Bound {
            place,
            socket,
            inherited,
        })
    }

    /// Where it listens; the port is known also if 0 was asked for.
    pub fn place(&self) -> &ListenAddress {
        &self.place
    }
}

#[cfg(test)]
impl Bound {
    /// As if systemd had handed it over.
    pub(crate) fn handed_over(socket: TcpListener) -> Bound {
        Self::new(Socket::Tcp(socket), true).unwrap()
    }

    /// The same in the file system.
    pub(crate) fn handed_over_unix(socket: UnixListener) -> Bound {
        Self::new(Socket::Unix(socket), true).unwrap()
    }
}

/// The first address among them.
pub fn first_tcp(sockets: &[Bound]) -> Option<SocketAddr> {
    sockets.iter().find_map(|socket| socket.place.tcp())
}

/// Listening sockets on a runtime, one of which has a connection next.
#[derive(Debug)]
pub(crate) struct ListeningSockets {
    sockets: Vec<ListeningSocket>,
    /// Who is asked first the next time, so that none is starved by another.
    first: usize,
}

#[derive(Debug)]
struct ListeningSocket {
    accepting: Either<tokio::net::TcpListener, tokio::net::UnixListener>,
    inherited: bool,
}

impl ListeningSockets {
    /// Needs a runtime with I/O.
    ///
    /// # Errors
    /// The runtime cannot watch one of them.
    pub(crate) fn open(bound: Vec<Bound>) -> io::Result<ListeningSockets> {
        let open = |bound: Bound| {
            let accepting = match bound.socket {
                Socket::Tcp(socket) => Either::Left(tokio::net::TcpListener::from_std(socket)?),
                Socket::Unix(socket) => Either::Right(tokio::net::UnixListener::from_std(socket)?),
            };
            Ok(ListeningSocket {
                accepting,
                inherited: bound.inherited,
            })
        };
        Ok(ListeningSockets {
            sockets: bound.into_iter().map(open).collect::<io::Result<_>>()?,
            first: 0,
        })
    }

    /// The next connection. Dropped before its end, it has taken none.
    pub(crate) async fn accept(&mut self) -> io::Result<Stream> {
        std::future::poll_fn(|cx| self.poll_accept(cx)).await
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        let count = self.sockets.len();
        for turn in 0..count {
            let number = (self.first + turn) % count;
            let accepted = match &self.sockets[number].accepting {
                Either::Left(socket) => socket
                    .poll_accept(cx)
                    .map_ok(|(stream, _)| Either::Left(stream)),
                Either::Right(socket) => socket
                    .poll_accept(cx)
                    .map_ok(|(stream, _)| Either::Right(stream)),
            };
            if accepted.is_ready() {
                self.first = number + 1;
                return accepted;
            }
        }
        Poll::Pending
    }

    /// Closes those that nobody keeps open behind us. Before that, who waits in them is let in, at most `most`: closing
    /// would turn them away. Who waits in a socket that was handed over is the next process's.
    pub(crate) async fn close(mut self, most: usize) -> Vec<Stream> {
        /// A connection that is there is given within this time.
        const QUIET: Duration = Duration::from_millis(20);
        self.sockets.retain(|socket| !socket.inherited);
        let mut waiting = Vec::new();
        while !self.sockets.is_empty() && waiting.len() < most {
            match tokio::time::timeout(QUIET, self.accept()).await {
                Ok(Ok(stream)) => waiting.push(stream),
                Ok(Err(_)) | Err(_) => break,
            }
        }
        waiting
    }
}

/// A connection: over the network, loopback mostly, or through the file system.
pub(crate) type Stream = Either<tokio::net::TcpStream, tokio::net::UnixStream>;

/// Who is at the other end, as far as shares go: an address, or the 64 leading bits of a longer one, of which a single
/// machine has plenty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Peer(Option<IpAddr>);

impl Peer {
    /// Somebody in the file system.
    pub(crate) const LOCAL: Peer = Peer(None);

    /// Whoever has this address.
    pub(crate) fn at(address: IpAddr) -> Self {
        Peer(Some(match address.to_canonical() {
            IpAddr::V6(long) => {
                IpAddr::V6(Ipv6Addr::from_bits(long.to_bits() & !u128::from(u64::MAX)))
            }
            short @ IpAddr::V4(_) => short,
        }))
    }

    /// Whether no network lies between.
    pub(crate) fn is_local(self) -> bool {
        self == Peer::LOCAL
    }

    /// Whether it is a process of this host: a socket in the file system, or loopback.
    pub(crate) fn is_same_host(self) -> bool {
        self.0.is_none_or(|address| match address {
            IpAddr::V4(address) => address.is_loopback(),
            // ::1, of which the first half is kept.
            IpAddr::V6(network) => network.is_unspecified(),
        })
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(IpAddr::V4(short)) => short.fmt(f),
            Some(IpAddr::V6(long)) => write!(f, "{long}/64"),
            None => f.write_str("a local socket"),
        }
    }
}

/// Who is at the other end.
pub(crate) fn peer(stream: &Stream) -> Peer {
    match stream {
        // One that is gone already has no address any more.
        Either::Left(stream) => stream
            .peer_addr()
            .map_or(Peer::at(Ipv6Addr::UNSPECIFIED.into()), |at| {
                Peer::at(at.ip())
            }),
        Either::Right(_) => Peer::LOCAL,
    }
}

/// Sends at once what is written; where there is no network nothing is held back.
pub(crate) fn set_nodelay(stream: &Stream) -> io::Result<()> {
    match stream {
        Either::Left(stream) => stream.set_nodelay(true),
        Either::Right(_) => Ok(()),
    }
}

/// Ends what is written to a connection: a second handle of it, while the first one is still read.
#[derive(Debug)]
pub(crate) struct Farewell(OwnedFd);

impl Farewell {
    pub(crate) fn of(stream: &Stream) -> io::Result<Farewell> {
        let descriptor = match stream {
            Either::Left(stream) => stream.as_fd(),
            Either::Right(stream) => stream.as_fd(),
        };
        descriptor.try_clone_to_owned().map(Farewell)
    }

    /// The peer sees the end; what it has sent already can still be read.
    pub(crate) fn say(&self) {
        // A peer that is gone needs no farewell.
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Write);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_machine_with_many_addresses_is_one_peer() {
        let peer = |address: &str| Peer::at(address.parse().unwrap());
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::ffff:1"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert_eq!(peer("::ffff:192.0.2.1"), peer("192.0.2.1"));
        assert_ne!(peer("192.0.2.1"), peer("192.0.2.2"));
        assert!(!peer("::1").is_local() && Peer::LOCAL.is_local());
        for same_host in ["::1", "127.0.0.1", "127.3.2.1", "::ffff:127.0.0.1"] {
            assert!(peer(same_host).is_same_host(), "{same_host}");
        }
        for other in ["192.0.2.1", "2001:db8::1", "fe80::1", "::ffff:192.0.2.1"] {
            assert!(!peer(other).is_same_host(), "{other}");
        }
    }
}
