//! One connection: TLS if configured, HTTP/1.1, and an end to everyone's patience.

use super::answer::{Body, Site};
use super::tls::Acceptor;
use crate::clock::Clock;
use crate::socket::Stream;
use crate::stream::Watched;
use crate::supervisor::Stop;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// From the first byte of a request (or the connection's beginning, TLS included) to the end of its head.
const HEAD: Duration = Duration::from_secs(10);

/// To answer; only the checking of a password takes long.
const ANSWER: Duration = Duration::from_secs(30);

/// From one request to the next, the sending of the answer included: longer than a minute, the slowest usual scrape.
const IDLE: Duration = Duration::from_secs(75);

/// hyper's buffer, which a request's head must fit into: a scraper's has a few hundred bytes.
const HEAD_BYTES: usize = 16 * 1024;

/// How often a connection is looked at: deadlines are kept to this.
const LOOK: Duration = Duration::from_secs(1);

/// Serves one connection until the client, `stop` or the client's slowness ends it.
pub(super) async fn serve(stream: Stream, tls: Option<Arc<Acceptor>>, site: Arc<Site>, stop: Stop) {
    let patience = Arc::new(Patience::new(site.clock()));
    tokio::select! {
        ended = open(stream, tls, site, stop, Arc::clone(&patience)) => {
            // The client's affair: it went away, or spoke no HTTP or no TLS.
            if let Err(error) = ended {
                tracing::debug!(error, "a web connection ended early");
            }
        }
        () = patience.end() => tracing::debug!("a web connection was too slow or idle and was closed"),
    }
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

async fn open(
    stream: Stream,
    tls: Option<Arc<Acceptor>>,
    site: Arc<Site>,
    stop: Stop,
    patience: Arc<Patience>,
) -> Result<(), Failed> {
    // Answers are written whole: waiting for more to send only delays them.
    stream.set_nodelay()?;
    // What crosses no network needs no encryption; passwords are asked for there too.
    match tls.filter(|_| !stream.is_unix()) {
        None => talk(stream, site, stop, patience).await,
        Some(acceptor) => talk(acceptor.accept(stream).await?, site, stop, patience).await,
    }
}

async fn talk<S>(stream: S, site: Arc<Site>, stop: Stop, patience: Arc<Patience>) -> Result<(), Failed>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let watching = Arc::clone(&patience);
    let io = TokioIo::new(Watched::new(stream, move || watching.heard()));
    let service = service_fn(move |request: Request<Incoming>| {
        let (site, patience) = (Arc::clone(&site), Arc::clone(&patience));
        async move {
            patience.answering();
            let answer: Response<Body> = site.answer(request.map(|_| ())).await;
            patience.idle();
            Ok::<_, Infallible>(answer)
        }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    let mut connection = pin!(http.max_buf_size(HEAD_BYTES).serve_connection(io, service));
    tokio::select! {
        ended = connection.as_mut() => return ended.map_err(Failed::from),
        () = stop.wait() => connection.as_mut().graceful_shutdown(),
    }
    connection.await.map_err(Failed::from)
}

/// The moment at which a connection is given up, moved on by what the client does.
struct Patience {
    clock: Clock,
    /// Milliseconds of uptime.
    until: AtomicU64,
    /// Whether a first byte would begin a new request.
    idle: AtomicBool,
}

impl Patience {
    fn new(clock: Clock) -> Self {
        let patience = Patience { clock, until: AtomicU64::new(0), idle: AtomicBool::new(false) };
        patience.give(HEAD);
        patience
    }

    fn give(&self, time: Duration) {
        self.until.store(millis(self.clock.now().uptime + time), Ordering::Relaxed);
    }

    /// Bytes came: the first ones of a request start its clock, the others gain nothing.
    fn heard(&self) {
        if self.idle.swap(false, Ordering::Relaxed) {
            self.give(HEAD);
        }
    }

    fn answering(&self) {
        self.idle.store(false, Ordering::Relaxed);
        self.give(ANSWER);
    }

    fn idle(&self) {
        self.idle.store(true, Ordering::Relaxed);
        self.give(IDLE);
    }

    /// Resolves when the moment has come.
    async fn end(&self) {
        while millis(self.clock.now().uptime) < self.until.load(Ordering::Relaxed) {
            tokio::time::sleep(LOOK).await;
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_bytes_of_a_request_start_its_clock() {
        let patience = Patience::new(Clock::start());
        let head = patience.until.load(Ordering::Relaxed);
        assert!(head >= millis(HEAD));
        patience.until.store(1, Ordering::Relaxed);
        patience.heard();
        assert_eq!(patience.until.load(Ordering::Relaxed), 1, "more bytes of the same request gain nothing");
        patience.idle();
        assert!(patience.until.load(Ordering::Relaxed) >= millis(IDLE));
        patience.heard();
        assert!(patience.until.load(Ordering::Relaxed) < millis(IDLE), "a new request has only the time of a head");
    }

    #[tokio::test]
    async fn patience_ends() {
        let patience = Patience::new(Clock::start());
        patience.until.store(0, Ordering::Relaxed);
        patience.end().await;
    }
}
