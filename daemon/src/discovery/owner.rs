//! Whose process it is. Anybody can call a program like a validator's and name another's ledger; nobody can be another user.

use super::choose::Candidate;
use super::{Around, Following, Target};
use crate::supervisor::ANSWERS_WITHIN;
use faultline_catalog::{Problem, Status};
use faultline_kernel::parse::pid_status;
use faultline_kernel::{HostRoot, ProcessId};
use std::os::unix::fs::MetadataExt;

/// The user of the validator that is followed; `None` while there is none. A wrapper may have another user.
pub(crate) fn validators_user(root: &HostRoot, following: &Following) -> Option<u32> {
    let target = following.current()?;
    target.validator.as_ref()?;
    user(root, target.process)
}

/// The user of a process; `None` if it has ended or cannot be read.
pub(crate) fn user(root: &HostRoot, process: ProcessId) -> Option<u32> {
    root.read_proc(&format!("{}/status", process.pid), pid_status::parse)
        .ok()?
        .effective_uid
}

/// Whose the validators are that were found.
#[derive(Debug, Default)]
pub(super) struct Predecessor {
    /// The last one: it may end before it is followed.
    found: Option<(ProcessId, u32)>,
    /// The last one that was followed.
    followed: Option<(ProcessId, u32)>,
}

impl Predecessor {
    /// Remembers whose the target is.
    pub(super) fn remember(&mut self, around: &Around<'_>, target: Target) -> Target {
        self.found = user(around.root, target.process).map(|user| (target.process, user));
        target
    }

    /// Without those of another user than the validator's that was followed before: any user can call a program so.
    pub(super) fn of_the_same_user(
        &mut self,
        around: &Around<'_>,
        all: Vec<Candidate>,
        problems: &mut Vec<Problem>,
    ) -> Vec<Candidate> {
        let before = around.before.map(|before| before.process);
        let is_before = |one: &(ProcessId, u32)| Some(one.0) == before;
        self.followed = self
            .found
            .filter(is_before)
            .or(self.followed)
            .filter(is_before);
        let Some((_, user_before)) = self.followed else {
            return all;
        };
        let is_same = |one: &Candidate| {
            user(around.root, one.target.process).is_none_or(|its| its == user_before)
        };
        let (possible, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_same);
        for other in others {
            let pid = other.target.process.pid;
            let words = format!(
                "process {pid} is called like a validator but is another user's than the one before, who is \
                 {user_before}; --unit, --pid or a restart of the daemon makes it the one to follow"
            );
            let problem = Problem::new(Status::Absent, words);
            // A ledger has several traces to one process.
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        possible
    }
}

/// Whether it says that a ledger is its own which is another user's. False where that cannot be seen.
fn pretends(around: &Around<'_>, target: &Target) -> bool {
    let owner = target.ledger.clone().and_then(|ledger| {
        let owner = move || std::fs::metadata(ledger).ok().map(|folder| folder.uid());
        around.paths.call(ANSWERS_WITHIN, owner).ok()?
    });
    match (user(around.root, target.process), owner) {
        (Some(user), Some(owner)) => user != 0 && user != owner,
        _ => false,
    }
}

/// Several of which one at most can be meant: without those that only pretend, if others are left.
pub(super) fn without_pretenders(around: &Around<'_>, all: Vec<Candidate>) -> Vec<Candidate> {
    if all.len() < 2 {
        return all;
    }
    let (pretenders, others): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|one| pretends(around, &one.target));
    if others.is_empty() {
        pretenders
    } else {
        others
    }
}
