use super::descendants::DESCENDANT;
use super::ledger::LedgerSearch;
use super::pid::PidSearch;
use super::process_name::NameSearch;
use super::scan::Scan;
use super::unit::UnitSearch;
use super::{SearchContext, SearchResult, Target};
use faultline_core::config::TargetSelector;
use faultline_metrics::{Problem, Status};

#[derive(Debug)]
pub(super) enum Method {
    Scan(Scan),
    Pid(PidSearch),
    Ledger(LedgerSearch),
    Unit(UnitSearch),
    Name(NameSearch),
}

impl Method {
    /// Also returns a description of what is searched.
    pub(super) fn new(find: &TargetSelector) -> (Self, String) {
        match find {
            TargetSelector::Scan => (
                Method::Scan(Scan::default()),
                "the only validator of this host".to_owned(),
            ),
            TargetSelector::Pid(pid) => (
                Method::Pid(PidSearch::new(*pid, false)),
                format!("process {pid}"),
            ),
            TargetSelector::ProcessTree(pid) => (
                Method::Pid(PidSearch::new(*pid, true)),
                format!("the validator below process {pid}"),
            ),
            TargetSelector::Ledger(folder) => {
                let path = faultline_text::path(folder);
                (
                    Method::Ledger(LedgerSearch::new(folder)),
                    format!("the validator of the ledger {path}"),
                )
            }
            TargetSelector::Unit(name) => (
                Method::Unit(UnitSearch::new(name)),
                format!("the validator of the unit {name}"),
            ),
            TargetSelector::ProcessName(name) => (
                Method::Name(NameSearch::new(name)),
                format!("the process called {name}"),
            ),
        }
    }

    pub(super) fn find(&mut self, context: &SearchContext<'_>) -> SearchResult {
        match self {
            Method::Scan(scan) => scan.find(context),
            Method::Pid(pid) => pid.find(context),
            Method::Ledger(ledger) => ledger.find(context),
            Method::Unit(unit) => unit.find(context),
            Method::Name(name) => name.find(context),
        }
    }

    /// True if a process still matches the search after an exec.
    pub(super) fn still_matches(&self, before: &Target, now: &Target) -> bool {
        match self {
            Method::Pid(_) if now.found_by == DESCENDANT => now.validator.is_some(),
            Method::Pid(_) => true,
            Method::Name(name) => name.still_matches(now),
            Method::Scan(_) | Method::Ledger(_) | Method::Unit(_) => {
                now.validator.is_some() || before.validator.is_none()
            }
        }
    }

    pub(super) fn follows_descendants(&self) -> bool {
        matches!(self, Method::Pid(pid) if pid.with_descendants)
    }

    pub(super) fn target_problems(&self, target: &Target) -> Vec<Problem> {
        if target.validator.is_some() || matches!(self, Method::Name(_)) {
            return Vec::new();
        }
        let (pid, comm) = (target.process.pid, &target.comm);
        let message = format!(
            "process {pid} ({comm}) is not known as a validator: nothing is read from its arguments"
        );
        vec![Problem::new(Status::Absent, message)]
    }
}
