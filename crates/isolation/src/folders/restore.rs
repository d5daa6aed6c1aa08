//! Filling a cleared ledger from a folder that is kept.

mod copy;

use super::clear::RetainedEntry;
use super::{guard, keep, marker};
use crate::Error;
use crate::tree::{DEEPEST, Entered, Folder, disk_bytes, failed, kind, os};
use rustix::fs::{FileType, Gid, Mode, Stat, Uid};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::path::{Component, Path};

/// A user and a group, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

impl Owner {
    pub(crate) fn ids(self) -> (Option<Uid>, Option<Gid>) {
        (Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid)))
    }
}

/// What a kept folder holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    pub files: u64,
    /// The room they take on disk, in bytes.
    pub bytes: u64,
    /// Of which archives of snapshots, which go to a folder for snapshots if there is one.
    pub archives: u64,
    /// What is not copied, with its reason: sockets and the like.
    pub left: Vec<RetainedEntry>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// Regular files that were copied.
    pub files: u64,
    /// Their lengths together, in bytes.
    pub bytes: u64,
    /// Those of them that share their room on disk with what is kept (reflinks).
    pub cloned: u64,
    /// What was not copied, with its reason: sockets and the like, and keypairs and tower files that are there already.
    pub left: Vec<RetainedEntry>,
}

/// What there is to be copied, with every reason against it.
///
/// # Errors
/// A symbolic link leads out of the folder, something of it is on another mount, or it cannot be read.
pub fn measure(from: &Path) -> Result<Source, Error> {
    let mut source = Source::default();
    count(&Folder::open(from)?, 0, &mut source)?;
    Ok(source)
}

/// Gives a marked folder itself, not what is in it, to a user.
///
/// # Errors
/// It is not marked, or the file system refuses.
pub fn hand_over(folder: &Path, owner: Owner) -> Result<(), Error> {
    let open = marker::open_marked(folder)?;
    let (user, group) = owner.ids();
    rustix::fs::fchown(open.fd(), user, group).map_err(|errno| failed(folder, errno))
}

/// Copies what is in `from` into the marked folder `ledger`, archives of snapshots into the marked folder `snapshots` if one
/// is given, all of it to `owner`. Returns when everything is on disk and as long as it was. Holes of files stay holes;
/// file systems that can share room do.
///
/// # Errors
/// A folder is not marked, there is not enough room, something is there already that is neither keypair nor tower file, a
/// link leads out of `from`, a file changed meanwhile, or the file system refuses.
pub fn restore(
    from: &Path,
    ledger: &Path,
    snapshots: Option<&Path>,
    owner: Option<Owner>,
) -> Result<Restored, Error> {
    let source = Folder::open(from)?;
    let mut measured = Source::default();
    count(&source, 0, &mut measured)?;
    let ledger = marker::open_marked(ledger)?;
    let snapshots = snapshots.map(marker::open_marked).transpose()?;
    apart(&source, &ledger)?;
    check_free_bytes(&source, &measured, &ledger, snapshots.as_ref())?;
    let mut work = Work {
        snapshots: snapshots.as_ref(),
        owner,
        restored: Restored::default(),
    };
    work.folder(&source, &ledger, 0)?;
    for folder in [Some(&ledger), snapshots.as_ref()].into_iter().flatten() {
        if let Some(owner) = owner {
            hand(folder, owner)?;
        }
        rustix::fs::syncfs(folder.fd()).map_err(|errno| failed(folder.path(), errno))?;
    }
    Ok(work.restored)
}

/// What is copied into itself has no end.
fn apart(source: &Folder, ledger: &Folder) -> Result<(), Error> {
    let real = |folder: &Folder| {
        folder
            .path()
            .canonicalize()
            .unwrap_or_else(|_| folder.path().to_owned())
    };
    let (from, to) = (real(source), real(ledger));
    if from.starts_with(&to) || to.starts_with(&from) {
        let words = format!(
            "{} and {} lie in one another: keep it elsewhere",
            from.display(),
            to.display()
        );
        return Err(Error::Refused(words));
    }
    Ok(())
}

