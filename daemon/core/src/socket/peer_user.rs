//! Finds the user of a connection's peer on this machine. For TCP it queries the kernel's sock_diag
//! for one socket: `/proc/net/tcp` lists all sockets of the host and costs milliseconds.

use super::Stream;
use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::{
    SockDiagMessage,
    constants::{AF_INET, AF_INET6, IPPROTO_TCP},
    inet::{ExtensionFlags, InetRequest, SocketId, StateFlags},
};
use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType,
        netlink::{SOCK_DIAG, SocketAddrNetlink},
    },
};
use std::{io, net::SocketAddr};

/// The sock_diag cookie for a lookup by addresses.
const NO_COOKIE: [u8; 8] = [0xff; 8];
const MAX_RESPONSE_BYTES: usize = 2048;
/// The user id that a user namespace shows for unmapped users.
const UNMAPPED_USER_ID: u32 = 65534;

#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum PeerUserError {
    #[error(
        "the lookup of the sender's socket failed ({0}); it needs AF_NETLINK and the kernel's tcp_diag"
    )]
    LookupFailed(Errno),
    #[error("the sender has closed its socket, or is in another network namespace")]
    Gone,
    #[error("the kernel's answer does not describe the sender's socket")]
    Malformed,
    /// All unmapped users share one user id in this namespace.
    #[error("the sender's user is not mapped in this user namespace")]
    Unmapped,
}

impl From<Errno> for PeerUserError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::NOTCONN => Self::Gone,
            other => Self::LookupFailed(other),
        }
    }
}

impl From<io::Error> for PeerUserError {
    fn from(error: io::Error) -> Self {
        Errno::from_io_error(&error).map_or(Self::Gone, Self::from)
    }
}

/// For TCP the peer's socket must be open. The kernel reports user 0 for a closed socket; this
/// function returns [`PeerUserError::Gone`] instead.
pub fn peer_uid(stream: &Stream) -> Result<u32, PeerUserError> {
    let uid = match stream {
        Stream::Left(tcp) => tcp_socket_uid(tcp.peer_addr()?, tcp.local_addr()?)?,
        Stream::Right(unix) => unix.peer_cred()?.uid(),
    };
    if uid == UNMAPPED_USER_ID && !maps_all_users() {
        return Err(PeerUserError::Unmapped);
    }
    Ok(uid)
}

/// The user of the socket that is bound to `local` and connected to `remote`.
fn tcp_socket_uid(local: SocketAddr, remote: SocketAddr) -> Result<u32, PeerUserError> {
    let (source, destination) = (local.ip().to_canonical(), remote.ip().to_canonical());
    let request = InetRequest {
        family: if source.is_ipv4() { AF_INET } else { AF_INET6 },
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::empty(),
        states: StateFlags::all(),
        socket_id: SocketId {
            source_port: local.port(),
            destination_port: remote.port(),
            source_address: source,
            destination_address: destination,
            interface_id: 0,
            cookie: NO_COOKIE,
        },
    };
    let NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) =
        query_sock_diag(request)?
    else {
        return Err(PeerUserError::Malformed);
    };
    let id = &response.header.socket_id;
    // If the connection does not exist, the kernel may return the listening socket of the port.
    let is_same = (id.source_port, id.destination_port) == (local.port(), remote.port())
        && id.source_address.to_canonical() == source
        && id.destination_address.to_canonical() == destination;
    match (is_same, response.header.inode) {
        (false, _) => Err(PeerUserError::Malformed),
        // A closed socket has inode 0 and shows root as its owner.
        (true, 0) => Err(PeerUserError::Gone),
        (true, _) => Ok(response.header.uid),
    }
}

/// Does not wait: the kernel's response is ready once the request is sent.
fn query_sock_diag(request: InetRequest) -> Result<NetlinkPayload<SockDiagMessage>, PeerUserError> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(SOCK_DIAG),
    )?;
    rustix::net::connect(&socket, &SocketAddrNetlink::new(0, 0))?;
    rustix::net::send(&socket, &bytes, SendFlags::empty())?;
    let mut buffer = vec![0; MAX_RESPONSE_BYTES];
    let (length, _) = rustix::net::recv(&socket, &mut *buffer, RecvFlags::DONTWAIT)?;
    let bytes = buffer.get(..length).unwrap_or_default();
    let response = NetlinkMessage::<SockDiagMessage>::deserialize(bytes)
        .map_err(|_| PeerUserError::Malformed)?;
    match response.payload {
        NetlinkPayload::Error(error) => Err(error.to_io().into()),
        payload => Ok(payload),
    }
}

/// True if every user id is mapped, as outside of user namespaces.
fn maps_all_users() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_ascii_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests;
