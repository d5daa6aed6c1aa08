use super::*;
use rustix::process::geteuid;
use std::{
    net::IpAddr,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

/// A user id without an account.
const OTHER: u32 = 23_456;

async fn accept(listener: &TcpListener) -> Stream {
    Stream::Left(listener.accept().await.unwrap().0)
}

#[tokio::test]
async fn the_user_of_a_loopback_connection_is_identified() {
    for (listen, dial) in [
        ("127.0.0.1:0", "127.0.0.1"),
        ("[::1]:0", "::1"),
        ("[::ffff:127.0.0.1]:0", "127.0.0.1"),
        ("[::ffff:127.0.0.1]:0", "::ffff:127.0.0.1"),
        ("127.0.0.1:0", "::ffff:127.0.0.1"),
    ] {
        let listener = TcpListener::bind(listen).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let dial: IpAddr = dial.parse().unwrap();
        let _client = TcpStream::connect((dial, port)).await.unwrap();
        let uid = peer_uid(&accept(&listener).await);
        assert_eq!(uid, Ok(geteuid().as_raw()), "{listen} from {dial}");
    }
}

#[tokio::test]
async fn the_user_of_a_unix_socket_connection_is_identified() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let _client = UnixStream::connect(&path).await.unwrap();
    let stream = Stream::Right(listener.accept().await.unwrap().0);
    assert_eq!(peer_uid(&stream), Ok(geteuid().as_raw()));
}

#[tokio::test]
async fn a_closed_socket_is_not_attributed_to_root() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // With a linger time of zero, closing resets the connection.
    for linger in [None, Some(std::time::Duration::ZERO)] {
        let client = TcpStream::connect(address).await.unwrap();
        let accepted = accept(&listener).await;
        rustix::net::sockopt::set_socket_linger(&client, linger).unwrap();
        drop(client);
        assert_eq!(peer_uid(&accepted), Err(PeerUserError::Gone), "{linger:?}");
    }
}

#[tokio::test]
async fn a_listening_socket_without_a_connection_gives_no_owner() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = "127.0.0.1:1".parse().unwrap();
    let result = tcp_socket_uid(listener.local_addr().unwrap(), nobody);
    assert_eq!(result, Err(PeerUserError::Malformed));
}

/// A process of another user that connects and waits.
#[expect(
    clippy::disallowed_methods,
    reason = "a test that needs another user's process"
)]
fn other_user(address: SocketAddr) -> Child {
    let script = format!("exec 3<>/dev/tcp/{}/{}; read", address.ip(), address.port());
    Command::new("bash")
        .args(["-c", &script])
        .uid(OTHER)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn another_users_socket_is_distinguished() {
    if !geteuid().is_root() {
        println!("SKIPPED: only root can be another user");
        return;
    }
    for listen in ["127.0.0.1:0", "[::1]:0"] {
        let listener = TcpListener::bind(listen).await.unwrap();
        let mut child = other_user(listener.local_addr().unwrap());
        let result = peer_uid(&accept(&listener).await);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(result, Ok(OTHER), "{listen}");
    }
}

/// The kernel shows a closed connection as root's. The next connection may have the same addresses.
#[tokio::test]
async fn a_reused_port_is_identified_by_its_new_socket() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap();
    let socket = |address: SocketAddr| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(address).unwrap();
        socket
    };
    let first = socket("127.0.0.1:0".parse().unwrap());
    let first = first.connect(server).await.unwrap();
    let address = first.local_addr().unwrap();
    let accepted = accept(&listener).await;
    // The side that closes first keeps its addresses.
    drop(first);
    drop(accepted);
    assert_eq!(tcp_socket_uid(address, server), Err(PeerUserError::Gone));
    let deadline = crate::clock::Clock::start();
    let again = loop {
        match socket(address).connect(server).await {
            Ok(again) => break again,
            Err(error) => assert!(deadline.now().uptime.as_secs() < 90, "{error}"),
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(peer_uid(&accept(&listener).await), Ok(geteuid().as_raw()));
    drop(again);
}
