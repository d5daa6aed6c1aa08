//! What is true of a release.
//!
//! The boundaries were read in the published sources from 2.0.5 to 4.5.0-alpha.4. A newer release gets the newest facts.

use std::fmt;

use crate::{Error, Excerpt};

/// Who built the validator.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Client {
    Agave,
    /// Jito-Solana.
    Jito,
    /// Firedancer's network side with Agave's runtime.
    Frankendancer,
    /// Firedancer alone: no Agave code.
    Firedancer,
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

    /// Whether its validator runs Agave's code, so that its version is one of Agave's.
    pub fn runs_agave(&self) -> bool {
        match self {
            Self::Agave | Self::Jito | Self::Frankendancer | Self::SolanaLabs => true,
            Self::Firedancer => false,
            // The other clients of Agave's list that do not run it.
            Self::Other(name) => !["harmonicfiredancer", "firebam", "sig"]
                .iter()
                .any(|other| name.eq_ignore_ascii_case(other)),
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

/// How finished a release is, in the order in which its builds appear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Maturity {
    /// `4.5.0-alpha.4`.
    Alpha(u32),
    /// `4.5.0-beta.1`.
    Beta(u32),
    /// `4.5.0-rc.1`.
    ReleaseCandidate(u32),
    Stable,
}

/// An Agave release. Releases are ordered by age: a prerelease comes before its release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release {
    /// Major, minor, patch.
    pub number: (u32, u32, u32),
    /// Whether it is a prerelease, and which.
    pub maturity: Maturity,
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
        let by_number = || {
            let is_embedded = embedded(unpacked(number, suffix)).is_some();
            is_embedded.then_some(Client::Frankendancer)
        };
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

    /// The number of [`Version::release`]: the facts of a release apply to its prereleases.
    pub fn agave(&self) -> (u32, u32, u32) {
        self.release().number
    }

    /// The Agave release whose facts apply: the own one, or for Frankendancer the embedded one (`0.503.20214` runs
    /// Agave 2.2.14, `0.101.0-beta.40002` runs 4.0.0-beta.2).
    pub fn release(&self) -> Release {
        let release = unpacked(self.number, self.suffix.as_deref().unwrap_or_default());
        embedded(release).unwrap_or(release)
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

impl Maturity {
    /// From a suffix: `beta.1`, `rc1`, `jito-rc.1`. A suffix that names no prerelease is a stable fork's.
    fn of_suffix(suffix: &str) -> Self {
        let suffix = suffix.to_ascii_lowercase();
        let mut parts = suffix.split(['-', '+']);
        let found = parts.find_map(|part| {
            let names = [
                ("alpha", Self::Alpha as fn(u32) -> Self),
                ("beta", Self::Beta),
                ("rc", Self::ReleaseCandidate),
            ];
            let (rest, of) = names
                .into_iter()
                .find_map(|(name, of)| Some((part.strip_prefix(name)?, of)))?;
            let rest = rest.strip_prefix('.').unwrap_or(rest);
            let digits = rest.split('.').next().unwrap_or_default();
            match digits {
                "" => Some(of(0)),
                digits => decimal(digits).map(of),
            }
        });
        found.unwrap_or(Self::Stable)
    }

    fn with_number(self, number: u32) -> Self {
        match self {
            Self::Alpha(_) => Self::Alpha(number),
            Self::Beta(_) => Self::Beta(number),
            Self::ReleaseCandidate(_) => Self::ReleaseCandidate(number),
            Self::Stable => Self::Stable,
        }
    }
}

/// What numbers and suffix mean. In gossip, Agave since 4.0 keeps a prerelease in two bits of the minor number and in
/// the patch number; a node before 4.0 shows these numbers as they are (`4.49157.4` is 4.5.0-alpha.4).
fn unpacked((major, minor, patch): (u32, u32, u32), suffix: &str) -> Release {
    let packed = match minor >> MINOR_BITS {
        1 => Maturity::ReleaseCandidate(patch),
        2 => Maturity::Beta(patch),
        3 => Maturity::Alpha(patch),
        _ => {
            return Release {
                number: (major, minor, patch),
                maturity: Maturity::of_suffix(suffix),
            };
        }
    };
    Release {
        number: (major, minor & ((1 << MINOR_BITS) - 1), 0),
        maturity: packed,
    }
}

const MINOR_BITS: u32 = 14;

/// The Agave release in a version of Frankendancer, which counts 0.x. Its third number holds Agave's version (20214 is
/// 2.2.14). In a prerelease, the number of the prerelease holds it, and its last two digits are Agave's prerelease
/// (40002 is 4.0.0-beta.2).
fn embedded(release: Release) -> Option<Release> {
    let (0, _, patch) = release.number else {
        return None;
    };
    let digits = match release.maturity {
        Maturity::Stable => patch,
        Maturity::Alpha(n) | Maturity::Beta(n) | Maturity::ReleaseCandidate(n) => n,
    };
    let (major, minor, last) = (digits / 10_000, digits / 100 % 100, digits % 100);
    let patch = if release.maturity == Maturity::Stable {
        last
    } else {
        0
    };
    (major > 0).then(|| Release {
        number: (major, minor, patch),
        maturity: release.maturity.with_number(last),
    })
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
