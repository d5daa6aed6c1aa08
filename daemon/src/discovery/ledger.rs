//! The validator of a given ledger folder.
//!
//! Three traces lead from the folder to the process, the best first: who listens on `admin.rpc`, who holds the lock on
//! `ledger.lock`, who was started with `--ledger`. The last two are open to any user, the first to the folder's owner.

use super::choose::{Choice, ambiguous, candidates, choose};
use super::owner::{Predecessor, without_pretenders};
use super::scan::named_like_a_validator;
use super::{Around, Found, Target, process};
use crate::socket;
use crate::supervisor::ANSWERS_WITHIN;
use faultline_catalog::{Problem, Status};
use faultline_kernel::parse::locks;
use faultline_kernel::{ErrorKind, HostRoot};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// The folder, absolute.
#[derive(Debug)]
pub(super) struct ByLedger {
    folder: PathBuf,
    found: Predecessor,
}

impl ByLedger {
    pub(super) fn new(folder: &Path) -> Self {
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        ByLedger {
            folder,
            found: Predecessor::default(),
        }
    }

    pub(super) fn find(&mut self, around: &Around<'_>) -> Found {
        let mut problems = Vec::new();
        let listener = self.by_socket(around, &mut problems);
        if let Some(target) = listener.or_else(|| self.by_lock(around, &mut problems)) {
            return Ok(self.found.remember(around, target));
        }
        match self.by_argument(around, &mut problems) {
            Choice::Running(target) | Choice::Lone(target) => {
                return Ok(self.found.remember(around, target));
            }
            Choice::Several(found) => problems.push(ambiguous(&found)),
            Choice::None => {
                let folder = faultline_text::path(&self.folder);
                let words = format!(
                    "no process listens on {folder}/admin.rpc, holds the lock on {folder}/ledger.lock or was started \
                     with --ledger {folder}"
                );
                problems.push(Problem::new(Status::Absent, words));
            }
        }
        Err(problems)
    }

    /// The listener is the validator whatever its program is called, unless it is known to be something else.
    fn by_socket(&self, around: &Around<'_>, problems: &mut Vec<Problem>) -> Option<Target> {
        if !around.own_procfs {
            return None;
        }
        let socket = self.folder.join("admin.rpc");
        let refused = |status, why: &str| {
            Problem::new(status, format!("{}: {why}", faultline_text::path(&socket)))
        };
        let path = socket.clone();
        let listening = around.paths.call(ANSWERS_WITHIN, move || listener(&path));
        let Ok(listening) = listening.map_err(|unanswered| {
            problems.push(refused(Status::Broken, &unanswered.to_string()));
        }) else {
            return None;
        };
        match listening {
            Ok(Some(pid)) => match process::look(around.root, pid, "admin.rpc") {
                // Without arguments it is being torn down.
                Ok(seen) if seen.subcommand.is_none() && seen.program.is_some() => {
                    return Some(seen.target);
                }
                Ok(_) => {}
                Err(error) => problems.push(process::problem(&error)),
            },
            Ok(None) => problems.push(refused(
                Status::Forbidden,
                "its listener is outside of this pid namespace",
            )),
            // Nobody listens: no validator, or one that is just starting or ending.
            Err(Errno::NOENT | Errno::CONNREFUSED) => {}
            Err(Errno::ACCESS | Errno::PERM) => {
                problems.push(refused(
                    Status::Forbidden,
                    "only root and the validator's user may connect",
                ));
            }
            Err(errno) => problems.push(refused(Status::Broken, &errno.to_string())),
        }
        None
    }

    fn by_lock(&mut self, around: &Around<'_>, problems: &mut Vec<Problem>) -> Option<Target> {
        let lock = self.folder.join("ledger.lock");
        let (root, file) = (around.root.clone(), lock.clone());
        let locked = around.paths.call(ANSWERS_WITHIN, move || {
            let mut problems = Vec::new();
            (lock_holders(&root, &file, &mut problems), problems)
        });
        let (holders, found) = locked.unwrap_or_else(|unanswered| {
            let words = format!("{}: {unanswered}", faultline_text::path(&lock));
            (Vec::new(), vec![Problem::new(Status::Broken, words)])
        });
        problems.extend(found);
        let found = candidates(around, &holders, "ledger.lock", problems);
        match choose(self.found.of_the_same_user(around, found, problems)) {
            Choice::Running(target) | Choice::Lone(target) => Some(target),
            Choice::None | Choice::Several(_) => None,
        }
    }

    fn by_argument(&mut self, around: &Around<'_>, problems: &mut Vec<Problem>) -> Choice {
        match named_like_a_validator(around.root) {
            Ok(named) => {
                problems.extend(named.problem());
                let mut found = candidates(around, &named.pids, "scan", problems);
                found.retain(|one| process::has_ledger(around, &one.target, &self.folder));
                let found = self.found.of_the_same_user(around, found, problems);
                choose(without_pretenders(around, found))
            }
            Err(error) => {
                problems.push(process::problem(&error));
                Choice::None
            }
        }
    }
}

/// Who listens on a unix socket (`SO_PEERCRED`); `None` for a process outside of this pid namespace.
pub(super) fn listener(path: &Path) -> Result<Option<u32>, Errno> {
    let socket = socket::connect(path)?;
    let errno = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    // rustix's own reader of these credentials has no room for the 0 of a process outside of the namespace; tokio's has,
    // but wants a runtime around.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(errno)?;
    let credentials = {
        let _entered = runtime.enter();
        tokio::net::UnixStream::from_std(socket).and_then(|stream| stream.peer_cred())
    };
    // Dropping it would not be allowed to a caller who is on a runtime himself.
    runtime.shutdown_background();
    let pid = credentials.map_err(errno)?.pid();
    Ok(pid
        .and_then(|pid| u32::try_from(pid).ok())
        .filter(|&pid| pid != 0))
}

/// Who holds a `flock` on a file. Nobody is found on file systems whose files have another device than the kernel lists
/// their locks under (btrfs, overlayfs).
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
