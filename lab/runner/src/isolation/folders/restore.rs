use super::{
    clear::{SkippedEntry, protection},
    names_without_marker_and_lock, open_marked,
};
use crate::isolation::{
    file_tree::{Folder, MAX_DEPTH, OpenResult, allocated_bytes, canonical_or_same, kind, os_str},
    launch::WithPath,
};
use anyhow::{Result, anyhow, bail};
use faultline_kernel::FileVersion;
use rustix::{
    fs::{
        Advice, AtFlags, FileType, Gid, Mode, OFlags, SeekFrom, Stat, Uid, chownat, fadvise,
        fchmod, fchown, fstatvfs, ftruncate, ioctl_ficlone, mkdirat, openat, readlinkat, seek,
        symlinkat, syncfs,
    },
    io::Errno,
};
use std::{
    ffi::{CStr, CString},
    fs::{File, FileTimes, Metadata},
    io::{self, Read},
    path::{Component, Path},
};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UserAndGroup {
    pub uid: u32,
    pub gid: u32,
}

impl UserAndGroup {
    fn ids(self) -> (Option<Uid>, Option<Gid>) {
        (Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid)))
    }
}

#[derive(Default)]
pub struct SourceSize {
    pub files: u64,
    /// Disk space in bytes.
    pub bytes: u64,
    /// Part of `bytes`: snapshot archives, which go to the snapshot folder if there is one.
    pub archive_bytes: u64,
    /// Sockets and the like, which are not copied.
    pub skipped: Vec<SkippedEntry>,
}

#[derive(Debug, Default)]
pub struct Restored {
    pub files: u64,
    /// Sum of the file lengths.
    pub bytes: u64,
    /// Entries that are not copied: sockets and the like, and existing keypairs and tower files.
    pub skipped: Vec<SkippedEntry>,
}

/// Fails if a symbolic link leads out of the folder, or part of it is on another mount.
pub fn measure(from: &Path) -> Result<SourceSize> {
    measure_source(&Folder::open(from)?)
}

/// Changes the owner of a marked folder, but not of its contents.
pub fn set_folder_owner(folder: &Path, owner: UserAndGroup) -> Result<()> {
    change_owner(&open_marked(folder)?, owner)
}

/// Copies `from` into the marked folder `ledger`, and snapshot archives into the marked folder
/// `snapshots` if given. The copies belong to `owner`. Returns after a sync and a check of all
/// lengths. Holes stay holes; reflinks are used where possible. Fails if a folder is not marked,
/// space is missing, a link leads out of `from`, or a file changed meanwhile. An existing keypair
/// or tower file stays; any other existing file or link of the same name is an error.
pub fn restore(
    from: &Path,
    ledger: &Path,
    snapshots: Option<&Path>,
    owner: Option<UserAndGroup>,
) -> Result<Restored> {
    let source = Folder::open(from)?;
    let measured = measure_source(&source)?;
    let ledger = open_marked(ledger)?;
    let snapshots = snapshots.map(open_marked).transpose()?;
    check_not_nested(&source, &ledger)?;
    check_free_bytes(&source, &measured, &ledger, snapshots.as_ref())?;
    let mut copier = Copier {
        snapshots: snapshots.as_ref(),
        owner,
        restored: Restored::default(),
    };
    copier.copy_folder(&source, &ledger, 0)?;
    for folder in [&ledger].into_iter().chain(&snapshots) {
        if let Some(owner) = owner {
            change_owner(folder, owner)?;
        }
        syncfs(&folder.fd).with_path(&folder.path)?;
    }
    Ok(copier.restored)
}

/// Fails if one folder contains the other: a copy into its own source would not end. The snapshot
/// folder may be in the source, because it gets only archives from the top of the source.
fn check_not_nested(source: &Folder, ledger: &Folder) -> Result<()> {
    let from = canonical_or_same(&source.path);
    let to = canonical_or_same(&ledger.path);
    if from.starts_with(&to) || to.starts_with(&from) {
        bail!(
            "{} and {} are one inside the other: keep the source elsewhere",
            from.display(),
            to.display()
        );
    }
    Ok(())
}

fn check_free_bytes(
    from: &Folder,
    size: &SourceSize,
    ledger: &Folder,
    snapshots: Option<&Folder>,
) -> Result<()> {
    let snapshots_elsewhere = snapshots.filter(|folder| folder.device != ledger.device);
    let archive_bytes = snapshots_elsewhere.map_or(0, |_| size.archive_bytes);
    let needed = [(ledger, size.bytes - archive_bytes)]
        .into_iter()
        .chain(snapshots_elsewhere.map(|folder| (folder, archive_bytes)));
    for (folder, bytes) in needed {
        let stats = fstatvfs(&folder.fd).with_path(&folder.path)?;
        let free = stats.f_bavail.saturating_mul(stats.f_frsize);
        if free < bytes && !can_clone(from, folder) {
            let shown = folder.path.display();
            let from = from.path.display();
            bail!(
                "{shown} has {free} bytes free, {from} needs {bytes} bytes: free space, or remove files there"
            );
        }
    }
    Ok(())
}

