//! Accepts the connections of a listener, with timeouts and a limit. At the limit the listener
//! closes an older connection for each new one, so that idle or slow clients cannot block others.

use crate::{
    clock::Clock,
    rate_limit::RateLimit,
    socket::{AcceptingSockets, BoundSocket, Peer, Stream, peer},
    supervisor::Stop,
};
use parking_lot::Mutex;
use std::{
    cmp::Reverse, collections::VecDeque, future::poll_fn, pin::pin, sync::Arc, time::Duration,
};
use tokio::{
    sync::Notify,
    task::{AbortHandle, JoinSet},
    time::Instant,
};

/// A longer phase counts as slow: a scraper's request or a validator's push takes milliseconds.
const SLOW_AFTER: Duration = Duration::from_secs(2);

const LOG_INTERVAL: Duration = Duration::from_secs(600);

/// Maximum connections that have the close signal and have not ended yet.
pub const MAX_CLOSING_CONNECTIONS: usize = 16;

/// Maximum aborted connections that have not ended yet. An aborted task ends at its next poll.
const MAX_ABORTED_CONNECTIONS: usize = 64;
/// Time for requests in progress after the stop signal: a validator does not repeat its pushes.
const STOP_GRACE: Duration = Duration::from_secs(2);
/// Maximum connections that are accepted after the stop signal. They were queued before, in sockets
/// that are not inherited.
const MAX_QUEUED_AFTER_STOP: usize = 64;
/// Pause after a failed accept. The usual cause is a lack of descriptors, which a retry does not
/// cure.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, PartialEq)]
enum ConnectionPhase {
    Idle,
    ReceivingHead,
    Serving,
}

#[derive(Clone, Copy)]
pub struct Timeouts {
    pub idle: Duration,
    pub head: Duration,
    pub serving: Duration,
}

#[derive(Clone, Copy)]
struct ConnectionState {
    phase: ConnectionPhase,
    /// Uptime.
    phase_since: Duration,
    has_accepted_request: bool,
}

/// The state of a connection. Its task and the listener share it.
pub struct Connection {
    clock: Clock,
    pub peer: Peer,
    state: Mutex<ConnectionState>,
    close_signal: Notify,
}

impl Connection {
    pub fn new(clock: Clock, peer: Peer) -> Self {
        let state = ConnectionState {
            phase: ConnectionPhase::Idle,
            phase_since: clock.now().uptime,
            has_accepted_request: false,
        };
        Self {
            clock,
            peer,
            state: Mutex::new(state),
            close_signal: Notify::new(),
        }
    }

    pub fn is_idle(&self) -> bool {
        self.state().phase == ConnectionPhase::Idle
    }

    pub fn has_accepted_request(&self) -> bool {
        self.state().has_accepted_request
    }

    /// The first bytes begin a request. Later bytes do not extend its timeout.
    pub fn bytes_received(&self, bytes: &[u8]) {
        if !bytes.is_empty() && self.is_idle() {
            self.begin_head();
        }
    }

    pub fn begin_head(&self) {
        self.update_state(|state| state.phase = ConnectionPhase::ReceivingHead);
    }

    pub fn begin_serving(&self) {
        self.update_state(|state| state.phase = ConnectionPhase::Serving);
    }

    pub fn finish_request(&self, is_accepted: bool) {
        self.update_state(|state| {
            state.phase = ConnectionPhase::Idle;
            state.has_accepted_request |= is_accepted;
        });
    }

    pub async fn close_requested(&self) {
        self.close_signal.notified().await;
    }

    /// Resolves when a phase has lasted too long. A phase change does not wake the timer: the task
    /// that polls this future must make the change itself.
    pub async fn phase_timeout(&self, timeouts: Timeouts) {
        let mut timer = pin!(tokio::time::sleep_until(self.deadline(timeouts)));
        poll_fn(|context| {
            let deadline = self.deadline(timeouts);
            if timer.deadline() != deadline {
                timer.as_mut().reset(deadline);
            }
            timer.as_mut().poll(context)
        })
        .await;
    }

    fn deadline(&self, timeouts: Timeouts) -> Instant {
        let state = self.state();
        let limit = match state.phase {
            ConnectionPhase::Idle => timeouts.idle,
            ConnectionPhase::ReceivingHead => timeouts.head,
            ConnectionPhase::Serving => timeouts.serving,
        };
        Instant::from_std(self.clock.instant(state.phase_since + limit))
    }

    fn state(&self) -> ConnectionState {
        *self.state.lock()
    }

