//! Basic auth against bcrypt hashes. A check takes about a tenth of a second on purpose; who passed once passes fast.

use super::error::WebError;
use ring::hmac;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::{Mutex, PoisonError};
use tokio::sync::Semaphore;

/// Remembered passes; more only if users have several passwords that bcrypt, which reads 72 bytes, holds to be one.
const MOST_REMEMBERED: usize = 100;

/// Who may look.
pub(super) struct Users {
    hashes: BTreeMap<String, String>,
    /// Of this process only: what is remembered cannot be guessed or reused elsewhere.
    key: hmac::Key,
    passed: Mutex<HashSet<[u8; 32]>>,
    /// One check at a time: guessing passwords takes one core's time at most, and no more of the thread pool.
    checking: Semaphore,
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Users {{ names: {:?}, .. }}", self.hashes.keys().collect::<Vec<_>>())
    }
}

impl Users {
    /// Names with bcrypt hashes.
    pub(super) fn new(hashes: BTreeMap<String, String>) -> Result<Self, WebError> {
        let key =
            hmac::Key::generate(hmac::HMAC_SHA256, &ring::rand::SystemRandom::new()).map_err(|_| WebError::Random)?;
        Ok(Users { hashes, key, passed: Mutex::default(), checking: Semaphore::new(1) })
    }

    /// Whether the value of an Authorization header names a user with the right password. An unknown user takes as long
    /// as a wrong password.
    pub(super) async fn admits(&self, authorization: Option<&str>) -> bool {
        let Some((user, password)) = authorization.and_then(credentials) else { return false };
        let tag = self.tag(&user, &password);
        if self.passed().contains(&tag) {
            return true;
        }
        let known = self.hashes.get(&user);
        let Some(hash) = known.or_else(|| self.hashes.values().next()).cloned() else { return false };
        let Ok(_turn) = self.checking.acquire().await else { return false };
        let checked = tokio::task::spawn_blocking(move || bcrypt::verify(password, &hash).unwrap_or(false)).await;
        let admitted = checked.unwrap_or(false) && known.is_some();
        if admitted {
            let mut passed = self.passed();
            if passed.len() >= MOST_REMEMBERED {
                passed.clear();
            }
            passed.insert(tag);
        }
        admitted
    }

    fn passed(&self) -> std::sync::MutexGuard<'_, HashSet<[u8; 32]>> {
        self.passed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tag(&self, user: &str, password: &[u8]) -> [u8; 32] {
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

/// User and password of `Basic BASE64`.
fn credentials(authorization: &str) -> Option<(String, Vec<u8>)> {
    let (scheme, encoded) = authorization.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = base64(encoded.trim())?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let user = String::from_utf8(decoded.get(..colon)?.to_vec()).ok()?;
    Some((user, decoded.get(colon + 1..)?.to_vec()))
}

/// Standard alphabet, padded or not.
fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let (mut bits, mut count) = (0u32, 0);
    for letter in text.trim_end_matches('=').bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    // What is left over is padding: fewer than a letter's bits, all zero.
    (count < 6 && bits == 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn users() -> Users {
        Users::new(BTreeMap::from([("alice".to_owned(), bcrypt::hash("open: sesame", 4).unwrap())])).unwrap()
    }

    /// alice with "open: sesame", a password with a colon.
    const GOOD: &str = "Basic YWxpY2U6b3Blbjogc2VzYW1l";

    #[tokio::test]
    async fn the_right_password_passes_and_is_remembered() {
        let users = users();
        assert!(users.admits(Some(GOOD)).await);
        assert_eq!(users.passed().len(), 1);
        assert!(users.admits(Some(&GOOD.replace("Basic", "basic"))).await);
        assert_eq!(users.passed().len(), 1);
    }

    #[tokio::test]
    async fn nothing_else_passes_or_is_remembered() {
        let users = users();
        // alice:wrong, bob:open: sesame, no colon, not base64, another scheme.
        for bad in
            ["Basic YWxpY2U6d3Jvbmc=", "Basic Ym9iOm9wZW46IHNlc2FtZQ==", "Basic YWxpY2U=", "Basic ?", "Bearer x", ""]
        {
            assert!(!users.admits(Some(bad)).await, "{bad}");
        }
        assert!(!users.admits(None).await);
        assert_eq!(users.passed().len(), 0);
    }

    #[test]
    fn what_is_printed_holds_no_hash() {
        assert_eq!(format!("{:?}", users()), "Users { names: [\"alice\"], .. }");
    }

    #[test]
    fn base64_is_read_as_the_standard_says() {
        for (text, bytes) in
            [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYmE", "fooba"), ("Zm9vYmFy", "foobar")]
        {
            assert_eq!(base64(text).as_deref(), Some(bytes.as_bytes()), "{text}");
        }
        for bad in ["Z", "Zm9v YmFy", "Zh==", "Zm-_"] {
            assert_eq!(base64(bad), None, "{bad}");
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
