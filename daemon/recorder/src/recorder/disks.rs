//! Warns if a recording shares a disk with the validator's ledger or accounts.

use faultline_agave::identify::option_values;
use faultline_core::config::TargetSelector;
use faultline_kernel::{HostRoot, ProcessFiles, parse::mountinfo};
use faultline_sources::discovery::Target;
use rustix::fs::{major, minor, stat};
use std::{
    collections::BTreeSet,
    ffi::OsStr,
    iter,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

pub struct ValidatorFolder {
    /// `ledger` or `accounts`.
    pub role: &'static str,
    /// As the process `pid` sees it.
    pub path: PathBuf,
    /// `None`: the daemon's own process.
    pub pid: Option<u32>,
}

pub fn configured_folders(selector: &TargetSelector) -> Vec<ValidatorFolder> {
    match selector {
        TargetSelector::Ledger(ledger) => folders(ledger.clone(), iter::empty(), None),
        _ => Vec::new(),
    }
}

pub fn process_folders(root: &HostRoot, target: &Target) -> Vec<ValidatorFolder> {
    let (Some(_), Some(ledger)) = (&target.validator, &target.ledger) else {
        return Vec::new();
    };
    let pid = target.process.pid;
    let files = ProcessFiles::open(root, pid).ok();
    let Some(files) = files.filter(|files| files.id() == target.process) else {
        return Vec::new();
    };
    let arguments = files.cmdline().unwrap_or_default();
    let working_folder = files.cwd().ok();
    // A relative path needs the process's working directory.
    let absolute = |path: &Path| {
        working_folder
            .as_ref()
            .map_or(path.to_owned(), |folder| folder.join(path))
    };
    let accounts = accounts_paths(&arguments)
        .into_iter()
        .map(absolute)
        .filter(|path| path.is_absolute());
    folders(ledger.clone(), accounts, Some(pid))
}

/// The ledger and the folders of accounts. By default a validator stores accounts in the ledger.
fn folders(
    ledger: PathBuf,
    accounts: impl Iterator<Item = PathBuf>,
    pid: Option<u32>,
) -> Vec<ValidatorFolder> {
    let all = iter::once(("ledger", ledger)).chain(accounts.map(|path| ("accounts", path)));
    all.map(|(role, path)| ValidatorFolder { role, path, pid })
        .collect()
}

fn accounts_paths<S: AsRef<OsStr>>(arguments: &[S]) -> Vec<&Path> {
    option_values(arguments, &["--accounts"])
        .into_iter()
        .flat_map(|paths| paths.as_bytes().split(|byte| *byte == b','))
        .map(|path| Path::new(OsStr::from_bytes(path)))
        .collect()
}

/// One sentence per folder that shares a file system or disk with the recording. Skips unreadable
/// folders.
pub fn shared_disk_warnings(
    root: &HostRoot,
    recording: &Path,
    folders: &[ValidatorFolder],
) -> Vec<String> {
    let absolute = std::path::absolute(recording).unwrap_or_else(|_| recording.to_owned());
    let Some(recording_disks) = absolute
        .parent()
        .and_then(|folder| FolderDisks::of(root, folder, None))
    else {
        return Vec::new();
    };
    let sentence = |folder: &ValidatorFolder| {
        let folder_disks = FolderDisks::of(root, &folder.path, folder.pid)?;
        let shared = recording_disks.shared(&folder_disks)?;
        let path = faultline_text::path(&folder.path);
        let (role, recording) = (folder.role, recording.display());
        Some(format!(
            "the recording {recording} lies {shared} as the validator's {role} {path}: its writes can delay those of the validator; put it on another disk"
        ))
    };
    folders.iter().filter_map(sentence).collect()
}

struct FolderDisks {
    device: u64,
    /// Kernel names of the file system's disks; empty if it has none.
    disks: BTreeSet<String>,
}

impl FolderDisks {
    fn of(root: &HostRoot, folder: &Path, pid: Option<u32>) -> Option<Self> {
        let visible_path = match pid {
            Some(pid) => root
                .procfs
                .join(format!("{pid}/root"))
                .join(folder.strip_prefix("/").ok()?),
            None => folder.to_owned(),
        };
        let device = stat(&visible_path).ok()?.st_dev;
        let mut block_device = device;
        if major(device) == 0
            && let Some(source) = mount_source(root, folder, pid)
            && let Ok(status) = stat(source)
        {
            block_device = status.st_rdev;
        }
        let number = format!("{}:{}", major(block_device), minor(block_device));
        let path = root.sysfs.join("dev/block").join(number);
        let mut disks = BTreeSet::new();
        add_disks(&path, &mut disks, 0);
        Some(Self { device, disks })
    }

    /// What both share, as words between "lies" and "as".
    fn shared(&self, other: &Self) -> Option<String> {
        if self.device == other.device {
            return Some("in the same file system".to_owned());
        }
        let disk = self.disks.intersection(&other.disks).next()?;
        Some(format!("on the same disk ({disk})"))
    }
}

/// The source of the mount that contains the folder. With btrfs, this is the block device, which
/// no device number of a file identifies. `None` if the source is no path.
fn mount_source(root: &HostRoot, folder: &Path, pid: Option<u32>) -> Option<PathBuf> {
    let process = pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
    let mounts = root
        .read_proc(&format!("{process}/mountinfo"), mountinfo::parse)
        .ok()?;
    let source = PathBuf::from(&mountinfo::mount_of_path(&mounts, folder)?.source);
    source.is_absolute().then_some(source)
}

/// Adds the disk of a partition, or the disks below a volume or an array (at most 8 levels).
fn add_disks(device_folder: &Path, disks: &mut BTreeSet<String>, depth: u32) {
    let Ok(folder) = device_folder.canonicalize() else {
        return;
    };
    let disk = if folder.join("partition").exists() {
        folder.parent().unwrap_or(&folder)
    } else {
        &folder
    };
    let lower_devices: Vec<PathBuf> = std::fs::read_dir(disk.join("slaves"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    if lower_devices.is_empty() || depth >= 8 {
        disks.extend(
            disk.file_name()
                .map(|name| name.to_string_lossy().into_owned()),
        );
    }
    if depth < 8 {
        lower_devices
            .iter()
            .for_each(|device| add_disks(device, disks, depth + 1));
    }
}

#[cfg(test)]
mod tests;
