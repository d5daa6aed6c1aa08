//! Clients that occupy connections or memory block no push; pushes of web pages are refused.

use super::*;

/// Timeout of a push in Agave.
const AGAVE_TIMEOUT: Duration = Duration::from_secs(5);

async fn in_time<T>(push: impl Future<Output = T>) -> T {
    tokio::time::timeout(AGAVE_TIMEOUT, push)
        .await
        .expect("an answer in time")
}

/// Opens three times as many connections as allowed. Each sends only this beginning of a request.
async fn open_stalled_clients(sink: &RunningListener, beginning: &[u8]) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..3 * sink.max_connections {
        let mut client = sink.client().await;
        // The listener may have closed the connection already.
        client.try_write(beginning).await;
        clients.push(client);
    }
    clients
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_clients_using_all_connections_do_not_block_a_push() {
    let push = post("", b"a,host_id=A x=1i 5\n");
    for beginning in [
        &b""[..],
        b"POST /write HTTP/1.1\r\nA: ",
        &push[..push.len() - 5],
    ] {
        let sink = RunningListener::limited(Limits {
            tcp_connections: 16,
            ..LIMITS
        });
        let mut pushing = sink.client().await;
        pushing.write(&push).await;
        assert_eq!(pushing.status().await, Some(204));
        for _ in 0..3 {
            let stalled = open_stalled_clients(&sink, beginning).await;
            assert_eq!(in_time(sink.send(&push)).await, 204, "a new connection");
            pushing.write(&push).await;
            assert_eq!(
                in_time(pushing.status()).await,
                Some(204),
                "the one that pushed before"
            );
            drop(stalled);
        }
        assert_eq!(
            sink.seen()
                .lines
                .iter()
                .filter(|line| line.as_slice() == b"a,host_id=A x=1i 5")
                .count(),
            7
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_gzip_bodies_do_not_block_other_pushes_memory() {
    let sink = RunningListener::start();
    let packed = post("Content-Encoding: gzip\r\n", &gzip(&lines(10)));
    let mut slow = Vec::new();
    for _ in 0..64 {
        let mut client = sink.client().await;
        client.write(&packed[..packed.len() - 10]).await;
        slow.push(client);
    }
    until("they have all the memory that they can get", || {
        sink.push_memory.used_bytes() > u64::from(faultline_core::push_memory::DECODER_SHARE_BYTES)
    })
    .await;
    assert_eq!(in_time(sink.send(&post("", &lines(10)))).await, 204);
    drop(slow);
    sink.all_memory_released().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_of_a_cut_connection_count_and_its_memory_is_released() {
    let sink = RunningListener::limited(Limits {
        tcp_connections: 1,
        ..LIMITS
    });
    let request = post("", &lines(10));
    let mut slow = sink.client().await;
    slow.write(&request[..request.len() - 10]).await;
    until("it is being read", || sink.push_memory.used_bytes() > 0).await;
    assert_eq!(in_time(sink.send(&post("", &lines(1)))).await, 204);
    assert_eq!(slow.status().await, None);
    until("it is committed", || sink.seen().pushes == 2).await;
    assert_eq!(sink.counts(), (10, 1));
    assert_eq!(sink.number("faultline_ingest_requests_total", "cut"), 1.0);
    sink.all_memory_released().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_from_a_browser_page_is_refused() {
    let sink = RunningListener::start();
    for header in [
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
        "Sec-Fetch-Site: same-origin\r\n",
    ] {
        assert_eq!(sink.send(&post(header, &lines(1))).await, 403, "{header}");
    }
    assert!(sink.seen().lines.is_empty());
    assert_eq!(sink.number("faultline_ingest_requests_total", "403"), 3.0);
}