fn measure_source(folder: &Folder) -> Result<SourceSize> {
    let mut size = SourceSize::default();
    add_folder(folder, 0, &mut size)?;
    Ok(size)
}

fn add_folder(folder: &Folder, depth: usize, size: &mut SourceSize) -> Result<()> {
    for name in names_without_marker_and_lock(folder, depth)? {
        let Some(stat) = folder.stat(&name)? else {
            continue;
        };
        match kind(&stat) {
            FileType::Directory => add_folder(&enter(folder, &name, depth)?, depth + 1, size)?,
            FileType::RegularFile => {
                // Each hard link becomes a separate file.
                let bytes = allocated_bytes(&stat);
                size.files += 1;
                size.bytes = size.bytes.saturating_add(bytes);
                if depth == 0 && is_archive(&name) {
                    size.archive_bytes = size.archive_bytes.saturating_add(bytes);
                }
            }
            FileType::Symlink => drop(link_target(folder, &name, depth)?),
            _ => size.skipped.push(SkippedEntry {
                path: folder.join(&name),
                reason: "neither file nor folder",
            }),
        }
    }
    Ok(())
}

fn enter(folder: &Folder, name: &CStr, depth: usize) -> Result<Folder> {
    let refused = |reason: &str| {
        Err(anyhow!(
            "{} cannot be copied: {reason}",
            folder.join(name).display()
        ))
    };
    if depth >= MAX_DEPTH {
        return refused("it is nested too deep");
    }
    match folder.enter(name)? {
        OpenResult::Open(subfolder) => Ok(subfolder),
        OpenResult::OtherMount => {
            refused("another file system or folder is mounted there; use a plain folder")
        }
        OpenResult::Changed => refused("it changed meanwhile"),
    }
}

/// Fails if a link leads out of the source: a run could change its target, and the next run would
/// differ.
fn link_target(folder: &Folder, name: &CStr, depth: usize) -> Result<CString> {
    let path = folder.join(name);
    let target = readlinkat(&folder.fd, name, Vec::new()).with_path(&path)?;
    let mut level = Some(depth);
    for part in Path::new(os_str(&target)).components() {
        level = match part {
            Component::Normal(_) => level.map(|level| level + 1),
            Component::ParentDir => level.and_then(|level| level.checked_sub(1)),
            Component::CurDir => level,
            Component::RootDir | Component::Prefix(_) => None,
        };
    }
    match level {
        Some(_) => Ok(target),
        None => bail!(
            "{} is a symbolic link that leads out ({}): keep the files themselves",
            path.display(),
            target.to_string_lossy()
        ),
    }
}

/// `snapshot-SLOT-HASH.tar.zst`, `incremental-snapshot-BASE-SLOT-HASH.tar.zst`.
fn is_archive(name: &CStr) -> bool {
    let name = name.to_string_lossy();
    (name.starts_with("snapshot-") || name.starts_with("incremental-snapshot-"))
        && name.contains(".tar")
}

fn change_owner(folder: &Folder, owner: UserAndGroup) -> Result<()> {
    let (user, group) = owner.ids();
    fchown(&folder.fd, user, group).with_path(&folder.path)
}

struct Copier<'a> {
    snapshots: Option<&'a Folder>,
    owner: Option<UserAndGroup>,
    restored: Restored,
}

