//! Finds the validator of a ledger folder. In order: the listener on `admin.rpc`, the holder of the
//! lock on `ledger.lock`, a process with this `--ledger`. Only a user who may write to the folder
//! can fake the first; any user can fake the others.

use super::{
    SearchContext, SearchResult, Target,
    candidates::{
        Choice, PreviousUids, ambiguity_problem, candidates_by_name, choose,
        prefer_owners_of_ledger, validator_candidates,
    },
    process,
};
use faultline_core::{socket, supervisor::FS_CALL_TIMEOUT};
use faultline_kernel::{HostRoot, if_present, parse::locks};
use faultline_metrics::{Problem, ProblemKind};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

pub struct LedgerSearch {
    folder: PathBuf,
    previous_uids: PreviousUids,
}

impl LedgerSearch {
    pub fn new(folder: &Path) -> Self {
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        Self {
            folder,
            previous_uids: PreviousUids::default(),
        }
    }

    pub fn find(&mut self, context: &SearchContext<'_>) -> SearchResult {
        let mut problems = Vec::new();
        let folder = faultline_text::path(&self.folder);
        let target = self
            .by_socket(context, &mut problems)
            .or_else(|| self.by_lock(context, &mut problems));
        if let Some(target) = target {
            return Ok(self.previous_uids.record_uid(context, target));
        }
        let choice = self.by_argument(context, &mut problems);
        problems.push(match choice {
            Choice::One(candidate) => {
                return Ok(self.previous_uids.record_uid(context, candidate.target));
            },
            Choice::Several(found) => ambiguity_problem(&found),
            Choice::None => Problem::absent_data(format!(
                    "no process listens on {folder}/admin.rpc, holds the lock on {folder}/ledger.lock or was started \
                     with --ledger {folder}"
                ),
            ),
        });
        Err(problems)
    }

    /// Accepts any program name, because only a user who may write to the folder can listen on this
    /// socket. Refuses a subcommand that runs no validator, such as `agave-validator monitor`.
    fn by_socket(
        &self,
        context: &SearchContext<'_>,
        problems: &mut Vec<Problem>,
    ) -> Option<Target> {
        if !context.shares_pid_namespace {
            return None;
        }
        let socket = self.folder.join("admin.rpc");
        let shown_path = faultline_text::path(&socket);
        let listening = context
            .fs_calls
            .call(FS_CALL_TIMEOUT, move || listener_pid(&socket));
        let (kind, why) = match listening {
            Err(call_error) => (ProblemKind::Broken, call_error.to_string()),
            Ok(Ok(Some(pid))) => match process::inspect(context.root, pid, "admin.rpc") {
                // A process without arguments is exiting.
                Ok(inspected) if inspected.subcommand.is_none() && inspected.argv0.is_some() => {
                    return Some(inspected.target);
                }
                Ok(_) => return None,
                Err(error) => {
                    problems.push(process::problem(&error));
                    return None;
                }
            },
            Ok(Ok(None)) => (
                ProblemKind::Forbidden,
                "its listener is outside of this pid namespace".to_owned(),
            ),
            // No listener: no validator, or one that is starting or ending.
            Ok(Err(Errno::NOENT | Errno::CONNREFUSED)) => return None,
            Ok(Err(Errno::ACCESS | Errno::PERM)) => (
                ProblemKind::Forbidden,
                "only root and the validator's user may connect".to_owned(),
            ),
            Ok(Err(errno)) => (ProblemKind::Broken, errno.to_string()),
        };
        problems.push(Problem::new(kind, format!("{shown_path}: {why}")));
        None
    }

    fn by_lock(
        &mut self,
        context: &SearchContext<'_>,
        problems: &mut Vec<Problem>,
    ) -> Option<Target> {
        let lock = self.folder.join("ledger.lock");
        let shown_path = faultline_text::path(&lock);
        let root = context.root.clone();
        let holders = context
            .fs_calls
            .call(FS_CALL_TIMEOUT, move || lock_holders(&root, &lock))
            .unwrap_or_else(|call_error| {
                Err(Problem::broken(format!("{shown_path}: {call_error}")))
            });
        let holders = holders.map_err(|problem| problems.push(problem)).ok()?;
        let candidates = validator_candidates(context.root, holders, "ledger.lock", problems);
        let candidates = self
            .previous_uids
            .retain_same_uid(context, candidates, problems);
        let Choice::One(candidate) = choose(candidates) else {
            return None;
        };
        Some(candidate.target)
    }

    fn by_argument(&mut self, context: &SearchContext<'_>, problems: &mut Vec<Problem>) -> Choice {
        let mut candidates = candidates_by_name(context.root, problems).unwrap_or_else(|error| {
            problems.push(process::problem(&error));
            Vec::new()
        });
        candidates
            .retain(|candidate| process::has_ledger(context, &candidate.target, &self.folder));
        let candidates = self
            .previous_uids
            .retain_same_uid(context, candidates, problems);
        choose(prefer_owners_of_ledger(context, candidates))
    }
}

/// Peer of a unix socket (`SO_PEERCRED`); `None` for a process outside of this pid namespace.
pub fn listener_pid(path: &Path) -> Result<Option<u32>, Errno> {
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
pub fn lock_holders(root: &HostRoot, file: &Path) -> Result<Vec<u32>, Problem> {
    let stat = match rustix::fs::stat(file) {
        Ok(stat) => stat,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Vec::new()),
        Err(errno) => {
            let kind = match errno {
                Errno::ACCESS | Errno::PERM => ProblemKind::Forbidden,
                _ => ProblemKind::Broken,
            };
            let path = faultline_text::path(file);
            return Err(Problem::new(kind, format!("{path}: {errno}")));
        }
    };
    let (major, minor) = (
        rustix::fs::major(stat.st_dev),
        rustix::fs::minor(stat.st_dev),
    );
    let locks = if_present(root.read_proc("locks", locks::parse))
        .map_err(|error| process::problem(&error))?
        .unwrap_or_default();
    Ok(locks::flock_holders(&locks, (major, minor), stat.st_ino))
}
