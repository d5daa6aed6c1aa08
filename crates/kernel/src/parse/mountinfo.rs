use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use super::cgroup::Device;
use crate::{
    Parsed,
    text::{number, rows_after_headings, words},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    pub id: u64,
    /// Id of the parent mount. The parent of the topmost mount is not in the list.
    pub parent: u64,
    /// Major 0 if the file system has no block device number: tmpfs, overlay, btrfs. The
    /// `source` of a btrfs names its disk.
    pub device: Device,
    /// The mounted folder of the file system: `/`, except for bind mounts, subvolumes and mounted
    /// namespaces.
    pub root: PathBuf,
    pub mount_point: PathBuf,
    /// The options of this mount, such as `rw,noatime`.
    pub options: String,
    pub fs_type: String,
    /// Such as `/dev/nvme0n1p1`; any word for file systems without a device.
    pub source: String,
    /// The options of the file system, such as `rw,memory`.
    pub super_options: String,
}

impl Mount {
    /// True also if errors made the kernel remount it read-only.
    pub fn is_read_only(&self) -> bool {
        let mut all = self.options.split(',').chain(self.super_options.split(','));
        all.any(|option| option == "ro" || option == "emergency_ro")
    }

    pub fn has_super_option(&self, name: &str) -> bool {
        self.super_options.split(',').any(|option| option == name)
    }
}

pub fn parse(text: &[u8]) -> Parsed<Vec<Mount>> {
    rows_after_headings(text, 0, "expected a mount", |line| mount(line).map(Some))
}

/// The mount of `path`, which must be absolute and without links. `None` if the list has no topmost
/// mount, or `path` is relative.
///
/// Walks down as the kernel does, because a later mount may hide an earlier one.
pub fn mount_of_path<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let is_top = |mount: &&Mount| {
        mount.mount_point == Path::new("/")
            && !mounts
                .iter()
                .any(|other| other.id == mount.parent && other != *mount)
    };
    let mut current = mounts.iter().rfind(is_top).filter(|_| path.is_absolute())?;
    // Bounded, because a malformed list might have a cycle.
    for _ in 0..mounts.len() {
        let leads_to_path = |mount: &&Mount| {
            mount.parent == current.id
                && mount.id != current.id
                && path.starts_with(&mount.mount_point)
        };
        // The shortest path first. At one mount point the last mount covers the others.
        let depth = |mount: &&Mount| mount.mount_point.components().count();
        match mounts.iter().rev().filter(leads_to_path).min_by_key(depth) {
            Some(next) => current = next,
            None => break,
        }
    }
    Some(current)
}

fn mount(line: &[u8]) -> Option<Mount> {
    // A lone hyphen ends the optional fields.
    let hyphen = memchr::memmem::find(line, b" - ")?;
    let mut words = words(line.get(..hyphen)?);
    // Two spaces are an empty field: the source may be empty.
    let mut rest = line.get(hyphen + 3..)?.split(|&byte| byte == b' ');
    Some(Mount {
        id: number(words.next()?)?,
        parent: number(words.next()?)?,
        device: Device::parse(words.next()?)?,
        root: unescape(words.next()?),
        mount_point: unescape(words.next()?),
        options: String::from_utf8_lossy(words.next()?).into_owned(),
        fs_type: String::from_utf8_lossy(rest.next()?).into_owned(),
        source: unescape(rest.next()?).to_string_lossy().into_owned(),
        super_options: String::from_utf8_lossy(rest.next()?).into_owned(),
    })
}

/// Spaces, tabs, newlines and backslashes are octal escapes.
pub(super) fn unescape(word: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&byte, after)) = rest.split_first() {
        let octal = after.split_at_checked(3).filter(|_| byte == b'\\');
        let unescaped = octal.and_then(|(digits, after)| Some((octal_byte(digits)?, after)));
        let (byte, after) = unescaped.unwrap_or((byte, after));
        plain.push(byte);
        rest = after;
    }
    PathBuf::from(OsString::from_vec(plain))
}

