//! The file system of a process's folder, and its free space.

use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::io::Errno;

pub use crate::location::Space;
use crate::{
    HostRoot, ProcessFiles, Result,
    location::{Location, locate_folder, mount_of, open_below, open_root, space},
    parse::mountinfo::{self, Mount},
};

#[derive(Debug, Default)]
pub struct Mounts {
    /// The process's mounts, perhaps from before the process ended; empty if unknown.
    pub process: Vec<Mount>,
    pub reader: Vec<Mount>,
}

impl Mounts {
    /// Needs no privilege. `Gone` if all threads of the process have ended.
    pub fn read(root: &HostRoot, pid: Option<u32>) -> Result<Self> {
        let process = pid
            .map(|pid| ProcessFiles::open(root, pid)?.mounts())
            .transpose()?
            .unwrap_or_default();
        Ok(Self {
            process,
            reader: root.read_proc("self/mountinfo", mountinfo::parse)?,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    pub mount: Mount,
    /// False if the process's mounts are unknown: `mount` is then the reader's, whose options may
    /// differ.
    pub is_process_mount: bool,
    pub space: Option<Space>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FileSystemError {
    /// The reader may not search a folder of the path. A link in that folder may lead elsewhere.
    Forbidden,
    Absent,
}

/// Finds the file system of `folder`, an absolute path of the process, and its free space.
///
/// Blocks as long as the file system does, forever if its server is gone. Tries the process's root,
/// which only its user or root can open, then the same path in the reader's root if it leads to the
/// same file system. If both fail, as for a folder that does not exist yet, the folder's name
/// decides which mount it is on.
pub fn find_file_system(
    root: &HostRoot,
    pid: Option<u32>,
    folder: &Path,
    mounts: &Mounts,
) -> Result<FileSystem, FileSystemError> {
    let with_space = |mount, opened| {
        Ok(FileSystem {
            mount,
            is_process_mount: !mounts.process.is_empty(),
            space: space(&opened),
        })
    };
    let process_view = pid.map_or(Err(FileSystemError::Absent), |pid| {
        open_folder(&root_of(root, &pid.to_string()), folder, &mounts.process)
    });
    if let Ok((mount, opened)) = process_view {
        return with_space(mount, opened);
    }
    let reader_view = open_folder(&root_of(root, "self"), folder, &mounts.reader);
    let is_forbidden = [&process_view, &reader_view]
        .into_iter()
        .any(|result| matches!(result, Err(FileSystemError::Forbidden)));
    if let Ok((seen, opened)) = reader_view
        && let Some(mount) = process_mount_of(&seen, folder, mounts)
    {
        return with_space(mount, opened);
    }
    let known = if mounts.process.is_empty() {
        &mounts.reader
    } else {
        &mounts.process
    };
    let mount_by_name = mountinfo::mount_of_path(known, folder).ok_or(FileSystemError::Absent)?;
    // A mount point is not a link.
    if is_forbidden && mount_by_name.mount_point != folder {
        return Err(FileSystemError::Forbidden);
    }
    let (mount, opened) = open_by_name(&root_of(root, "self"), mount_by_name, mounts)
        .ok_or(FileSystemError::Absent)?;
    with_space(mount, opened)
}

/// Mount and free space of a process's folder, through the roots that [`find_file_system`] tries.
pub fn location_of(root: &HostRoot, pid: u32, folder: &Path, mounts: &Mounts) -> Option<Location> {
    let process_view = locate_folder(&root_of(root, &pid.to_string()), folder, &mounts.process)?;
    if process_view.space.is_some() {
        return Some(process_view);
    }
    let reader_view =
        locate_folder(&root_of(root, "self"), folder, &mounts.reader).and_then(|view| {
            Some(Location {
                space: Some(view.space?),
                mount: process_mount_of(&view.mount, folder, mounts)?,
            })
        });
    Some(reader_view.unwrap_or(process_view))
}

fn root_of(root: &HostRoot, process: &str) -> PathBuf {
    root.procfs.join(process).join("root")
}

fn open_folder(
    root: &Path,
    folder: &Path,
    mounts: &[Mount],
) -> Result<(Mount, OwnedFd), FileSystemError> {
    let top = open_root(root).map_err(|_| FileSystemError::Absent)?;
    let opened = open_below(&top, folder).map_err(|errno| match errno {
        Errno::ACCESS => FileSystemError::Forbidden,
        _ => FileSystemError::Absent,
    })?;
    let mount = mount_of(&opened, mounts)
        .or_else(|| mountinfo::mount_of_path(mounts, folder))
        .ok_or(FileSystemError::Absent)?;
    Ok((mount.clone(), opened))
}

/// The process's mount of the file system that the reader sees as `seen`; `seen` itself if the
/// process's mounts are unknown. `None` if the path leads the process to another file system, as in
/// a container.
fn process_mount_of(seen: &Mount, folder: &Path, mounts: &Mounts) -> Option<Mount> {
    if mounts.process.is_empty() {
        return Some(seen.clone());
    }
    let process_mount = mountinfo::mount_of_path(&mounts.process, folder)?;
    let reader_mount = mountinfo::mount_of_path(&mounts.reader, folder)?;
    if reader_mount.device != process_mount.device {
        return None;
    }
    // A link may lead to another mount than the folder's name.
    let is_same_device = |mount: &&Mount| mount.device == seen.device;
    let mount = Some(process_mount)
        .filter(is_same_device)
        .or_else(|| mounts.process.iter().find(is_same_device))?;
    Some(with_current_options(mount, seen))
}

/// Opens the file system of the process's `mount` through one of the reader's mounts.
fn open_by_name(root: &Path, mount: &Mount, mounts: &Mounts) -> Option<(Mount, OwnedFd)> {
    let candidates = mounts
        .reader
        .iter()
        .filter(|seen| seen.device == mount.device);
    let mut mount_points: Vec<&PathBuf> = candidates.map(|seen| &seen.mount_point).collect();
    // The same path first, then others: a later mount may hide the first.
    mount_points.sort_by_key(|path| **path != mount.mount_point);
    let top = open_root(root).ok()?;
    mount_points.iter().find_map(|path| {
        let opened = open_below(&top, path).ok()?;
        let seen = mount_of(&opened, &mounts.reader).filter(|seen| seen.device == mount.device)?;
        Some((with_current_options(mount, seen), opened))
    })
}

fn with_current_options(mount: &Mount, seen: &Mount) -> Mount {
    Mount {
        super_options: seen.super_options.clone(),
        ..mount.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_reports_statvfs_space_and_its_mount_options() {
        let root = HostRoot::default();
        let mounts = Mounts::read(&root, Some(std::process::id())).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let found =
            find_file_system(&root, Some(std::process::id()), folder.path(), &mounts).unwrap();
        let stat = rustix::fs::statvfs(folder.path()).unwrap();
        assert_eq!(
            found.space.map(|space| space.size),
            Some(stat.f_blocks * stat.f_frsize)
        );
        assert_eq!(
            Some(&found.mount),
            mountinfo::mount_of_path(&mounts.reader, folder.path())
        );
        assert!(!found.mount.is_read_only());
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a process for the time of this test"
    )]
    fn the_mounts_of_a_zombie_are_gone() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let (root, pid) = (HostRoot::default(), child.id());
        let is_zombie = || {
            let stat = ProcessFiles::open(&root, pid)
                .unwrap()
                .stat(&mut Vec::new());
            stat.unwrap().all_threads_ended()
        };
        while !is_zombie() {
            std::thread::yield_now();
        }
        let error = Mounts::read(&root, Some(pid)).unwrap_err();
        child.wait().unwrap();
        assert_eq!(error.kind(), crate::ErrorKind::Gone, "{error}");
    }

    #[test]
    fn without_root_access_the_file_system_is_found_by_own_path() {
        let root = HostRoot::default();
        let own = Mounts::read(&root, None).unwrap().reader;
        // In another namespace, mounts have other ids.
        let process = own.iter().cloned().map(|mount| Mount {
            id: mount.id + 10_000,
            parent: mount.parent + 10_000,
            ..mount
        });
        let mounts = Mounts {
            process: process.collect(),
            reader: own,
        };
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("real")).unwrap();
        let link = folder.path().join("ledger");
        std::os::unix::fs::symlink(folder.path().join("real"), &link).unwrap();
        // No process has this number.
        for path in [&link, &folder.path().join("not/made/yet")] {
            let found = find_file_system(&root, Some(u32::MAX), path, &mounts).unwrap();
            assert!(
                found.mount.id > 10_000 && found.space.is_some(),
                "{found:?}"
            );
        }
    }

    #[test]
    fn free_space_is_reported_without_access_to_the_process_root() {
        let (root, folder) = (HostRoot::default(), tempfile::tempdir().unwrap());
        let own = Mounts::read(&root, None).unwrap().reader;
        // As under PrivateMounts=, where the reader has the same mounts under other numbers.
        let process = own.iter().cloned().map(|mount| Mount {
            id: mount.id + 10_000,
            parent: mount.parent + 10_000,
            ..mount
        });
        let mounts = Mounts {
            process: process.collect(),
            reader: own,
        };
        // No process has this number.
        let found = location_of(&root, u32::MAX, folder.path(), &mounts).unwrap();
        assert!(found.mount.id > 10_000, "{found:?}");
        let stat = rustix::fs::statvfs(folder.path()).unwrap();
        assert_eq!(
            found.space.map(|space| space.size),
            Some(stat.f_blocks * stat.f_frsize)
        );
        let nowhere = folder.path().join("not/made/yet");
        let found = location_of(&root, u32::MAX, &nowhere, &mounts).unwrap();
        assert!(
            found.mount.id > 10_000 && found.space.is_none(),
            "by its name: {found:?}"
        );
    }

    #[test]
    fn a_folder_without_a_mount_is_absent() {
        let root = HostRoot::default();
        let nowhere = |folder| find_file_system(&root, None, Path::new(folder), &Mounts::default());
        assert_eq!(
            [nowhere("/no/such/folder"), nowhere("ledger")],
            [const { Err(FileSystemError::Absent) }; 2]
        );
    }

    /// The same mounts for both processes, but `change` alters the reader's mounts of the device.
    fn seen(folder: &Path, change: impl Fn(Mount) -> Mount) -> Mounts {
        let own = Mounts::read(&HostRoot::default(), None).unwrap().reader;
        let device = mountinfo::mount_of_path(&own, folder).unwrap().device;
        let change = |mount: Mount| {
            if mount.device == device {
                change(mount)
            } else {
                mount
            }
        };
        Mounts {
            process: own.clone(),
            reader: own.into_iter().map(change).collect(),
        }
    }

    #[test]
    fn an_exited_process_keeps_its_mount_without_this_processes_options() {
        let (root, folder) = (HostRoot::default(), tempfile::tempdir().unwrap());
        // As under ProtectSystem=strict: the reader cannot write, the process that ended could.
        let mut mounts = seen(folder.path(), |mount| Mount {
            options: "ro,relatime".into(),
            ..mount
        });
        let found = find_file_system(&root, None, folder.path(), &mounts).unwrap();
        assert!(
            found.is_process_mount && !found.mount.is_read_only(),
            "{found:?}"
        );
        mounts.process.clear();
        assert!(
            !find_file_system(&root, None, folder.path(), &mounts)
                .unwrap()
                .is_process_mount,
            "nothing is known of a process"
        );
        // The kernel made the file system read-only for all processes, so the process ended.
        let mounts = seen(folder.path(), |mount| Mount {
            super_options: "rw,emergency_ro".into(),
            ..mount
        });
        assert!(
            find_file_system(&root, None, folder.path(), &mounts)
                .unwrap()
                .mount
                .is_read_only()
        );
    }

    #[test]
    fn the_same_name_of_another_file_system_is_not_the_folder() {
        let (root, folder) = (HostRoot::default(), tempfile::tempdir().unwrap());
        let mut mounts = seen(folder.path(), |mount| mount);
        // In the process's container, another file system is mounted over the folder. This process
        // does not see that mount.
        let above = mountinfo::mount_of_path(&mounts.process, folder.path())
            .unwrap()
            .clone();
        let device = crate::parse::cgroup::Device {
            major: 4_000,
            minor: 1,
        };
        let over = Mount {
            id: 99_999,
            parent: above.id,
            device,
            mount_point: folder.path().to_owned(),
            ..above
        };
        mounts.process.push(over);
        assert_eq!(
            find_file_system(&root, None, folder.path(), &mounts),
            Err(FileSystemError::Absent)
        );
    }

    #[test]
    fn an_unsearchable_folder_gives_an_error_not_a_guess() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mounts) = (
            folder.path().to_owned(),
            Mounts::read(&HostRoot::default(), None).unwrap(),
        );
        std::fs::create_dir(path.join("ledger")).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o000))
            .unwrap();
        let other = move || {
            // Changes the user of this thread only, because root may search every folder.
            if rustix::process::geteuid().is_root() {
                rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65_534)).unwrap();
            }
            let ask = |folder: &Path| {
                find_file_system(&HostRoot::default(), None, folder, &mounts)
                    .map(|found| found.is_process_mount)
            };
            (ask(&path.join("ledger")), ask(&path), ask(Path::new("/")))
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "another user for the time of this test"
        )]
        let found = std::thread::spawn(other).join().unwrap();
        assert_eq!(
            found,
            (Err(FileSystemError::Forbidden), Ok(false), Ok(false))
        );
    }
}
