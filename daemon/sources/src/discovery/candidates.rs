//! Lists processes by name, and selects one of several processes that look like validators.
//!
//! Any user can run a program with a validator's name and another user's ledger, but cannot fake
//! the user id.

use super::{
    SearchContext, Target, TargetHandle,
    process::{self, InspectedProcess, VALIDATOR_THREADS, thread_named},
};
use faultline_agave::identify::Program;
use faultline_core::supervisor::FS_CALL_TIMEOUT;
use faultline_kernel::{
    Comm, ErrorKind, HostRoot, ProcessId, ReadError, Result, parse::pid_status,
};
use faultline_metrics::{AMBIGUOUS_PREFIX, Problem, ProblemKind};
use itertools::{Itertools, chain};
use rustix::{
    fs::{CWD, Mode, OFlags},
    io::Errno,
};
use std::{
    fs,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
};

/// Names of kernel workers have at most 63 bytes, those of programs 15.
const MAX_NAME_BYTES: usize = 64;
const MAX_LISTED: usize = 8;

pub struct Candidate {
    pub target: Target,
    pub has_validator_thread: bool,
}

pub enum Choice {
    None,
    /// Without a validator's thread, it has just started, or it is no validator.
    One(Box<Candidate>),
    /// Only the operator can decide.
    Several(Vec<Target>),
}

/// Prefers candidates with a validator's thread. Others may have just started, or may be forks of a
/// validator before their exec.
pub fn choose(mut candidates: Vec<Candidate>) -> Choice {
    let any_has_thread = candidates
        .iter()
        .any(|candidate| candidate.has_validator_thread);
    candidates.retain(|candidate| candidate.has_validator_thread == any_has_thread);
    if candidates.len() > 1 {
        return Choice::Several(
            candidates
                .into_iter()
                .map(|candidate| candidate.target)
                .collect(),
        );
    }
    candidates
        .pop()
        .map_or(Choice::None, |candidate| Choice::One(Box::new(candidate)))
}

/// An unreadable process is a problem, unless it has just ended.
pub fn inspect_processes(
    root: &HostRoot,
    pids: impl IntoIterator<Item = u32>,
    found_by: &'static str,
    problems: &mut Vec<Problem>,
) -> Vec<InspectedProcess> {
    let mut inspected_processes = Vec::new();
    for pid in pids {
        match process::inspect(root, pid, found_by) {
            Ok(inspected) => inspected_processes.push(inspected),
            Err(error) if error.kind() == ErrorKind::Gone => {}
            Err(error) => problems.push(process::problem(&error)),
        }
    }
    inspected_processes
}

pub fn validator_candidates(
    root: &HostRoot,
    pids: impl IntoIterator<Item = u32>,
    found_by: &'static str,
    problems: &mut Vec<Problem>,
) -> Vec<Candidate> {
    let candidate = |target: Target| Candidate {
        has_validator_thread: thread_named(root, target.process.pid, &VALIDATOR_THREADS).is_some(),
        target,
    };
    inspect_processes(root, pids, found_by, problems)
        .into_iter()
        .map(|inspected| inspected.target)
        .filter(|target| target.validator.is_some())
        .map(candidate)
        .collect()
}

/// # Errors
/// The processes cannot be listed.
pub fn candidates_by_name(root: &HostRoot, problems: &mut Vec<Problem>) -> Result<Vec<Candidate>> {
    let is_validator = |comm: Comm| Program::of_comm(&comm.to_str_lossy()).is_some();
    let pids = pids_by_name(root, is_validator, problems)?;
    Ok(validator_candidates(root, pids, "scan", problems))
}

pub fn ambiguity_problem(found: &[Target]) -> Problem {
    let describe = |target: &Target| {
        let ledger = match (&target.ledger, &target.validator) {
            (Some(ledger), _) => format!(" (ledger {})", faultline_text::path(ledger)),
            (None, Some(_)) => " (ledger not known)".to_owned(),
            (None, None) => String::new(),
        };
        format!("{} {}{ledger}", target.process.pid, target.comm)
    };
    let left_out = found.len().saturating_sub(MAX_LISTED);
    let more = (left_out > 0).then(|| format!("{left_out} more"));
    let descriptions = chain!(found.iter().take(MAX_LISTED).map(describe), more).join(", ");
    let kind = match found.iter().all(|target| target.validator.is_some()) {
        true => "validators",
        false => "processes",
    };
    let message = format!(
        "{AMBIGUOUS_PREFIX}{} {kind} found: {descriptions}; none is followed until target.ledger, target.unit or target.pid (--ledger, \
         --unit, --pid) says which",
        found.len()
    );
    Problem::broken(message)
}

/// `None` unless a validator is followed. A wrapper may have another user.
pub fn validator_uid(root: &HostRoot, target_handle: &TargetHandle) -> Option<u32> {
    let target = target_handle.current()?;
    target.validator.as_ref()?;
    process_uid(root, target.process)
}

pub fn process_uid(root: &HostRoot, process: ProcessId) -> Option<u32> {
    let status = format!("{}/status", process.pid);
    root.read_proc(&status, pid_status::effective_uid).ok()?
}