impl Copier<'_> {
    fn copy_folder(&mut self, from: &Folder, to: &Folder, depth: usize) -> Result<()> {
        for name in names_without_marker_and_lock(from, depth)? {
            let Some(stat) = from.stat(&name)? else {
                continue;
            };
            match kind(&stat) {
                FileType::Directory => self.copy_subfolder(from, to, &name, (&stat, depth))?,
                FileType::RegularFile => {
                    let goes_to_snapshots = depth == 0 && is_archive(&name);
                    self.copy_file(
                        from,
                        self.snapshots.filter(|_| goes_to_snapshots).unwrap_or(to),
                        &name,
                    )?;
                }
                FileType::Symlink => self.copy_link(from, to, &name, depth)?,
                _ => self.restored.skipped.push(SkippedEntry {
                    path: from.join(&name),
                    reason: "neither file nor folder",
                }),
            }
        }
        Ok(())
    }

    fn copy_subfolder(
        &mut self,
        from: &Folder,
        to: &Folder,
        name: &CStr,
        (stat, depth): (&Stat, usize),
    ) -> Result<()> {
        let path = to.join(name);
        match mkdirat(&to.fd, name, Mode::RWXU) {
            Err(Errno::EXIST) => {}
            made => made.with_path(&path)?,
        }
        let OpenResult::Open(inside) = to.enter(name)? else {
            bail!(
                "{} is not a plain folder: nothing can be copied into it",
                path.display()
            );
        };
        self.copy_folder(&enter(from, name, depth)?, &inside, depth + 1)?;
        if let Some(owner) = self.owner {
            change_owner(&inside, owner)?;
        }
        fchmod(&inside.fd, Mode::from_raw_mode(stat.st_mode)).with_path(&path)
    }

    fn copy_file(&mut self, from: &Folder, to: &Folder, name: &CStr) -> Result<()> {
        if let Some(existing) = to.stat(name)? {
            return self.keep_existing(to, name, &existing);
        }
        let bytes = copy_new_file(from, to, name, self.owner)?;
        self.restored.files += 1;
        self.restored.bytes = self.restored.bytes.saturating_add(bytes);
        Ok(())
    }

    fn copy_link(&mut self, from: &Folder, to: &Folder, name: &CStr, depth: usize) -> Result<()> {
        if let Some(existing) = to.stat(name)? {
            return self.keep_existing(to, name, &existing);
        }
        let target = link_target(from, name, depth)?;
        symlinkat(&target, &to.fd, name).with_path(&to.join(name))?;
        let Some((user, group)) = self.owner.map(UserAndGroup::ids) else {
            return Ok(());
        };
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        chownat(&to.fd, name, user, group, flags).with_path(&to.join(name))
    }

    /// Keeps an existing keypair or tower file: an older tower file must not replace a newer one.
    /// Fails on any other existing entry.
    fn keep_existing(&mut self, to: &Folder, name: &CStr, existing: &Stat) -> Result<()> {
        let path = to.join(name);
        match protection(to, name, existing)? {
            Some(reason) => {
                self.restored.skipped.push(SkippedEntry { path, reason });
                Ok(())
            }
            None => bail!(
                "{} is there already: clear the folder first",
                path.display()
            ),
        }
    }
}

fn copy_new_file(
    from: &Folder,
    to: &Folder,
    name: &CStr,
    owner: Option<UserAndGroup>,
) -> Result<u64> {
    let path = to.join(name);
    let changed = || {
        anyhow!(
            "{} changed while it was copied: does something run there?",
            from.join(name).display()
        )
    };
    let OpenResult::Open((source, stat)) = from.open_file(name)? else {
        return Err(changed());
    };
    let source = File::from(source);
    let metadata = || source.metadata().with_path(&from.join(name));
    let before = metadata()?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let target = openat(&to.fd, name, flags, Mode::RUSR | Mode::WUSR);
    let target = File::from(target.with_path(&path)?);
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let is_cloned = size > 0 && ioctl_ficlone(&target, &source).is_ok();
    if !is_cloned {
        copy_data(&source, &target, size).with_path(&path)?;
    }
    set_metadata(&target, &before, owner).with_path(&path)?;
    let copied = target.metadata().with_path(&path)?;
    if FileVersion::from(&metadata()?) != FileVersion::from(&before) || copied.len() != size {
        return Err(changed());
    }
    // A copy of hundreds of gigabytes must not evict the rest of the page cache.
    let _ = fadvise(&source, 0, None, Advice::DontNeed);
    Ok(size)
}

fn can_clone(from: &Folder, to: &Folder) -> bool {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let open_unnamed =
        |folder: &Folder| openat(&folder.fd, c".", flags, Mode::RUSR | Mode::WUSR).ok();
    let (Some(source), Some(target)) = (open_unnamed(from), open_unnamed(to)) else {
        return false;
    };
    rustix::io::write(&source, &[0; 4096]).is_ok() && ioctl_ficlone(&target, &source).is_ok()
}

fn copy_data(source: &File, target: &File, size: u64) -> Result<(), Errno> {
    let mut offset = 0;
    while offset < size {
        let start = match seek(source, SeekFrom::Data(offset)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            // The file system does not support holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => offset,
            Err(errno) => return Err(errno),
        };
        let end = seek(source, SeekFrom::Hole(start))
            .unwrap_or(size)
            .min(size);
        // The file was truncated meanwhile.
        if end <= start {
            break;
        }
        copy_range(source, target, start, end)?;
        offset = end;
    }
    ftruncate(target, size)
}

/// Lets the kernel copy where it can: [`io::copy`] falls back to a buffer.
fn copy_range(source: &File, target: &File, start: u64, end: u64) -> Result<(), Errno> {
    for file in [source, target] {
        seek(file, SeekFrom::Start(start))?;
    }
    io::copy(&mut source.take(end - start), &mut &*target)
        .map(drop)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Sets the owner first, because `chown` clears mode bits.
fn set_metadata(target: &File, source: &Metadata, owner: Option<UserAndGroup>) -> io::Result<()> {
    if let Some((user, group)) = owner.map(UserAndGroup::ids) {
        fchown(target, user, group)?;
    }
    target.set_permissions(source.permissions())?;
    target.set_times(
        FileTimes::new()
            .set_accessed(source.accessed()?)
            .set_modified(source.modified()?),
    )
}
