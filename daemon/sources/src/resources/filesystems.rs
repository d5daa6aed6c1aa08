//! The file systems of the validator's folders. Each folder has its own call on a thread that may
//! block for ever.

use super::folders::{Folder, FolderPaths};
use super::growth::Growth;
use crate::discovery::Target;
use crate::polling::response_ttl;
use faultline_core::clock::Clock;
use faultline_core::supervisor::UNRESPONSIVE_FILE_SYSTEM;
use faultline_kernel::filesystem::{self, FileSystem, FileSystemError, Mounts};
use faultline_kernel::parse::cgroup_io::Device;
use faultline_kernel::parse::mountinfo::Mount;
use faultline_kernel::{HostRoot, ReadError};
use faultline_metrics::metrics::resources as m;
use faultline_metrics::{Problem, Reading, ReadingList, Stamp, Status, Text};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Maximum file systems: each costs eight series.
const MAX_FILE_SYSTEMS: usize = 5;
/// Maximum time that a poll waits for responses.
const POLL_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct FileSystems {
    polls: Vec<FolderPoll>,
    growth: HashMap<Device, Growth>,
}

#[derive(Debug)]
struct FolderPoll {
    folder: Folder,
    pending_call: Option<JoinHandle<Result<FileSystem, FileSystemError>>>,
    answer: Result<(FileSystem, Stamp), FileSystemError>,
}

#[derive(Debug, Clone)]
pub struct FileSystemUsage {
    pub system: FileSystem,
    /// Purposes of the folders on it: `accounts`, `ledger`, `log`, `snapshots`.
    pub purposes: BTreeSet<&'static str>,
    pub at: Stamp,
}

/// A folder whose file system is unknown or does not respond.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnavailableFolder {
    pub folder: Folder,
    pub status: Status,
    pub why: &'static str,
    pub remedy: Option<&'static str>,
}

impl FileSystems {
    /// Replaces the folders. Known folders keep their pending call.
    pub(super) fn take(&mut self, folders: Vec<Folder>) {
        let mut before = std::mem::take(&mut self.polls);
        self.polls = folders
            .into_iter()
            .map(|folder| {
                let same = before.iter().position(|poll| poll.folder == folder);
                same.map(|at| before.swap_remove(at)).unwrap_or(FolderPoll {
                    folder,
                    pending_call: None,
                    answer: Err(FileSystemError::Absent),
                })
            })
            .collect();
    }

    pub(super) async fn poll_folders(
        &mut self,
        root: &HostRoot,
        pid: Option<u32>,
        mounts: &Arc<Mounts>,
        clock: Clock,
    ) {
        for poll in self
            .polls
            .iter_mut()
            .filter(|poll| poll.pending_call.is_none())
        {
            let (root, mounts, path) = (root.clone(), Arc::clone(mounts), poll.folder.path.clone());
            let call = move || filesystem::holding(&root, pid, &path, &mounts);
            poll.pending_call = Some(tokio::task::spawn_blocking(call));
        }
        let deadline = tokio::time::Instant::now() + POLL_TIMEOUT;
        for poll in &mut self.polls {
            let Some(pending_call) = &mut poll.pending_call else {
                continue;
            };
            let Ok(done) = tokio::time::timeout_at(deadline, pending_call).await else {
                continue;
            };
            poll.pending_call = None;
            poll.answer = done
                .unwrap_or(Err(FileSystemError::Absent))
                .map(|system| (system, clock.now()));
        }
    }

    /// Each file system once, in the order of the folders.
    pub(super) fn usages(&self) -> Vec<FileSystemUsage> {
        let mut all: Vec<FileSystemUsage> = Vec::new();
        for poll in &self.polls {
            let Ok((system, at)) = &poll.answer else {
                continue;
            };
            let is_below_limit = all.len() < MAX_FILE_SYSTEMS;
            match all
                .iter_mut()
                .find(|usage| usage.system.mount.device == system.mount.device)
            {
                Some(usage) => {
                    usage.purposes.insert(poll.folder.what);
                    if *at > usage.at {
                        (usage.system.space, usage.at) = (system.space, *at);
                    }
                }
                None if is_below_limit => {
                    let purposes = BTreeSet::from([poll.folder.what]);
                    all.push(FileSystemUsage {
                        system: system.clone(),
                        purposes,
                        at: *at,
                    });
                }
                None => {}
            }
        }
        all
    }

