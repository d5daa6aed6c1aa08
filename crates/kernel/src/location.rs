use std::{
    ffi::OsStr,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Component, Path},
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxFlags},
    io::Errno,
};

use crate::parse::mountinfo::{self, Mount};

/// File systems whose server may block a call forever.
const REMOTE_FILE_SYSTEMS: [&str; 9] = [
    "9p", "afs", "ceph", "cifs", "fuse", "nfs", "nfs4", "smb3", "virtiofs",
];

/// Maximum symbolic links in one path: the kernel's limit.
const MAX_LINKS: u32 = 40;
/// Maximum folders in one path. Each needs a descriptor until the last one is found.
const MAX_FOLDERS: usize = 128;

/// `avail` is for users other than root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// In bytes.
    pub size: u64,
    /// In bytes.
    pub avail: u64,
    /// Total and free inodes; `None` if they are allocated dynamically (btrfs) or not reported.
    pub inodes: Option<(u64, u64)>,
}

impl Space {
    /// Whether the file system reports size 0, as pseudo file systems and in-memory ones without a
    /// limit do.
    pub fn is_unlimited(&self) -> bool {
        self.size == 0
    }
}

#[derive(Debug, PartialEq)]
pub struct Location {
    pub mount: Mount,
    /// `None` if the folder cannot be reached, and for remote file systems.
    pub space: Option<Space>,
}

/// Finds the mount of `path`, as seen from `root` (such as `/proc/PID/root`), in `mounts` of the
/// same process. Follows links inside of `root`. For a path that cannot be reached or does not
/// exist yet, only its name decides. `None` for a relative path, or one on no mount of the list.
pub fn locate_folder(root: &Path, path: &Path, mounts: &[Mount]) -> Option<Location> {
    let by_name = mountinfo::mount_of_path(mounts, path)?;
    // Opening a remote folder would contact its server.
    let folder = if is_remote(by_name) {
        None
    } else {
        open_root(root).and_then(|top| open_below(&top, path)).ok()
    };
    let mount = folder.as_ref().and_then(|folder| mount_of(folder, mounts));
    let mount = mount.unwrap_or(by_name).clone();
    Some(Location {
        space: folder
            .as_ref()
            .filter(|_| !is_remote(&mount))
            .and_then(space),
        mount,
    })
}

pub fn mount_of<'a>(folder: &OwnedFd, mounts: &'a [Mount]) -> Option<&'a Mount> {
    let stat = rustix::fs::statx(folder, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok();
    let id = stat
        .filter(|stat| stat.stx_mask & StatxFlags::MNT_ID.bits() != 0)?
        .stx_mnt_id;
    mounts.iter().find(|mount| mount.id == id)
}

fn is_remote(mount: &Mount) -> bool {
    REMOTE_FILE_SYSTEMS.contains(&mount.fs_type.as_str()) || mount.fs_type.starts_with("fuse.")
}

/// Opens the root of a process; needs ptrace permission.
pub fn open_root(root: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(
        CWD,
        root,
        OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY,
        Mode::empty(),
    )
}

/// Opens `path` as if `top` were the root, safe against concurrent renames. Uses openat2 (Linux
/// 5.6), or one step per folder if the kernel is older or a seccomp filter refuses it. systemd's
/// `RestrictSUIDSGID=` returns ENOSYS like an older kernel, some container runtimes EPERM.
pub fn open_below(top: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    match open_at_once(top, path) {
        Err(Errno::NOSYS | Errno::PERM) => open_by_steps(top, path),
        opened => opened,
    }
}

fn open_at_once(top: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::openat2(top, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)
}

