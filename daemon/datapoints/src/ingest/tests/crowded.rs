//! Who holds on to places, or to memory, keeps no push out; who sends from a page of another site is refused.

use super::*;

/// Agave gives a push up after this long.
const AGAVE: Duration = Duration::from_secs(5);

async fn within<T>(push: impl Future<Output = T>) -> T {
    tokio::time::timeout(AGAVE, push)
        .await
        .expect("an answer in time")
}

/// Three times as many neighbours as there are places, each of which begins like this and goes no further.
async fn crowd(sink: &RunningListener, beginning: &[u8]) -> Vec<Client> {
    let mut crowd = Vec::new();
    for _ in 0..3 * sink.places {
        let mut client = sink.client().await;
        // It may be thrown out before it has said anything.
        client.try_write(beginning).await;
        crowd.push(client);
    }
    crowd
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
        let mut kept = sink.client().await;
        kept.write(&push).await;
        assert_eq!(kept.status().await, Some(204));
        for _ in 0..3 {
            let crowd = crowd(&sink, beginning).await;
            assert_eq!(within(sink.send(&push)).await, 204, "a new connection");
            kept.write(&push).await;
            assert_eq!(
                within(kept.status()).await,
                Some(204),
                "the one that pushed before"
            );
            drop(crowd);
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
    let mut crowd = Vec::new();
    for _ in 0..64 {
        let mut client = sink.client().await;
        client.write(&packed[..packed.len() - 10]).await;
        crowd.push(client);
    }
    until("they hold all they can get", || {
        sink.push_memory.used_bytes() > u64::from(faultline_core::push_memory::DECODER_SHARE_BYTES)
    })
    .await;
    assert_eq!(within(sink.send(&post("", &lines(10)))).await, 204);
    drop(crowd);
    sink.all_given_back().await;
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
    assert_eq!(within(sink.send(&post("", &lines(1)))).await, 204);
    assert_eq!(slow.status().await, None);
    until("it is committed", || sink.seen().pushes == 2).await;
    assert_eq!(sink.counts(), (10, 1));
    assert_eq!(sink.number("faultline_ingest_requests_total", "cut"), 1.0);
    sink.all_given_back().await;
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
