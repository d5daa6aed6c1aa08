//! [`CacheRules`] of each release of Agave, from the published sources of 2.0 to 4.5.
//!
//! Each transaction is looked up as a batch of one, as with the unified scheduler (the default
//! since 2.1). The simulation leaves out recompilation before an epoch that activates features, and
//! the order in which replay threads reach the cache.

mod cache;

use crate::{Error, Result};

pub(crate) use cache::ProgramCache;

const STALE_AFTER_SLOTS: u64 = 2_250;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Eviction {
    /// Draws two programs at random and evicts the one with fewer uses. Uses are halved for each
    /// slot since the last use. Up to 4.0.
    TwoDraws,
    /// Draws two to four programs at random and evicts the one with the lowest score. The score
    /// depends on the last slot, the compile time and the uses. Since 4.1.
    Score { clamp: RootClamp },
}

/// Accesses that set an entry's last slot to the older slot of the root, not to the current slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RootClamp {
    /// Up to 4.3.
    Nothing,
    /// In 4.4.
    Uses,
    /// Since 4.5.
    UsesAndLoads,
}

/// The entry of a program that a transaction has just deployed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Deployment {
    /// The transaction compiles it. Up to 4.2.
    Loaded,
    /// Its first use in a later slot compiles it. In 4.3 and 4.4.
    Unloaded,
    /// The program gets no entry until its first lookup, even in the same slot, compiles it. Until
    /// then the old version remains. A closed program gets no entry, either. Since 4.5.
    Absent,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CacheRules {
    /// Size of the cache in a build without patches.
    pub stock_entries: u64,
    /// Whether fees-only transactions look programs up. Up to 2.3.
    pub includes_fees_only: bool,
    /// Uses that a load adds to its entry: 2 up to version 2.3, then 1.
    pub uses_per_load: u32,
    /// Whether a lookup in the slot of the program's deployment counts as a use. Such a lookup
    /// finds an entry that cannot run yet. Since 3.0.
    pub counts_delayed_uses: bool,
    pub eviction: Eviction,
    /// Whether accounts without code are looked up: a miss and an insertion, but no entry. Up to 4.3.
    pub has_tombstones: bool,
    pub deployment: Deployment,
    /// Slots after which unused entries without compiled code are dropped. Since 4.4.
    pub stale_after_slots: Option<u64>,
}

/// (first version, rules), ascending. Rules apply until the first version of the next row.
const RULES: [((u32, u32, u32), CacheRules); 9] = [
    ((2, 0, 0), SMALL_UP_TO_2_3),
    ((2, 0, 16), UP_TO_2_3),
    ((2, 1, 0), SMALL_UP_TO_2_3),
    ((2, 1, 1), UP_TO_2_3),
    ((3, 0, 0), UP_TO_4_0),
    ((4, 1, 0), UP_TO_4_2),
    ((4, 3, 0), IN_4_3),
    ((4, 4, 0), IN_4_4),
    ((4, 5, 0), IN_4_5),
];
const UP_TO_2_3: CacheRules = CacheRules {
    stock_entries: 512,
    includes_fees_only: true,
    uses_per_load: 2,
    counts_delayed_uses: false,
    eviction: Eviction::TwoDraws,
    has_tombstones: true,
    deployment: Deployment::Loaded,
    stale_after_slots: None,
};
const SMALL_UP_TO_2_3: CacheRules = CacheRules {
    stock_entries: 256,
    ..UP_TO_2_3
};
const UP_TO_4_0: CacheRules = CacheRules {
    includes_fees_only: false,
    uses_per_load: 1,
    counts_delayed_uses: true,
    ..UP_TO_2_3
};
const UP_TO_4_2: CacheRules = CacheRules {
    eviction: Eviction::Score {
        clamp: RootClamp::Nothing,
    },
    ..UP_TO_4_0
};
const IN_4_3: CacheRules = CacheRules {
    stock_entries: 1_024,
    deployment: Deployment::Unloaded,
    ..UP_TO_4_2
};
const IN_4_4: CacheRules = CacheRules {
    eviction: Eviction::Score {
        clamp: RootClamp::Uses,
    },
    has_tombstones: false,
    stale_after_slots: Some(STALE_AFTER_SLOTS),
    ..IN_4_3
};
const IN_4_5: CacheRules = CacheRules {
    eviction: Eviction::Score {
        clamp: RootClamp::UsesAndLoads,
    },
    deployment: Deployment::Absent,
    ..IN_4_4
};
/// (major version, last known minor version).
const KNOWN_VERSIONS: [(u32, u32); 3] = [(2, 3), (3, 1), (4, 5)];

impl CacheRules {
    /// `version` is Agave's, such as `2.1.14` or `2.1.14-jito`. Frankendancer embeds an Agave.
    /// Fails for releases with unknown rules.
    pub fn of(version: &str) -> Result<Self> {
        let unknown = || Error::UnknownVersion {
            version: Error::excerpt(version),
        };
        let number = parse_version(version).ok_or_else(unknown)?;
        let is_known = KNOWN_VERSIONS
            .iter()
            .any(|(major, minor)| number.0 == *major && number.1 <= *minor);
        if !is_known {
            return Err(unknown());
        }
        RULES
            .iter()
            .rev()
            .find(|(from, _)| *from <= number)
            .map(|(_, rules)| *rules)
            .ok_or_else(unknown)
    }
}

fn parse_version(version: &str) -> Option<(u32, u32, u32)> {
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
