//! Limits wrong passwords: each costs a check of a tenth of a second of CPU.

use faultline_core::{rate_limit::RateLimit, socket::Peer};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::sync::Semaphore;

/// Counts password checks that did not succeed or still run. Times are uptimes.
#[derive(Debug)]
pub struct PasswordAttempts {
    all: RateLimit,
    /// Only peers with counted checks, so that `all` limits their number.
    peers: HashMap<Peer, PeerAttempts>,
}

#[derive(Debug)]
struct PeerAttempts {
    limit: RateLimit,
    /// One check at a time, so that a guessing peer delays others by at most one check.
    queue: Arc<Semaphore>,
}

impl PasswordAttempts {
    /// Limits all checks together to a tenth of a core if a check takes a tenth of a second.
    pub fn new() -> Self {
        PasswordAttempts {
            all: RateLimit::new(10, Duration::from_secs(1)),
            peers: HashMap::new(),
        }
    }

    /// Counts a check that begins; a correct password uncounts it. Returns the queue of the peer's
    /// checks.
    ///
    /// # Errors
    /// The limit is reached. Contains the time until the next check is allowed.
    pub fn begin(&mut self, peer: Peer, now: Duration) -> Result<Arc<Semaphore>, Duration> {
        self.peers
            .retain(|_, peer| !peer.limit.is_full(now) || Arc::strong_count(&peer.queue) > 1);
        let peer_attempts = self.peers.entry(peer).or_insert_with(|| PeerAttempts {
            limit: RateLimit::new(5, Duration::from_secs(5)),
            queue: Arc::new(Semaphore::new(1)),
        });
        let wait = peer_attempts.limit.wait(now).max(self.all.wait(now));
        if !wait.is_zero() {
            return Err(wait);
        }
        peer_attempts.limit.count(now);
        self.all.count(now);
        Ok(Arc::clone(&peer_attempts.queue))
    }

    pub fn refund(&mut self, peer: Peer) {
        self.all.refund();
        if let Some(peer_attempts) = self.peers.get_mut(&peer) {
            peer_attempts.limit.refund();
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

    fn begin(guesses: &mut PasswordAttempts, last: u8, second: u64) -> Result<(), Duration> {
        guesses.begin(peer(last), s(second)).map(drop)
    }

    #[test]
    fn password_attempts_per_address_have_a_burst_then_one_per_pause() {
        let mut guesses = PasswordAttempts::new();
        let tried = (0..100)
            .filter(|_| guesses.begin(peer(1), s(100)).is_ok())
            .count();
        assert_eq!(tried, 5);
        assert_eq!(begin(&mut guesses, 1, 101), Err(s(4)));
        assert_eq!(begin(&mut guesses, 2, 101), Ok(()), "somebody else");
        assert_eq!(
            [105, 106, 110].map(|second| guesses.begin(peer(1), s(second)).is_ok()),
            [true, false, true]
        );
    }

    #[test]
    fn many_addresses_share_one_password_attempt_limit() {
        let mut guesses = PasswordAttempts::new();
        let tried = (0..200)
            .filter(|last| guesses.begin(peer(*last), s(100)).is_ok())
            .count();
        assert_eq!(tried, 10);
        assert_eq!(begin(&mut guesses, 250, 100), Err(s(1)));
        assert_eq!(begin(&mut guesses, 250, 101), Ok(()));
        assert_eq!(guesses.peers.len(), 11, "only those that were allowed");
        assert_eq!(begin(&mut guesses, 1, 1000), Ok(()));
        assert_eq!(guesses.peers.len(), 1);
    }

    #[test]
    fn correct_passwords_do_not_use_up_the_attempt_limit() {
        let mut guesses = PasswordAttempts::new();
        for _ in 0..1000 {
            assert_eq!(begin(&mut guesses, 1, 100), Ok(()));
            guesses.refund(peer(1));
        }
    }

    proptest! {
        /// Whoever tries whenever: never more than a burst and one for each pause.
        #[test]
        fn no_request_pattern_exceeds_the_password_attempt_limit(attempts in proptest::collection::vec((0..4_u8, 0..400_u64), 0..400)) {
            let mut guesses = PasswordAttempts::new();
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
