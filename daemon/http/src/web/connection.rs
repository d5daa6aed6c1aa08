use super::{
    router::{Body, Router},
    tls::Acceptor,
};
use faultline_core::{
    connection_limit::{Connection, Timeouts},
    socket::{Stream, set_nodelay},
    supervisor::Stop,
};
use hyper::{Request, Response, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use std::{convert::Infallible, error::Error, pin::pin, sync::Arc, time::Duration};
use tokio_util::{either::Either, io::InspectReader};

const TIMEOUTS: Timeouts = Timeouts {
    // From one request to the next, including sending the response. Longer than the slowest usual
    // scrape interval of a minute.
    idle: Duration::from_secs(75),
    // From the first byte of a request to the end of its head. For the first request, from the
    // start of the connection, TLS included.
    head: Duration::from_secs(10),
    // Time to respond; only password checks take long.
    serving: Duration::from_secs(30),
};

/// hyper's buffer, which limits a request's head: a scraper's has a few hundred bytes.
const HEAD_BYTES: usize = 16 * 1024;

pub async fn serve(
    stream: Stream,
    tls: Option<Arc<Acceptor>>,
    router: Arc<Router>,
    connection: Arc<Connection>,
    stop: Stop,
) {
    // The client begins with the TLS handshake, which counts as part of the head.
    connection.begin_head();
    tokio::select! {
        biased;
        served_result = serve_http(stream, tls, &router, &connection, &stop) => {
            // The client disconnected, or sent invalid HTTP or TLS.
            if let Err(error) = served_result {
                tracing::debug!(error, "a web connection ended early");
            }
        }
        () = connection.phase_timeout(TIMEOUTS) => tracing::debug!("a web connection was too slow or idle and was closed"),
        () = connection.close_requested() => tracing::debug!("connection limit: a web connection was closed"),
    }
}

async fn serve_http(
    stream: Stream,
    tls: Option<Arc<Acceptor>>,
    router: &Router,
    connection: &Connection,
    stop: &Stop,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    // Responses are written in one piece: waiting for more only delays them.
    set_nodelay(&stream)?;
    // Local connections need a password but no TLS.
    let stream = match tls.filter(|_| !connection.peer.is_local()) {
        None => Either::Left(stream),
        Some(acceptor) => Either::Right(acceptor.accept(stream).await?),
    };
    let io = TokioIo::new(InspectReader::new(stream, |bytes: &[u8]| {
        connection.bytes_received(bytes)
    }));
    let service = service_fn(|request: Request<Incoming>| async move {
        connection.begin_serving();
        let response: Response<Body> = router.respond(request.map(|_| ()), connection.peer).await;
        connection.finish_request(!response.status().is_client_error());
        Ok::<_, Infallible>(response)
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    let mut http_connection = pin!(http.max_buf_size(HEAD_BYTES).serve_connection(io, service));
    tokio::select! {
        served_result = http_connection.as_mut() => return Ok(served_result?),
        () = stop.wait() => http_connection.as_mut().graceful_shutdown(),
    }
    Ok(http_connection.await?)
}
