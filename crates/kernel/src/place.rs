//! On which mount a folder lies, and how much room there is.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags};

use crate::parse::mountinfo::{self, Mount};

/// File systems whose server may keep a question waiting for ever.
const REMOTE: [&str; 9] = ["9p", "afs", "ceph", "cifs", "fuse", "nfs", "nfs4", "smb3", "virtiofs"];

/// Where a folder lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The mount that holds it.
    pub mount: Mount,
    /// Size of the file system and what others than root can still write, in bytes. `None` where the folder cannot be
    /// reached, and for file systems of other machines, which are not asked.
    pub room: Option<(u64, u64)>,
}

/// Finds `path`, as seen from `root` (such as `/proc/PID/root`), among `mounts`, those of the same process. Links are
/// followed inside of `root`. Where it cannot be reached, for lack of a right or because it does not exist yet, its name
/// alone tells. `None` if it is relative, or on no mount of the list.
#[must_use]
pub fn place(root: &Path, path: &Path, mounts: &[Mount]) -> Option<Place> {
    let by_name = mountinfo::holding(mounts, path)?;
    // To open a folder on another machine is to ask that machine.
    let opened = if is_remote(by_name) { None } else { enter(root).and_then(|top| open_below(&top, path)).ok() };
    let Some(folder) = opened else { return Some(Place { mount: by_name.clone(), room: None }) };
    let mount = mount_of(&folder, mounts).unwrap_or(by_name);
    Some(Place { mount: mount.clone(), room: if is_remote(mount) { None } else { room(&folder) } })
}

/// The mount that an open folder lies on (Linux 5.8).
pub(crate) fn mount_of<'a>(folder: &OwnedFd, mounts: &'a [Mount]) -> Option<&'a Mount> {
    let told = rustix::fs::statx(folder, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok();
    let id = told.filter(|told| told.stx_mask & StatxFlags::MNT_ID.bits() != 0)?.stx_mnt_id;
    mounts.iter().find(|mount| mount.id == id)
}

fn is_remote(mount: &Mount) -> bool {
    REMOTE.contains(&mount.fs_type.as_str()) || mount.fs_type.starts_with("fuse.")
}

/// Opens the root of a process, for which the right to trace it is needed.
pub(crate) fn enter(root: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(CWD, root, OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY, Mode::empty())
}

pub(crate) fn open_below(top: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat2(top, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::IN_ROOT)
}

/// The same below this process's own root, where links lead nowhere else: without openat2, which systemd's `RestrictSUIDSGID=`
/// answers as if the kernel did not have it.
pub(crate) fn open_own(top: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let path = path.strip_prefix("/").unwrap_or(path);
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    rustix::fs::openat(top, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

fn room(folder: &OwnedFd) -> Option<(u64, u64)> {
    let told = rustix::fs::fstatvfs(folder).ok()?;
    Some((told.f_blocks.checked_mul(told.f_frsize)?, told.f_bavail.checked_mul(told.f_frsize)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &[u8] = b"1 0 259:1 / / rw - ext4 /dev/nvme0n1p1 rw\n\
        2 1 0:77 / /far rw - nfs4 server:/export rw\n\
        3 1 259:2 / /mnt/ledger rw - xfs /dev/nvme1n1 rw\n";

    #[test]
    fn a_folder_that_cannot_be_reached_is_placed_by_its_name() {
        let mounts = mountinfo::parse(MOUNTS).unwrap();
        let nowhere = Path::new("/no/such/root");
        let found = place(nowhere, Path::new("/mnt/ledger/rocksdb"), &mounts).unwrap();
        assert_eq!((found.mount.id, found.room), (3, None));
        assert_eq!(place(nowhere, Path::new("ledger"), &mounts), None);
        assert_eq!(place(nowhere, Path::new("/mnt"), &[]), None);
    }

    #[test]
    fn another_machines_file_system_is_not_asked() {
        let mounts = mountinfo::parse(MOUNTS).unwrap();
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("far")).unwrap();
        let found = place(root.path(), Path::new("/far"), &mounts).unwrap();
        assert_eq!((found.mount.id, found.room), (2, None));
    }

    #[test]
    fn a_link_is_followed_inside_of_the_given_root_and_the_room_is_told() {
        let own = crate::HostRoot::default().read_proc("self/mountinfo", mountinfo::parse).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("data")).unwrap();
        // Absolute: it leads to a place below the given root, not below this test's.
        std::os::unix::fs::symlink("/data", folder.path().join("ledger")).unwrap();
        let found = place(folder.path(), Path::new("/ledger"), &own).unwrap();
        let expected = place(Path::new("/"), folder.path(), &own).unwrap();
        assert_eq!(found.mount, expected.mount);
        assert!(found.room.is_some_and(|(size, free)| size > 0 && free <= size), "{found:?}");
    }
}
