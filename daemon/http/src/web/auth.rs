//! Basic auth against bcrypt hashes. A check deliberately takes about a tenth of a second. So
//! checks are limited, and right and wrong passwords are cached.

use super::WebError;
use base64::{Engine, engine::general_purpose::STANDARD_PAD_INDIFFERENT as BASE64};
use faultline_core::{rate_limit::RateLimit, socket::Peer};
use itertools::{Itertools, chain};
use parking_lot::Mutex;
use ring::hmac;
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
    time::Duration,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum cached results. bcrypt reads only 72 bytes of a password, so many longer passwords of a
/// user are right.
const MAX_CACHED_RESULTS: usize = 200;

/// A higher cost gets a warning.
const MAX_USUAL_COST: u32 = 12;

/// Log2 of a hash's rounds; 0 if it is invalid.
pub fn bcrypt_cost(hash: &str) -> u32 {
    hash.parse::<bcrypt::HashParts>()
        .map_or(0, |parts| parts.get_cost())
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AuthResult {
    Admitted,
    NoCredentials,
    WrongCredentials,
    /// Too many checks failed recently: no check for this long.
    TooManyAttempts(Duration),
}

/// Whether credentials are right, by their HMAC.
type CachedResults = HashMap<Vec<u8>, bool>;

pub struct Users {
    hashes: BTreeMap<String, String>,
    /// A random key for each process, so that cached HMACs cannot be guessed or reused.
    key: hmac::Key,
    cached_results: Arc<Mutex<CachedResults>>,
    attempts: Arc<Mutex<PasswordAttempts>>,
    /// The slowest hash, used to check unknown users.
    slowest_hash: Option<String>,
    /// One check at a time: password guessing takes at most one core and one thread of the pool.
    check_permit: Arc<Semaphore>,
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Users {{ names: {:?}, .. }}",
            self.hashes.keys().collect_vec()
        )
    }
}

impl Users {
    pub fn new(hashes: BTreeMap<String, String>) -> Result<Self, WebError> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &ring::rand::SystemRandom::new())
            .map_err(|_| WebError::Random)?;
        let slowest_hash = hashes
            .values()
            .max_by_key(|hash| bcrypt_cost(hash))
            .cloned();
        Ok(Self {
            hashes,
            key,
            cached_results: Arc::default(),
            attempts: Arc::new(Mutex::new(PasswordAttempts::new())),
            slowest_hash,
            check_permit: Arc::new(Semaphore::new(1)),
        })
    }

    pub fn hash_cost_warnings(&self) -> Vec<String> {
        let mut costs = self.hashes.values().map(|hash| bcrypt_cost(hash));
        let max_cost = costs.clone().max();
        let slow = max_cost.filter(|cost| *cost > MAX_USUAL_COST).map(|max_cost| {
            format!(
                "basic_auth_users: a hash of cost {max_cost} takes seconds to check on the half CPU of the systemd unit, and a \
                 scraper's first request waits for it: cost 10 will do for a long random password"
            )
        });
        let differ = (!costs.all_equal()).then(|| {
            "basic_auth_users: hashes of different costs reveal by timing which users exist: use the same cost for all"
                .to_owned()
        });
        chain!(slow, differ).collect()
    }

    /// Checks an Authorization header. If all hashes have the same cost, an unknown user takes as
    /// long as a wrong password.
    pub async fn authenticate(
        &self,
        authorization: Option<&str>,
        peer: Peer,
        now: Duration,
    ) -> AuthResult {
        let Some(authorization) = authorization else {
            return AuthResult::NoCredentials;
        };
        let Some((user, password)) = user_and_password(authorization) else {
            return AuthResult::WrongCredentials;
        };
        // A user name has no colon, so these bytes belong to one user and password only.
        let credentials = [user.as_bytes(), b":", &password].concat();
        let tag = hmac::sign(&self.key, &credentials).as_ref().to_vec();
        match self.cached_results.lock().get(&tag) {
            Some(true) => return AuthResult::Admitted,
            Some(false) => return AuthResult::WrongCredentials,
            None => {}
        }
        let known = self.hashes.get(&user);
        let Some(hash) = known.or(self.slowest_hash.as_ref()).cloned() else {
            return AuthResult::WrongCredentials;
        };
        let queue = match self.attempts.lock().begin(peer, now) {
            Ok(queue) => queue,
            Err(wait) => return AuthResult::TooManyAttempts(wait),
        };
        let Some(permits) = self.acquire_permits(queue).await else {
            return AuthResult::WrongCredentials;
        };
        let is_known = known.is_some();
        let cached_results = Arc::clone(&self.cached_results);
        let attempts = Arc::clone(&self.attempts);
        // Runs to its end and caches its result, even if the client disconnects before.
        let check = move || {
            let _permits = permits;
            let is_correct = bcrypt::verify(password, &hash).unwrap_or(false) && is_known;
            cache_result(&mut cached_results.lock(), tag, is_correct);
            if is_correct {
                attempts.lock().refund(peer);
            }
            is_correct
        };
        match tokio::task::spawn_blocking(check).await {
            Ok(true) => AuthResult::Admitted,
            _ => AuthResult::WrongCredentials,
        }
    }

    /// Waits for the other checks of the same peer, then for those of all peers.
    async fn acquire_permits(&self, queue: Arc<Semaphore>) -> Option<[OwnedSemaphorePermit; 2]> {
        let own = queue.acquire_owned().await.ok()?;
        let all = Arc::clone(&self.check_permit).acquire_owned().await.ok()?;
        Some([own, all])
    }
}