    fn update_state(&self, change: impl FnOnce(&mut ConnectionState)) {
        let mut state = self.state.lock();
        state.phase_since = self.clock.now().uptime;
        change(&mut state);
    }
}

/// The open connections of one listener. Unix sockets have a separate limit, so that network
/// clients cannot take all connections.
pub struct Connections {
    listener: &'static str,
    tcp: ConnectionPool,
    unix: ConnectionPool,
    /// Connections that have the close signal, the oldest signal first.
    closing: VecDeque<AbortHandle>,
    log_limit: RateLimit,
}

impl Connections {
    pub fn new(listener: &'static str, max_tcp: usize, max_unix: usize) -> Self {
        let pool = |max| ConnectionPool {
            max,
            open: Vec::new(),
        };
        Self {
            listener,
            tcp: pool(max_tcp),
            unix: pool(max_unix),
            closing: VecDeque::new(),
            log_limit: RateLimit::with_burst(1, LOG_INTERVAL),
        }
    }

    /// Closes another connection if the limit is reached.
    fn admit(&mut self, connection: Arc<Connection>, task: AbortHandle, now: Duration) {
        let pool = if connection.peer.is_unix() {
            &mut self.unix
        } else {
            &mut self.tcp
        };
        let Some(evicted) = pool.admit(OpenConnection { connection, task }, now) else {
            return;
        };
        if self.log_limit.try_take(now) {
            tracing::warn!(
                listener = self.listener,
                limit = pool.max,
                "connection limit reached: each new connection closes an older one, slow ones first; `ss -tnpx` lists the clients"
            );
        }
        if !evicted.connection.is_idle() {
            return evicted.task.abort();
        }
        // An idle connection is not aborted: a request may be in transit.
        evicted.connection.close_signal.notify_one();
        self.closing.retain(|task| !task.is_finished());
        self.closing.push_back(evicted.task);
        if self.closing.len() > MAX_CLOSING_CONNECTIONS
            && let Some(first) = self.closing.pop_front()
        {
            first.abort();
        }
    }
}

struct OpenConnection {
    connection: Arc<Connection>,
    task: AbortHandle,
}

struct ConnectionPool {
    max: usize,
    open: Vec<OpenConnection>,
}

impl ConnectionPool {
    fn admit(&mut self, new_connection: OpenConnection, now: Duration) -> Option<OpenConnection> {
        self.open.retain(|open| !open.task.is_finished());
        let evicted = if self.open.len() < self.max {
            None
        } else {
            self.index_to_evict(now)
        };
        let evicted = evicted.map(|index| self.open.remove(index));
        self.open.push(new_connection);
        evicted
    }

    /// The connection to close. Prefers, in this order: a phase of at least [`SLOW_AFTER`], no
    /// accepted request, the peer with the most connections, the longest phase.
    fn index_to_evict(&self, now: Duration) -> Option<usize> {
        let connections_of = |peer| {
            let peers = self.open.iter().map(|open| open.connection.peer);
            peers.filter(|other| *other == peer).count()
        };
        (0..self.open.len()).min_by_key(|index| {
            let connection = &self.open[*index].connection;
            let state = connection.state();
            let is_recent = now.saturating_sub(state.phase_since) < SLOW_AFTER;
            (
                is_recent,
                state.has_accepted_request,
                Reverse(connections_of(connection.peer)),
                state.phase_since,
            )
        })
    }
}

