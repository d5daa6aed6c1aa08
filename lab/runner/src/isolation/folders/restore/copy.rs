use super::Owner;
use crate::isolation::{
    launch::at,
    tree::{Folder, OpenResult},
};
use anyhow::{Result, anyhow};
use faultline_kernel::FileVersion;
use rustix::{
    fs::{Advice, Mode, OFlags, SeekFrom, Stat, Timespec, Timestamps},
    io::Errno,
};
use std::{
    ffi::CStr,
    fs::File,
    io::{self, Read},
};

pub fn copy(from: &Folder, to: &Folder, name: &CStr, owner: Option<Owner>) -> Result<u64> {
    let path = to.join(name);
    let to_error = |errno: Errno| at(&path)(errno);
    let changed = || {
        anyhow!(
            "{} changed while it was copied: does something run there?",
            from.join(name).display()
        )
    };
    let OpenResult::Open((source, stat)) = from.file(name)? else {
        return Err(changed());
    };
    let source = File::from(source);
    let version = || match source.metadata() {
        Ok(metadata) => Ok(FileVersion::from(&metadata)),
        Err(error) => Err(at(&from.join(name))(error)),
    };
    let before = version()?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let target = rustix::fs::openat(&to.fd, name, flags, Mode::RUSR | Mode::WUSR);
    let target = File::from(target.map_err(to_error)?);
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let cloned = size > 0 && rustix::fs::ioctl_ficlone(&target, &source).is_ok();
    if !cloned {
        copy_data(&source, &target, size).map_err(to_error)?;
    }
    set_owner_and_mode(&target, &stat, owner).map_err(to_error)?;
    let copied = rustix::fs::fstat(&target).map_err(to_error)?;
    if version()? != before || copied.st_size != stat.st_size {
        return Err(changed());
    }
    // A copy of hundreds of gigabytes need not evict the rest of the page cache.
    let _ = rustix::fs::fadvise(&source, 0, None, Advice::DontNeed);
    Ok(size)
}

/// Whether reflinks from one folder to the other work.
pub fn can_clone(from: &Folder, to: &Folder) -> bool {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let open_unnamed =
        |folder: &Folder| rustix::fs::openat(&folder.fd, c".", flags, Mode::RUSR | Mode::WUSR).ok();
    let (Some(source), Some(target)) = (open_unnamed(from), open_unnamed(to)) else {
        return false;
    };
    rustix::io::write(&source, &[0; 4096]).is_ok()
        && rustix::fs::ioctl_ficlone(&target, &source).is_ok()
}

fn copy_data(source: &File, target: &File, size: u64) -> Result<(), Errno> {
    let mut at = 0;
    while at < size {
        let start = match rustix::fs::seek(source, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            // The file system does not support holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => at,
            Err(errno) => return Err(errno),
        };
        let end = rustix::fs::seek(source, SeekFrom::Hole(start))
            .unwrap_or(size)
            .min(size);
        // The file was truncated meanwhile.
        if end <= start {
            break;
        }
        copy_range(source, target, start, end)?;
        at = end;
    }
    rustix::fs::ftruncate(target, size)
}

/// Lets the kernel copy where it can: [`io::copy`] falls back to a buffer.
fn copy_range(source: &File, target: &File, start: u64, end: u64) -> Result<(), Errno> {
    for file in [source, target] {
        rustix::fs::seek(file, SeekFrom::Start(start))?;
    }
    let copied = io::copy(&mut source.take(end - start), &mut &*target);
    copied
        .map(drop)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Sets the owner first, because `chown` clears mode bits.
fn set_owner_and_mode(target: &File, stat: &Stat, owner: Option<Owner>) -> Result<(), Errno> {
    if let Some((user, group)) = owner.map(Owner::ids) {
        rustix::fs::fchown(target, user, group)?;
    }
    rustix::fs::fchmod(target, Mode::from_raw_mode(stat.st_mode))?;
    let time = |seconds: i64, nanoseconds: u64| Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds as _,
    };
    let times = Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    };
    rustix::fs::futimens(target, &times)
}