/// A full cache drops the wrong credentials first.
fn cache_result(results: &mut CachedResults, tag: Vec<u8>, is_correct: bool) {
    if results.len() >= MAX_CACHED_RESULTS {
        results.retain(|_, is_correct| *is_correct);
    }
    if results.len() >= MAX_CACHED_RESULTS {
        results.clear();
    }
    results.insert(tag, is_correct);
}

/// Counts each password check until it succeeds, also if its client leaves. Times are uptimes.
struct PasswordAttempts {
    all_peers: RateLimit,
    /// Peers with counted checks, and the last refused one. So `all_peers` limits the number of
    /// peers.
    peers: HashMap<Peer, PeerAttempts>,
}

struct PeerAttempts {
    limit: RateLimit,
    /// One check at a time, so that a guessing peer delays others by at most one check.
    queue: Arc<Semaphore>,
}

impl PasswordAttempts {
    /// All peers: ten checks at once, then one a second, a tenth of a core at 0.1 s a check.
    fn new() -> Self {
        Self {
            all_peers: RateLimit::with_burst(10, Duration::from_secs(1)),
            peers: HashMap::new(),
        }
    }

    /// Counts a check that begins; [`PasswordAttempts::refund`] uncounts it. Returns the queue of
    /// the peer's checks.
    ///
    /// # Errors
    /// The limit is reached. Contains the time until the next check is allowed.
    fn begin(&mut self, peer: Peer, now: Duration) -> Result<Arc<Semaphore>, Duration> {
        self.peers
            .retain(|_, peer| !peer.limit.is_full(now) || Arc::strong_count(&peer.queue) > 1);
        let peer_attempts = self.peers.entry(peer).or_insert_with(|| PeerAttempts {
            limit: RateLimit::with_burst(5, Duration::from_secs(5)),
            queue: Arc::new(Semaphore::new(1)),
        });
        let wait = peer_attempts
            .limit
            .time_until_allowed(now)
            .max(self.all_peers.time_until_allowed(now));
        if !wait.is_zero() {
            return Err(wait);
        }
        peer_attempts.limit.count(now);
        self.all_peers.count(now);
        Ok(Arc::clone(&peer_attempts.queue))
    }

    fn refund(&mut self, peer: Peer) {
        self.all_peers.refund();
        if let Some(peer_attempts) = self.peers.get_mut(&peer) {
            peer_attempts.limit.refund();
        }
    }
}

