//! Typed datapoints, from the push or the log.
//!
//! Every field is an `Option`, because the fields of a point depend on version, mode and moment. A
//! field with an unusable value (wrong type, or a wrapped `u64` that arrives as a negative number)
//! is `None` and counted in [`Decoded::broken`].

mod fields;
mod kinds;
mod recorded;
mod slot_peaks;

pub use kinds::{
    AccountsActive, AgentStats, BankFrozen, BlockCommitmentCache, CacheTimes, ConsensusPoolService,
    CostTracker, EventHandlerStats, MigrationComplete, MigrationStarted, OptimisticSlot,
    ProgramCache, ReplaySlot, SetIdentity, SetRoot, ShredInsertIsFull, SlotTracking, TowerVote,
    ValidatorNew,
};
pub use slot_peaks::SlotPeaks;

use crate::BadLine;
use crate::line::{Point, name_of};
use fields::decode;

#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    pub known: KnownPoint,
    /// Unix nanoseconds when the point was made (push) or printed (log); `None` if the text had no
    /// time.
    pub time_ns: Option<i64>,
    /// Fields with an unusable value.
    pub unusable: u32,
}

macro_rules! known {
    ($($(#[$doc:meta])* $name:literal => $kind:ident($body:ty),)*) => {
        /// Which known datapoint a name belongs to.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Kind { $($(#[$doc])* $kind,)* }

        /// What a known datapoint says.
        #[derive(Debug, Clone, PartialEq)]
        pub enum KnownPoint { $($(#[$doc])* $kind($body),)* }

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

        impl KnownPoint {
            pub fn kind(&self) -> Kind {
                match self { $(Self::$kind(_) => Kind::$kind,)* }
            }

            fn decode(kind: Kind, point: &Point<'_>) -> Result<Decoded, BadLine> {
                match kind {
                    $(Kind::$kind => {
                        let (body, unusable) = decode::<$body>(point)?;
                        Ok(Decoded { known: Self::$kind(body), time_ns: point.timestamp(), unusable })
                    })*
                }
            }
        }
    };
}

known! {
    "loaded-programs-cache-stats" => ProgramCache(ProgramCache),
    "replay-slot-stats" => ReplaySlot(ReplaySlot),
    "bank-forks_set_root" => SetRoot(SetRoot),
    /// Only from an instrumented build.
    "program-cache-times" => CacheTimes(CacheTimes),
    "cost_tracker_stats" => CostTracker(CostTracker),
    "bank_frozen" => BankFrozen(BankFrozen),
    "optimistic_slot" => OptimisticSlot(OptimisticSlot),
    "shred_insert_is_full" => ShredInsertIsFull(ShredInsertIsFull),
    /// The metrics agent's own point; ends every push.
    "metrics" => Agent(AgentStats),
    "validator-new" => ValidatorNew(ValidatorNew),
    "validator-set_identity" => SetIdentity(SetIdentity),
    "accounts_db_active" => AccountsActive(AccountsActive),
    "tower-vote" => TowerVote(TowerVote),
    "block-commitment-cache" => BlockCommitmentCache(BlockCommitmentCache),
    "event_handler_stats" => EventHandlerStats(EventHandlerStats),
    "event_handler_slot_tracking" => SlotTracking(SlotTracking),
    "consensus_pool_service" => ConsensusPoolService(ConsensusPoolService),
    "migration-started" => MigrationStarted(MigrationStarted),
    "migration-complete" => MigrationComplete(MigrationComplete),
}

impl Kind {
    #[inline]
    pub fn of_line(line: &[u8]) -> Option<Self> {
        Self::of_name(name_of(line)?)
    }
}

impl KnownPoint {
    /// `None` if the name is not one of [`Kind`]; `Some(Err(_))` if the fields are malformed, so
    /// that the whole line is untrustworthy.
    pub fn parse(point: &Point<'_>) -> Option<Result<Decoded, BadLine>> {
        Kind::of_name(point.name().as_bytes()).map(|kind| Self::decode(kind, point))
    }
}

#[cfg(test)]
mod tests;
