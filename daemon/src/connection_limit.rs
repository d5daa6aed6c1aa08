//! Timeouts of a listener's connections, and which one closes at the limit. Every new connection is
//! accepted, so that idle or slow ones keep nobody out.

use crate::clock::Clock;
use crate::socket::Peer;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Slower requests count as slow: a scraper's head and a validator's push take milliseconds.
const SLOW: Duration = Duration::from_secs(2);

const QUIET: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Idle,
    Head,
    Serving,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    pub(crate) idle: Duration,
    pub(crate) head: Duration,
    pub(crate) serving: Duration,
}

#[derive(Debug, Clone, Copy)]
struct State {
    phase: Phase,
    since: Duration,
    /// Whether a push or request of it was accepted.
    useful: bool,
}

/// Only its task holds strong references while it is open.
#[derive(Debug)]
pub(crate) struct Connection {
    clock: Clock,
    peer: Peer,
    state: Mutex<State>,
    close: Notify,
    cut: Notify,
}

impl Connection {
    pub(crate) fn new(clock: Clock, peer: Peer, phase: Phase) -> Self {
        let state = Mutex::new(State {
            phase,
            since: clock.now().uptime,
            useful: false,
        });
        Connection {
            clock,
            peer,
            state,
            close: Notify::new(),
            cut: Notify::new(),
        }
    }

    pub(crate) fn peer(&self) -> Peer {
        self.peer
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.state().phase == Phase::Idle
    }

    pub(crate) fn is_useful(&self) -> bool {
        self.state().useful
    }

    /// The first bytes begin a request; later bytes do not extend the timeout.
    pub(crate) fn received(&self, bytes: &[u8]) {
        if !bytes.is_empty() && self.is_idle() {
            self.change(|state| state.phase = Phase::Head);
        }
    }

    pub(crate) fn serving(&self) {
        self.change(|state| state.phase = Phase::Serving);
    }

    pub(crate) fn answered(&self, useful: bool) {
        self.change(|state| (state.phase, state.useful) = (Phase::Idle, state.useful || useful));
    }

    /// Asks it to end; a request that arrives meanwhile keeps it open.
    pub(crate) fn close(&self) {
        self.close.notify_one();
    }

    pub(crate) async fn closed(&self) {
        self.close.notified().await;
    }

    pub(crate) fn cut(&self) {
        self.cut.notify_one();
    }

    pub(crate) async fn must_end(&self) {
        self.cut.notified().await;
    }

    /// Resolves when a phase has lasted too long. A phase change wakes nobody, so the polling task
    /// must change it before it polls.
    pub(crate) async fn expired(&self, timeouts: Timeouts) {
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
        let State { phase, since, .. } = self.state();
        let limit = match phase {
            Phase::Idle => timeouts.idle,
            Phase::Head => timeouts.head,
            Phase::Serving => timeouts.serving,
        };
        Instant::from_std(self.clock.instant(since + limit))
    }

    fn state(&self) -> State {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, to: impl FnOnce(&mut State)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.since = self.clock.now().uptime;
        to(&mut state);
    }
}

/// The open connections of one listener. File system sockets have their own limit, so that network
/// clients cannot crowd them out.
#[derive(Debug)]
pub(crate) struct Connections {
    network: Limited,
    file_system: Limited,
}

impl Connections {
    /// `network` and `file_system` are the limits; `listener` is for the log.
    pub(crate) fn new(listener: &'static str, network: usize, file_system: usize) -> Self {
        let limited = |most| Limited {
            listener,
            most,
            open: Vec::new(),
            logged: None,
        };
        Connections {
            network: limited(network),
            file_system: limited(file_system),
        }
    }

    /// Adds a connection and returns the one to close for it.
    pub(crate) fn admit(
        &mut self,
        newcomer: &Arc<Connection>,
        now: Duration,
    ) -> Option<Arc<Connection>> {
        let limited = if newcomer.peer.is_local() {
            &mut self.file_system
        } else {
            &mut self.network
        };
        limited.admit(newcomer, now)
    }
}

#[derive(Debug)]
struct Limited {
    listener: &'static str,
    most: usize,
    open: Vec<Weak<Connection>>,
    logged: Option<Duration>,
}

impl Limited {
    fn admit(&mut self, newcomer: &Arc<Connection>, now: Duration) -> Option<Arc<Connection>> {
        self.open.retain(|connection| connection.strong_count() > 0);
        let closed = if self.open.len() < self.most {
            None
        } else {
            self.first_to_close(now)
        };
        if let Some(closed) = &closed {
            self.open
                .retain(|connection| !std::ptr::eq(connection.as_ptr(), Arc::as_ptr(closed)));
            self.log(now);
        }
        self.open.push(Arc::downgrade(newcomer));
        closed
    }

    /// Order: slow and idle before those of the last two seconds; never useful; the peer with the
    /// most connections; the longest in its phase.
    fn first_to_close(&self, now: Duration) -> Option<Arc<Connection>> {
        let open: Vec<Arc<Connection>> = self.open.iter().filter_map(Weak::upgrade).collect();
        let mut of_peer: HashMap<Peer, usize> = HashMap::new();
        open.iter()
            .for_each(|connection| *of_peer.entry(connection.peer).or_default() += 1);
        let order = |connection: &Arc<Connection>| {
            let State { since, useful, .. } = connection.state();
            let is_young = now.saturating_sub(since) < SLOW;
            (
                is_young,
                useful,
                Reverse(of_peer.get(&connection.peer).copied()),
                since,
            )
        };
        open.into_iter().min_by_key(order)
    }

