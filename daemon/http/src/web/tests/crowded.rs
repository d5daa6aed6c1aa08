//! Clients that occupy connections do not block a scraper.

use super::*;
use faultline_core::clock::Clock;
use std::os::unix::net::{UnixListener, UnixStream};

/// Half of Prometheus's default timeout.
const PATIENCE: Duration = Duration::from_secs(5);

const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Opens three times as many connections as allowed. Each sends only this beginning. If it is a
/// whole request, its response arrives before the next connection opens.
fn crowd(address: SocketAddr, beginning: &[u8]) -> Vec<TcpStream> {
    let join = |_| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // The server may have closed the connection already.
        if stream.write_all(beginning).is_ok() && beginning == REQUEST {
            let _ = stream.read(&mut [0; 64]);
        }
        stream
    };
    (0..3 * MAX_CONNECTIONS).map(join).collect()
}

fn scraped(mut stream: impl Read + Write) -> u16 {
    ask(&mut stream, "GET", "/metrics", "").status
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[test]
fn slow_clients_do_not_block_others() {
    let mut server = start(None);
    server.tick(1);
    let crowd = crowd(server.address, b"GET /metrics HTTP/1.1\r\nHost: ");
    for _ in 0..3 {
        assert_eq!(scraped(connect(server.address)), 200);
    }
    drop(crowd);
}

#[test]
fn idle_clients_do_not_block_others_before_or_after_a_request() {
    let mut server = start(None);
    server.tick(1);
    let (silent, asked) = (crowd(server.address, b""), crowd(server.address, REQUEST));
    for _ in 0..3 {
        assert_eq!(scraped(connect(server.address)), 200);
    }
    drop((silent, asked));
}

#[test]
fn a_unix_socket_has_connections_reserved_from_the_tcp_port() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics.sock");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap();
    let sockets = vec![
        BoundSocket::inherited_tcp(port).unwrap(),
        BoundSocket::inherited_unix(UnixListener::bind(&path).unwrap()).unwrap(),
    ];
    let server = Server::build(
        &config(None),
        sockets,
        state(Clock::start(), &Latest::default()),
    )
    .unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let mut workers = WorkerGroup::new("test", runtime.handle());
    workers.task("web", |stop| server.run(stop));
    let mut kept = UnixStream::connect(&path).unwrap();
    kept.set_read_timeout(Some(PATIENCE)).unwrap();
    kept.write_all(b"GET /healthz HTTP/1.1\r\nHost: ").unwrap();
    let crowd = crowd(address, REQUEST);
    kept.write_all(b"validator1\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    kept.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(crowd);
    assert!(runtime.block_on(workers.end(DEADLINE)).is_empty());
}
