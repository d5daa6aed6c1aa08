//! What each release of Agave does with its program cache, as read in the published sources from 2.0 to 4.4.
//!
//! One transaction is one batch, as with the unified scheduler, which is the default since 2.1. Left out: recompilation ahead
//! of an epoch with other features, and the order in which threads of a replay get to the cache.

mod cache;

use crate::Error;

pub(crate) use cache::ProgramCache;

/// Unused entries without code are forgotten after so many slots, since 4.4.
const STALE_AFTER: u64 = 2_250;

/// How a program that has to go is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Eviction {
    /// Two random draws; the one with fewer uses goes, halved for each slot since its last. To 4.0.
    TwoDraws,
    /// Two to four random draws; the least score of last slot, compile time and uses goes. Since 4.1.
    Score {
        /// A use counts as one in the slot of the root, so that only a load makes an entry new. Since 4.4.
        clamped_to_root: bool,
    },
}

/// How one release fills and empties its program cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Entries of a stock build.
    pub capacity: u64,
    /// Whether transactions that only pay fees look programs up, to 2.3.
    pub fees_only: bool,
    /// How many uses a load counts: 2 to 2.3, then 1.
    pub uses_of_a_load: u32,
    /// Whether a lookup in the slot of a deployment, which finds nothing usable yet, counts as a use. Since 3.0.
    pub uses_while_delayed: bool,
    /// How a program is chosen.
    pub eviction: Eviction,
    /// Whether accounts without code are looked up, which leaves tombstones. To 4.3.
    pub tombstones: bool,
    /// Whether a deployed program is compiled at once, to 4.2; otherwise it is at its next use.
    pub deploys_loaded: bool,
    /// Slots after which unused entries without code are forgotten, since 4.4.
    pub stale_after: Option<u64>,
}

/// From this version on, the rule changes so. In order; the last that is not newer applies.
const RULES: [((u32, u32, u32), Rule); 8] = [
    (
        (2, 0, 0),
        Rule {
            capacity: 256,
            ..TO_2_3
        },
    ),
    ((2, 0, 16), TO_2_3),
    (
        (2, 1, 0),
        Rule {
            capacity: 256,
            ..TO_2_3
        },
    ),
    ((2, 1, 1), TO_2_3),
    ((3, 0, 0), TO_4_0),
    ((4, 1, 0), TO_4_2),
    ((4, 3, 0), IN_4_3),
    ((4, 4, 0), IN_4_4),
];
const TO_2_3: Rule = Rule {
    capacity: 512,
    fees_only: true,
    uses_of_a_load: 2,
    uses_while_delayed: false,
    eviction: Eviction::TwoDraws,
    tombstones: true,
    deploys_loaded: true,
    stale_after: None,
};
const TO_4_0: Rule = Rule {
    fees_only: false,
    uses_of_a_load: 1,
    uses_while_delayed: true,
    ..TO_2_3
};
const TO_4_2: Rule = Rule {
    eviction: Eviction::Score {
        clamped_to_root: false,
    },
    ..TO_4_0
};
const IN_4_3: Rule = Rule {
    capacity: 1_024,
    deploys_loaded: false,
    ..TO_4_2
};
const IN_4_4: Rule = Rule {
    eviction: Eviction::Score {
        clamped_to_root: true,
    },
    tombstones: false,
    stale_after: Some(STALE_AFTER),
    ..IN_4_3
};
/// The last minor version of each major one that was read.
const READ: [(u32, u32); 3] = [(2, 3), (3, 1), (4, 4)];

impl Rule {
    /// The rule of an Agave version: `2.1.14`, or with what its builder appended, `2.1.14-jito`. Frankendancer embeds Agave
    /// under a number of its own; give the embedded one.
    ///
    /// # Errors
    /// [`Error::UnknownVersion`] if it is no version, or of a release whose sources were not read.
    pub fn of(version: &str) -> Result<Self, Error> {
        let unknown = || Error::UnknownVersion {
            version: Error::excerpt(version),
        };
        let number = number(version).ok_or_else(unknown)?;
        let is_read = READ
            .iter()
            .any(|(major, minor)| number.0 == *major && number.1 <= *minor);
        if !is_read {
            return Err(unknown());
        }
        RULES
            .iter()
            .rev()
            .find(|(from, _)| *from <= number)
            .map(|(_, rule)| *rule)
            .ok_or_else(unknown)
    }
}

fn number(version: &str) -> Option<(u32, u32, u32)> {
    let version = version.trim();
    let version = version.strip_prefix('v').unwrap_or(version);
    let (major, rest) = version.split_once('.')?;
    let (minor, rest) = rest.split_once('.')?;
    let (patch, rest) = rest.split_at(
        rest.bytes()
            .position(|b| !b.is_ascii_digit())
            .unwrap_or(rest.len()),
    );
    let is_whole = rest.is_empty() || rest.starts_with(['-', '+', ' ']);
    let decimal = |text: &str| {
        text.bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| text.parse().ok())?
    };
    is_whole.then_some((decimal(major)?, decimal(minor)?, decimal(patch)?))
}

#[cfg(test)]
mod tests;