    fn log(&mut self, now: Duration) {
        if self
            .logged
            .is_some_and(|logged| now.saturating_sub(logged) < QUIET)
        {
            return;
        }
        self.logged = Some(now);
        tracing::warn!(
            listener = self.listener,
            places = self.most,
            "connection limit reached: each new connection closes an older one, slow ones first; `ss -tnpx` lists the clients"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Duration = Duration::from_secs(1000);

    /// At the address 192.0.2.`last`, in its phase for so many seconds.
    fn connection(last: u8, age: u64, useful: bool) -> Arc<Connection> {
        let connection = Connection::new(
            Clock::start(),
            Peer::at([192, 0, 2, last].into()),
            Phase::Head,
        );
        let since = NOW - Duration::from_secs(age);
        *connection.state.lock().unwrap() = State {
            phase: Phase::Head,
            since,
            useful,
        };
        Arc::new(connection)
    }

    /// In which order they are closed for others that come all at once; by their place in the list.
    fn order(open: &[Arc<Connection>]) -> Vec<usize> {
        let mut limited = Connections::new("test", open.len(), 0).network;
        open.iter()
            .for_each(|one| assert!(limited.admit(one, NOW).is_none()));
        let newcomers: Vec<_> = (100..)
            .take(open.len())
            .map(|last| connection(last, 0, true))
            .collect();
        let closed = newcomers
            .iter()
            .map(|newcomer| limited.admit(newcomer, NOW).unwrap());
        closed
            .map(|closed| {
                open.iter()
                    .position(|one| Arc::ptr_eq(one, &closed))
                    .unwrap()
            })
            .collect()
    }

    #[test]
    fn slow_requests_leave_first_and_young_ones_last() {
        let [young, young_useful] = [connection(1, 1, false), connection(2, 1, true)];
        let [slow, slower] = [connection(3, 3, false), connection(4, 40, false)];
        let [idle, idle_for_longer] = [connection(5, 9, true), connection(6, 10, true)];
        assert_eq!(
            order(&[young, young_useful, slow, slower, idle, idle_for_longer]),
            [3, 2, 5, 4, 0, 1]
        );
    }

    #[test]
    fn who_has_many_places_loses_one_before_who_has_few() {
        let open: Vec<_> = [2, 1, 1, 1]
            .map(|last| connection(last, u64::from(last) * 10, false))
            .into();
        assert_eq!(order(&open)[..2], [1, 2]);
    }

    #[test]
    fn who_has_ended_leaves_its_place_and_nobody_else_does() {
        let mut limited = Connections::new("test", 2, 0).network;
        let (stays, newcomer) = (connection(1, 9, false), connection(1, 0, false));
        assert!(limited.admit(&stays, NOW).is_none());
        assert!(limited.admit(&connection(1, 5, false), NOW).is_none());
        assert!(limited.admit(&newcomer, NOW).is_none());
        assert_eq!((limited.open.len(), limited.logged), (2, None));
    }

    #[test]
    fn places_in_the_file_system_are_not_lost_to_a_port() {
        let mut connections = Connections::new("test", 2, 1);
        let [local, another] =
            [(), ()].map(|()| Arc::new(Connection::new(Clock::start(), Peer::LOCAL, Phase::Head)));
        assert!(connections.admit(&local, NOW).is_none());
        let crowd: Vec<_> = (0..5).map(|_| connection(1, 0, false)).collect();
        assert_eq!(
            crowd
                .iter()
                .filter_map(|one| connections.admit(one, NOW))
                .count(),
            3
        );
        assert!(Arc::ptr_eq(
            &connections.admit(&another, NOW).unwrap(),
            &local
        ));
    }

    #[test]
    fn only_the_first_bytes_of_a_request_start_its_clock() {
        let connection = connection(1, 9, false);
        connection.received(b"G");
        assert_eq!(
            connection.state().since,
            NOW - Duration::from_secs(9),
            "more bytes of the same request gain nothing"
        );
        connection.answered(true);
        connection.answered(false);
        assert!(connection.is_idle() && connection.is_useful());
        connection.received(b"G");
        assert_eq!(connection.state().phase, Phase::Head);
    }

    #[tokio::test]
    async fn each_phase_ends_by_its_own_timeout() {
        let long = Duration::from_secs(3600);
        let connection = Connection::new(Clock::start(), Peer::LOCAL, Phase::Idle);
        connection
            .expired(Timeouts {
                idle: Duration::ZERO,
                head: long,
                serving: long,
            })
            .await;
        connection.received(b"");
        assert!(connection.is_idle(), "the end of the stream is no request");
        connection.received(b"G");
        connection
            .expired(Timeouts {
                idle: long,
                head: Duration::from_millis(10),
                serving: long,
            })
            .await;
        connection.serving();
        connection
            .expired(Timeouts {
                idle: long,
                head: long,
                serving: Duration::ZERO,
            })
            .await;
    }

    proptest! {
        #[test]
        fn everybody_is_let_in_and_the_room_is_never_fuller_than_it_may_be(
            most in 1_usize..40,
            comers in prop::collection::vec((0_u8..4, 0_u64..9, any::<bool>()), 0..100),
        ) {
            let mut limited = Connections::new("test", most, 0).network;
            let comers: Vec<_> = comers.into_iter().map(|(last, age, useful)| connection(last, age, useful)).collect();
            for comer in &comers {
                limited.admit(comer, NOW);
                prop_assert!(limited.open.last().is_some_and(|last| std::ptr::eq(last.as_ptr(), Arc::as_ptr(comer))));
                prop_assert!(limited.open.len() <= most);
            }
        }
    }
}
