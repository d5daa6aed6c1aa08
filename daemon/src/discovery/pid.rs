//! The process with a given number.

use super::process::{self, LiveProcess};
use super::{Around, Found, Target};
use faultline_catalog::{Problem, Status};
use faultline_kernel::ErrorKind;

/// Whatever has the number at the first look is followed. Numbers are used again: later on it must be a validator, or the
/// same program as before.
#[derive(Debug)]
pub(super) struct ByPid {
    pid: u32,
    looked: bool,
}

impl ByPid {
    pub(super) fn new(pid: u32) -> Self {
        ByPid { pid, looked: false }
    }

    pub(super) fn find(&mut self, around: &Around<'_>) -> Found {
        let first = !std::mem::replace(&mut self.looked, true);
        match process::look(around.root, self.pid, "pid") {
            Ok(seen)
                if first
                    || seen.is_validator()
                    || around.before.is_some_and(|before| is_same(before, &seen)) =>
            {
                Ok(seen.target)
            }
            Ok(seen) => {
                let words = format!(
                    "the number {} now belongs to another program ({})",
                    self.pid, seen.target.comm
                );
                Err(vec![Problem::new(Status::Gone, words)])
            }
            Err(error) if error.kind() == ErrorKind::Gone => Err(vec![Problem::new(
                Status::Gone,
                format!("there is no process {}", self.pid),
            )]),
            Err(error) => Err(vec![process::problem(&error)]),
        }
    }
}

fn is_same(before: &Target, seen: &LiveProcess) -> bool {
    let now = &seen.target;
    before.process == now.process
        || (before.validator.is_none() && before.comm == now.comm && before.exe == now.exe)
}
