//! What is true of a release.
//!
//! The boundaries were read in the published sources from 2.0.5 to 4.4.0. A newer release gets the newest facts.

use std::fmt;

use crate::{Error, Excerpt};

/// Who built the validator.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Client {
    /// Anza's.
    Agave,
    /// Jito-Solana.
    Jito,
    /// Firedancer's network side with Agave's runtime.
    Frankendancer,
    /// Firedancer alone: no Agave code.
    Firedancer,
    /// Before Agave.
    SolanaLabs,
    /// Another, by the name it gives itself.
    Other(String),
}

impl Client {
    /// From the `client:` part of a version or a suffix.
    pub fn of_name(name: &str) -> Self {
        match name.to_ascii_lowercase().as_str() {
            "agave" => Self::Agave,
            "jito" | "jitolabs" => Self::Jito,
            "frankendancer" => Self::Frankendancer,
            "firedancer" => Self::Firedancer,
            "solanalabs" => Self::SolanaLabs,
            _ => Self::Other(name.chars().filter(|c| !c.is_control()).take(40).collect()),
        }
    }

    /// A short name, fit for a label.
    pub fn name(&self) -> &str {
        match self {
            Self::Agave => "agave",
            Self::Jito => "jito",
            Self::Frankendancer => "frankendancer",
            Self::Firedancer => "firedancer",
            Self::SolanaLabs => "solana-labs",
            Self::Other(name) => name,
        }
    }
}

/// A version as a validator tells it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version {
    /// Major, minor, patch.
    pub number: (u32, u32, u32),
    /// What follows them: `jito`, `beta.1`.
    pub suffix: Option<String>,
    /// Who built it; `None` if the text does not tell.
    pub client: Option<Client>,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, patch) = self.number;
        write!(f, "{major}.{minor}.{patch}")?;
        self.suffix
            .as_ref()
            .map_or(Ok(()), |suffix| write!(f, "-{suffix}"))
    }
}

impl Version {
    /// Reads `2.1.14`, `2.1.14-jito`, `v2.1.14`, `2.1.14 (src:..; feat:.., client:Agave)`, and any of these behind a
    /// program's name.
    ///
    /// # Errors
    /// [`Error::Version`] if no word of the text begins with three numbers.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (head, details) = text.split_once('(').unwrap_or((text, ""));
        let found = head.split_ascii_whitespace().find_map(numbered);
        let (number, suffix) = found.ok_or_else(|| Error::Version {
            text: Excerpt::of(text.as_bytes()),
        })?;
        let stated = details.split_once("client:").map(|(_, rest)| {
            let end = rest.find([',', ';', ')', ' ']).unwrap_or(rest.len());
            Client::of_name(rest.get(..end).unwrap_or(rest))
        });
        let by_suffix = || {
            suffix
                .to_ascii_lowercase()
                .split(['-', '.', '+'])
                .any(|part| part == "jito")
                .then_some(Client::Jito)
        };
        // Frankendancer counts 0.x and hides Agave's version in the third number.
        let by_number =
            || (number.0 == 0 && embedded(number.2).is_some()).then_some(Client::Frankendancer);
        let client = stated.or_else(by_suffix).or_else(by_number);
        let suffix = (!suffix.is_empty()).then(|| {
            suffix
                .chars()
                .filter(|c| !c.is_control())
                .take(40)
                .collect()
        });
        Ok(Self {
            number,
            suffix,
            client,
        })
    }

    /// The Agave version whose facts apply: the own one, or for Frankendancer the embedded one, which its third number
    /// holds (`0.503.20214` runs Agave 2.2.14).
    pub fn agave(&self) -> (u32, u32, u32) {
        if self.number.0 == 0 {
            embedded(self.number.2).unwrap_or(self.number)
        } else {
            self.number
        }
    }

    /// Compiled programs the cache holds at most: a constant of the source, in stock builds.
    pub fn program_cache_capacity(&self) -> u64 {
        match self.agave() {
            version if version < (2, 0, 16) || version == (2, 1, 0) => 256,
            version if version < (4, 3, 0) => 512,
            _ => 1024,
        }
    }
}

/// What an eviction pass shrinks a cache of `capacity` entries to: 90 %, rounded down.
pub fn shrink_target(capacity: u64) -> u64 {
    u64::try_from(u128::from(capacity) * 90 / 100).unwrap_or(capacity)
}

/// A word that begins with three numbers, and what follows them.
fn numbered(word: &str) -> Option<((u32, u32, u32), &str)> {
    let word = word.strip_prefix('v').unwrap_or(word);
    let (major, rest) = word.split_once('.')?;
    let (minor, rest) = rest.split_once('.')?;
    let end = rest
        .bytes()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(rest.len());
    let (patch, suffix) = rest.split_at_checked(end)?;
    let suffix = match suffix.strip_prefix(['-', '+', '.']) {
        Some(suffix) => suffix,
        None if suffix.is_empty() => suffix,
        None => return None,
    };
    Some(((decimal(major)?, decimal(minor)?, decimal(patch)?), suffix))
}

// `parse` alone would take a plus sign.
fn decimal(text: &str) -> Option<u32> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())?
}

/// The version that Frankendancer's third number holds: 20214 is 2.2.14.
fn embedded(third: u32) -> Option<(u32, u32, u32)> {
    (third >= 10_000).then_some((third / 10_000, third / 100 % 100, third % 100))
}

/// Whether a text can be a version with its details, as `validator-new` and `getVersion` tell it: at most 128 printable ASCII
/// characters. Whatever else a server sends must not become a label.
pub fn is_version(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 128
        && text
            .bytes()
            .all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests;
