//! The user of a process. Any user can run a program with a validator's name and another user's
//! ledger, but cannot fake the user id.

use super::choose::Candidate;
use super::{SearchContext, Target, TargetHandle};
use faultline_core::supervisor::PATH_CALL_TIMEOUT;
use faultline_kernel::parse::pid_status;
use faultline_kernel::{HostRoot, ProcessId};
use faultline_metrics::{Problem, Status};
use std::os::unix::fs::MetadataExt;

/// `None` unless a validator is followed. A wrapper may have another user.
pub fn validator_user(root: &HostRoot, following: &TargetHandle) -> Option<u32> {
    let target = following.current()?;
    target.validator.as_ref()?;
    user(root, target.process)
}

pub fn user(root: &HostRoot, process: ProcessId) -> Option<u32> {
    root.read_proc(&format!("{}/status", process.pid), pid_status::parse)
        .ok()?
        .effective_uid
}

#[derive(Debug, Default)]
pub(super) struct PreviousUsers {
    /// The process found last; it may end before it is followed.
    found: Option<(ProcessId, u32)>,
    followed: Option<(ProcessId, u32)>,
}

impl PreviousUsers {
    pub(super) fn record_user(&mut self, context: &SearchContext<'_>, target: Target) -> Target {
        self.found = user(context.root, target.process).map(|user| (target.process, user));
        target
    }

    /// Drops candidates of another user than the previous validator's: any user can use the
    /// program's name.
    pub(super) fn retain_same_user(
        &mut self,
        context: &SearchContext<'_>,
        all: Vec<Candidate>,
        problems: &mut Vec<Problem>,
    ) -> Vec<Candidate> {
        let before = context.before.map(|before| before.process);
        let mut known = [self.found, self.followed].into_iter().flatten();
        self.followed = known.find(|(process, _)| Some(*process) == before);
        let Some((_, user_before)) = self.followed else {
            return all;
        };
        let is_same = |one: &Candidate| {
            user(context.root, one.target.process).is_none_or(|its| its == user_before)
        };
        let (possible, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_same);
        for other in others {
            let pid = other.target.process.pid;
            let message = format!(
                "process {pid} is called like a validator but is another user's, while the previous validator was user \
                 {user_before}'s; to follow it, use --unit or --pid, or restart the daemon"
            );
            let problem = Problem::new(Status::Absent, message);
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        possible
    }
}

/// True if the process names a ledger of another user. False if a user is unknown, and for root.
fn claims_foreign_ledger(context: &SearchContext<'_>, target: &Target) -> bool {
    let owner = target.ledger.clone().and_then(|ledger| {
        let owner = move || std::fs::metadata(ledger).ok().map(|folder| folder.uid());
        context.paths.call(PATH_CALL_TIMEOUT, owner).ok()?
    });
    match (user(context.root, target.process), owner) {
        (Some(user), Some(owner)) => user != 0 && user != owner,
        _ => false,
    }
}

/// Of several candidates, drops those that name a ledger of another user, unless all of them do.
pub(super) fn without_foreign_ledgers(
    context: &SearchContext<'_>,
    all: Vec<Candidate>,
) -> Vec<Candidate> {
    if all.len() < 2 {
        return all;
    }
    let (impostors, others): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|one| claims_foreign_ledger(context, &one.target));
    if others.is_empty() { impostors } else { others }
}
