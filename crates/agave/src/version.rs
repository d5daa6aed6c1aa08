//! Versions, clients, and properties of releases, from the sources of 2.0.5 to 4.5.0-alpha.4. A
//! newer release has the properties of the newest known one.

use std::fmt;

use crate::{Error, Excerpt};

#[derive(Debug, PartialEq)]
pub enum ValidatorClient {
    Agave,
    Jito,
    Frankendancer,
    /// No Agave code.
    Firedancer,
    SolanaLabs,
    Other(String),
}

impl ValidatorClient {
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

    /// Whether the client runs Agave's code, so that its version is an Agave version.
    pub fn runs_agave(&self) -> bool {
        match self {
            Self::Agave | Self::Jito | Self::Frankendancer | Self::SolanaLabs => true,
            Self::Firedancer => false,
            // Clients in Agave's list of client ids that do not run Agave's code.
            Self::Other(name) => !["harmonicfiredancer", "firebam", "sig"]
                .iter()
                .any(|other| name.eq_ignore_ascii_case(other)),
        }
    }

    /// Fit for a label.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Maturity {
    Alpha,
    Beta,
    ReleaseCandidate,
    Stable,
}

/// Ordered from old to new: a prerelease comes before its release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release {
    pub number: (u32, u32, u32),
    pub maturity: Maturity,
    /// 0 for a stable release.
    pub prerelease_number: u32,
}

#[derive(Debug, PartialEq)]
pub struct Version {
    /// As printed: an encoded number is not decoded.
    pub shown_number: (u32, u32, u32),
    /// `jito`, `beta.1`.
    pub suffix: Option<String>,
    pub client: Option<ValidatorClient>,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, patch) = self.shown_number;
        write!(f, "{major}.{minor}.{patch}")?;
        self.suffix
            .as_ref()
            .map_or(Ok(()), |suffix| write!(f, "-{suffix}"))
    }
}

impl Version {
    /// Parses `2.1.14`, `2.1.14-jito`, `v2.1.14`, `2.1.14 (src:..; feat:.., client:Agave)`, and any
    /// of these after a program's name.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (head, details) = text.split_once('(').unwrap_or((text, ""));
        let number_and_suffix = head
            .split_ascii_whitespace()
            .find_map(parse_number_and_suffix);
        let (number, suffix) = number_and_suffix.ok_or_else(|| Error::Version {
            text: Excerpt::of(text),
        })?;
        let stated_client = details.split_once("client:").map(|(_, rest)| {
            let end = rest.find([',', ';', ')', ' ']).unwrap_or(rest.len());
            ValidatorClient::of_name(rest.get(..end).unwrap_or(rest))
        });
        let by_suffix = || {
            suffix
                .to_ascii_lowercase()
                .split(['-', '.', '+'])
                .any(|part| part == "jito")
                .then_some(ValidatorClient::Jito)
        };
        let by_number = || {
            let is_embedded = embedded_agave(decode_gossip_version(number, suffix)).is_some();
            is_embedded.then_some(ValidatorClient::Frankendancer)
        };
        let client = stated_client.or_else(by_suffix).or_else(by_number);
        let suffix = (!suffix.is_empty()).then(|| {
            suffix
                .chars()
                .filter(|c| !c.is_control())
                .take(40)
                .collect()
        });
        Ok(Self {
            shown_number: number,
            suffix,
            client,
        })
    }

    /// A prerelease counts as its release.
    pub fn agave_number(&self) -> (u32, u32, u32) {
        self.release().number
    }

    /// The Agave release that runs. For Frankendancer it is the embedded one (2.2.14 in
    /// `0.503.20214`, 4.0.0-beta.2 in `0.101.0-beta.40002`).
    pub fn release(&self) -> Release {
        let release = decode_gossip_version(
            self.shown_number,
            self.suffix.as_deref().unwrap_or_default(),
        );
        embedded_agave(release).unwrap_or(release)
    }

    /// Maximum of compiled programs in the cache: a source constant of stock builds.
    pub fn program_cache_capacity(&self) -> u64 {
        match self.agave_number() {
            version if version < (2, 0, 16) || version == (2, 1, 0) => 256,
            version if version < (4, 3, 0) => 512,
            _ => 1024,
        }
    }
}

/// Size of the program cache after an eviction pass.
pub fn shrink_target(capacity: u64) -> u64 {
    u64::try_from(u128::from(capacity) * 90 / 100).unwrap_or(capacity)
}

fn parse_number_and_suffix(word: &str) -> Option<((u32, u32, u32), &str)> {
    let (major, rest) = word.strip_prefix('v').unwrap_or(word).split_once('.')?;
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

// `parse` alone would accept a plus sign.
fn decimal(text: &str) -> Option<u32> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())?
}

impl Maturity {
    /// From `beta.1`, `rc1`, `jito-rc.1`: also the prerelease's number. Any other suffix (`jito`)
    /// belongs to a stable release.
    fn of_suffix(suffix: &str) -> (Self, u32) {
        let suffix = suffix.to_ascii_lowercase();
        let names = [
            ("alpha", Self::Alpha),
            ("beta", Self::Beta),
            ("rc", Self::ReleaseCandidate),
        ];
        let found = suffix.split(['-', '+']).find_map(|part| {
            let (maturity, rest) = names
                .into_iter()
                .find_map(|(name, maturity)| Some((maturity, part.strip_prefix(name)?)))?;
            let rest = rest.strip_prefix('.').unwrap_or(rest);
            match rest.split('.').next().unwrap_or_default() {
                "" => Some((maturity, 0)),
                digits => Some((maturity, decimal(digits)?)),
            }
        });
        found.unwrap_or((Self::Stable, 0))
    }
}

/// In gossip, Agave since 4.0 encodes a prerelease in two bits of the minor number and in the patch
/// number. A node before 4.0 shows these numbers undecoded (`4.49157.4` is 4.5.0-alpha.4).
fn decode_gossip_version((major, minor, patch): (u32, u32, u32), suffix: &str) -> Release {
    let maturity = match minor >> MINOR_BITS {
        1 => Maturity::ReleaseCandidate,
        2 => Maturity::Beta,
        3 => Maturity::Alpha,
        _ => {
            let (maturity, prerelease_number) = Maturity::of_suffix(suffix);
            return Release {
                number: (major, minor, patch),
                maturity,
                prerelease_number,
            };
        }
    };
    Release {
        number: (major, minor & ((1 << MINOR_BITS) - 1), 0),
        maturity,
        prerelease_number: patch,
    }
}

/// Bits of the minor number in gossip. The two bits above them are the kind of prerelease.
const MINOR_BITS: u32 = 14;

/// Agave's release in a Frankendancer version 0.x. In a stable version, the third number encodes it
/// (20214 is 2.2.14). In a prerelease, the prerelease number does, and its last two digits are
/// Agave's prerelease number (40002 is 4.0.0-beta.2).
fn embedded_agave(release: Release) -> Option<Release> {
    let (0, _, patch) = release.number else {
        return None;
    };
    let is_stable = release.maturity == Maturity::Stable;
    let digits = if is_stable {
        patch
    } else {
        release.prerelease_number
    };
    let (major, minor, last) = (digits / 10_000, digits / 100 % 100, digits % 100);
    let (patch, prerelease_number) = if is_stable { (last, 0) } else { (0, last) };
    (major > 0).then_some(Release {
        number: (major, minor, patch),
        prerelease_number,
        ..release
    })
}

/// Whether a version from `validator-new` or `getVersion` may become a label.
pub fn is_printable_version(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 128
        && text
            .bytes()
            .all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests;
