//! The searches for a validator's process. Those by ledger and by unit have separate modules.

use super::{
    SearchContext, SearchResult, Target,
    candidates::{
        Candidate, Choice, PreviousUids, ambiguity_problem, candidates_by_name, choose,
        hidepid_problem, inspect_processes, pids_by_name, prefer_owners_of_ledger,
    },
    descendants::{DESCENDANT, Descendants},
    ledger::LedgerSearch,
    process::{self, InspectedProcess},
    unit::UnitSearch,
};
use faultline_core::config::TargetSelector;
use faultline_kernel::{Comm, ErrorKind, ProcessId, ReadError, parse::pid_stat};
use faultline_metrics::{Problem, ProblemKind, Stamp};
use itertools::{Itertools, chain};
use std::{path::Path, time::Duration};

/// A lone candidate without a validator's threads is accepted after this time.
const ACCEPT_PENDING_AFTER: Duration = Duration::from_secs(3);

pub enum Method {
    Scan(Scan),
    Pid(PidSearch),
    Ledger(LedgerSearch),
    Unit(UnitSearch),
    Name(NameSearch),
}

impl Method {
    /// Also returns a description of what is searched.
    pub fn new(selector: &TargetSelector) -> (Self, String) {
        match selector {
            TargetSelector::Scan => (
                Self::Scan(Scan::default()),
                "the only validator of this host".to_owned(),
            ),
            TargetSelector::Pid(pid) => (
                Self::Pid(PidSearch::new(*pid, false)),
                format!("process {pid}"),
            ),
            TargetSelector::ProcessTree(pid) => (
                Self::Pid(PidSearch::new(*pid, true)),
                format!("the validator below process {pid}"),
            ),
            TargetSelector::Ledger(folder) => {
                let path = faultline_text::path(folder);
                (
                    Self::Ledger(LedgerSearch::new(folder)),
                    format!("the validator of the ledger {path}"),
                )
            }
            TargetSelector::Unit(name) => (
                Self::Unit(UnitSearch::new(name)),
                format!("the validator of the unit {name}"),
            ),
            TargetSelector::ProcessName(name) => (
                Self::Name(NameSearch::new(name)),
                format!("the process called {name}"),
            ),
        }
    }

    pub fn find(&mut self, context: &SearchContext<'_>) -> SearchResult {
        match self {
            Self::Scan(scan) => scan.find(context),
            Self::Pid(pid) => pid.find(context),
            Self::Ledger(ledger) => ledger.find(context),
            Self::Unit(unit) => unit.find(context),
            Self::Name(name) => name.find(context),
        }
    }

    /// True if a process still matches the search after an exec.
    pub fn still_matches(&self, before: &Target, current: &Target) -> bool {
        match self {
            Self::Pid(_) if current.found_by == DESCENDANT => current.validator.is_some(),
            Self::Pid(_) => true,
            Self::Name(name) => name.still_matches(current),
            Self::Scan(_) | Self::Ledger(_) | Self::Unit(_) => {
                current.validator.is_some() || before.validator.is_none()
            }
        }
    }

    pub fn follows_descendants(&self) -> bool {
        matches!(self, Self::Pid(pid) if pid.with_descendants)
    }

    pub fn target_problems(&self, target: &Target) -> Vec<Problem> {
        if target.validator.is_some() || matches!(self, Self::Name(_)) {
            return Vec::new();
        }
        let (pid, comm) = (target.process.pid, &target.comm);
        let message = format!(
            "process {pid} ({comm}) is not known as a validator: nothing is read from its arguments"
        );
        vec![Problem::absent_data(message)]
    }
}

#[derive(Default)]
pub struct Scan {
    /// The candidate without a validator's threads, and when a search first found it.
    pending: Option<(ProcessId, Stamp)>,
    previous_uids: PreviousUids,
}

impl Scan {
    pub fn find(&mut self, context: &SearchContext<'_>) -> SearchResult {
        let mut problems = Vec::new();
        let candidates = candidates_by_name(context.root, &mut problems)
            .map_err(|error| vec![process::problem(&error)])?;
        let possible = successors(context.previous_target, candidates, &mut problems);
        let possible = self
            .previous_uids
            .retain_same_uid(context, possible, &mut problems);
        match choose(prefer_owners_of_ledger(context, possible)) {
            Choice::One(candidate)
                if candidate.has_validator_thread
                    || self.has_waited_long_enough(&candidate.target, context) =>
            {
                return Ok(self.previous_uids.record_uid(context, candidate.target));
            }
            Choice::One(candidate) => {
                let pid = candidate.target.process.pid;
                let message = format!(
                    "process {pid} has the name of a validator but none of its threads yet"
                );
                problems.push(Problem::absent_data(message));
            }
            Choice::Several(found) => problems.push(ambiguity_problem(&found)),
            Choice::None => {
                problems.push(Problem::absent_data("no process looks like a validator"))
            }
        }
        Err(problems)
    }

    /// Starts the wait for the threads of a new candidate. True at the end of the wait, and if
    /// there is no further search.
    fn has_waited_long_enough(&mut self, target: &Target, context: &SearchContext<'_>) -> bool {
        self.pending
            .take_if(|(process, _)| *process != target.process);
        let (_, since) = *self.pending.get_or_insert((target.process, context.now));
        !context.will_retry || context.now.since(since) >= ACCEPT_PENDING_AFTER
    }
}

