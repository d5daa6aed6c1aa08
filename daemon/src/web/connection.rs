//! One connection: TLS if configured, HTTP/1.1, and an end to everyone's patience.

use super::answer::{Body, Site};
use super::tls::Acceptor;
use crate::activity::ActivityStream;
use crate::clock::Clock;
use crate::connection_limit::{Guest, Standing, Turn};
use crate::socket::{Peer, Stream};
use crate::supervisor::Stop;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;

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

/// Serves one connection until the client, `stop`, the client's slowness or who takes its place ends it.
pub(super) async fn serve(
    stream: Stream,
    tls: Option<Arc<Acceptor>>,
    site: Arc<Site>,
    patience: Arc<Patience>,
    stop: Stop,
) {
    let _over = Over(Arc::clone(&patience));
    tokio::select! {
        ended = open(stream, tls, site, stop, Arc::clone(&patience)) => {
            // The client's affair: it went away, or spoke no HTTP or no TLS.
            if let Err(error) = ended {
                tracing::debug!(error, "a web connection ended early");
            }
        }
        () = patience.end() => tracing::debug!("a web connection was too slow or idle and was closed"),
        () = patience.out.notified() => tracing::debug!("connection limit: a web connection was closed"),
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
    let peer = stream.peer();
    // What crosses no network needs no encryption; passwords are asked for there too.
    match tls.filter(|_| !peer.is_local()) {
        None => talk(stream, peer, site, stop, patience).await,
        Some(acceptor) => talk(acceptor.accept(stream).await?, peer, site, stop, patience).await,
    }
}

async fn talk<S>(stream: S, peer: Peer, site: Arc<Site>, stop: Stop, patience: Arc<Patience>) -> Result<(), Failed>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let watching = Arc::clone(&patience);
    let io = TokioIo::new(ActivityStream::new(stream, move || watching.heard()));
    let service = service_fn(move |request: Request<Incoming>| {
        let (site, patience) = (Arc::clone(&site), Arc::clone(&patience));
        async move {
            patience.answering();
            let answer: Response<Body> = site.answer(request.map(|_| ()), peer).await;
            patience.answered(!answer.status().is_client_error());
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

/// Whose turn it is on a connection, and until when, if nothing happens before.
#[derive(Debug)]
pub(super) struct Patience {
    clock: Clock,
    now: Mutex<Now>,
    /// Its place is somebody else's.
    out: Notify,
    over: AtomicBool,
}

#[derive(Debug)]
struct Now {
    standing: Standing,
    /// The uptime at which it is given up.
    until: Duration,
}

impl Patience {
    pub(super) fn new(clock: Clock, peer: Peer) -> Self {
        let since = clock.now().uptime;
        // TLS comes first, whose beginning is the client's.
        let now = Now {
            standing: Standing { turn: Turn::Asking, since, moved: since, useful: None, peer },
            until: since + HEAD,
        };
        Patience { clock, now: Mutex::new(now), out: Notify::new(), over: AtomicBool::new(false) }
    }

    /// Ends the connection, whatever it does.
    pub(super) fn give_up(&self) {
        self.out.notify_one();
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes came: the first ones of a request start its clock, the others gain nothing.
    fn heard(&self) {
        let mut now = self.now();
        if now.standing.turn == Turn::Idle {
            now.turn(Turn::Asking, self.clock.now().uptime);
        }
    }

    fn answering(&self) {
        self.now().turn(Turn::Answering, self.clock.now().uptime);
    }

    /// A request was answered; it is useful if it was one that may be asked.
    fn answered(&self, useful: bool) {
        let uptime = self.clock.now().uptime;
        let mut now = self.now();
        now.turn(Turn::Idle, uptime);
        if useful {
            now.standing.useful = Some(uptime);
        }
    }

    /// Resolves when its time is over.
    async fn end(&self) {
        while self.clock.now().uptime < self.now().until {
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl Now {
    fn turn(&mut self, turn: Turn, since: Duration) {
        (self.standing.turn, self.standing.since, self.standing.moved) = (turn, since, since);
        self.until = since
            + match turn {
                Turn::Idle => IDLE,
                Turn::Asking => HEAD,
                Turn::Answering => ANSWER,
            };
    }
}

impl Guest for Patience {
    fn standing(&self) -> Standing {
        self.now().standing
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// Marks a connection as over when it ends, however it ends.
struct Over(Arc<Patience>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_bytes_of_a_request_start_its_clock() {
        let patience = Patience::new(Clock::start(), Peer::LOCAL);
        assert!(patience.now().until >= HEAD && patience.now().until < IDLE);
        patience.now().until = Duration::ZERO;
        patience.heard();
        assert_eq!(patience.now().until, Duration::ZERO, "more bytes of the same request gain nothing");
        patience.answered(false);
        assert!(patience.now().until >= IDLE);
        patience.heard();
        assert!(patience.now().until < IDLE, "a new request has only the time of a head");
    }

    #[test]
    fn only_who_asks_what_it_may_is_useful() {
        let patience = Patience::new(Clock::start(), Peer::LOCAL);
        patience.answered(false);
        assert_eq!(patience.standing().useful, None);
        patience.answered(true);
        patience.heard();
        assert!(patience.standing().useful.is_some());
    }

    #[tokio::test]
    async fn patience_ends() {
        let patience = Patience::new(Clock::start(), Peer::LOCAL);
        patience.now().until = Duration::ZERO;
        patience.end().await;
    }
}
