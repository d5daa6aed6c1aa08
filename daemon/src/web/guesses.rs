//! Limits wrong passwords: each costs a check of a tenth of a second of CPU.

use crate::socket::Peer;
use std::collections::HashMap;
use std::time::Duration;

/// A token bucket: a burst, then one per pause.
#[derive(Debug, Clone, Copy)]
struct Rate {
    burst: u32,
    pause: Duration,
}

/// Per address: allows some typing errors.
const PEER: Rate = Rate {
    burst: 5,
    pause: Duration::from_secs(5),
};

/// For all addresses: a tenth of a core, at a tenth of a second per check.
const ALL: Rate = Rate {
    burst: 10,
    pause: Duration::from_secs(1),
};

impl Rate {
    /// Time until the next permitted check; `used_until` is the uptime at which the burst refills.
    fn wait(self, used_until: Duration, now: Duration) -> Duration {
        used_until
            .saturating_sub(now)
            .saturating_sub(self.pause * (self.burst - 1))
    }
}

/// Checks that started and did not succeed. Times are uptimes.
#[derive(Debug, Default)]
pub(super) struct Guesses {
    /// `used_until` of all addresses together.
    all: Duration,
    /// `used_until` per address. Refilled ones are dropped, so that [`ALL`] limits their number.
    peers: HashMap<Peer, Duration>,
}

impl Guesses {
    /// Counts a check until [`Guesses::forgive`].
    ///
    /// # Errors
    /// Too early: the remaining wait.
    pub(super) fn begin(&mut self, peer: Peer, now: Duration) -> Result<(), Duration> {
        self.peers.retain(|_, used_until| *used_until > now);
        let own = self.peers.get(&peer).copied().unwrap_or(now);
        let wait = PEER.wait(own, now).max(ALL.wait(self.all, now));
        if !wait.is_zero() {
            return Err(wait);
        }
        self.peers.insert(peer, own + PEER.pause);
        self.all = self.all.max(now) + ALL.pause;
        Ok(())
    }

    pub(super) fn forgive(&mut self, peer: Peer) {
        self.all = self.all.saturating_sub(ALL.pause);
        if let Some(used_until) = self.peers.get_mut(&peer) {
            *used_until = used_until.saturating_sub(PEER.pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn peer(last: u8) -> Peer {
        Peer::at([192, 0, 2, last].into())
    }

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn who_guesses_has_a_burst_and_then_one_try_each_pause_and_others_have_theirs() {
        let mut guesses = Guesses::default();
        let tried = (0..100)
            .filter(|_| guesses.begin(peer(1), s(100)).is_ok())
            .count();
        assert_eq!(tried, 5);
        assert_eq!(guesses.begin(peer(1), s(101)), Err(s(4)));
        assert_eq!(guesses.begin(peer(2), s(101)), Ok(()), "somebody else");
        assert_eq!(
            [105, 106, 110].map(|second| guesses.begin(peer(1), s(second)).is_ok()),
            [true, false, true]
        );
    }

    #[test]
    fn many_addresses_share_what_all_may_try() {
        let mut guesses = Guesses::default();
        let tried = (0..200)
            .filter(|last| guesses.begin(peer(*last), s(100)).is_ok())
            .count();
        assert_eq!(tried, 10);
        assert_eq!(guesses.begin(peer(250), s(100)), Err(s(1)));
        assert_eq!(guesses.begin(peer(250), s(101)), Ok(()));
        assert_eq!(guesses.peers.len(), 11, "only those that were allowed");
        assert_eq!(guesses.begin(peer(1), s(1000)), Ok(()));
        assert_eq!(guesses.peers.len(), 1);
    }

    #[test]
    fn right_passwords_use_up_nothing() {
        let mut guesses = Guesses::default();
        for _ in 0..1000 {
            assert_eq!(guesses.begin(peer(1), s(100)), Ok(()));
            guesses.forgive(peer(1));
        }
    }

    proptest! {
        /// Whoever tries whenever: never more than a burst and one for each pause.
        #[test]
        fn no_pattern_gets_more_tries(attempts in proptest::collection::vec((0..4_u8, 0..400_u64), 0..400)) {
            let mut guesses = Guesses::default();
            let (mut now, mut tried) = (Duration::ZERO, Vec::new());
            for (last, ms) in attempts {
                now += Duration::from_millis(ms);
                if guesses.begin(peer(last), now).is_ok() {
                    tried.push(last);
                }
            }
            prop_assert!(tried.len() as u64 <= 10 + now.as_secs());
            for last in 0..4 {
                prop_assert!(tried.iter().filter(|one| **one == last).count() as u64 <= 5 + now.as_secs() / 5);
            }
        }
    }
}
