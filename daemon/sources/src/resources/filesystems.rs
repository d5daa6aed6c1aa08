//! The file systems of the validator's folders. Each folder has its own call on a thread that may
//! block for ever.

use super::fill_forecast::FillForecast;
use crate::{
    discovery::{Target, live_stat},
    polling::response_ttl,
};
use faultline_agave::arguments;
use faultline_core::{clock::Clock, supervisor::UNRESPONSIVE_FILE_SYSTEM};
use faultline_kernel::{
    HostRoot, ProcessFiles, Result,
    block::BlockDevice,
    filesystem::{self, FileSystem, FileSystemError, Mounts},
    parse::cgroup::Device,
};
use faultline_metrics::{
    AddReadings, LabelText, Problem, ProblemKind, Reading, Stamp, metrics::resources as m,
};
use itertools::Itertools;
use std::{
    collections::{BTreeSet, HashMap},
    ops::RangeInclusive,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use tokio::task::JoinHandle;

pub const MAX_FOLDERS: usize = 12;
/// Each costs eight series.
const MAX_FILE_SYSTEMS: usize = 5;
const LEFT_OUT: &str = "left out";
const POLL_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone, PartialEq)]
pub struct Folder {
    /// `accounts`, `ledger`, `log` or `snapshots`.
    pub purpose: &'static str,
    /// In the process's own file system. Relative if the working directory is unreadable.
    pub path: PathBuf,
}

#[derive(Default)]
pub struct FoldersAndPorts {
    pub folders: Vec<Folder>,
    pub udp_ports: Option<Vec<RangeInclusive<u16>>>,
}

impl FoldersAndPorts {
    /// # Errors
    /// The arguments are unreadable, as after the process's end.
    pub fn of(root: &HostRoot, target: &Target) -> Result<Self> {
        let Some(validator) = &target.validator else {
            return Ok(Self::default());
        };
        let files = ProcessFiles::open(root, target.process.pid)?;
        live_stat(root, target.process)?;
        let argv = files.cmdline()?;
        let cwd = files.cwd().unwrap_or_default();
        let mut kinds_and_paths = arguments::folders(validator, target.ledger.as_deref(), &argv);
        // Without --log the validator redirects standard error to a file. Only its user and root
        // may read the link `fd/2`.
        let link = root.procfs.join(format!("{}/fd/2", target.process.pid));
        let log = std::fs::read_link(link)
            .ok()
            .filter(|file| file.is_absolute() && !file.starts_with("/dev"));
        for (kind, path) in [("snapshots", target.ledger.clone()), ("log", log)] {
            if let Some(path) = path
                && !kinds_and_paths.iter().any(|(known, _)| *known == kind)
            {
                kinds_and_paths.push((kind, path));
            }
        }
        let folders = kinds_and_paths.into_iter().map(|(kind, path)| Folder {
            purpose: purpose(kind),
            path: cwd.join(path),
        });
        Ok(Self {
            folders: folders.collect(),
            udp_ports: arguments::udp_ports(validator, &argv),
        })
    }
}