fn octal_byte(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_captured_hybrid_host_shows_both_cgroup_versions() {
        let mounts = parse(include_bytes!("../../tests/text/linux-6.18/mountinfo")).unwrap();
        let memory = mounts
            .iter()
            .find(|mount| mount.fs_type == "cgroup" && mount.has_super_option("memory"))
            .unwrap();
        assert_eq!(memory.mount_point, PathBuf::from("/sys/fs/cgroup/memory"));
        let unified = mounts
            .iter()
            .find(|mount| mount.fs_type == "cgroup2")
            .unwrap();
        assert_eq!(unified.mount_point, PathBuf::from("/sys/fs/cgroup/unified"));
    }

    #[test]
    fn optional_fields_and_escaped_spaces_are_parsed() {
        let line = br"36 35 98:0 /mnt1 /mnt\0402 rw,noatime master:1 shared:2 - cgroup2 /dev/root rw,nsdelegate";
        let mounts = parse(line).unwrap();
        assert_eq!(mounts[0].root, PathBuf::from("/mnt1"));
        assert_eq!(mounts[0].mount_point, PathBuf::from("/mnt 2"));
        assert!(
            mounts[0].has_super_option("nsdelegate") && !mounts[0].has_super_option("delegate")
        );
    }

    #[test]
    fn a_mountinfo_line_without_its_second_half_is_an_error() {
        assert!(parse(b"36 35 98:0 / / rw,noatime master:1\n").is_err());
    }

    const SERVER: &str = "\
        1 0 0:2 / / rw - rootfs rootfs rw\n\
        30 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro\n\
        40 30 259:5 / /mnt/ledger rw,noatime shared:9 - xfs /dev/nvme1n1 rw,attr2,inode64,noquota\n\
        41 30 0:45 /@accounts /mnt/the\\040accounts rw,noatime - btrfs /dev/mapper/vg-data rw,subvolid=257,subvol=/@accounts\n\
        42 40 0:50 / /mnt/ledger/tmp rw - tmpfs  rw,size=1048576k\n";

    fn mount_id(path: &str) -> Option<u64> {
        let mounts = parse(SERVER.as_bytes()).unwrap();
        mount_of_path(&mounts, Path::new(path)).map(|mount| mount.id)
    }

    #[test]
    fn a_path_belongs_to_the_deepest_mount_above_it() {
        for (path, id) in [
            ("/", 30),
            ("/mnt/ledgers", 30),
            ("/mnt/ledger", 40),
            ("/mnt/ledger/rocksdb", 40),
        ] {
            assert_eq!(mount_id(path), Some(id), "{path}");
        }
        assert_eq!(mount_id("/mnt/the accounts/run"), Some(41));
        assert_eq!(mount_id("/mnt/ledger/tmp/x"), Some(42));
        assert_eq!(mount_id("mnt/ledger"), None);
        assert_eq!(mount_of_path(&[], Path::new("/")), None);
    }

    #[test]
    fn a_subvolume_mount_and_an_empty_source_are_parsed() {
        let mounts = parse(SERVER.as_bytes()).unwrap();
        let accounts = &mounts[3];
        assert_eq!(
            (accounts.device.major, accounts.source.as_str()),
            (0, "/dev/mapper/vg-data")
        );
        assert_eq!(
            (accounts.root.as_path(), accounts.options.as_str()),
            (Path::new("/@accounts"), "rw,noatime")
        );
        assert_eq!(
            (mounts[4].source.as_str(), mounts[4].super_options.as_str()),
            ("", "rw,size=1048576k")
        );
    }

    #[test]
    fn read_only_is_an_exact_mount_or_file_system_option() {
        let line =
            |own: &str, of_all: &str| format!("1 0 8:1 / / {own} - ext4 /dev/sda1 {of_all}\n");
        let read_only =
            |own, of_all| parse(line(own, of_all).as_bytes()).unwrap()[0].is_read_only();
        assert!(
            read_only("ro,noatime", "rw")
                && read_only("rw", "ro")
                && read_only("rw", "rw,emergency_ro")
        );
        assert!(!read_only("rw,root", "rw,errors=remount-ro"));
    }

    #[test]
    fn a_later_mount_hides_what_it_covers() {
        let text = format!(
            "{SERVER}50 30 0:60 / /mnt rw - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w\n"
        );
        let mounts = parse(text.as_bytes()).unwrap();
        assert_eq!(
            mount_of_path(&mounts, Path::new("/mnt/ledger/rocksdb")).map(|mount| mount.id),
            Some(50)
        );
        let again = format!("{SERVER}51 40 259:7 / /mnt/ledger rw - ext4 /dev/sdb rw\n");
        let mounts = parse(again.as_bytes()).unwrap();
        assert_eq!(
            mount_of_path(&mounts, Path::new("/mnt/ledger/rocksdb")).map(|mount| mount.id),
            Some(51)
        );
    }

    #[test]
    fn a_cycle_of_mounts_terminates() {
        let text = b"1 2 8:1 / / rw - ext4 a rw\n2 1 8:2 / / rw - ext4 b rw\n3 9 8:3 / / rw - ext4 c rw\n4 3 8:1 / /a rw - ext4 d rw\n3 4 8:1 / /a rw - ext4 d rw\n";
        let mounts = parse(text).unwrap();
        let _ = mount_of_path(&mounts, Path::new("/a/b"));
    }
}
