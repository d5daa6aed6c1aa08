//! The end of the listener must lose no push, because an Agave validator never repeats one.

use super::*;
use std::{net::TcpListener, os::unix::net::UnixListener};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn socket() -> (TcpListener, SocketAddr) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_connected_before_shutdown_may_still_push() {
    let sink = RunningListener::start();
    let (mut new, mut half) = (sink.client().await, sink.client().await);
    let mut kept = sink.client().await;
    kept.write(&post("", b"a,host_id=A x=1i 5\n")).await;
    assert_eq!(kept.status().await, Some(204));
    let request = post("", b"b,host_id=A x=1i 5\n");
    half.write(&request[..20]).await;
    until("all are served", || {
        sink.number("faultline_ingest_connections", "") == 3.0
    })
    .await;
    sink.workers.stop_signal().set();
    new.write(&request).await;
    kept.write(&request).await;
    half.write(&request[20..]).await;
    for client in [&mut new, &mut kept, &mut half] {
        assert_eq!(client.status().await, Some(204));
        assert_eq!(
            client.status().await,
            None,
            "and then the connection is closed"
        );
    }
    assert_eq!(sink.seen().lines.len(), 4);
    assert!(sink.workers.end(TIMEOUT).await.is_empty());
}

/// The push crosses the end of its connection: it gets no response, but its lines count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_sent_while_its_idle_connection_closes_counts() {
    let sink = RunningListener::limited(Limits {
        idle_timeout: Duration::from_millis(50),
        ..LIMITS
    });
    let mut stream = tokio::net::TcpStream::connect(sink.address).await.unwrap();
    let mut byte = [0];
    let ended = tokio::time::timeout(TIMEOUT, stream.read(&mut byte))
        .await
        .unwrap();
    assert_eq!(ended.unwrap(), 0, "the idle connection is ended");
    stream
        .write_all(&post("", b"a,host_id=A x=1i 5\n"))
        .await
        .unwrap();
    until("the push is taken", || sink.seen().lines.len() == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_queued_on_an_own_socket_are_accepted_at_shutdown() {
    let listener = build_listener(&ingest(None), Vec::new()).ok().unwrap();
    let address = listener.local_addr().unwrap();
    let (mut first, mut second) = (
        Client::connect(address).await,
        Client::connect(address).await,
    );
    let request = post("", b"a,host_id=A x=1i 5\n");
    first.write(&request).await;
    second.write(&request[..20]).await;
    let mut workers = WorkerGroup::new("test", &tokio::runtime::Handle::current());
    workers.stop_signal().set();
    workers.task("ingest", |stop| listener.run(stop));
    second.write(&request[20..]).await;
    assert_eq!(
        (first.status().await, second.status().await),
        (Some(204), Some(204))
    );
    assert!(workers.end(TIMEOUT).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_queued_on_an_activation_socket_are_served_by_the_successor() {
    let (socket, address) = socket();
    let first = RunningListener::on(vec![
        BoundSocket::inherited_tcp(socket.try_clone().unwrap()).unwrap(),
    ]);
    assert_eq!(first.send(&post("", b"a,host_id=A x=1i 5\n")).await, 204);
    assert!(first.workers.end(TIMEOUT).await.is_empty());
    let mut waiting = Client::connect(address).await;
    waiting.write(&post("", b"b,host_id=A x=1i 5\n")).await;
    let second = RunningListener::on(vec![BoundSocket::inherited_tcp(socket).unwrap()]);
    assert_eq!(waiting.status().await, Some(204));
    assert_eq!(
        (
            first.intake.0.lock().unwrap().lines.len(),
            second.seen().lines.len()
        ),
        (1, 1)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ingest_listens_on_several_tcp_and_unix_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ingest.sock");
    let ((socket_1, first), (socket_2, second)) = (socket(), socket());
    let unix = UnixListener::bind(&path).unwrap();
    let sockets = [socket_1, socket_2]
        .map(|socket| BoundSocket::inherited_tcp(socket).unwrap())
        .into_iter()
        .chain([BoundSocket::inherited_unix(unix).unwrap()])
        .collect();
    let sink = RunningListener::on(sockets);
    let request = post("Connection: close\r\n", b"a,host_id=A x=1i 5\n");
    for address in [first, second, first] {
        let mut client = Client::connect(address).await;
        client.write(&request).await;
        assert_eq!(client.status().await, Some(204));
    }
    let mut stream = tokio::net::UnixStream::connect(&path).await.unwrap();
    stream.write_all(&request).await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(TIMEOUT, stream.read_to_string(&mut answer))
        .await
        .unwrap()
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    assert_eq!(sink.seen().lines.len(), 4);
}

#[test]
fn remote_pushes_are_accepted_only_if_configured() {
    let open =
        || vec![BoundSocket::inherited_tcp(TcpListener::bind("0.0.0.0:0").unwrap()).unwrap()];
    let beyond_loopback = config::Ingest {
        beyond_loopback: true,
        ..ingest(None)
    };
    let refused = build_listener(&ingest(None), open())
        .err()
        .unwrap()
        .to_string();
    assert!(refused.contains("beyond_loopback"), "{refused}");
    assert!(build_listener(&beyond_loopback, open()).is_ok());
    let other = config::Ingest {
        listen: "192.0.2.1:0".parse().unwrap(),
        ..ingest(None)
    };
    assert!(matches!(check(&other), Err(Error::NotLoopback(_))));
    assert!(
        check(&config::Ingest {
            listen: other.listen,
            ..beyond_loopback
        })
        .is_ok()
    );
}