fn check_free_bytes(
    from: &Folder,
    what: &Source,
    ledger: &Folder,
    snapshots: Option<&Folder>,
) -> Result<(), Error> {
    let apart = snapshots.filter(|folder| folder.device() != ledger.device());
    let archives = if apart.is_some() { what.archives } else { 0 };
    for (folder, bytes) in [(Some(ledger), what.bytes - archives), (apart, archives)] {
        let Some(folder) = folder else { continue };
        let output =
            rustix::fs::fstatvfs(folder.fd()).map_err(|errno| failed(folder.path(), errno))?;
        let free = output.f_bavail.saturating_mul(output.f_frsize);
        if free < bytes && !copy::can_clone(from, folder) {
            let (shown, from) = (folder.path().display(), from.path().display());
            return Err(Error::Refused(format!(
                "{shown} has {free} bytes free, {from} needs {bytes}: free space, or keep less"
            )));
        }
    }
    Ok(())
}

fn count(folder: &Folder, depth: usize, source: &mut Source) -> Result<(), Error> {
    for name in names(folder, depth)? {
        let Some(stat) = folder.stat(&name)? else {
            continue;
        };
        match kind(&stat) {
            FileType::Directory => count(&below(folder, &name, depth)?, depth + 1, source)?,
            FileType::RegularFile => {
                source.files += 1;
                source.bytes = source.bytes.saturating_add(disk_bytes(&stat));
                if depth == 0 && is_archive(&name) {
                    source.archives = source.archives.saturating_add(disk_bytes(&stat));
                }
            }
            FileType::Symlink => drop(link(folder, &name, depth)?),
            _ => source.left.push(RetainedEntry {
                path: folder.join(&name),
                why: "neither file nor folder",
            }),
        }
    }
    Ok(())
}

/// Without what is the folder's own.
fn names(folder: &Folder, depth: usize) -> Result<Vec<CString>, Error> {
    let own = |name: &CString| {
        let name = name.as_c_str();
        name == marker::NAME
            || name == guard::LOCK
            || (depth == 0 && name == marker::LOST_AND_FOUND)
    };
    Ok(folder
        .names()?
        .into_iter()
        .filter(|name| !own(name))
        .collect())
}

fn below(folder: &Folder, name: &CStr, depth: usize) -> Result<Folder, Error> {
    let refused = |why: &str| {
        Err(Error::Refused(format!(
            "{} cannot be copied: {why}",
            folder.join(name).display()
        )))
    };
    if depth >= DEEPEST {
        return refused("it is nested too deep");
    }
    match folder.enter(name)? {
        Entered::Open(below) => Ok(below),
        Entered::Elsewhere => {
            refused("it is another file system, or mounted there; keep a plain folder")
        }
        Entered::Changed => refused("it changed meanwhile"),
    }
}

/// Where a link leads, if that is inside: a run that could change what it leads to would not leave the next one equal.
fn link(folder: &Folder, name: &CStr, depth: usize) -> Result<CString, Error> {
    let path = folder.join(name);
    let target = rustix::fs::readlinkat(folder.fd(), name, Vec::new())
        .map_err(|errno| failed(&path, errno))?;
    let mut level = Some(depth);
    for part in Path::new(os(&target)).components() {
        level = match part {
            Component::Normal(_) => level.map(|level| level + 1),
            Component::ParentDir => level.and_then(|level| level.checked_sub(1)),
            Component::CurDir => level,
            Component::RootDir | Component::Prefix(_) => None,
        };
    }
    match level {
        Some(_) => Ok(target),
        None => Err(Error::Refused(format!(
            "{} is a symbolic link that leads out ({}): keep the files themselves",
            path.display(),
            target.to_string_lossy()
        ))),
    }
}

