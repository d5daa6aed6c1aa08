//! The places of a listener. Whoever comes is let in: if all places are taken, the connection that makes the least of its
//! own leaves for it. So neither silence nor slowness keeps anybody out, and a request that comes at once is over before
//! it is its turn to leave.

use crate::socket::Peer;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// A request that has been coming for longer is slow: a scraper's head and a validator's push take milliseconds.
const SLOW: Duration = Duration::from_secs(2);

/// Of so many places one is safe with whoever was useful last, whatever it does now.
const SAFE: usize = 8;

/// From one word in the log about a full room to the next.
const QUIET: Duration = Duration::from_secs(600);

/// The rank of requests that are not slow.
const YOUNG: u8 = 3;

/// Whom a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nobody: no request has begun.
    Idle,
    /// The other side, for the rest of its request.
    Asking,
    /// Us.
    Answering,
}

/// What a connection makes of its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    /// Whose turn it is.
    pub(crate) turn: Turn,
    /// The uptime since which it is.
    pub(crate) since: Duration,
    /// The uptime at which the turn changed or bytes came last.
    pub(crate) moved: Duration,
    /// The uptime at which it was last useful: brought a push that was taken, or asked what it may ask. `None`: never.
    pub(crate) useful: Option<Duration>,
    /// Who it is.
    pub(crate) peer: Peer,
}

impl Standing {
    /// The least leaves first: slow requests, then who idles without ever having been useful, then who idles, then
    /// requests that are not slow.
    fn rank(&self, now: Duration) -> u8 {
        let slow = now.saturating_sub(self.since) >= SLOW;
        match self.turn {
            Turn::Asking if slow => 0,
            Turn::Idle if slow && self.useful.is_none() => 1,
            Turn::Idle if self.useful.is_some() => 2,
            // Who has only just come may have sent a request that is not read yet.
            Turn::Idle | Turn::Asking | Turn::Answering => YOUNG,
        }
    }
}

/// A connection that has a place.
pub(crate) trait Guest {
    /// What it makes of it now.
    fn standing(&self) -> Standing;
    /// Whether it has ended by itself.
    fn is_over(&self) -> bool;
}

/// The places of one listener: those on sockets in the file system are apart, so that whom their permissions let in is
/// not crowded out by who reaches a port.
#[derive(Debug)]
pub(crate) struct Rooms<G> {
    network: Room<G>,
    file_system: Room<G>,
}

impl<G: Guest> Rooms<G> {
    /// Rooms of so many places. The name of the listener is for the log.
    pub(crate) fn new(listener: &'static str, network: usize, file_system: usize) -> Self {
        Rooms { network: Room::new(listener, network), file_system: Room::new(listener, file_system) }
    }

    /// Gives the newcomer a place; who has to leave for it.
    pub(crate) fn admit(&mut self, newcomer: Arc<G>, now: Duration) -> Option<Arc<G>> {
        let room = if newcomer.standing().peer.is_local() { &mut self.file_system } else { &mut self.network };
        room.admit(newcomer, now)
    }
}

#[derive(Debug)]
struct Room<G> {
    listener: &'static str,
    most: usize,
    guests: Vec<Arc<G>>,
    /// When the log was last told that it is full.
    told: Option<Duration>,
}

impl<G: Guest> Room<G> {
    fn new(listener: &'static str, most: usize) -> Self {
        Room { listener, most, guests: Vec::new(), told: None }
    }

    fn admit(&mut self, newcomer: Arc<G>, now: Duration) -> Option<Arc<G>> {
        self.guests.retain(|guest| !guest.is_over());
        let leaves = if self.guests.len() < self.most { None } else { self.least(now) };
        let leaves = leaves.map(|place| self.guests.swap_remove(place));
        if leaves.is_some() {
            self.tell(now);
        }
        self.guests.push(newcomer);
        leaves
    }

    /// Of those of the lowest rank one of the peer that has the most places, and of these the one that has been so, or of
    /// young requests has not moved, for the longest.
    fn least(&self, now: Duration) -> Option<usize> {
        let mut all: Vec<(usize, Standing)> = self.guests.iter().map(|guest| guest.standing()).enumerate().collect();
        all.sort_by_key(|(_, standing)| Reverse(standing.useful));
        let safe = all.iter().take(self.most / SAFE).filter(|(_, standing)| standing.useful.is_some()).count();
        let mut places: HashMap<Peer, usize> = HashMap::new();
        all.iter().for_each(|(_, standing)| *places.entry(standing.peer).or_default() += 1);
        let value = |s: &Standing| {
            let rank = s.rank(now);
            (rank, Reverse(places.get(&s.peer).copied()), if rank == YOUNG { s.moved } else { s.since })
        };
        all.into_iter().skip(safe).min_by_key(|(_, standing)| value(standing)).map(|(place, _)| place)
    }

