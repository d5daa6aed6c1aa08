use super::descendants::{DESCENDANT, Descendants};
use super::process::{self, LiveProcess};
use super::{SearchContext, SearchResult, Target, names};
use faultline_kernel::parse::pid_stat;
use faultline_kernel::{ErrorKind, ProcessId, ReadError};
use faultline_metrics::{Problem, Status};

/// The first search accepts any process with this pid, or the validator below it, because a wrapper
/// or start script stays its parent. Pids are reused: later it must be a validator or the same
/// program as before.
#[derive(Debug)]
pub(super) struct ByPid {
    pid: u32,
    pub(super) with_descendants: bool,
    has_searched: bool,
    initial_process: Option<ProcessId>,
}

impl ByPid {
    pub(super) fn new(pid: u32, with_descendants: bool) -> Self {
        ByPid {
            pid,
            with_descendants,
            has_searched: false,
            initial_process: None,
        }
    }

    pub(super) fn find(&mut self, context: &SearchContext<'_>) -> SearchResult {
        let first = !std::mem::replace(&mut self.has_searched, true);
        let seen = match process::inspect(context.root, self.pid, "pid") {
            Ok(seen) => seen,
            Err(error) => return Err(vec![self.problem(context, &error)]),
        };
        if first {
            self.initial_process = Some(seen.target.process);
        }
        if seen.is_validator() {
            return Ok(seen.target);
        }
        let (pid, comm) = (self.pid, &seen.target.comm);
        if self.initial_process == Some(seen.target.process) {
            let found = || Descendants::of(context.root, pid)?.validator(context.root);
            if self.with_descendants
                && let Some(validator) = found()
            {
                return Ok(validator);
            }
            if context
                .before
                .is_some_and(|before| before.found_by == DESCENDANT)
            {
                let message = format!("no validator runs below process {pid} ({comm})");
                return Err(vec![Problem::new(Status::Absent, message)]);
            }
            return Ok(seen.target);
        }
        if context.before.is_some_and(|before| is_same(before, &seen)) {
            return Ok(seen.target);
        }
        let message = format!("the number {pid} now belongs to another program ({comm})");
        Err(vec![Problem::new(Status::Gone, message)])
    }

    fn problem(&self, context: &SearchContext<'_>, error: &ReadError) -> Problem {
        let pid = self.pid;
        if let Some(hidden) = names::hidden(context.root, pid) {
            return hidden;
        }
        if error.kind() != ErrorKind::Gone {
            return process::problem(error);
        }
        let stat = context
            .root
            .read_proc(&format!("{pid}/stat"), pid_stat::parse);
        let message = if stat.is_ok_and(|stat| stat.has_ended()) {
            format!("process {pid} has ended; it is a zombie until its parent waits for it")
        } else {
            format!("there is no process {pid}")
        };
        Problem::new(Status::Gone, message)
    }
}

fn is_same(before: &Target, seen: &LiveProcess) -> bool {
    let now = &seen.target;
    before.process == now.process
        || (before.validator.is_none()
            && before.comm == now.comm
            && process::same_program(before.exe.as_deref(), now.exe.as_deref()))
}