/// Serves until `stop`, then lets requests in progress end. Connections queued in an inherited
/// socket are left to the next process.
pub async fn accept<F: Future<Output = ()> + Send + 'static>(
    sockets: Vec<BoundSocket>,
    mut connections: Connections,
    clock: Clock,
    stop: &Stop,
    serve: impl Fn(Stream, Arc<Connection>) -> F,
) {
    let listener = connections.listener;
    let mut sockets = match AcceptingSockets::register(sockets) {
        Ok(sockets) => sockets,
        Err(error) => return tracing::error!(listener, %error, "the listener failed"),
    };
    let mut log_limit = RateLimit::with_burst(1, Duration::from_secs(60));
    let mut tasks = JoinSet::new();
    let max_tasks = connections.tcp.max
        + connections.unix.max
        + MAX_CLOSING_CONNECTIONS
        + MAX_ABORTED_CONNECTIONS;
    let start = |tasks: &mut JoinSet<()>, stream: Stream| {
        let connection = Arc::new(Connection::new(clock, peer(&stream)));
        let task = tasks.spawn(serve(stream, Arc::clone(&connection)));
        (connection, task)
    };
    loop {
        tokio::select! {
            () = stop.wait() => break,
            Some(ended) = tasks.join_next() => if let Err(error) = ended && error.is_panic() {
                tracing::error!(listener, %error, "a connection's task failed");
            },
            accepted = sockets.accept(), if tasks.len() < max_tasks => match accepted {
                Ok(stream) => {
                    let (connection, task) = start(&mut tasks, stream);
                    connections.admit(connection, task, clock.now().uptime);
                    // Lets the new task read its request before the next connection evicts it.
                    tokio::task::yield_now().await;
                }
                Err(error) => {
                    if log_limit.try_take(clock.now().uptime) {
                        tracing::warn!(listener, %error, "cannot accept a connection");
                    }
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
            },
        }
    }
    for stream in sockets.close(MAX_QUEUED_AFTER_STOP).await {
        start(&mut tasks, stream);
    }
    let all_ended = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(STOP_GRACE, all_ended).await.is_err() {
        tracing::warn!(listener, "stopped during a request");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use proptest::prelude::*;

    const NOW: Duration = Duration::from_secs(1000);

    /// At the address 192.0.2.`last`, in its phase for so many seconds.
    fn connection(last: u8, age: u64, has_accepted_request: bool) -> Arc<Connection> {
        let peer = Peer::from_address([192, 0, 2, last].into());
        let connection = Connection::new(Clock::start(), peer);
        *connection.state.lock() = ConnectionState {
            phase: ConnectionPhase::ReceivingHead,
            phase_since: NOW - Duration::from_secs(age),
            has_accepted_request,
        };
        Arc::new(connection)
    }

    /// Tasks that never end by themselves.
    struct Tasks(tokio::runtime::Runtime, JoinSet<()>);

    impl Tasks {
        fn new() -> Self {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            Self(runtime.unwrap(), JoinSet::new())
        }

        fn spawn(&mut self) -> AbortHandle {
            self.1.spawn_on(std::future::pending(), self.0.handle())
        }

        fn open(&mut self, connection: &Arc<Connection>) -> OpenConnection {
            OpenConnection {
                connection: Arc::clone(connection),
                task: self.spawn(),
            }
        }

        /// Lets aborted tasks end.
        fn poll(&self) {
            self.0.block_on(tokio::task::yield_now());
        }
    }

    /// The indexes in `open`, in the order in which newcomers close these connections.
    fn closing_order(open: &[Arc<Connection>]) -> Vec<usize> {
        let mut tasks = Tasks::new();
        let mut pool = Connections::new("test", open.len(), 0).tcp;
        for connection in open {
            assert!(pool.admit(tasks.open(connection), NOW).is_none());
        }
        let newcomers = (100..).take(open.len());
        let closed = newcomers.map(|last| {
            let new_connection = tasks.open(&connection(last, 0, true));
            let closed = pool.admit(new_connection, NOW).unwrap().connection;
            let position = open.iter().position(|one| Arc::ptr_eq(one, &closed));
            position.unwrap()
        });
        closed.collect()
    }

    #[test]
    fn at_the_connection_limit_slow_requests_are_closed_first() {
        let [young, young_accepted] = [connection(1, 1, false), connection(2, 1, true)];
        let [slow, slower] = [connection(3, 3, false), connection(4, 40, false)];
        let [idle, idle_for_longer] = [connection(5, 9, true), connection(6, 10, true)];
        assert_eq!(
            closing_order(&[young, young_accepted, slow, slower, idle, idle_for_longer]),
            [3, 2, 5, 4, 0, 1]
        );
    }

    #[test]
    fn a_peer_with_many_connections_loses_one_first() {
        let open: Vec<_> = [2, 1, 1, 1]
            .map(|last| connection(last, u64::from(last) * 10, false))
            .into();
        assert_eq!(closing_order(&open)[..2], [1, 2]);
    }

    #[test]
    fn only_ended_connections_free_their_slot() {
        let mut tasks = Tasks::new();
        let mut pool = Connections::new("test", 2, 0).tcp;
        let [stays, ends, new_connection] =
            [9, 5, 0].map(|age| tasks.open(&connection(1, age, false)));
        let task = ends.task.clone();
        assert!(pool.admit(stays, NOW).is_none());
        assert!(pool.admit(ends, NOW).is_none());
        task.abort();
        tasks.poll();
        assert!(pool.admit(new_connection, NOW).is_none());
        assert_eq!(pool.open.len(), 2);
    }

    #[test]
    fn unix_socket_connections_are_not_taken_by_a_tcp_port() {
        let mut tasks = Tasks::new();
        let mut connections = Connections::new("test", 2, 1);
        let mut admit = |peer: Option<Peer>| {
            let connection = match peer {
                Some(peer) => Arc::new(Connection::new(Clock::start(), peer)),
                None => connection(1, 0, false),
            };
            connection.begin_head();
            let task = tasks.spawn();
            connections.admit(connection, task.clone(), NOW);
            tasks.poll();
            task
        };
        let local = admit(Some(Peer::UNIX));
        let crowd: Vec<_> = (0..5).map(|_| admit(None)).collect();
        assert_eq!(crowd.iter().filter(|task| task.is_finished()).count(), 3);
        assert!(!local.is_finished());
        admit(Some(Peer::UNIX));
        assert!(local.is_finished());
    }

    #[test]
    fn idle_connections_are_closed_gracefully_and_excess_ones_aborted() {
        let mut tasks = Tasks::new();
        let mut connections = Connections::new("test", 1, 0);
        let mut admitted = Vec::new();
        for _ in 0..MAX_CLOSING_CONNECTIONS + 2 {
            let peer = Peer::from_address([192, 0, 2, 1].into());
            let connection = Arc::new(Connection::new(Clock::start(), peer));
            let task = tasks.spawn();
            connections.admit(Arc::clone(&connection), task.clone(), NOW);
            admitted.push((connection, task));
        }
        tasks.poll();
        let cut = admitted.iter().filter(|(_, task)| task.is_finished());
        assert_eq!(cut.count(), 1);
        assert!(admitted[0].1.is_finished(), "the first one");
        let is_closing = |(connection, _): &&(Arc<Connection>, AbortHandle)| {
            connection.close_requested().now_or_never().is_some()
        };
        assert_eq!(
            admitted.iter().filter(is_closing).count(),
            MAX_CLOSING_CONNECTIONS + 1
        );
    }

    #[test]
    fn ended_connections_do_not_close_one_that_is_finishing() {
        let mut tasks = Tasks::new();
        let mut connections = Connections::new("test", 1, 0);
        let mut admit = || {
            let peer = Peer::from_address([192, 0, 2, 1].into());
            let connection = Arc::new(Connection::new(Clock::start(), peer));
            let task = tasks.spawn();
            connections.admit(connection, task.clone(), NOW);
            tasks.poll();
            task
        };
        let closing = admit();
        for _ in 0..2 * MAX_CLOSING_CONNECTIONS {
            admit().abort();
        }
        tasks.poll();
        assert!(!closing.is_finished());
    }

    #[test]
    fn only_the_first_bytes_of_a_request_start_its_clock() {
        let connection = connection(1, 9, false);
        connection.bytes_received(b"G");
        assert_eq!(
            connection.state().phase_since,
            NOW - Duration::from_secs(9),
            "more bytes of the same request gain nothing"
        );
        connection.finish_request(true);
        connection.finish_request(false);
        assert!(connection.is_idle() && connection.has_accepted_request());
        connection.bytes_received(b"G");
        assert_eq!(connection.state().phase, ConnectionPhase::ReceivingHead);
    }

    #[tokio::test]
    async fn each_connection_phase_has_its_own_timeout() {
        let long = Duration::from_secs(3600);
        let connection = Connection::new(Clock::start(), Peer::UNIX);
        connection
            .phase_timeout(Timeouts {
                idle: Duration::ZERO,
                head: long,
                serving: long,
            })
            .await;
        connection.bytes_received(b"");
        assert!(connection.is_idle(), "the end of the stream is no request");
        connection.bytes_received(b"G");
        connection
            .phase_timeout(Timeouts {
                idle: long,
                head: Duration::from_millis(10),
                serving: long,
            })
            .await;
        connection.begin_serving();
        connection
            .phase_timeout(Timeouts {
                idle: long,
                head: long,
                serving: Duration::ZERO,
            })
            .await;
    }

    proptest! {
        #[test]
        fn every_new_connection_is_admitted_within_the_connection_limit(
            most in 1_usize..40,
            comers in prop::collection::vec((0_u8..4, 0_u64..9, any::<bool>()), 0..100),
        ) {
            let mut tasks = Tasks::new();
            let mut pool = Connections::new("test", most, 0).tcp;
            for (last, age, has_accepted_request) in comers {
                let comer = connection(last, age, has_accepted_request);
                pool.admit(tasks.open(&comer), NOW);
                let newest = pool.open.last().map(|open| &open.connection);
                prop_assert!(newest.is_some_and(|newest| Arc::ptr_eq(newest, &comer)));
                prop_assert!(pool.open.len() <= most);
            }
        }
    }
}
