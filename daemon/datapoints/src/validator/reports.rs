//! Lost points, the version and the migration.

use super::tally::{add, delta_or_zero};
use faultline_agave::{log::Migration, points::KnownPoint, version::is_printable_version};
use faultline_metrics::Stamp;

#[derive(Default)]
pub struct ValidatorReports {
    pub points_lost: u64,
    /// The validator reports it at its start and when its identity is set.
    pub version: Option<String>,
    pub migration: MigrationReports,
}

impl ValidatorReports {
    pub fn add(&mut self, known: &KnownPoint, now: Stamp) {
        self.migration.add(known, now);
        match known {
            KnownPoint::AgentStats(agent) => {
                add(&mut self.points_lost, delta_or_zero(agent.points_lost))
            }
            KnownPoint::ValidatorNew(new) => self.set_version(new.version.as_ref()),
            KnownPoint::SetIdentity(set) => self.set_version(set.version.as_ref()),
            _ => {}
        }
    }

    fn set_version(&mut self, version: Option<&String>) {
        let version = version.filter(|version| is_printable_version(version));
        self.version = version.cloned().or(self.version.take());
    }

    pub fn merge(&mut self, pending: Self) {
        add(&mut self.points_lost, pending.points_lost);
        self.version = self.version.take().or(pending.version);
        self.migration.merge(pending.migration);
    }
}

/// Reports of the Alpenglow migration. The migration's points come once, those of Votor every 10 s.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MigrationReports {
    /// The event loop of Votor has reported.
    pub has_event_handler: bool,
    pub is_complete: bool,
    /// The last slot before Alpenglow.
    pub genesis_slot: Option<u64>,
    /// From this slot on blocks hold only votes.
    pub migration_slot: Option<u64>,
    /// When the last optimistically confirmed slot was reported. Alpenglow reports none.
    pub optimistic_at: Option<Stamp>,
}

impl MigrationReports {
    pub fn add(&mut self, known: &KnownPoint, now: Stamp) {
        match known {
            KnownPoint::EventHandlerStats(_) => self.has_event_handler = true,
            KnownPoint::MigrationStarted(point) => {
                self.migration_slot = point.migration_slot.or(self.migration_slot);
            }
            KnownPoint::MigrationComplete(point) => self.complete(point.genesis_slot),
            KnownPoint::OptimisticSlot(_) => self.optimistic_at = Some(now),
            _ => {}
        }
    }

    pub fn add_logged(&mut self, logged: Migration) {
        match logged {
            Migration::Starts { slot } => self.migration_slot = Some(slot),
            Migration::Enabled { genesis_slot } => self.complete(genesis_slot),
        }
    }

    pub fn merge(&mut self, pending: Self) {
        self.has_event_handler |= pending.has_event_handler;
        self.is_complete |= pending.is_complete;
        self.genesis_slot = self.genesis_slot.or(pending.genesis_slot);
        self.migration_slot = self.migration_slot.or(pending.migration_slot);
        self.optimistic_at = self.optimistic_at.max(pending.optimistic_at);
    }

    fn complete(&mut self, genesis_slot: Option<u64>) {
        self.is_complete = true;
        self.genesis_slot = genesis_slot.or(self.genesis_slot);
    }
}
