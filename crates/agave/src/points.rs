//! The datapoints worth a type, from the push or from the log.
//!
//! Every field is an `Option`: which fields a point carries depends on the version, the mode and the moment. A field
//! that is there but cannot be what it should be (a negative number where none can be, which is how a wrapped `u64`
//! arrives; another type; no value at all) is `None` too and is counted in [`Decoded::broken`].

mod fields;
mod kinds;
mod recorded;

pub use kinds::{
    AccountsActive, AgentStats, BankFrozen, BlockCommitmentCache, CacheTimes, CostTracker,
    EventHandlerStats, MigrationComplete, MigrationStarted, OptimisticSlot, ProgramCache,
    ReplaySlot, SetIdentity, SetRoot, ShredInsertIsFull, TowerVote, ValidatorNew,
};

use crate::BadLine;
use crate::line::{Point, name_of};
use fields::decode;

/// A known datapoint, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    pub known: Known,
    /// When it was made (push) or printed (log), in Unix nanoseconds; `None` if the text had no time.
    pub time_ns: Option<i64>,
    /// Wanted fields that were there but unreadable.
    pub broken: u32,
}

macro_rules! known {
    ($($(#[$doc:meta])* $name:literal => $kind:ident($body:ty),)*) => {
        /// Which known datapoint a name belongs to.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Kind { $($(#[$doc])* $kind,)* }

        /// What a known datapoint says.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Known { $($(#[$doc])* $kind($body),)* }

        impl Kind {
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// By the datapoint's name. Unknown names, which are most, cost a comparison of lengths.
            #[inline]
            pub fn of_name(name: &[u8]) -> Option<Self> {
                $(if name == $name.as_bytes() { return Some(Self::$kind); })*
                None
            }

            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }
        }

        impl Known {
            pub fn kind(&self) -> Kind {
                match self { $(Self::$kind(_) => Kind::$kind,)* }
            }

            fn decode(kind: Kind, point: &Point<'_>) -> Result<Decoded, BadLine> {
                match kind {
                    $(Kind::$kind => {
                        let (body, broken) = decode::<$body>(point)?;
                        Ok(Decoded { known: Self::$kind(body), time_ns: point.timestamp(), broken })
                    })*
                }
            }
        }
    };
}

known! {
    /// Program cache, once per created bank.
    "loaded-programs-cache-stats" => ProgramCache(ProgramCache),
    /// A bank the replay stage completed.
    "replay-slot-stats" => ReplaySlot(ReplaySlot),
    "bank-forks_set_root" => SetRoot(SetRoot),
    /// Times of the program cache that only an instrumented build reports.
    "program-cache-times" => CacheTimes(CacheTimes),
    /// A frozen bank's costs.
    "cost_tracker_stats" => CostTracker(CostTracker),
    "bank_frozen" => BankFrozen(BankFrozen),
    /// The cluster confirmed a slot.
    "optimistic_slot" => OptimisticSlot(OptimisticSlot),
    /// A slot was received completely.
    "shred_insert_is_full" => ShredInsertIsFull(ShredInsertIsFull),
    /// The metrics agent about itself; ends every push.
    "metrics" => Agent(AgentStats),
    /// Start-up is complete.
    "validator-new" => ValidatorNew(ValidatorNew),
    /// The identity was set while it ran.
    "validator-set_identity" => SetIdentity(SetIdentity),
    /// A background job of the accounts database begins or ends.
    "accounts_db_active" => AccountsActive(AccountsActive),
    /// A vote of this node.
    "tower-vote" => TowerVote(TowerVote),
    /// What the cluster has committed.
    "block-commitment-cache" => BlockCommitmentCache(BlockCommitmentCache),
    "event_handler_stats" => EventHandlerStats(EventHandlerStats),
    /// A migration to Alpenglow lies ahead.
    "migration-started" => MigrationStarted(MigrationStarted),
    "migration-complete" => MigrationComplete(MigrationComplete),
}

impl Kind {
    /// Of a pushed line, looking at its name only.
    #[inline]
    pub fn of_line(line: &[u8]) -> Option<Self> {
        Self::of_name(name_of(line)?)
    }
}

impl Known {
    /// Reads a known datapoint. `None` if its name is not one of [`Kind`]; `Some(Err(_))` if its fields are malformed
    /// as text, which makes the whole line untrustworthy.
    pub fn parse(point: &Point<'_>) -> Option<Result<Decoded, BadLine>> {
        Kind::of_name(point.name().as_bytes()).map(|kind| Self::decode(kind, point))
    }
}

#[cfg(test)]
mod tests;