    pub(super) fn readings(
        &mut self,
        usages: &[FileSystemUsage],
        disk: impl Fn(&Mount) -> Option<String>,
        (now, interval): (Stamp, Duration),
        out: &mut Vec<Reading>,
    ) {
        self.growth.retain(|device, _| {
            usages
                .iter()
                .any(|usage| usage.system.mount.device == *device)
        });
        for usage in usages {
            let mount = &usage.system.mount;
            let growth = self.growth.entry(mount.device).or_default();
            let mounted_at: Arc<str> = faultline_text::path(&mount.mount_point).into();
            let purposes: Arc<str> = Vec::from_iter(usage.purposes.iter().copied())
                .join(",")
                .into();
            let labels = || {
                [
                    Text::Shared(Arc::clone(&mounted_at)),
                    Text::Shared(Arc::clone(&purposes)),
                ]
            };
            let [mountpoint, purpose] = labels();
            let (kind, disk) = (
                Text::from(mount.fs_type.clone()),
                Text::from(disk(mount).unwrap_or_default()),
            );
            out.flag(&m::FILESYSTEM, [mountpoint, purpose, kind, disk], true);
            let age = now.since(usage.at);
            out.real(&m::FILESYSTEM_AGE, labels(), age.as_secs_f64());
            let Some(space) = usage
                .system
                .space
                .filter(|space| !space.is_unlimited() && age <= response_ttl(interval))
            else {
                continue;
            };
            if age < interval {
                growth.add(usage.at.uptime, space.avail, space.size);
            }
            out.whole(&m::FILESYSTEM_SIZE, labels(), space.size);
            out.whole(&m::FILESYSTEM_AVAIL, labels(), space.avail);
            out.real(&m::FILESYSTEM_UNTIL_FULL, labels(), growth.until_full());
            if let Some((all, free)) = space.inodes {
                out.whole(&m::FILESYSTEM_INODES, labels(), all);
                out.whole(&m::FILESYSTEM_INODES_FREE, labels(), free);
            }
            // The daemon's own mounts may be read-only for it alone (ProtectSystem, :ro of a container).
            if usage.system.of_process {
                out.flag(&m::FILESYSTEM_READ_ONLY, labels(), mount.is_read_only());
            }
        }
    }

    /// True if each folder that the daemon may read is known and responds.
    pub(super) fn is_up(&self) -> bool {
        let any_known = self.polls.is_empty() || self.polls.iter().any(|poll| poll.answer.is_ok());
        any_known
            && self
                .problems()
                .all(|problem| problem.status == Status::Forbidden)
    }

    pub(super) fn problems(&self) -> impl Iterator<Item = Problem> {
        self.unavailable().map(|unavailable| {
            let UnavailableFolder {
                folder,
                status,
                why,
                remedy,
            } = unavailable;
            let remedy = remedy
                .map(|remedy| format!("; {remedy}"))
                .unwrap_or_default();
            Problem::new(
                status,
                format!(
                    "{} {}: {why}{remedy}",
                    folder.what,
                    faultline_text::path(&folder.path)
                ),
            )
        })
    }

    pub(super) fn unavailable(&self) -> impl Iterator<Item = UnavailableFolder> {
        self.polls.iter().filter_map(|poll| {
            let (status, why, remedy) = match (&poll.pending_call, &poll.answer) {
                (Some(_), _) => (Status::Broken, UNRESPONSIVE_FILE_SYSTEM, None),
                (None, Err(FileSystemError::Absent)) => (
                    Status::Absent,
                    "on no file system that the daemon can see",
                    Some("in a container, mount it under the same path"),
                ),
                (None, Err(FileSystemError::Forbidden)) => (
                    Status::Forbidden,
                    "the daemon may not search a folder on the way, behind which may be a link",
                    Some("run it as the validator's user, or let it search (setfacl -m u:USER:x)"),
                ),
                (None, Ok((system, _))) if system.space.is_none() => (
                    Status::Broken,
                    "its file system does not say how full it is",
                    None,
                ),
                _ => return None,
            };
            Some(UnavailableFolder {
                folder: poll.folder.clone(),
                status,
                why,
                remedy,
            })
        })
    }
}

/// Samples the file systems once, like the source. May block: call it only where nothing else
/// waits.
///
/// # Errors
/// The process's arguments or mounts are unreadable, as after its end.
pub async fn inspect(
    root: &HostRoot,
    target: &Target,
    clock: Clock,
) -> Result<(Vec<FileSystemUsage>, Vec<UnavailableFolder>), ReadError> {
    let pid = Some(target.process.pid);
    let (folder_paths, mounts) = (FolderPaths::of(root, target)?, Mounts::read(root, pid)?);
    let mut systems = FileSystems::default();
    systems.take(folder_paths.folders);
    systems
        .poll_folders(root, pid, &Arc::new(mounts), clock)
        .await;
    Ok((systems.usages(), systems.unavailable().collect()))
}

#[cfg(test)]
impl FileSystems {
    #[expect(
        clippy::disallowed_methods,
        reason = "a call that never comes back, without a thread"
    )]
    pub(super) fn hang(&mut self, which: usize) {
        self.polls[which].pending_call = Some(tokio::spawn(std::future::pending()));
    }
}
