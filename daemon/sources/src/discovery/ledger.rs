//! Finds the validator of a ledger folder. In order: the listener on `admin.rpc`, the holder of the
//! lock on `ledger.lock`, a process with this `--ledger`. Only the folder's owner can fake the
//! first; any user can fake the others.

use super::choose::{Choice, ambiguous, candidates, choose};
use super::owner::{PreviousUsers, without_foreign_ledgers};
use super::scan::find_by_validator_name;
use super::{SearchContext, SearchResult, Target, process};
use faultline_core::socket;
use faultline_core::supervisor::PATH_CALL_TIMEOUT;
use faultline_kernel::parse::locks;
use faultline_kernel::{ErrorKind, HostRoot};
use faultline_metrics::{Problem, Status};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct LedgerSearch {
    folder: PathBuf,
    previous_users: PreviousUsers,
}

impl LedgerSearch {
    pub(super) fn new(folder: &Path) -> Self {
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        LedgerSearch {
            folder,
            previous_users: PreviousUsers::default(),
        }
    }

    pub(super) fn find(&mut self, context: &SearchContext<'_>) -> SearchResult {
        let mut problems = Vec::new();
        let listener = self.by_socket(context, &mut problems);
        if let Some(target) = listener.or_else(|| self.by_lock(context, &mut problems)) {
            return Ok(self.previous_users.record_user(context, target));
        }
        match self.by_argument(context, &mut problems) {
            Choice::Running(target) | Choice::Unconfirmed(target) => {
                return Ok(self.previous_users.record_user(context, target));
            }
            Choice::Several(found) => problems.push(ambiguous(&found)),
            Choice::None => {
                let folder = faultline_text::path(&self.folder);
                let message = format!(
                    "no process listens on {folder}/admin.rpc, holds the lock on {folder}/ledger.lock or was started \
                     with --ledger {folder}"
                );
                problems.push(Problem::new(Status::Absent, message));
            }
        }
        Err(problems)
    }

    /// Accepts a listener with any program name, unless it runs a validator's subcommand.
    fn by_socket(
        &self,
        context: &SearchContext<'_>,
        problems: &mut Vec<Problem>,
    ) -> Option<Target> {
        if !context.shares_pid_namespace {
            return None;
        }
        let socket = self.folder.join("admin.rpc");
        let socket_problem = |status, why: &str| {
            Problem::new(status, format!("{}: {why}", faultline_text::path(&socket)))
        };
        let path = socket.clone();
        let listener_pid = context
            .paths
            .call(PATH_CALL_TIMEOUT, move || listener(&path));
        let Ok(listener_pid) = listener_pid.map_err(|path_error| {
            problems.push(socket_problem(Status::Broken, &path_error.to_string()));
        }) else {
            return None;
        };
        match listener_pid {
            Ok(Some(pid)) => match process::inspect(context.root, pid, "admin.rpc") {
                // A process without arguments is exiting.
                Ok(inspected) if inspected.subcommand.is_none() && inspected.program.is_some() => {
                    return Some(inspected.target);
                }
                Ok(_) => {}
                Err(error) => problems.push(process::problem(&error)),
            },
            Ok(None) => problems.push(socket_problem(
                Status::Forbidden,
                "its listener is outside of this pid namespace",
            )),
            // No listener: no validator, or one that is starting or ending.
            Err(Errno::NOENT | Errno::CONNREFUSED) => {}
            Err(Errno::ACCESS | Errno::PERM) => {
                problems.push(socket_problem(
                    Status::Forbidden,
                    "only root and the validator's user may connect",
                ));
            }
            Err(errno) => problems.push(socket_problem(Status::Broken, &errno.to_string())),
        }
        None
    }

    fn by_lock(
        &mut self,
        context: &SearchContext<'_>,
        problems: &mut Vec<Problem>,
    ) -> Option<Target> {
        let lock = self.folder.join("ledger.lock");
        let (root, file) = (context.root.clone(), lock.clone());
        let locked = context.paths.call(PATH_CALL_TIMEOUT, move || {
            let mut problems = Vec::new();
            (lock_holders(&root, &file, &mut problems), problems)
        });
        let (holders, found) = locked.unwrap_or_else(|path_error| {
            let message = format!("{}: {path_error}", faultline_text::path(&lock));
            (Vec::new(), vec![Problem::new(Status::Broken, message)])
        });
        problems.extend(found);
        let found = candidates(context.root, &holders, "ledger.lock", problems);
        let found = self
            .previous_users
            .retain_same_user(context, found, problems);
        match choose(found) {
            Choice::Running(target) | Choice::Unconfirmed(target) => Some(target),
            Choice::None | Choice::Several(_) => None,
        }
    }

    fn by_argument(&mut self, context: &SearchContext<'_>, problems: &mut Vec<Problem>) -> Choice {
        match find_by_validator_name(context.root) {
            Ok(named) => {
                problems.extend(named.problem());
                let mut found = candidates(context.root, &named.pids, "scan", problems);
                found.retain(|one| process::has_ledger(context, &one.target, &self.folder));
                let found = self
                    .previous_users
                    .retain_same_user(context, found, problems);
                choose(without_foreign_ledgers(context, found))
            }
            Err(error) => {
                problems.push(process::problem(&error));
                Choice::None
            }
        }
    }
}

/// Peer of a unix socket (`SO_PEERCRED`); `None` for a process outside of this pid namespace.
pub(super) fn listener(path: &Path) -> Result<Option<u32>, Errno> {
    let socket = socket::connect(path)?;
    let errno = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    // rustix cannot represent pid 0 of a process outside of the namespace. tokio can, but needs a
    // runtime.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(errno)?;
    let credentials = {
        let _entered = runtime.enter();
        tokio::net::UnixStream::from_std(socket).and_then(|stream| stream.peer_cred())
    };
    // If the caller is on a runtime, a plain drop would panic.
    runtime.shutdown_background();
    let pid = credentials.map_err(errno)?.pid();
    Ok(pid
        .and_then(|pid| u32::try_from(pid).ok())
        .filter(|&pid| pid != 0))
}

/// Holders of a `flock` on a file. Finds none on btrfs and overlayfs: the kernel lists their locks
/// under another device than the file's.
pub(super) fn lock_holders(root: &HostRoot, file: &Path, problems: &mut Vec<Problem>) -> Vec<u32> {
    let stat = match rustix::fs::stat(file) {
        Ok(stat) => stat,
        Err(Errno::NOENT | Errno::NOTDIR) => return Vec::new(),
        Err(errno) => {
            let forbidden = matches!(errno, Errno::ACCESS | Errno::PERM);
            let status = if forbidden {
                Status::Forbidden
            } else {
                Status::Broken
            };
            problems.push(Problem::new(
                status,
                format!("{}: {errno}", faultline_text::path(file)),
            ));
            return Vec::new();
        }
    };
    let device = (
        rustix::fs::major(stat.st_dev),
        rustix::fs::minor(stat.st_dev),
    );
    match root.read_proc("locks", locks::parse) {
        Ok(locks) => locks::flock_holders(&locks, device, stat.st_ino),
        Err(error) if error.kind() == ErrorKind::Absent => Vec::new(),
        Err(error) => {
            problems.push(process::problem(&error));
            Vec::new()
        }
    }
}
