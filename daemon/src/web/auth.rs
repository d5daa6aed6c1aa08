//! Basic auth against bcrypt hashes. A check deliberately takes about a tenth of a second, so
//! checks are limited and both results are cached.

use super::error::WebError;
use super::guesses::Guesses;
use crate::socket::Peer;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_PAD_INDIFFERENT as BASE64;
use ring::hmac;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum cached successes, and as many failures. Successes only exceed the users if several
/// passwords equal in bcrypt's first 72 bytes.
const MOST_REMEMBERED: usize = 100;

const SLOW_COST: u32 = 12;

/// Log2 of a hash's rounds; 0 if it is invalid.
pub(super) fn cost(hash: &str) -> u32 {
    hash.parse::<bcrypt::HashParts>()
        .map_or(0, |parts| parts.get_cost())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Admitted,
    NotGiven,
    Wrong,
    /// Too many checks failed recently: no check for this long.
    TooMany(Duration),
}

pub(super) struct Users {
    hashes: BTreeMap<String, String>,
    /// Per process: cached tags cannot be guessed or reused elsewhere.
    key: hmac::Key,
    passed: Mutex<HashSet<Tag>>,
    failed: Mutex<HashSet<Tag>>,
    guesses: Mutex<Guesses>,
    /// The slowest hash, used to check unknown users.
    longest: Option<String>,
    /// One check at a time: password guessing takes at most one core and one thread of the pool.
    checking: Arc<Semaphore>,
    /// One queued check per peer: guesses from one address delay the others by one check.
    peers: Mutex<HashMap<Peer, Weak<Semaphore>>>,
}

type Tag = [u8; 32];

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Users {{ names: {:?}, .. }}",
            self.hashes.keys().collect::<Vec<_>>()
        )
    }
}

