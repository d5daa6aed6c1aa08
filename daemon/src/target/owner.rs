//! Whose process it is. Anybody can call a program like a validator's and name another's ledger; nobody can be another user.

use super::Target;
use super::choose::Candidate;
use faultline_kernel::parse::pid_status;
use faultline_kernel::{HostRoot, ProcessId};
use std::os::unix::fs::MetadataExt;

/// The user of a process; `None` if it has ended or cannot be read.
pub(super) fn user(root: &HostRoot, process: ProcessId) -> Option<u32> {
    root.read_proc(&format!("{}/status", process.pid), pid_status::parse).ok()?.effective_uid
}

/// Whether it says that a ledger is its own which is another user's. False where that cannot be seen.
fn pretends(root: &HostRoot, target: &Target) -> bool {
    let owner = target.ledger.as_ref().and_then(|ledger| std::fs::metadata(ledger).ok()).map(|folder| folder.uid());
    match (user(root, target.process), owner) {
        (Some(user), Some(owner)) => user != 0 && user != owner,
        _ => false,
    }
}

/// Several of which one at most can be meant: without those that only pretend, if others are left.
pub(super) fn without_pretenders(root: &HostRoot, all: Vec<Candidate>) -> Vec<Candidate> {
    if all.len() < 2 {
        return all;
    }
    let (pretenders, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| pretends(root, &one.target));
    if others.is_empty() { pretenders } else { others }
}
