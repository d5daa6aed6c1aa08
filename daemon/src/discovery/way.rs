use super::descendants::DESCENDANT;
use super::ledger::ByLedger;
use super::pid::ByPid;
use super::process_name::ByName;
use super::scan::Scan;
use super::unit::ByUnit;
use super::{Found, SearchContext, Target};
use crate::config::Find;
use faultline_catalog::{Problem, Status};

#[derive(Debug)]
pub(super) enum Way {
    Scan(Scan),
    Pid(ByPid),
    Ledger(ByLedger),
    Unit(ByUnit),
    Name(ByName),
}

impl Way {
    pub(super) fn new(find: &Find) -> Self {
        match find {
            Find::Scan => Way::Scan(Scan::default()),
            Find::Pid(pid) => Way::Pid(ByPid::new(*pid, false)),
            Find::ProcessTree(pid) => Way::Pid(ByPid::new(*pid, true)),
            Find::Ledger(folder) => Way::Ledger(ByLedger::new(folder)),
            Find::Unit(name) => Way::Unit(ByUnit::new(name)),
            Find::ProcessName(name) => Way::Name(ByName::new(name)),
        }
    }

    pub(super) fn looking_for(find: &Find) -> String {
        match find {
            Find::Scan => "the only validator of this host".to_owned(),
            Find::Pid(pid) => format!("process {pid}"),
            Find::ProcessTree(pid) => format!("the validator below process {pid}"),
            Find::Ledger(folder) => format!(
                "the validator of the ledger {}",
                faultline_text::path(folder)
            ),
            Find::Unit(name) => format!("the validator of the unit {name}"),
            Find::ProcessName(name) => format!("the process called {name}"),
        }
    }

    pub(super) fn find(&mut self, context: &SearchContext<'_>) -> Found {
        match self {
            Way::Scan(scan) => scan.find(context),
            Way::Pid(pid) => pid.find(context),
            Way::Ledger(ledger) => ledger.find(context),
            Way::Unit(unit) => unit.find(context),
            Way::Name(name) => name.find(context),
        }
    }

    /// True if a process still matches the search after an exec.
    pub(super) fn is_still(&self, before: &Target, now: &Target) -> bool {
        match self {
            Way::Pid(_) if now.found_by == DESCENDANT => now.validator.is_some(),
            Way::Pid(_) => true,
            Way::Name(name) => name.is_still(now),
            Way::Scan(_) | Way::Ledger(_) | Way::Unit(_) => {
                now.validator.is_some() || before.validator.is_none()
            }
        }
    }

    pub(super) fn follows_descendants(&self) -> bool {
        matches!(self, Way::Pid(pid) if pid.with_descendants)
    }

    pub(super) fn doubts(&self, target: &Target) -> Vec<Problem> {
        if target.validator.is_some() || matches!(self, Way::Name(_)) {
            return Vec::new();
        }
        let (pid, comm) = (target.process.pid, &target.comm);
        let words = format!(
            "process {pid} ({comm}) is not known as a validator: nothing is read from its arguments"
        );
        vec![Problem::new(Status::Absent, words)]
    }
}