impl Users {
    pub(super) fn new(hashes: BTreeMap<String, String>) -> Result<Self, WebError> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &ring::rand::SystemRandom::new())
            .map_err(|_| WebError::Random)?;
        let longest = hashes.values().max_by_key(|hash| cost(hash)).cloned();
        let (passed, failed, guesses, peers) = Default::default();
        Ok(Users {
            hashes,
            key,
            passed,
            failed,
            guesses,
            longest,
            checking: Arc::new(Semaphore::new(1)),
            peers,
        })
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        let costs: Vec<u32> = self.hashes.values().map(|hash| cost(hash)).collect();
        let (least, most) = (costs.iter().min().copied(), costs.iter().max().copied());
        let slow = most.filter(|most| *most > SLOW_COST).map(|most| {
            format!(
                "basic_auth_users: a hash of cost {most} takes seconds to check on half a CPU, as the unit allows, and a \
                 scraper's first request waits for it: cost 10 will do for a long random password"
            )
        });
        let differ = (least != most).then(|| {
            "basic_auth_users: hashes of different costs reveal by timing which users exist: use the same cost for all"
                .to_owned()
        });
        slow.into_iter().chain(differ).collect()
    }

    /// Checks an Authorization header. If all hashes have the same cost, an unknown user takes as
    /// long as a wrong password.
    pub(super) async fn judge(
        &self,
        authorization: Option<&str>,
        peer: Peer,
        now: Duration,
    ) -> Verdict {
        let Some(authorization) = authorization else {
            return Verdict::NotGiven;
        };
        let Some((user, password)) = credentials(authorization) else {
            return Verdict::Wrong;
        };
        let tag = self.tag(&user, &password);
        if lock(&self.passed).contains(&tag) {
            return Verdict::Admitted;
        }
        let known = self.hashes.get(&user);
        let Some(hash) = known.or(self.longest.as_ref()).cloned() else {
            return Verdict::Wrong;
        };
        if lock(&self.failed).contains(&tag) {
            return Verdict::Wrong;
        }
        if let Err(wait) = lock(&self.guesses).begin(peer, now) {
            return Verdict::TooMany(wait);
        }
        let Some(turn) = self.turn(peer).await else {
            return Verdict::Wrong;
        };
        let check = move || {
            // The permit ends with the check, even if the request is gone.
            let _turn = turn;
            bcrypt::verify(password, &hash).unwrap_or(false)
        };
        let checked = tokio::task::spawn_blocking(check).await;
        if checked.unwrap_or(false) && known.is_some() {
            lock(&self.guesses).forgive(peer);
            remember(&self.passed, tag);
            return Verdict::Admitted;
        }
        remember(&self.failed, tag);
        Verdict::Wrong
    }

    /// The permit of the peer, then the global one.
    async fn turn(&self, peer: Peer) -> Option<[OwnedSemaphorePermit; 2]> {
        let own = {
            let mut peers = lock(&self.peers);
            peers.retain(|_, queue| queue.strong_count() > 0);
            let queue = peers
                .get(&peer)
                .and_then(Weak::upgrade)
                .unwrap_or_else(|| Arc::new(Semaphore::new(1)));
            peers.insert(peer, Arc::downgrade(&queue));
            queue
        };
        let first = own.acquire_owned().await.ok()?;
        Some([
            first,
            Arc::clone(&self.checking).acquire_owned().await.ok()?,
        ])
    }

    fn tag(&self, user: &str, password: &[u8]) -> Tag {
        let mut context = hmac::Context::with_key(&self.key);
        // The length keeps "ab" + "c" and "a" + "bc" apart.
        context.update(&(user.len() as u64).to_le_bytes());
        context.update(user.as_bytes());
        context.update(password);
        let mut tag = [0; 32];
        tag.copy_from_slice(context.sign().as_ref());
        tag
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A full cache is cleared first.
fn remember(tags: &Mutex<HashSet<Tag>>, tag: Tag) {
    let mut tags = lock(tags);
    if tags.len() >= MOST_REMEMBERED {
        tags.clear();
    }
    tags.insert(tag);
}

fn credentials(authorization: &str) -> Option<(String, Vec<u8>)> {
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

    #[tokio::test]
    async fn the_right_password_passes_and_is_remembered() {
        let users = users();
        assert_eq!(
            users.judge(Some(GOOD), Peer::LOCAL, NOW).await,
            Verdict::Admitted
        );
        assert_eq!(lock(&users.passed).len(), 1);
        assert_eq!(
            users
                .judge(Some(&GOOD.replace("Basic", "basic")), Peer::LOCAL, NOW)
                .await,
            Verdict::Admitted
        );
        assert_eq!(lock(&users.passed).len(), 1);
    }

    #[tokio::test]
    async fn nothing_else_passes() {
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
                users.judge(Some(bad), Peer::LOCAL, NOW).await,
                Verdict::Wrong,
                "{bad}"
            );
        }
        assert_eq!(users.judge(None, Peer::LOCAL, NOW).await, Verdict::NotGiven);
        assert_eq!(
            (lock(&users.passed).len(), lock(&users.failed).len()),
            (0, 2)
        );
    }

    #[tokio::test]
    async fn who_guesses_is_told_to_wait_and_who_has_passed_or_is_elsewhere_still_passes() {
        let users = users();
        let guesser = Peer::at([192, 0, 2, 1].into());
        assert_eq!(
            users.judge(Some(GOOD), guesser, NOW).await,
            Verdict::Admitted
        );
        let mut verdicts = Vec::new();
        for number in 0..20 {
            // Half of them with a name that is known: it makes no difference.
            let user = ["alice", "bob"][number % 2];
            verdicts.push(
                users
                    .judge(Some(&basic(&format!("{user}:{number}"))), guesser, NOW)
                    .await,
            );
        }
        let checked = verdicts
            .iter()
            .take_while(|verdict| **verdict == Verdict::Wrong)
            .count();
        assert_eq!(checked, 5);
        assert!(
            verdicts[checked..]
                .iter()
                .all(|verdict| matches!(verdict, Verdict::TooMany(_))),
            "{verdicts:?}"
        );
        assert_eq!(
            users.judge(Some(&basic("alice:0")), guesser, NOW).await,
            Verdict::Wrong,
            "known to be wrong"
        );
        assert_eq!(
            users.judge(Some(GOOD), guesser, NOW).await,
            Verdict::Admitted,
            "remembered"
        );
        lock(&users.passed).clear();
        assert!(matches!(
            users.judge(Some(GOOD), guesser, NOW).await,
            Verdict::TooMany(_)
        ));
        let elsewhere = Peer::at([192, 0, 2, 2].into());
        assert_eq!(
            users.judge(Some(GOOD), elsewhere, NOW).await,
            Verdict::Admitted
        );
    }

    #[tokio::test]
    async fn a_check_whose_connection_has_gone_keeps_its_turn() {
        let users = Users::new(BTreeMap::from([(
            "alice".to_owned(),
            bcrypt::hash("a", 8).unwrap(),
        )]))
        .unwrap();
        for number in 0..3 {
            // Dropped in the middle.
            let wrong = basic(&format!("alice:{number}"));
            assert!(
                users
                    .judge(Some(&wrong), Peer::LOCAL, NOW)
                    .now_or_never()
                    .is_none()
            );
            assert_eq!(users.checking.available_permits(), 0);
        }
        drop(users.checking.acquire().await);
    }

    #[tokio::test]
    async fn who_guesses_from_one_address_delays_the_others_by_one_check() {
        let users = users();
        let guesser = Peer::at([192, 0, 2, 1].into());
        let mut guesses = Vec::new();
        for _ in 0..50 {
            let mut guess = Box::pin(users.turn(guesser));
            // All but the first wait.
            let turn = (&mut guess).now_or_never();
            guesses.push((guess, turn));
        }
        assert_eq!(guesses.iter().filter(|(_, turn)| turn.is_some()).count(), 1);
        let mut scraper = Box::pin(users.turn(Peer::at([192, 0, 2, 2].into())));
        assert!((&mut scraper).now_or_never().is_none());
        guesses[0].1 = None;
        assert!(
            (&mut scraper).now_or_never().flatten().is_some(),
            "before the other guesses"
        );
        drop(guesses);
        assert!(users.turn(guesser).await.is_some());
        assert_eq!(
            users.peers.lock().unwrap().len(),
            1,
            "those who are gone are forgotten"
        );
    }

    #[test]
    fn unknown_names_are_checked_at_the_highest_cost_and_what_differs_or_is_dear_is_told() {
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
        assert_eq!(users(&[4, 11, 10]).longest, Some(hash(11)));
        let warned = |costs: &[u32]| users(costs).warnings().len();
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
    fn what_is_printed_holds_no_hash() {
        assert_eq!(format!("{:?}", users()), "Users { names: [\"alice\"], .. }");
    }

    #[test]
    fn base64_is_taken_with_padding_and_without() {
        for header in [
            GOOD,
            "Basic YWxpY2U6b3Blbjogc2VzYW1lIQ==",
            "Basic YWxpY2U6b3Blbjogc2VzYW1lIQ",
        ] {
            assert_eq!(credentials(header).unwrap().0, "alice", "{header}");
        }
    }

    proptest! {
        #[test]
        fn no_header_makes_it_panic(header in "\\PC*") {
            let _ = credentials(&header);
            let _ = credentials(&format!("Basic {header}"));
        }
    }
}