/// By the names that validators give: `snapshot-SLOT-HASH.tar.zst`, `incremental-snapshot-BASE-SLOT-HASH.tar.zst`.
fn is_archive(name: &CStr) -> bool {
    let name = name.to_string_lossy();
    (name.starts_with("snapshot-") || name.starts_with("incremental-snapshot-"))
        && name.contains(".tar")
}

fn hand(folder: &Folder, owner: Owner) -> Result<(), Error> {
    let (user, group) = owner.ids();
    rustix::fs::fchown(folder.fd(), user, group).map_err(|errno| failed(folder.path(), errno))
}

struct Work<'a> {
    snapshots: Option<&'a Folder>,
    owner: Option<Owner>,
    restored: Restored,
}

impl Work<'_> {
    fn folder(&mut self, from: &Folder, to: &Folder, depth: usize) -> Result<(), Error> {
        for name in names(from, depth)? {
            let Some(stat) = from.stat(&name)? else {
                continue;
            };
            match kind(&stat) {
                FileType::Directory => self.below(from, to, &name, (&stat, depth))?,
                FileType::RegularFile => {
                    let archive = depth == 0 && is_archive(&name);
                    self.file(
                        from,
                        self.snapshots.filter(|_| archive).unwrap_or(to),
                        &name,
                    )?;
                }
                FileType::Symlink => self.link(from, to, &name, depth)?,
                _ => self.restored.left.push(RetainedEntry {
                    path: from.join(&name),
                    why: "neither file nor folder",
                }),
            }
        }
        Ok(())
    }

    fn below(
        &mut self,
        from: &Folder,
        to: &Folder,
        name: &CStr,
        (stat, depth): (&Stat, usize),
    ) -> Result<(), Error> {
        let path = to.join(name);
        match rustix::fs::mkdirat(to.fd(), name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed(&path, errno)),
        }
        let Entered::Open(inside) = to.enter(name)? else {
            return Err(Error::Refused(format!(
                "{} is no folder of its own: it cannot be filled",
                path.display()
            )));
        };
        self.folder(&below(from, name, depth)?, &inside, depth + 1)?;
        if let Some(owner) = self.owner {
            hand(&inside, owner)?;
        }
        rustix::fs::fchmod(inside.fd(), Mode::from_raw_mode(stat.st_mode))
            .map_err(|errno| failed(&path, errno))
    }

    fn file(&mut self, from: &Folder, to: &Folder, name: &CStr) -> Result<(), Error> {
        if let Some(there) = to.stat(name)? {
            return self.already(to, name, &there);
        }
        let copied = copy::copy(from, to, name, self.owner)?;
        self.restored.files += 1;
        self.restored.bytes = self.restored.bytes.saturating_add(copied.bytes);
        self.restored.cloned += u64::from(copied.cloned);
        Ok(())
    }

    fn link(&mut self, from: &Folder, to: &Folder, name: &CStr, depth: usize) -> Result<(), Error> {
        if let Some(there) = to.stat(name)? {
            return self.already(to, name, &there);
        }
        let target = link(from, name, depth)?;
        rustix::fs::symlinkat(&target, to.fd(), name)
            .map_err(|errno| failed(&to.join(name), errno))?;
        let Some((user, group)) = self.owner.map(Owner::ids) else {
            return Ok(());
        };
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::chownat(to.fd(), name, user, group, flags)
            .map_err(|errno| failed(&to.join(name), errno))
    }

    /// A newer tower file must not give way to an older one.
    fn already(&mut self, to: &Folder, name: &CStr, there: &Stat) -> Result<(), Error> {
        let path = to.join(name);
        match keep::reason(to, name, there)? {
            Some(why) => {
                self.restored.left.push(RetainedEntry { path, why });
                Ok(())
            }
            None => Err(Error::Refused(format!(
                "{} is there already: clear the folder first",
                path.display()
            ))),
        }
    }
}