    fn tell(&mut self, now: Duration) {
        if self.told.is_some_and(|told| now.saturating_sub(told) < QUIET) {
            return;
        }
        self.told = Some(now);
        let (listener, places) = (self.listener, self.most);
        tracing::warn!(
            listener,
            places,
            "connection limit reached: each new connection closes an older one, slow ones first; `ss -tnpx` lists the clients"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Mutex;

    #[derive(Debug)]
    struct Pretend(&'static str, Mutex<Standing>, bool);

    impl Guest for Pretend {
        fn standing(&self) -> Standing {
            *self.1.lock().unwrap()
        }

        fn is_over(&self) -> bool {
            self.2
        }
    }

    const NOW: u64 = 1000;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn at_address(last: u8, name: &'static str, turn: Turn, since: u64, useful: Option<u64>) -> Arc<Pretend> {
        let peer = Peer::at([192, 0, 2, last].into());
        Arc::new(Pretend(
            name,
            Mutex::new(Standing { turn, since: at(since), moved: at(since), useful: useful.map(at), peer }),
            false,
        ))
    }

    fn guest(name: &'static str, turn: Turn, since: u64, useful: Option<u64>) -> Arc<Pretend> {
        at_address(1, name, turn, since, useful)
    }

    fn newcomer() -> Arc<Pretend> {
        guest("newcomer", Turn::Idle, NOW, None)
    }

    /// Who leaves when one after another comes and nobody moves.
    fn order(guests: Vec<Arc<Pretend>>) -> Vec<&'static str> {
        let count = guests.len();
        let mut room = Room { listener: "test", most: count, guests, told: None };
        (0..count).map(|_| room.admit(guest("newcomer", Turn::Answering, NOW + 1, None), at(NOW)).unwrap().0).collect()
    }

    #[test]
    fn slow_requests_leave_first_and_young_ones_last() {
        let left = order(vec![
            guest("young", Turn::Asking, NOW - 1, None),
            guest("idle", Turn::Idle, NOW - 1, Some(NOW - 1)),
            guest("idle for longer", Turn::Idle, NOW - 9, Some(NOW - 9)),
            guest("never useful", Turn::Idle, NOW - 3, None),
            guest("just come", Turn::Idle, NOW, None),
            guest("slower", Turn::Asking, NOW - 40, Some(NOW - 50)),
            guest("being answered", Turn::Answering, NOW - 30, None),
        ]);
        let expected = ["slower", "never useful", "idle for longer", "idle", "being answered", "young", "just come"];
        assert_eq!(left, expected);
    }

    #[test]
    fn of_young_requests_the_one_leaves_that_does_not_move() {
        let guests: Vec<_> = ["moves", "stands"].map(|name| guest(name, Turn::Asking, NOW - 1, None)).into();
        guests[0].1.lock().unwrap().moved = at(NOW);
        assert_eq!(order(guests)[0], "stands");
    }

    #[test]
    fn one_place_in_eight_is_safe_with_whoever_was_useful_last() {
        let mut guests: Vec<_> = (0..14).map(|_| guest("busy", Turn::Asking, NOW, None)).collect();
        guests.push(guest("useful", Turn::Idle, NOW - 10, Some(NOW - 10)));
        guests.push(guest("useful, slow now", Turn::Asking, NOW - 50, Some(NOW - 60)));
        let mut room = Room { listener: "test", most: 16, guests, told: None };
        for _ in 0..100 {
            assert!(!room.admit(guest("busy", Turn::Asking, NOW, None), at(NOW)).unwrap().0.starts_with("useful"));
        }
    }

    #[test]
    fn who_has_many_places_loses_one_before_who_has_few() {
        let mut guests = vec![at_address(2, "alone", Turn::Answering, NOW - 9, None)];
        guests.extend((0..7).map(|_| at_address(1, "one of many", Turn::Asking, NOW - 1, None)));
        let mut room = Room { listener: "test", most: 8, guests, told: None };
        for _ in 0..50 {
            let comer = at_address(1, "one of many", Turn::Asking, NOW, None);
            assert_eq!(room.admit(comer, at(NOW)).unwrap().0, "one of many");
        }
    }

    #[test]
    fn who_has_ended_leaves_its_place_and_nobody_else_does() {
        let mut room = Room::new("test", 2);
        room.guests = vec![newcomer(), Arc::new(Pretend("over", Mutex::new(newcomer().standing()), true))];
        assert!(room.admit(newcomer(), at(NOW)).is_none());
        assert_eq!((room.guests.len(), room.told), (2, None));
    }

    #[test]
    fn places_in_the_file_system_are_not_lost_to_a_port() {
        let mut rooms = Rooms::new("test", 2, 1);
        let local = |name| {
            let guest = guest(name, Turn::Asking, 1, None);
            guest.1.lock().unwrap().peer = Peer::LOCAL;
            guest
        };
        assert!(rooms.admit(local("local"), at(NOW)).is_none());
        let left: Vec<_> = (0..5).filter_map(|_| rooms.admit(newcomer(), at(NOW))).map(|left| left.0).collect();
        assert_eq!(left, ["newcomer"; 3]);
        assert_eq!(rooms.admit(local("another"), at(NOW)).unwrap().0, "local");
    }

    fn any_turn() -> impl Strategy<Value = Turn> {
        prop_oneof![Just(Turn::Idle), Just(Turn::Asking), Just(Turn::Answering)]
    }

    proptest! {
        #[test]
        fn everybody_is_let_in_and_the_room_is_never_fuller_than_it_may_be(
            most in 1_usize..40,
            comers in prop::collection::vec((any_turn(), 0..NOW, prop::option::of(0..NOW)), 0..100),
        ) {
            let mut room = Room::new("test", most);
            for (turn, since, useful) in comers {
                let comer = guest("comer", turn, since, useful);
                room.admit(Arc::clone(&comer), at(NOW));
                prop_assert!(room.guests.iter().any(|guest| Arc::ptr_eq(guest, &comer)));
                prop_assert!(room.guests.len() <= most);
            }
        }
    }
}
