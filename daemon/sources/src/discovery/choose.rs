//! Selects one of several processes that look like validators.

use super::process::has_validator_thread;
use super::{Target, process};
use faultline_kernel::{ErrorKind, HostRoot};
use faultline_metrics::{AMBIGUOUS, Problem, Status};

const MAX_LISTED: usize = 8;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Candidate {
    pub(super) target: Target,
    /// It has a thread that only a running validator has.
    pub(super) running: bool,
}

#[derive(Debug, PartialEq)]
pub(super) enum Choice {
    None,
    /// If it is not running, it just started, or is not a validator.
    One(Candidate),
    /// Only the operator can decide.
    Several(Vec<Target>),
}

/// Prefers running candidates: the others may be forks before their exec, or just starting.
pub(super) fn choose(mut candidates: Vec<Candidate>) -> Choice {
    let is_any_running = candidates.iter().any(|one| one.running);
    candidates.retain(|one| one.running == is_any_running);
    if candidates.len() > 1 {
        return Choice::Several(candidates.into_iter().map(|one| one.target).collect());
    }
    candidates.pop().map_or(Choice::None, Choice::One)
}

/// The validators among these processes. An unreadable process is a problem, unless it has just
/// ended.
pub(super) fn candidates(
    root: &HostRoot,
    pids: &[u32],
    found_by: &'static str,
    problems: &mut Vec<Problem>,
) -> Vec<Candidate> {
    let mut found = Vec::new();
    for &pid in pids {
        match process::inspect(root, pid, found_by) {
            Ok(inspected) if inspected.is_validator() => found.push(Candidate {
                running: has_validator_thread(root, pid),
                target: inspected.target,
            }),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Gone => {}
            Err(error) => problems.push(process::problem(&error)),
        }
    }
    found
}

pub(super) fn ambiguous(found: &[Target]) -> Problem {
    let named = |target: &Target| {
        let ledger = match (&target.ledger, &target.validator) {
            (Some(ledger), _) => format!(" (ledger {})", faultline_text::path(ledger)),
            (None, Some(_)) => " (ledger not known)".to_owned(),
            (None, None) => String::new(),
        };
        format!("{} {}{ledger}", target.process.pid, target.comm)
    };
    let mut named: Vec<String> = found.iter().take(MAX_LISTED).map(named).collect();
    if found.len() > MAX_LISTED {
        named.push(format!("{} more", found.len() - MAX_LISTED));
    }
    let kind = match found.iter().all(|target| target.validator.is_some()) {
        true => "validators",
        false => "processes",
    };
    let message = format!(
        "{AMBIGUOUS}{} {kind} found: {}; none is followed until target.ledger, target.unit or target.pid (--ledger, \
         --unit, --pid) says which",
        found.len(),
        named.join(", ")
    );
    Problem::new(Status::Broken, message)
}
