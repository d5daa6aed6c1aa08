use super::guard;
use crate::isolation::{launch::at, tree::Folder};
use anyhow::{Result, anyhow, bail};
use rustix::{
    fs::{AtFlags, Mode, OFlags},
    io::Errno,
};
use serde::{Deserialize, Serialize};
use std::{
    ffi::{CStr, CString},
    fs::File,
    io::Write,
    path::Path,
    time::Duration,
};

pub const MARKER: &str = ".faultline-experiment";

const NAME: &CStr = c".faultline-experiment";

/// Created by `mkfs` on some file systems.
const LOST_AND_FOUND: &CStr = c"lost+found";

const KIND: &str = "faultline-experiment";

const ABOUT: &str = "faultline experiment deletes everything in this folder before each run, but for keypairs and tower \
                     files. Without this file it deletes nothing here. The file counts only in the folder that it was \
                     made in: not in a copy.";

const MAX_MARKER_BYTES: u64 = 64 << 10;

#[derive(Debug, Serialize, Deserialize)]
struct Marker {
    kind: String,
    about: String,
    created_unix: u64,
    inode: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Init {
    Created,
    Marked,
    AlreadyMarked,
}

/// Marks a folder for experiments. Creates it if its parent exists; an existing folder must be
/// empty except for `lost+found`. `now` is the time since 1970.
///
/// # Errors
/// The folder is not empty, is a symbolic link, or has the marker of another folder. Nothing was
/// marked then.
pub fn init(folder: &Path, now: Duration) -> Result<Init> {
    let created = match rustix::fs::mkdir(folder, Mode::from_raw_mode(0o755)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(Errno::NOENT) => {
            let shown = folder.display();
            bail!("{shown} cannot be made: the folder above it is missing; make that first");
        }
        Err(errno) => return Err(at(folder)(errno)),
    };
    let open = Folder::open(folder)?;
    if inspect(&open)? {
        return Ok(Init::AlreadyMarked);
    }
    refuse_unless_empty(&open)?;
    write(&open, now)?;
    // An entry may have been added meanwhile.
    if let Err(error) = refuse_unless_empty(&open) {
        let _ = rustix::fs::unlinkat(&open.fd, NAME, AtFlags::empty());
        return Err(error);
    }
    Ok(if created { Init::Created } else { Init::Marked })
}

pub fn is_marked(folder: &Path) -> bool {
    check(folder).is_ok()
}

/// Whether a folder may be cleared. The error says what to do.
pub fn check(folder: &Path) -> Result<()> {
    open_marked(folder).map(drop)
}

pub fn open_marked(folder: &Path) -> Result<Folder> {
    let open = Folder::open(folder)?;
    if inspect(&open)? {
        return Ok(open);
    }
    let shown = folder.display();
    bail!(
        "{shown} is not marked as a folder of experiments: nothing is deleted or written there. Empty it, then mark it with \
         'faultline experiment init {shown}'"
    )
}

pub fn has_marker(folder: &Folder) -> Result<bool> {
    Ok(folder.stat(NAME)?.is_some())
}

/// Names of the entries that are deleted or copied. `depth` is 0 in the folder itself.
pub fn content(folder: &Folder, depth: usize) -> Result<Vec<CString>> {
    let mut names = folder.names()?;
    names.retain(|name| {
        let name = name.as_c_str();
        name != NAME && name != guard::LOCK && (depth > 0 || name != LOST_AND_FOUND)
    });
    Ok(names)
}

fn inspect(folder: &Folder) -> Result<bool> {
    if !has_marker(folder)? {
        return Ok(false);
    }
    let path = folder.join(NAME);
    let invalid_marker = |why: &str| {
        anyhow!(
            "{} is no marker of this folder ({why}); remove it, then mark the folder",
            path.display()
        )
    };
    let Some(text) = folder.read(NAME, MAX_MARKER_BYTES)? else {
        return Err(invalid_marker("it is not a file"));
    };
    match serde_json::from_slice::<Marker>(&text) {
        Ok(marker) if marker.kind != KIND => Err(invalid_marker("it is another kind of file")),
        Ok(marker) if marker.inode != folder.inode => {
            Err(invalid_marker("it was copied here from another folder"))
        }
        Ok(_) => Ok(true),
        Err(_) => Err(invalid_marker("its text is damaged")),
    }
}

fn refuse_unless_empty(folder: &Folder) -> Result<()> {
    let names = folder.names()?;
    let other_entries = || {
        names
            .iter()
            .filter(|name| ![NAME, LOST_AND_FOUND].contains(&name.as_c_str()))
    };
    let Some(first) = other_entries().next() else {
        return Ok(());
    };
    let (shown, first, count) = (
        folder.path.display(),
        first.to_string_lossy(),
        other_entries().count(),
    );
    bail!(
        "{shown} is not empty ({first:?} and {} more): a marked folder is cleared before each run. Use a folder that is empty or does not exist yet",
        count - 1
    )
}

fn write(folder: &Folder, now: Duration) -> Result<()> {
    let path = folder.join(NAME);
    let marker = Marker {
        kind: KIND.to_owned(),
        about: ABOUT.to_owned(),
        created_unix: now.as_secs(),
        inode: folder.inode,
    };
    let mut text = serde_json::to_vec_pretty(&marker).map_err(at(&path))?;
    text.push(b'\n');
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&folder.fd, NAME, flags, Mode::from_raw_mode(0o644));
    let mut file = File::from(file.map_err(at(&path))?);
    let written = file.write_all(&text).and_then(|()| file.sync_all());
    written
        .and_then(|()| Ok(rustix::fs::fsync(&folder.fd)?))
        .map_err(|error| {
            let _ = rustix::fs::unlinkat(&folder.fd, NAME, AtFlags::empty());
            at(&path)(error)
        })
}
