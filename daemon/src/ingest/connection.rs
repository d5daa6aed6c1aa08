//! One connection, from accept to close.

use super::{Intake, Limits, Shared, reception};
use crate::activity::ActivityStream;
use crate::clock::Clock;
use crate::connection_limit::{Guest, Standing, Turn};
use crate::socket::{Peer, Stream};
use crate::supervisor::Stop;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// hyper's buffer: bounds a request's head, and how much is parsed before others get their turn.
const READ_BUFFER: usize = 16 * 1024;
/// What a request may take beyond the time for its body: discarding the body of a refused one, and the answer.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// After the signal to stop, how long a connection that has brought nothing yet may take to begin: who connects for one
/// push writes it at once.
const FIRST_REQUEST: Duration = Duration::from_secs(1);
/// The same for one that has been served before, and may not have anything to say for long.
const NEXT_REQUEST: Duration = Duration::from_millis(300);
/// How long it is listened to a peer after it was told that the connection ends: a push may cross that word.
const LINGER: Duration = Duration::from_millis(200);

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

#[derive(Debug, Clone, Copy)]
struct State {
    phase: Phase,
    /// The uptime at which the phase began.
    since: Duration,
    /// The uptime at which a push was taken last.
    pushed: Option<Duration>,
}

/// A connection as the others see it: what it does, since when, and that it should go.
#[derive(Debug)]
pub(super) struct Connection {
    clock: Clock,
    peer: Peer,
    state: watch::Sender<State>,
    close: Notify,
    cut: Notify,
    over: AtomicBool,
    /// The uptime at which bytes came last, in nanoseconds.
    heard: AtomicU64,
    /// Whether a request was answered.
    served: AtomicBool,
}

impl Guest for Connection {
    fn standing(&self) -> Standing {
        let State { phase, since, pushed } = *self.state.borrow();
        let turn = if phase == Phase::Idle { Turn::Idle } else { Turn::Asking };
        let moved = since.max(Duration::from_nanos(self.heard.load(Ordering::Relaxed)));
        Standing { turn, since, moved, useful: pushed, peer: self.peer }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

impl Connection {
    pub(super) fn new(clock: Clock, peer: Peer) -> Self {
        let state = State { phase: Phase::Idle, since: clock.now().uptime, pushed: None };
        Connection {
            clock,
            peer,
            state: watch::Sender::new(state),
            close: Notify::new(),
            cut: Notify::new(),
            over: AtomicBool::new(false),
            heard: AtomicU64::new(0),
            served: AtomicBool::new(false),
        }
    }

    /// Whether it waits for a request.
    pub(super) fn is_idle(&self) -> bool {
        self.phase() == Phase::Idle
    }

    /// Asks it to end; it does so unless a request has come in the meantime.
    pub(super) fn close(&self) {
        self.close.notify_one();
    }

    /// Ends it, whatever it does. Of a push in the middle the complete lines count.
    pub(super) fn cut(&self) {
        self.cut.notify_one();
    }

    fn enter(&self, phase: Phase) {
        let now = self.clock.now().uptime;
        self.state.send_modify(|state| (state.phase, state.since) = (phase, now));
    }

    /// A request was answered, maybe a push that was taken.
    fn answered(&self, taken: bool) {
        let now = self.clock.now().uptime;
        self.served.store(true, Ordering::Relaxed);
        self.state.send_modify(|state| {
            let pushed = if taken { Some(now) } else { state.pushed };
            *state = State { phase: Phase::Idle, since: now, pushed };
        });
    }

    fn phase(&self) -> Phase {
        self.state.borrow().phase
    }

    /// Bytes came: the first ones begin a request.
    fn heard(&self) {
        let now = u64::try_from(self.clock.now().uptime.as_nanos()).unwrap_or(u64::MAX);
        self.heard.store(now, Ordering::Relaxed);
        if self.phase() == Phase::Idle {
            self.enter(Phase::Head);
        }
    }

    /// Resolves after the signal to stop, when the request that may have been on its way has had its time and none has
    /// come. One that has come is the last: its answer ends the connection.
    async fn leaves(&self, stop: &Stop) {
        stop.wait().await;
        tokio::time::sleep(if self.served.load(Ordering::Relaxed) { NEXT_REQUEST } else { FIRST_REQUEST }).await;
        if self.phase() != Phase::Idle {
            std::future::pending().await
        }
    }

    /// Resolves when a phase has lasted too long.
    async fn expired(&self, limits: Limits) {
        let mut changes = self.state.subscribe();
        loop {
            let State { phase, since, .. } = *changes.borrow_and_update();
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
pub(super) async fn serve<I: Intake>(stream: Stream, connection: Arc<Connection>, shared: Arc<Shared<I>>, stop: Stop) {
    let _open = shared.meter.connection();
    let _over = Over(Arc::clone(&connection));
    tokio::select! {
        () = talk(stream, &connection, &shared, &stop) => {}
        () = connection.cut.notified() => tracing::debug!("connection limit: an ingest connection was closed"),
    }
}

async fn talk<I: Intake>(stream: Stream, connection: &Arc<Connection>, shared: &Shared<I>, stop: &Stop) {
    let service = service_fn(|request| {
        async move {
            connection.enter(Phase::Body);
            let (mut response, taken) = reception::answer(shared, request, connection.peer).await;
            if stop.is_set() {
                // hyper closes behind it: its own way to end a connection would cut off the request that is coming.
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            connection.answered(taken);
            Ok::<_, Infallible>(response)
        }
    });
    let farewell = stream.farewell().ok();
    let io = TokioIo::new(ActivityStream::new(stream, || connection.heard()));
    // No header timeout of hyper's: it would run while the connection idles.
    let mut http = http1::Builder::new();
    let mut http = pin!(http.header_read_timeout(None).max_buf_size(READ_BUFFER).serve_connection(io, service));
    let mut expired = pin!(connection.expired(shared.limits));
    let mut leaves = pin!(connection.leaves(stop));
    loop {
        tokio::select! {
            served = http.as_mut() => return ended(served),
            () = expired.as_mut() => if connection.phase() == Phase::Idle { break } else { return },
            () = connection.close.notified() => if connection.phase() == Phase::Idle { break },
            () = leaves.as_mut() => break,
        }
    }
    // A push may be on its way: its sender sees the end, what it has sent counts all the same.
    if let Some(farewell) = farewell {
        farewell.say();
    }
    let heard_on = async {
        tokio::time::sleep(LINGER).await;
        if connection.phase() != Phase::Idle {
            connection.expired(shared.limits).await;
        }
    };
    tokio::select! {
        served = http.as_mut() => ended(served),
        () = heard_on => {}
    }
}

fn ended(served: hyper::Result<()>) {
    if let Err(error) = served {
        tracing::debug!(%error, "an ingest connection failed");
    }
}

/// Marks a connection as over when its task ends, however it ends.
struct Over(Arc<Connection>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
    }
}