#[derive(Default)]
pub struct PreviousUids {
    /// The process that the last search found. If it ends before it is followed, it never becomes
    /// `last_followed`.
    last_found: Option<(ProcessId, u32)>,
    /// The process of the previous target.
    last_followed: Option<(ProcessId, u32)>,
}

impl PreviousUids {
    pub fn record_uid(&mut self, context: &SearchContext<'_>, target: Target) -> Target {
        // `last_found` loses it.
        self.previous_uid(context);
        self.last_found =
            process_uid(context.root, target.process).map(|uid| (target.process, uid));
        target
    }

    /// Drops candidates of another user than the previous validator's.
    pub fn retain_same_uid(
        &mut self,
        context: &SearchContext<'_>,
        candidates: Vec<Candidate>,
        problems: &mut Vec<Problem>,
    ) -> Vec<Candidate> {
        let Some(previous_uid) = self.previous_uid(context) else {
            return candidates;
        };
        let is_same = |candidate: &Candidate| {
            process_uid(context.root, candidate.target.process)
                .is_none_or(|uid| uid == previous_uid)
        };
        let (possible, others): (Vec<_>, Vec<_>) = candidates.into_iter().partition(is_same);
        for other in others {
            let pid = other.target.process.pid;
            let message = format!(
                "process {pid} has a validator's name, but does not run as user {previous_uid} like the previous validator; to \
                 follow it, use --unit or --pid, or restart the daemon"
            );
            let problem = Problem::absent_data(message);
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        possible
    }

    /// Updates `last_followed`.
    fn previous_uid(&mut self, context: &SearchContext<'_>) -> Option<u32> {
        let previous = context.previous_target.map(|target| target.process);
        let mut known = chain!(self.last_found, self.last_followed);
        self.last_followed = known.find(|(process, _)| Some(*process) == previous);
        self.last_followed.map(|(_, uid)| uid)
    }
}

/// False if a user is unknown, and for root.
fn names_ledger_of_other_user(context: &SearchContext<'_>, target: &Target) -> bool {
    let owner = target.ledger.clone().and_then(|ledger| {
        let owner = move || fs::metadata(ledger).ok().map(|folder| folder.uid());
        context.fs_calls.call(FS_CALL_TIMEOUT, owner).ok()?
    });
    process_uid(context.root, target.process)
        .zip(owner)
        .is_some_and(|(uid, owner)| uid != 0 && uid != owner)
}

/// Drops candidates that name a ledger of another user, unless all do.
pub fn prefer_owners_of_ledger(
    context: &SearchContext<'_>,
    candidates: Vec<Candidate>,
) -> Vec<Candidate> {
    if candidates.len() < 2 {
        return candidates;
    }
    let (impostors, others): (Vec<_>, Vec<_>) = candidates
        .into_iter()
        .partition(|candidate| names_ledger_of_other_user(context, &candidate.target));
    if others.is_empty() { impostors } else { others }
}

const HIDEPID_MESSAGE: &str = "processes of other users are hidden (hidepid): run the daemon as the validator's user, or as a \
     member of the group that /proc was mounted with (gid=)";

pub fn hidepid_problem(root: &HostRoot, pid: u32) -> Option<Problem> {
    let forbidden = fs::read(root.procfs.join(format!("{pid}/stat")))
        .is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied);
    // Every pid namespace has a pid 1.
    let first_is_hidden = || root.pids().is_ok_and(|pids| !pids.contains(&1));
    (forbidden || first_is_hidden()).then(|| {
        let message = format!("process {pid} cannot be seen: {HIDEPID_MESSAGE}");
        Problem::new(ProblemKind::Forbidden, message)
    })
}

/// In pid order. Processes that `hidepid` hides are a problem: a wanted one may be among them.
///
/// # Errors
/// `procfs` itself cannot be listed or opened.
pub fn pids_by_name(
    root: &HostRoot,
    is_wanted: impl Fn(Comm) -> bool,
    problems: &mut Vec<Problem>,
) -> Result<Vec<u32>> {
    let mut pids = root.pids()?;
    pids.sort_unstable();
    let mut is_any_hidden = pids.first().is_some_and(|&first| first != 1);
    let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let procfs = rustix::fs::openat(CWD, &root.procfs, folder, Mode::empty()).map_err(|errno| {
        ReadError::Broken {
            path: root.procfs.as_path().into(),
            line: 0,
            text: String::new(),
            what: errno.to_string().into(),
        }
    })?;
    pids.retain(|&pid| match comm(&procfs, pid) {
        Ok(name) => is_wanted(name),
        Err(errno) => {
            is_any_hidden |= matches!(errno, Errno::ACCESS | Errno::PERM);
            false
        }
    });
    if is_any_hidden {
        problems.push(Problem::new(ProblemKind::Forbidden, HIDEPID_MESSAGE));
    }
    Ok(pids)
}

fn comm(procfs: &OwnedFd, pid: u32) -> Result<Comm, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(procfs, format!("{pid}/comm"), flags, Mode::empty())?;
    let mut name = [0; MAX_NAME_BYTES];
    let length = rustix::io::read(&file, &mut name)?;
    let name = name.get(..length).unwrap_or_default();
    Ok(Comm::new(name.strip_suffix(b"\n").unwrap_or(name)))
}