/// Drops candidates with another ledger than the previous validator's. On a host with two
/// validators, the other one is not the successor.
fn successors(
    before: Option<&Target>,
    candidates: Vec<Candidate>,
    problems: &mut Vec<Problem>,
) -> Vec<Candidate> {
    let Some(ledger) = before.and_then(|before| before.ledger.as_ref()) else {
        return candidates;
    };
    let (possible, others): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|candidate| {
        candidate
            .target
            .ledger
            .as_ref()
            .is_none_or(|other| other == ledger)
    });
    for other in others {
        let pid = other.target.process.pid;
        let other_ledger = other.target.ledger.unwrap_or_default();
        let message = format!(
            "process {pid} is another validator: its ledger is {}, not {}; to follow it, use --ledger or --pid, or \
             restart the daemon",
            faultline_text::path(&other_ledger),
            faultline_text::path(ledger)
        );
        problems.push(Problem::absent_data(message));
    }
    possible
}

/// The process may be a wrapper or start script whose validator is below it. The process of the
/// first search is accepted, whatever its program is. A later process with this pid must be a
/// validator, or have the program of the previous target.
pub struct PidSearch {
    pid: u32,
    with_descendants: bool,
    /// The process with this pid at the first search; `Some(None)` if no process had it.
    initial_process: Option<Option<ProcessId>>,
}

impl PidSearch {
    pub fn new(pid: u32, with_descendants: bool) -> Self {
        Self {
            pid,
            with_descendants,
            initial_process: None,
        }
    }

    pub fn find(&mut self, context: &SearchContext<'_>) -> SearchResult {
        let target =
            process::inspect(context.root, self.pid, "pid").map(|inspected| inspected.target);
        let process = target.as_ref().ok().map(|target| target.process);
        let initial_process = *self.initial_process.get_or_insert(process);
        let target = target.map_err(|error| vec![self.problem(context, &error)])?;
        if target.validator.is_some() {
            return Ok(target);
        }
        let (pid, comm) = (self.pid, &target.comm);
        if initial_process == process {
            let found = || Descendants::read(context.root, pid)?.validator(context.root);
            if self.with_descendants
                && let Some(validator) = found()
            {
                return Ok(validator);
            }
            if let Some(before) = context.previous_target
                && before.found_by == DESCENDANT
            {
                let message = format!("no validator runs below process {pid} ({comm})");
                return Err(vec![Problem::absent_data(message)]);
            }
            return Ok(target);
        }
        if let Some(before) = context.previous_target
            && may_be_same_target(before, &target)
        {
            return Ok(target);
        }
        let message = format!("the pid {pid} now belongs to another program ({comm})");
        Err(vec![Problem::new(ProblemKind::Gone, message)])
    }

    fn problem(&self, context: &SearchContext<'_>, error: &ReadError) -> Problem {
        let pid = self.pid;
        if let Some(hidden) = hidepid_problem(context.root, pid) {
            return hidden;
        }
        if error.kind() != ErrorKind::Gone {
            return process::problem(error);
        }
        let stat = context
            .root
            .read_proc(&format!("{pid}/stat"), pid_stat::parse);
        let message = if stat.is_ok_and(|stat| stat.all_threads_ended()) {
            format!("process {pid} has ended; it is a zombie until its parent waits for it")
        } else {
            format!("there is no process {pid}")
        };
        Problem::new(ProblemKind::Gone, message)
    }
}

fn may_be_same_target(before: &Target, current: &Target) -> bool {
    before.process == current.process
        || (before.validator.is_none()
            && before.comm == current.comm
            && process::may_be_same_program(before.exe.as_deref(), current.exe.as_deref()))
}

/// The kernel stores only 15 bytes of a name. A longer name must also be the file name of `argv[0]`
/// or of the executable.
pub struct NameSearch {
    name: String,
}

impl NameSearch {
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
        }
    }

    /// Of several processes, such as a program and its workers, finds the one whose parent is not
    /// among them. If there are several of these, the result is ambiguous.
    pub fn find(&self, context: &SearchContext<'_>) -> SearchResult {
        let mut problems = Vec::new();
        let comm = self.comm();
        let pids = pids_by_name(context.root, |other| other == comm, &mut problems)
            .map_err(|error| vec![process::problem(&error)])?;
        let own_pid = process::own_pid(context.root);
        let pids = pids.into_iter().filter(|&pid| Some(pid) != own_pid);
        let mut processes = inspect_processes(context.root, pids, "process_name", &mut problems);
        processes.retain(|inspected| self.has_full_name(inspected));
        let has_parent = |process: &InspectedProcess| {
            processes
                .iter()
                .any(|other| other.target.process.pid == process.parent)
        };
        let roots = processes
            .iter()
            .filter(|process| !has_parent(process))
            .collect_vec();
        problems.push(match roots.as_slice() {
            [process] => return Ok(process.target.clone()),
            [] => Problem::absent_data(format!("no process is called {}", self.name)),
            _ => ambiguity_problem(
                &processes
                    .into_iter()
                    .map(|process| process.target)
                    .collect_vec(),
            ),
        });
        Err(problems)
    }

    pub fn still_matches(&self, target: &Target) -> bool {
        Comm::new(target.comm.as_bytes()) == self.comm()
    }

    fn comm(&self) -> Comm {
        Comm::new(self.name.as_bytes())
    }

    fn has_full_name(&self, inspected: &InspectedProcess) -> bool {
        let is_name = |path: &Path| path.file_name().is_some_and(|name| name == &*self.name);
        let argv0 = inspected.argv0.as_deref().map(Path::new);
        let exe = inspected.target.exe.as_deref();
        // A program's own name may end in ` (deleted)`, so both forms are compared.
        let mut paths = chain!(argv0, exe, exe.map(process::program_file));
        self.name.len() <= self.comm().as_bytes().len() || paths.any(is_name)
    }
}
