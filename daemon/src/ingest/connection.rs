//! One connection, from accept to close.

use super::{Intake, Limits, Shared, reception};
use crate::clock::Clock;
use crate::stream::Watched;
use crate::supervisor::Stop;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};

/// hyper's buffer: bounds a request's head, and how much is parsed before others get their turn.
const READ_BUFFER: usize = 16 * 1024;
/// What a request may take beyond the time for its body: discarding the body of a refused one, and the answer.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Waiting for a request.
    Idle,
    /// The first bytes of a request are there.
    Head,
    /// A request is being served.
    Body,
}

/// A connection as the others see it: what it does, since when, and that it should go.
#[derive(Debug)]
pub(super) struct Connection {
    clock: Clock,
    phase: watch::Sender<(Phase, Duration)>,
    close: Notify,
    over: AtomicBool,
}

impl Connection {
    pub(super) fn new(clock: Clock) -> Self {
        let phase = watch::Sender::new((Phase::Idle, clock.now().uptime));
        Connection { clock, phase, close: Notify::new(), over: AtomicBool::new(false) }
    }

    /// The uptime since which it waits for a request; `None` while it serves one.
    pub(super) fn idle_since(&self) -> Option<Duration> {
        let (phase, since) = *self.phase.borrow();
        (phase == Phase::Idle).then_some(since)
    }

    /// Asks it to end; it does so unless a request has come in the meantime.
    pub(super) fn close(&self) {
        self.close.notify_one();
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn enter(&self, phase: Phase) {
        self.phase.send_replace((phase, self.clock.now().uptime));
    }

    fn phase(&self) -> Phase {
        self.phase.borrow().0
    }

    /// Bytes came: the first ones begin a request.
    fn heard(&self) {
        if self.phase() == Phase::Idle {
            self.enter(Phase::Head);
        }
    }

    /// Resolves when a phase has lasted too long.
    async fn expired(&self, limits: Limits) {
        let mut changes = self.phase.subscribe();
        loop {
            let (phase, since) = *changes.borrow_and_update();
            let limit = match phase {
                Phase::Idle => limits.idle,
                Phase::Head => limits.head,
                Phase::Body => limits.body_time + ANSWER_TIME,
            };
            let left = (since + limit).saturating_sub(self.clock.now().uptime);
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                // The sender lives in self, so that this is a change.
                _ = changes.changed() => {}
            }
        }
    }
}

/// Serves requests until the peer, a time limit, a request to make room, or `stop` ends it.
pub(super) async fn serve<I: Intake>(
    stream: TcpStream,
    connection: Arc<Connection>,
    shared: Arc<Shared<I>>,
    stop: Stop,
) {
    let _open = shared.meter.connection();
    let _over = Over(Arc::clone(&connection));
    let service = service_fn(|request| {
        let (connection, shared) = (Arc::clone(&connection), Arc::clone(&shared));
        async move {
            connection.enter(Phase::Body);
            let response = reception::answer(&shared, request).await;
            connection.enter(Phase::Idle);
            Ok::<_, Infallible>(response)
        }
    });
    let heard = Arc::clone(&connection);
    let io = TokioIo::new(Watched::new(stream, move || heard.heard()));
    // No header timeout of hyper's: it would run while the connection idles.
    let mut http = http1::Builder::new();
    let mut http = pin!(http.header_read_timeout(None).max_buf_size(READ_BUFFER).serve_connection(io, service));
    let mut expired = pin!(connection.expired(shared.limits));
    let mut stopping = false;
    loop {
        tokio::select! {
            served = http.as_mut() => {
                if let Err(error) = served {
                    tracing::debug!(%error, "a connection to the ingest listener ended badly");
                }
                return;
            }
            () = expired.as_mut() => return,
            () = connection.close.notified() => if connection.phase() == Phase::Idle { return },
            () = stop.wait(), if !stopping => {
                if connection.phase() != Phase::Body {
                    return;
                }
                stopping = true;
                http.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Marks a connection as over when its task ends, however it ends.
struct Over(Arc<Connection>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
    }
}