/// Maps kinds of folders to few label values.
fn purpose(kind: &'static str) -> &'static str {
    match kind {
        "incremental_snapshots" => "snapshots",
        "accounts_index" | "accounts_hash_cache" => "accounts",
        other => other,
    }
}

#[derive(Default)]
pub struct FileSystems {
    pub folder_polls: Vec<FolderPoll>,
    fill_forecasts: HashMap<Device, FillForecast>,
}

pub struct FolderPoll {
    folder: Folder,
    pub pending_call: Option<JoinHandle<FolderResult>>,
    pub last_result: FolderResult,
}

/// With the time at the end of the call.
type FolderResult = Result<(FileSystem, Stamp), FileSystemError>;

pub struct FileSystemUsage {
    pub file_system: FileSystem,
    pub purposes: BTreeSet<&'static str>,
    pub sampled_at: Stamp,
}

/// A folder that is left out, or whose file system is unknown or does not respond.
pub struct UnavailableFolder {
    pub folder: Folder,
    pub kind: ProblemKind,
    pub reason: &'static str,
    pub remedy: Option<&'static str>,
}

impl FileSystems {
    /// Known folders keep their pending call.
    pub fn set_folders(&mut self, folders: Vec<Folder>) {
        let mut before = std::mem::take(&mut self.folder_polls);
        let poll = |folder| match before.iter().position(|poll| poll.folder == folder) {
            Some(known) => before.swap_remove(known),
            None => FolderPoll {
                folder,
                pending_call: None,
                last_result: Err(FileSystemError::Absent),
            },
        };
        self.folder_polls = folders.into_iter().map(poll).collect();
    }

    pub async fn poll_folders(
        &mut self,
        root: &HostRoot,
        pid: Option<u32>,
        mounts: &Arc<Mounts>,
        clock: Clock,
    ) {
        let polls = self.folder_polls.iter_mut().take(MAX_FOLDERS);
        for poll in polls.filter(|poll| poll.folder.path.is_absolute()) {
            let (root, mounts, path) = (root.clone(), Arc::clone(mounts), poll.folder.path.clone());
            let call = move || {
                filesystem::find_file_system(&root, pid, &path, &mounts)
                    .map(|file_system| (file_system, clock.now()))
            };
            poll.pending_call
                .get_or_insert_with(|| tokio::task::spawn_blocking(call));
        }
        let deadline = tokio::time::Instant::now() + POLL_TIMEOUT;
        for poll in &mut self.folder_polls {
            if let Some(call) = &mut poll.pending_call
                && let Ok(done) = tokio::time::timeout_at(deadline, call).await
            {
                poll.pending_call = None;
                poll.last_result = done.unwrap_or(Err(FileSystemError::Absent));
            }
        }
    }

    /// Each file system once, in the order of the folders.
    pub fn usages(&self) -> Vec<FileSystemUsage> {
        let mut all: Vec<FileSystemUsage> = Vec::new();
        for poll in &self.folder_polls {
            let Ok((system, at)) = &poll.last_result else {
                continue;
            };
            let device = system.mount.device;
            let mut known = all.iter_mut();
            if let Some(usage) = known.find(|usage| usage.file_system.mount.device == device) {
                usage.purposes.insert(poll.folder.purpose);
                if *at > usage.sampled_at {
                    (usage.file_system.space, usage.sampled_at) = (system.space, *at);
                }
            } else if all.len() < MAX_FILE_SYSTEMS {
                all.push(FileSystemUsage {
                    file_system: system.clone(),
                    purposes: BTreeSet::from([poll.folder.purpose]),
                    sampled_at: *at,
                });
            }
        }
        all
    }

    /// `disks` are the disks below each file system.
    pub fn add_readings(
        &mut self,
        usages: &[FileSystemUsage],
        disks: &[Vec<BlockDevice>],
        now: Stamp,
        interval: Duration,
        out: &mut Vec<Reading>,
    ) {
        let devices = devices(usages);
        self.fill_forecasts
            .retain(|device, _| devices.contains(device));
        for (usage, disks) in usages.iter().zip(disks) {
            let mount = &usage.file_system.mount;
            let purposes = LabelText::from(usage.purposes.iter().join(","));
            let mount_point = LabelText::from(faultline_text::path(&mount.mount_point));
            let labels = || [mount_point.clone(), purposes.clone()];
            let fs_type = mount.fs_type.clone().into();
            let disk = disks
                .first()
                .map(|disk| disk.name.clone())
                .unwrap_or_default()
                .into();
            out.flag(
                &m::FILESYSTEM,
                [mount_point.clone(), purposes.clone(), fs_type, disk],
                true,
            );
            let age = now.since(usage.sampled_at);
            out.real(&m::FILESYSTEM_AGE, labels(), age.as_secs_f64());
            let Some(space) = usage.file_system.space else {
                continue;
            };
            // A file system that reports size 0 has no limit and gets no estimate.
            if space.is_unlimited() || age > response_ttl(interval) {
                continue;
            }
            let forecast = self.fill_forecasts.entry(mount.device).or_default();
            if age < interval {
                forecast.add(usage.sampled_at.uptime, space.avail, space.size);
            }
            out.integer(&m::FILESYSTEM_SIZE, labels(), space.size);
            out.integer(&m::FILESYSTEM_AVAIL, labels(), space.avail);
            let until_full = forecast.seconds_until_full();
            out.real(&m::FILESYSTEM_UNTIL_FULL, labels(), until_full);
            if let Some((total, free)) = space.inodes {
                out.integer(&m::FILESYSTEM_INODES, labels(), total);
                out.integer(&m::FILESYSTEM_INODES_FREE, labels(), free);
            }
            // A mount of the daemon may be read-only only for the daemon (ProtectSystem, a
            // container).
            if usage.file_system.is_process_mount {
                out.flag(&m::FILESYSTEM_READ_ONLY, labels(), mount.is_read_only());
            }
        }
    }

    /// True if no folder has a problem other than `Forbidden`, and at least one folder is known or
    /// relative. Folders that are left out do not count. Also true without folders.
    pub fn is_up(&self) -> bool {
        let any_known = self.folder_polls.is_empty()
            || self
                .folder_polls
                .iter()
                .any(|poll| poll.last_result.is_ok() || poll.folder.path.is_relative());
        any_known
            && self
                .unavailable()
                .all(|folder| folder.kind == ProblemKind::Forbidden || folder.reason == LEFT_OUT)
    }

    pub fn problems(&self) -> impl Iterator<Item = Problem> {
        self.unavailable().map(|unavailable| {
            let Folder { purpose, path } = &unavailable.folder;
            let (path, why) = (faultline_text::path(path), unavailable.reason);
            let remedy = unavailable
                .remedy
                .map_or_else(String::new, |remedy| format!("; {remedy}"));
            Problem::new(unavailable.kind, format!("{purpose} {path}: {why}{remedy}"))
        })
    }

    pub fn unavailable(&self) -> impl Iterator<Item = UnavailableFolder> {
        let left_out = (
            ProblemKind::Absent,
            LEFT_OUT,
            Some("at most 12 folders on 5 file systems have series"),
        );
        let devices = devices(&self.usages());
        let polls = self.folder_polls.iter().enumerate();
        polls.filter_map(move |(index, poll)| {
            let (kind, reason, remedy) = match (&poll.pending_call, &poll.last_result) {
                _ if index >= MAX_FOLDERS => left_out,
                (Some(_), _) => (ProblemKind::Broken, UNRESPONSIVE_FILE_SYSTEM, None),
                _ if poll.folder.path.is_relative() => (
                    ProblemKind::Forbidden,
                    "relative, and the daemon may not read the working directory",
                    Some("run it as the validator's user, or use absolute paths"),
                ),
                (None, Err(FileSystemError::Absent)) => (
                    ProblemKind::Absent,
                    "on no file system that the daemon can see",
                    Some("in a container, mount it under the same path"),
                ),
                (None, Err(FileSystemError::Forbidden)) => (
                    ProblemKind::Forbidden,
                    "the daemon may not search a parent folder, so the file system of the folder is unknown",
                    Some("run it as the validator's user, or let it search (setfacl -m u:USER:x)"),
                ),
                (None, Ok((system, _))) if system.space.is_none() => (
                    ProblemKind::Broken,
                    "its file system does not report its size",
                    None,
                ),
                (None, Ok((system, _))) if !devices.contains(&system.mount.device) => {
                    left_out
                },
                _ => return None,
            };
            Some(UnavailableFolder {
                folder: poll.folder.clone(),
                kind,
                reason,
                remedy,
            })
        })
    }
}

fn devices(usages: &[FileSystemUsage]) -> Vec<Device> {
    usages
        .iter()
        .map(|usage| usage.file_system.mount.device)
        .collect()
}

/// Samples once, as the source does. May block: call it only from a thread or task for which
/// nothing waits.
///
/// # Errors
/// The process's arguments or mounts are unreadable, as after its end.
pub async fn inspect(
    root: &HostRoot,
    target: &Target,
    clock: Clock,
) -> Result<(Vec<FileSystemUsage>, Vec<UnavailableFolder>)> {
    let pid = Some(target.process.pid);
    let (folders_and_ports, mounts) =
        (FoldersAndPorts::of(root, target)?, Mounts::read(root, pid)?);
    let mut systems = FileSystems::default();
    systems.set_folders(folders_and_ports.folders);
    systems
        .poll_folders(root, pid, &Arc::new(mounts), clock)
        .await;
    Ok((systems.usages(), systems.unavailable().collect()))
}
