use super::candidates::{
    Candidate, Choice, PreviousUsers, ambiguous, candidates, choose, without_foreign_ledgers,
};
use super::{SearchContext, SearchResult, Target, names, process};
use faultline_agave::identify::Program;
use faultline_kernel::{Comm, HostRoot, ProcessId, ReadError};
use faultline_metrics::{Problem, Stamp, Status};
use std::time::Duration;

/// A lone candidate without a validator's threads is accepted after this time.
const ACCEPT_PENDING_AFTER: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
pub(super) struct Scan {
    pending: Option<(ProcessId, Stamp)>,
    previous_users: PreviousUsers,
}

impl Scan {
    pub(super) fn find(&mut self, context: &SearchContext<'_>) -> SearchResult {
        let mut problems = Vec::new();
        let all = candidates_by_name(context.root, &mut problems)
            .map_err(|error| vec![process::problem(&error)])?;
        let possible = successors(context.before, all, &mut problems);
        let possible = self
            .previous_users
            .retain_same_user(context, possible, &mut problems);
        match choose(without_foreign_ledgers(context, possible)) {
            Choice::One(one) if one.running || self.is_accepted(&one.target, context) => {
                return Ok(self.previous_users.record_user(context, one.target));
            }
            Choice::One(one) => {
                let pid = one.target.process.pid;
                let message = format!(
                    "process {pid} has the name of a validator but none of its threads yet"
                );
                problems.push(Problem::new(Status::Absent, message));
            }
            Choice::Several(found) => problems.push(ambiguous(&found)),
            Choice::None => problems.push(Problem::new(
                Status::Absent,
                "no process looks like a validator",
            )),
        }
        Err(problems)
    }

    fn is_accepted(&mut self, target: &Target, context: &SearchContext<'_>) -> bool {
        let pending = { self.pending }.filter(|(process, _)| *process == target.process);
        let (_, since) = *self
            .pending
            .insert(pending.unwrap_or((target.process, context.now)));
        !context.will_retry || context.now.since(since) >= ACCEPT_PENDING_AFTER
    }
}

/// The validators among the processes with a validator's name.
///
/// # Errors
/// The processes cannot be listed.
pub(super) fn candidates_by_name(
    root: &HostRoot,
    problems: &mut Vec<Problem>,
) -> Result<Vec<Candidate>, ReadError> {
    let is_validator = |comm: Comm| Program::of_comm(&comm.to_str_lossy()).is_some();
    let pids = names::named(root, is_validator, problems)?;
    Ok(candidates(root, pids, "scan", problems))
}

/// Drops candidates with another ledger than the previous validator's. On a host with two
/// validators, the other validator is not the successor.
fn successors(
    before: Option<&Target>,
    all: Vec<Candidate>,
    problems: &mut Vec<Problem>,
) -> Vec<Candidate> {
    let Some(ledger) = before.and_then(|before| before.ledger.as_ref()) else {
        return all;
    };
    let (possible, others): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|one| one.target.ledger.as_ref().is_none_or(|its| its == ledger));
    for other in others {
        let pid = other.target.process.pid;
        let other_ledger = other.target.ledger.unwrap_or_default();
        let message = format!(
            "process {pid} is another validator: its ledger is {}, not {}; to follow it, use --ledger or --pid, or \
             restart the daemon",
            faultline_text::path(&other_ledger),
            faultline_text::path(ledger)
        );
        problems.push(Problem::new(Status::Absent, message));
    }
    possible
}
