//! Addresses: public keys and hashes of 32 bytes in base58.

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::{fmt, str::FromStr};
use thiserror::Error;

use crate::json;

/// An address. It is validated when it is parsed, so a node cannot put other text into a label.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct PublicKey([u8; 32]);

#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[error("not a public key of 32 bytes in base58")]
pub struct InvalidPublicKey;

impl FromStr for PublicKey {
    type Err = InvalidPublicKey;

    fn from_str(text: &str) -> Result<Self, InvalidPublicKey> {
        let mut key = [0; 32];
        // Faster than `bs58`, for the two keys of 2,000 vote accounts.
        five8::decode_32(text, &mut key).map_err(|_| InvalidPublicKey)?;
        Ok(Self(key))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&bs58::encode(self.0).into_string())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Base58;

        impl Visitor<'_> for Base58 {
            type Value = PublicKey;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a public key in base58")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<PublicKey, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Base58)
    }
}

impl json::TolerantField<'_> for PublicKey {
    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn both_decoders_agree_on_near_keys(text in "1{0,3}[1-9A-HJ-NP-Za-km-z]{29,45}") {
            let mut key = [0; 32];
            let length = bs58::decode(&text).onto(&mut key);
            let expected = (length == Ok(32)).then_some(PublicKey(key)).ok_or(InvalidPublicKey);
            prop_assert_eq!(text.parse(), expected);
        }

        #[test]
        fn both_decoders_agree_on_keys(key: [u8; 32], zeros in 0..=32_usize) {
            let mut key = key;
            key[..zeros].fill(0);
            prop_assert_eq!(bs58::encode(key).into_string().parse(), Ok(PublicKey(key)));
        }
    }

    #[test]
    fn a_public_key_round_trips_and_other_texts_are_rejected() {
        let letters = "7".repeat(16 << 20);
        for key in [
            "DMz6SsztgBqTVkGc6CTcs4EYSJPUTfqKKwEzHLC7P8sr",
            "11111111111111111111111111111111",
        ] {
            assert_eq!(key.parse::<PublicKey>().unwrap().to_string(), key);
            let quoted = format!("{key:?}");
            assert_eq!(
                serde_json::from_str::<PublicKey>(&quoted)
                    .unwrap()
                    .to_string(),
                key
            );
        }
        for text in [
            "",
            "Abc",
            "DMz6SsztgBqTVkGc6CTcs4EYSJPUTfqKKwEzHLC7P8s0",
            "1111111111111111111111111111111",
            "DMz6SsztgBqTVkGc6CTcs4EYSJPUTfqKKwEzHLC7P8srr",
            "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz",
            "DMz6SsztgBqTVkGc6CTcs4EYSJPUTfqKKwE\u{1b}[31m",
            "DMz6SsztgBqTVkGc6CTcs4EYSJPU\u{202e}qKKwEzHLC7P8",
            &letters,
        ] {
            assert_eq!(text.parse::<PublicKey>(), Err(InvalidPublicKey));
            let error = serde_json::from_value::<PublicKey>(text.into()).unwrap_err();
            assert!(error.to_string().len() < 100, "it does not repeat the text");
        }
    }
}