fn user_and_password(authorization: &str) -> Option<(String, Vec<u8>)> {
    let (scheme, encoded) = authorization.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = BASE64.decode(encoded.trim()).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let user = String::from_utf8(decoded.get(..colon)?.to_vec()).ok()?;
    Some((user, decoded.get(colon + 1..)?.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use proptest::prelude::*;

    fn users() -> Users {
        Users::new(BTreeMap::from([(
            "alice".to_owned(),
            bcrypt::hash("open: sesame", 4).unwrap(),
        )]))
        .unwrap()
    }

    /// alice with "open: sesame", a password with a colon.
    const GOOD: &str = "Basic YWxpY2U6b3Blbjogc2VzYW1l";

    const NOW: Duration = Duration::from_secs(100);

    fn basic(user_and_password: &str) -> String {
        format!("Basic {}", BASE64.encode(user_and_password))
    }

    fn remembered(users: &Users) -> Vec<bool> {
        users.cached_results.lock().values().copied().collect()
    }

    #[tokio::test]
    async fn a_correct_password_is_accepted_and_cached() {
        let users = users();
        assert_eq!(
            users.authenticate(Some(GOOD), Peer::UNIX, NOW).await,
            AuthResult::Admitted
        );
        assert_eq!(remembered(&users), [true]);
        assert_eq!(
            users
                .authenticate(Some(&GOOD.replace("Basic", "basic")), Peer::UNIX, NOW)
                .await,
            AuthResult::Admitted
        );
        assert_eq!(remembered(&users), [true]);
    }

    #[tokio::test]
    async fn a_check_is_cached_although_its_client_disconnected() {
        let users = users();
        assert!(
            users
                .authenticate(Some(GOOD), Peer::UNIX, NOW)
                .now_or_never()
                .is_none()
        );
        // The second check starts after the end of the first, which has the only permit.
        drop(users.check_permit.acquire().await.unwrap());
        assert_eq!(remembered(&users), [true]);
    }

    #[tokio::test]
    async fn other_credentials_are_refused() {
        let users = users();
        for bad in [
            &basic("alice:wrong"),
            &basic("bob:open: sesame"),
            &basic("alice"),
            "Basic ?",
            "Bearer x",
            "",
        ] {
            assert_eq!(
                users.authenticate(Some(bad), Peer::UNIX, NOW).await,
                AuthResult::WrongCredentials,
                "{bad}"
            );
        }
        assert_eq!(
            users.authenticate(None, Peer::UNIX, NOW).await,
            AuthResult::NoCredentials
        );
        assert_eq!(remembered(&users), [false, false]);
    }

    #[tokio::test]
    async fn a_guessing_address_is_throttled_and_authenticated_or_other_clients_pass() {
        let users = users();
        let guesser = Peer::from_address([192, 0, 2, 1].into());
        assert_eq!(
            users.authenticate(Some(GOOD), guesser, NOW).await,
            AuthResult::Admitted
        );
        let mut verdicts = Vec::new();
        for number in 0..20 {
            // Half of the attempts use a known user name, which makes no difference.
            let user = ["alice", "bob"][number % 2];
            verdicts.push(
                users
                    .authenticate(Some(&basic(&format!("{user}:{number}"))), guesser, NOW)
                    .await,
            );
        }
        let checked = verdicts
            .iter()
            .take_while(|auth_result| **auth_result == AuthResult::WrongCredentials)
            .count();
        assert_eq!(checked, 5);
        assert!(
            verdicts[checked..]
                .iter()
                .all(|auth_result| matches!(auth_result, AuthResult::TooManyAttempts(_))),
            "{verdicts:?}"
        );
        assert_eq!(
            users
                .authenticate(Some(&basic("alice:0")), guesser, NOW)
                .await,
            AuthResult::WrongCredentials,
            "known to be wrong"
        );
        assert_eq!(
            users.authenticate(Some(GOOD), guesser, NOW).await,
            AuthResult::Admitted,
            "remembered"
        );
        users.cached_results.lock().clear();
        assert!(matches!(
            users.authenticate(Some(GOOD), guesser, NOW).await,
            AuthResult::TooManyAttempts(_)
        ));
        let elsewhere = Peer::from_address([192, 0, 2, 2].into());
        assert_eq!(
            users.authenticate(Some(GOOD), elsewhere, NOW).await,
            AuthResult::Admitted
        );
    }

    #[tokio::test]
    async fn a_password_check_keeps_its_permit_after_its_connection_closes() {
        let users = Users::new(BTreeMap::from([(
            "alice".to_owned(),
            bcrypt::hash("a", 8).unwrap(),
        )]))
        .unwrap();
        for number in 0..3 {
            // The future is dropped during the check.
            let wrong = basic(&format!("alice:{number}"));
            assert!(
                users
                    .authenticate(Some(&wrong), Peer::UNIX, NOW)
                    .now_or_never()
                    .is_none()
            );
            assert_eq!(users.check_permit.available_permits(), 0);
        }
        drop(users.check_permit.acquire().await);
    }

    #[tokio::test]
    async fn password_guessing_from_one_address_delays_others_by_one_check() {
        let users = users();
        let queue = |last: u8, second: u64| {
            let peer = Peer::from_address([192, 0, 2, last].into());
            let now = Duration::from_secs(second);
            users.attempts.lock().begin(peer, now).unwrap()
        };
        let mut guesses = Vec::new();
        for number in 0..50 {
            let mut guess = Box::pin(users.acquire_permits(queue(1, 100 + number * 5)));
            // All checks but the first one wait.
            let check_permits = (&mut guess).now_or_never();
            guesses.push((guess, check_permits));
        }
        assert_eq!(
            guesses
                .iter()
                .filter(|(_, check_permits)| check_permits.is_some())
                .count(),
            1
        );
        let mut scraper = Box::pin(users.acquire_permits(queue(2, 400)));
        assert!((&mut scraper).now_or_never().is_none());
        guesses[0].1 = None;
        assert!(
            (&mut scraper).now_or_never().flatten().is_some(),
            "before the other guesses"
        );
        drop(guesses);
        assert!(users.acquire_permits(queue(1, 400)).await.is_some());
    }

    #[tokio::test]
    async fn the_password_cache_is_bounded_and_keeps_correct_passwords() {
        let users = users();
        cache_result(&mut users.cached_results.lock(), vec![0], true);
        for number in 0..1000_u32 {
            cache_result(
                &mut users.cached_results.lock(),
                number.to_le_bytes().to_vec(),
                false,
            );
            assert!(remembered(&users).len() <= MAX_CACHED_RESULTS);
        }
        assert_eq!(users.cached_results.lock().get(&vec![0]), Some(&true));
    }

    #[test]
    fn unknown_users_are_checked_at_the_highest_bcrypt_cost() {
        let hash = |cost: u32| {
            format!("$2y${cost:02}$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy")
        };
        let users = |costs: &[u32]| {
            let hashes = costs
                .iter()
                .enumerate()
                .map(|(number, cost)| (number.to_string(), hash(*cost)));
            Users::new(hashes.collect()).unwrap()
        };
        assert_eq!(users(&[4, 11, 10]).slowest_hash, Some(hash(11)));
        let warned = |costs: &[u32]| users(costs).hash_cost_warnings().len();
        assert_eq!(
            (
                warned(&[10, 10]),
                warned(&[10, 11]),
                warned(&[13]),
                warned(&[13, 10])
            ),
            (0, 1, 1, 2)
        );
    }

    #[test]
    fn debug_output_contains_no_password_hash() {
        assert_eq!(format!("{:?}", users()), "Users { names: [\"alice\"], .. }");
    }

    #[test]
    fn base64_is_accepted_with_and_without_padding() {
        for header in [
            GOOD,
            "Basic YWxpY2U6b3Blbjogc2VzYW1lIQ==",
            "Basic YWxpY2U6b3Blbjogc2VzYW1lIQ",
        ] {
            assert_eq!(user_and_password(header).unwrap().0, "alice", "{header}");
        }
    }

    proptest! {
        #[test]
        fn no_authorization_header_causes_a_panic(header in "\\PC*") {
            let _ = user_and_password(&header);
            let _ = user_and_password(&format!("Basic {header}"));
        }
    }

    fn peer(last: u8) -> Peer {
        Peer::from_address([192, 0, 2, last].into())
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
        /// For any peers and times, at most a burst of checks is allowed, and then one per
        /// interval.
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