/// Never opens through a link: walks the text of each link from the folder that contains the link.
/// `..` leads to the previously entered folder, and stays in `top` at `top`.
fn open_by_steps(top: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let mut entered = Vec::new();
    let mut remaining = path.to_owned();
    let mut links = 0;
    loop {
        let mut steps = remaining.components();
        let Some(step) = steps.next() else { break };
        let mut rest = steps.as_path().to_owned();
        match step {
            Component::RootDir => entered.clear(),
            Component::ParentDir => drop(entered.pop()),
            Component::Normal(name) => {
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let next =
                    rustix::fs::openat(entered.last().unwrap_or(top), name, flags, Mode::empty())?;
                match FileType::from_raw_mode(rustix::fs::fstat(&next)?.st_mode) {
                    FileType::Symlink if links < MAX_LINKS => {
                        links += 1;
                        let text = rustix::fs::readlinkat(&next, c"", Vec::new())?;
                        rest = Path::new(OsStr::from_bytes(text.as_bytes())).join(rest);
                    }
                    FileType::Symlink => return Err(Errno::LOOP),
                    FileType::Directory if entered.len() < MAX_FOLDERS => entered.push(next),
                    FileType::Directory => return Err(Errno::NAMETOOLONG),
                    _ if rest.as_os_str().is_empty() => return Ok(next),
                    _ => return Err(Errno::NOTDIR),
                }
            }
            Component::CurDir | Component::Prefix(_) => {}
        }
        remaining = rest;
    }
    entered.pop().map_or_else(
        || rustix::fs::openat(top, c".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()),
        Ok,
    )
}

pub fn space(folder: &OwnedFd) -> Option<Space> {
    let stat = rustix::fs::fstatvfs(folder).ok()?;
    Some(Space {
        size: stat.f_blocks.checked_mul(stat.f_frsize)?,
        avail: stat.f_bavail.checked_mul(stat.f_frsize)?,
        inodes: (stat.f_files > 0).then_some((stat.f_files, stat.f_favail)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &[u8] = b"1 0 259:1 / / rw - ext4 /dev/nvme0n1p1 rw\n\
        2 1 0:77 / /far rw - nfs4 server:/export rw\n\
        3 1 259:2 / /mnt/ledger rw - xfs /dev/nvme1n1 rw\n";

    #[test]
    fn an_unreachable_folder_is_matched_to_a_mount_by_path() {
        let mounts = mountinfo::parse(MOUNTS).unwrap();
        let nowhere = Path::new("/no/such/root");
        let found = locate_folder(nowhere, Path::new("/mnt/ledger/rocksdb"), &mounts).unwrap();
        assert_eq!((found.mount.id, found.space), (3, None));
        assert_eq!(locate_folder(nowhere, Path::new("ledger"), &mounts), None);
        assert_eq!(locate_folder(nowhere, Path::new("/mnt"), &[]), None);
    }

    #[test]
    fn a_network_file_system_is_not_queried() {
        let mounts = mountinfo::parse(MOUNTS).unwrap();
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("far")).unwrap();
        let found = locate_folder(root.path(), Path::new("/far"), &mounts).unwrap();
        assert_eq!((found.mount.id, found.space), (2, None));
    }

    #[test]
    fn a_link_is_resolved_inside_the_root_and_free_space_reported() {
        let own = crate::HostRoot::default()
            .read_proc("self/mountinfo", mountinfo::parse)
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("data")).unwrap();
        // An absolute link leads below the given root, and not below the root of this test.
        std::os::unix::fs::symlink("/data", folder.path().join("ledger")).unwrap();
        let found = locate_folder(folder.path(), Path::new("/ledger"), &own).unwrap();
        let expected = locate_folder(Path::new("/"), folder.path(), &own).unwrap();
        assert_eq!(found.mount, expected.mount);
        assert!(
            found
                .space
                .is_some_and(|space| space.size > 0 && space.avail <= space.size),
            "{found:?}"
        );
    }

    /// The results of both methods to open a path.
    fn both(top: &OwnedFd, path: &str) -> [rustix::io::Result<(u64, u64)>; 2] {
        [open_at_once, open_by_steps].map(|open| {
            let stat = rustix::fs::fstat(&open(top, Path::new(path))?)?;
            Ok((stat.st_dev, stat.st_ino))
        })
    }

    #[test]
    fn path_resolution_matches_the_kernel_and_stays_inside_the_root() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/file"), "").unwrap();
        std::fs::create_dir(folder.path().join("outside")).unwrap();
        for (link, to) in [
            ("absolute", "/a/b"),
            ("relative", "a/../a/./b"),
            ("up", "../../../../outside"),
            ("a/b/back", "../.."),
            ("chain", "a/b/back/absolute"),
            ("loop", "loop"),
            ("nowhere", "/not/there"),
            ("to_file", "/a/file"),
        ] {
            std::os::unix::fs::symlink(to, root.join(link)).unwrap();
        }
        let top = open_root(&root).unwrap();
        if matches!(open_at_once(&top, Path::new("/")), Err(Errno::NOSYS)) {
            eprintln!("skipped: no openat2 here");
            return;
        }
        let there = [
            "/",
            ".",
            "a",
            "/a/b",
            "absolute",
            "relative",
            "chain",
            "a/b/back",
            "to_file",
            "/..",
            "../a",
            "a/../../a",
        ];
        for path in there {
            let [kernels, steps] = both(&top, path);
            assert!(
                kernels.is_ok() && kernels == steps,
                "{path}: {kernels:?}, {steps:?}"
            );
        }
        for path in [
            "up",
            "/../outside",
            "loop",
            "nowhere",
            "a/file/x",
            "to_file/..",
            "not/there",
        ] {
            let [kernels, steps] = both(&top, path);
            assert!(
                kernels.is_err() && kernels == steps,
                "{path}: {kernels:?}, {steps:?}"
            );
        }
    }

    #[test]
    fn resolving_many_links_or_folders_uses_bounded_descriptors() {
        let folder = tempfile::tempdir().unwrap();
        let deep: std::path::PathBuf = std::iter::repeat_n("d", MAX_FOLDERS + 1).collect();
        std::fs::create_dir_all(folder.path().join(&deep)).unwrap();
        let top = open_root(folder.path()).unwrap();
        assert_eq!(open_by_steps(&top, &deep).err(), Some(Errno::NAMETOOLONG));
        assert!(open_by_steps(&top, deep.parent().unwrap()).is_ok());
        std::os::unix::fs::symlink(".", folder.path().join("here")).unwrap();
        let links = |many| std::iter::repeat_n("here", many).collect::<std::path::PathBuf>();
        let opened = [40, 41].map(|many| open_by_steps(&top, &links(many)).err());
        assert_eq!(opened, [None, Some(Errno::LOOP)]);
        assert_eq!(
            open_at_once(&top, &links(41)).err(),
            Some(Errno::LOOP),
            "as many as the kernel follows"
        );
    }
}
