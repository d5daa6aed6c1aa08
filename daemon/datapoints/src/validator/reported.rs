//! Lost points and the version: reports that are neither sums nor slots.

use super::migration::MigrationReports;
use super::tally::{add, delta};
use faultline_agave::points::KnownPoint;
use faultline_agave::version::is_version;
use faultline_metrics::Stamp;

#[derive(Debug, Clone, Default)]
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
            KnownPoint::AgentStats(agent) => add(&mut self.points_lost, delta(agent.points_lost)),
            KnownPoint::ValidatorNew(new) => self.set_version(new.version.as_ref()),
            KnownPoint::SetIdentity(set) => self.set_version(set.version.as_ref()),
            _ => {}
        }
    }

    fn set_version(&mut self, version: Option<&String>) {
        let version = version.filter(|version| is_version(version));
        self.version = version.cloned().or(self.version.take());
    }

    pub fn merge(&mut self, pending: ValidatorReports) {
        add(&mut self.points_lost, pending.points_lost);
        self.version = self.version.take().or(pending.version);
        self.migration.merge(pending.migration);
    }
}
