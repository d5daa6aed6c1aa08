use super::answer::{Body, Site};
use super::tls::Acceptor;
use faultline_core::connection_limit::{Connection, Timeouts};
use faultline_core::socket::{Stream, set_nodelay};
use faultline_core::supervisor::Stop;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::either::Either;
use tokio_util::io::InspectReader;

const TIMEOUTS: Timeouts = Timeouts {
    // From one request to the next, including sending the response: longer than a minute, the
    // slowest usual scrape interval.
    idle: Duration::from_secs(75),
    // From the first byte of a request (or the connection's start, TLS included) to the end of its
    // head.
    head: Duration::from_secs(10),
    // Time to respond; only password checks take long.
    serving: Duration::from_secs(30),
};

/// hyper's buffer, which limits a request's head: a scraper's has a few hundred bytes.
const HEAD_BYTES: usize = 16 * 1024;

pub(super) async fn serve(
    stream: Stream,
    tls: Option<Arc<Acceptor>>,
    site: Arc<Site>,
    connection: Arc<Connection>,
    stop: Stop,
) {
    // TLS comes first, whose beginning is the client's.
    connection.head_begins();
    tokio::select! {
        biased;
        ended = talk(stream, tls, &site, &connection, &stop) => {
            // A client error: it closed, or sent no valid HTTP or TLS.
            if let Err(error) = ended {
                tracing::debug!(error, "a web connection ended early");
            }
        }
        () = connection.expired(TIMEOUTS) => tracing::debug!("a web connection was too slow or idle and was closed"),
        () = connection.closed() => tracing::debug!("connection limit: a web connection was closed"),
    }
}

async fn talk(
    stream: Stream,
    tls: Option<Arc<Acceptor>>,
    site: &Site,
    connection: &Connection,
    stop: &Stop,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    // Responses are written in one piece: waiting for more only delays them.
    set_nodelay(&stream)?;
    // Local connections need no TLS, but do need passwords.
    let stream = match tls.filter(|_| !connection.peer().is_local()) {
        None => Either::Left(stream),
        Some(acceptor) => Either::Right(acceptor.accept(stream).await?),
    };
    let io = TokioIo::new(InspectReader::new(stream, |bytes: &[u8]| {
        connection.received(bytes)
    }));
    let service = service_fn(|request: Request<Incoming>| async move {
        connection.serving();
        let answer: Response<Body> = site.answer(request.map(|_| ()), connection.peer()).await;
        connection.answered(!answer.status().is_client_error());
        Ok::<_, Infallible>(answer)
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    let mut served = pin!(http.max_buf_size(HEAD_BYTES).serve_connection(io, service));
    tokio::select! {
        ended = served.as_mut() => return Ok(ended?),
        () = stop.wait() => served.as_mut().graceful_shutdown(),
    }
    Ok(served.await?)
}
