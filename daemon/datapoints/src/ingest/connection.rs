use super::{Intake, PeerUser, Shared, reception};
use faultline_core::connection_limit::{Connection, Timeouts};
use faultline_core::socket::{Stream, WriteShutdown};
use faultline_core::supervisor::Stop;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::io::InspectReader;

/// hyper's buffer: limits a request's head and the bytes parsed before other tasks run.
const READ_BUFFER: usize = 16 * 1024;
/// Extra request time beyond the body's: to discard a rejected body, and to respond.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// After the stop signal, time for a new connection to send its first request: a sender with one
/// push writes it at once.
const FIRST_REQUEST: Duration = Duration::from_secs(1);
/// The same for a connection whose earlier pushes were accepted; it may be idle for long.
const NEXT_REQUEST: Duration = Duration::from_millis(300);
/// Time to read on after the peer was told that the connection closes: a push may be in transit.
const LINGER: Duration = Duration::from_millis(200);

/// Resolves after the stop signal if no request arrived in its grace time. A request that arrives
/// is the last one on the connection.
async fn leaves(connection: &Connection, stop: &Stop) {
    stop.wait().await;
    tokio::time::sleep(if connection.is_useful() {
        NEXT_REQUEST
    } else {
        FIRST_REQUEST
    })
    .await;
    if !connection.is_idle() {
        std::future::pending().await
    }
}

/// Serves requests until the peer, a timeout, the connection limit or `stop` ends it.
pub(super) async fn serve<I: Intake>(
    (stream, user): (Stream, PeerUser),
    connection: Arc<Connection>,
    shared: Arc<Shared<I>>,
    stop: Stop,
) {
    let _open = shared.meter.connection();
    let (connection, shared, stop) = (&*connection, &*shared, &stop);
    let limits = shared.limits;
    let timeouts = Timeouts {
        idle: limits.idle,
        head: limits.head,
        serving: limits.body_time + ANSWER_TIME,
    };
    let service = service_fn(|request| async move {
        connection.serving();
        let (mut response, taken) =
            reception::answer(shared, request, (connection.peer(), user)).await;
        if stop.is_set() {
            // hyper closes after this response: its own shutdown would cut off an arriving request.
            response
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
        }
        connection.answered(taken);
        Ok::<_, Infallible>(response)
    });
    let shutdown = WriteShutdown::of(&stream).ok();
    let io = TokioIo::new(InspectReader::new(stream, |bytes: &[u8]| {
        connection.received(bytes)
    }));
    // Without hyper's header timeout, which would run while the connection idles.
    let mut http = http1::Builder::new();
    let mut http = pin!(
        http.header_read_timeout(None)
            .max_buf_size(READ_BUFFER)
            .serve_connection(io, service)
    );
    let mut expired = pin!(connection.expired(timeouts));
    let mut leaves = pin!(leaves(connection, stop));
    loop {
        tokio::select! {
            biased;
            served = http.as_mut() => return ended(served),
            () = expired.as_mut() => if connection.is_idle() { break } else { return },
            () = connection.closed() => if connection.is_idle() { break },
            () = leaves.as_mut() => break,
        }
    }
    // A push may be in transit: its sender sees the end, but its lines count.
    if let Some(shutdown) = shutdown {
        shutdown.say();
    }
    let read_request = async {
        tokio::time::sleep(LINGER).await;
        if !connection.is_idle() {
            connection.expired(timeouts).await;
        }
    };
    tokio::select! {
        biased;
        served = http.as_mut() => ended(served),
        () = read_request => {}
    }
}

fn ended(served: hyper::Result<()>) {
    if let Err(error) = served {
        tracing::debug!(%error, "an ingest connection failed");
    }
}
