//! A FIFO at which a program waits until it may begin.

use super::Error;
use super::program::User;
use rustix::fs::{CWD, Mode, OFlags, fcntl_setfl, mkfifoat};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where a program is held back. Dropping it removes it, and whoever waits at it waits for ever.
#[derive(Debug)]
pub(super) struct Gate(PathBuf);

impl Gate {
    /// For this user to read; for this program's own without one.
    ///
    /// # Errors
    /// It is there already or cannot be made.
    pub(super) fn make(path: &Path, user: Option<User>) -> Result<Gate, Error> {
        mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR)
            .map_err(|error| Error::at(path)(error.into()))?;
        let gate = Gate(path.to_owned());
        if let Some(User { uid, gid }) = user {
            std::os::unix::fs::chown(path, Some(uid), Some(gid)).map_err(Error::at(path))?;
        }
        Ok(gate)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// For writing; `None` while nobody waits at it.
    pub(super) fn open(&self) -> Result<Option<File>, Error> {
        let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
        match OpenOptions::new()
            .write(true)
            .custom_flags(flags)
            .open(&self.0)
        {
            Ok(file) => {
                // What is told may be more than the pipe holds.
                fcntl_setfl(&file, OFlags::empty())
                    .map_err(|error| Error::at(&self.0)(error.into()))?;
                Ok(Some(file))
            }
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => Ok(None),
            Err(error) => Err(Error::at(&self.0)(error)),
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
