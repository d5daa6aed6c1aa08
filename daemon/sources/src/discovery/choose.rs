//! Selects one of several processes that look like validators.

use super::process::{LiveProcess, has_validators_thread};
use super::{SearchContext, Target, process};
use faultline_kernel::ErrorKind;
use faultline_metrics::{Problem, Status};

const MOST_NAMED: usize = 8;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Candidate {
    pub(super) target: Target,
    pub(super) running: bool,
}

#[derive(Debug, PartialEq)]
pub(super) enum Choice {
    None,
    Running(Target),
    /// The only candidate, without a validator's threads yet: it just started, or is not a
    /// validator.
    Lone(Target),
    /// Only the operator can decide.
    Several(Vec<Target>),
}

/// Prefers a running one: the others may be forks before their exec, or just starting.
pub(super) fn choose(candidates: Vec<Candidate>) -> Choice {
    let targets =
        |candidates: Vec<Candidate>| candidates.into_iter().map(|one| one.target).collect();
    let (mut running, mut others): (Vec<_>, Vec<_>) =
        candidates.into_iter().partition(|one| one.running);
    match (running.len(), others.len()) {
        (1, _) => running
            .pop()
            .map_or(Choice::None, |one| Choice::Running(one.target)),
        (0, 0) => Choice::None,
        (0, 1) => others
            .pop()
            .map_or(Choice::None, |one| Choice::Lone(one.target)),
        (0, _) => Choice::Several(targets(others)),
        _ => Choice::Several(targets(running)),
    }
}

/// The validators among these processes. An unreadable process is a problem, unless it has just
/// ended.
pub(super) fn candidates(
    context: &SearchContext<'_>,
    pids: &[u32],
    found_by: &'static str,
    problems: &mut Vec<Problem>,
) -> Vec<Candidate> {
    let mut found = Vec::new();
    for &pid in pids {
        match process::inspect(context.root, pid, found_by) {
            Ok(seen) if seen.is_validator() => found.push(candidate(context, seen)),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Gone => {}
            Err(error) => problems.push(process::problem(&error)),
        }
    }
    found
}

fn candidate(context: &SearchContext<'_>, seen: LiveProcess) -> Candidate {
    Candidate {
        running: has_validators_thread(context.root, seen.pid()),
        target: seen.target,
    }
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
    let left_out = found.len().saturating_sub(MOST_NAMED);
    let mut named: Vec<String> = found.iter().take(MOST_NAMED).map(named).collect();
    if left_out > 0 {
        named.push(format!("{left_out} more"));
    }
    let words = format!(
        "ambiguous: {} processes match: {}; none is followed until target.ledger, target.unit or target.pid (--ledger, \
         --unit, --pid) says which",
        found.len(),
        named.join(", ")
    );
    Problem::new(Status::Broken, words)
}
