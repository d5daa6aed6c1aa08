//! One connection, from accept to close.

use super::{Intake, PeerUser, Shared, reception};
use crate::connection_limit::{Connection, Timeouts};
use crate::socket::{Farewell, Stream};
use crate::supervisor::Stop;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::io::InspectReader;

/// hyper's buffer: bounds a request's head, and how much is parsed before others get their turn.
const READ_BUFFER: usize = 16 * 1024;
/// What a request may take beyond the time for its body: discarding the body of a refused one, and the answer.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// After the signal to stop, how long a connection that has brought nothing yet may take to begin: who connects for one
/// push writes it at once.
const FIRST_REQUEST: Duration = Duration::from_secs(1);
/// The same for one whose pushes were taken before, and may not have anything to say for long.
const NEXT_REQUEST: Duration = Duration::from_millis(300);
/// How long it is listened to a peer after it was told that the connection ends: a push may cross that word.
const LINGER: Duration = Duration::from_millis(200);

/// Resolves after the signal to stop, when the request that may have been on its way has had its time and none has come.
/// One that has come is the last: its answer ends the connection.
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

/// Serves requests until the peer, a time limit, a request to make room, or `stop` ends it.
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
            // hyper closes behind it: its own way to end a connection would cut off the request that is coming.
            response
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
        }
        connection.answered(taken);
        Ok::<_, Infallible>(response)
    });
    let farewell = Farewell::of(&stream).ok();
    let io = TokioIo::new(InspectReader::new(stream, |bytes: &[u8]| {
        connection.heard(bytes)
    }));
    // No header timeout of hyper's: it would run while the connection idles.
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
    // A push may be on its way: its sender sees the end, what it has sent counts all the same.
    if let Some(farewell) = farewell {
        farewell.say();
    }
    let heard_on = async {
        tokio::time::sleep(LINGER).await;
        if !connection.is_idle() {
            connection.expired(timeouts).await;
        }
    };
    tokio::select! {
        biased;
        served = http.as_mut() => ended(served),
        () = heard_on => {}
    }
}

fn ended(served: hyper::Result<()>) {
    if let Err(error) = served {
        tracing::debug!(%error, "an ingest connection failed");
    }
}
