use super::{PeerUser, PushSink, Shared, handler};
use faultline_core::{
    connection_limit::{Connection, Timeouts},
    socket::{Stream, WriteShutdown},
    supervisor::Stop,
};
use hyper::{
    header::{CONNECTION, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};
use tokio_util::io::InspectReader;

/// Size of hyper's buffer. It limits a request's head, and the bytes parsed before other tasks run.
const READ_BUFFER_BYTES: usize = 16 * 1024;
/// Time to discard a rejected body and to respond, in addition to the body timeout.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for a new connection to send its first request after the stop signal. A sender that opens
/// a connection for one push writes that push at once.
const FIRST_REQUEST_GRACE: Duration = Duration::from_secs(1);
/// Grace time of a connection that had an accepted push, and may be idle for long.
const NEXT_REQUEST_GRACE: Duration = Duration::from_millis(300);
/// Time to read on after our side has stopped writing, because a push may be in transit.
const LINGER_TIME: Duration = Duration::from_millis(200);

/// Resolves if no request arrives within the grace time after the stop signal. Otherwise it never
/// resolves, and that request is the connection's last one.
async fn stop_grace_expired(connection: &Connection, stop: &Stop) {
    stop.wait().await;
    tokio::time::sleep(if connection.has_accepted_request() {
        NEXT_REQUEST_GRACE
    } else {
        FIRST_REQUEST_GRACE
    })
    .await;
    if !connection.is_idle() {
        std::future::pending().await
    }
}

/// Serves requests until the peer, a timeout, the connection limit or `stop` ends the
/// connection.
pub async fn serve<I: PushSink>(
    stream: Stream,
    user: PeerUser,
    connection: Arc<Connection>,
    shared: Arc<Shared<I>>,
    stop: Stop,
) {
    let _counted = shared.counters.count_connection();
    let (connection, shared, stop) = (&*connection, &*shared, &stop);
    let limits = shared.limits;
    let timeouts = Timeouts {
        idle: limits.idle_timeout,
        head: limits.head_timeout,
        serving: limits.body_timeout + RESPONSE_TIMEOUT,
    };
    let service = service_fn(|request| async move {
        connection.begin_serving();
        let (mut response, accepted) =
            handler::respond(shared, request, connection.peer, user).await;
        if stop.is_set() {
            // Makes hyper close. Its graceful shutdown would cut off an arriving request.
            response
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
        }
        connection.finish_request(accepted);
        Ok::<_, Infallible>(response)
    });
    let shutdown = WriteShutdown::new(&stream).ok();
    let io = TokioIo::new(InspectReader::new(stream, |bytes: &[u8]| {
        connection.bytes_received(bytes)
    }));
    // hyper's header timeout would also run while the connection idles.
    let mut http = http1::Builder::new();
    let mut http = pin!(
        http.header_read_timeout(None)
            .max_buf_size(READ_BUFFER_BYTES)
            .serve_connection(io, service)
    );
    let mut expired = pin!(connection.phase_timeout(timeouts));
    let mut stop_grace_expired = pin!(stop_grace_expired(connection, stop));
    loop {
        tokio::select! {
            biased;
            result = http.as_mut() => return log_error(result),
            () = expired.as_mut() => if connection.is_idle() { break } else { return },
            () = connection.close_requested() => if connection.is_idle() { break },
            () = stop_grace_expired.as_mut() => break,
        }
    }
    // The lines of a push in transit count, although the sender gets no response.
    if let Some(shutdown) = shutdown {
        shutdown.shut_down();
    }
    let read_request = async {
        tokio::time::sleep(LINGER_TIME).await;
        if !connection.is_idle() {
            connection.phase_timeout(timeouts).await;
        }
    };
    tokio::select! {
        biased;
        result = http.as_mut() => log_error(result),
        () = read_request => {}
    }
}

fn log_error(result: hyper::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(%error, "an ingest connection failed");
    }
}
