use super::descendants::{DESCENDANT, Descendants};
use super::{SearchContext, SearchResult, Target, names, process};
use faultline_kernel::parse::pid_stat;
use faultline_kernel::{ErrorKind, ProcessId, ReadError};
use faultline_metrics::{Problem, Status};

/// The first search accepts any process with this pid, or the validator below it, because a wrapper
/// or start script stays its parent. Pids are reused, so later searches accept only a validator or
/// the same program.
#[derive(Debug)]
pub(super) struct PidSearch {
    pid: u32,
    pub(super) with_descendants: bool,
    /// The process at the first search; `Some(None)` if there was none.
    initial_process: Option<Option<ProcessId>>,
}

impl PidSearch {
    pub(super) fn new(pid: u32, with_descendants: bool) -> Self {
        PidSearch {
            pid,
            with_descendants,
            initial_process: None,
        }
    }

    pub(super) fn find(&mut self, context: &SearchContext<'_>) -> SearchResult {
        let inspected = process::inspect(context.root, self.pid, "pid");
        let target = inspected.map(|inspected| inspected.target);
        let process = target.as_ref().ok().map(|target| target.process);
        let initial_process = *self.initial_process.get_or_insert(process);
        let target = target.map_err(|error| vec![self.problem(context, &error)])?;
        if target.validator.is_some() {
            return Ok(target);
        }
        let (pid, comm) = (self.pid, &target.comm);
        if initial_process == process {
            let found = || Descendants::of(context.root, pid)?.validator(context.root);
            if self.with_descendants
                && let Some(validator) = found()
            {
                return Ok(validator);
            }
            if let Some(before) = context.before
                && before.found_by == DESCENDANT
            {
                let message = format!("no validator runs below process {pid} ({comm})");
                return Err(vec![Problem::new(Status::Absent, message)]);
            }
            return Ok(target);
        }
        if let Some(before) = context.before
            && is_same(before, &target)
        {
            return Ok(target);
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

fn is_same(before: &Target, now: &Target) -> bool {
    before.process == now.process
        || (before.validator.is_none()
            && before.comm == now.comm
            && process::same_program(before.exe.as_deref(), now.exe.as_deref()))
}
