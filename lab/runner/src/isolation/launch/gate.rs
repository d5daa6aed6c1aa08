use super::Error;
use super::program::User;
use rustix::fs::{CWD, Mode, OFlags, fcntl_setfl, mkfifoat};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Dropping it removes the FIFO; a program that still waits then waits forever.
#[derive(Debug)]
pub(super) struct Gate(PathBuf);

impl Gate {
    /// Only `user`, or this program's user, may read it. Fails if it exists.
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

    /// Opens it for writing; `None` if nobody waits at it.
    pub(super) fn open(&self) -> Result<Option<File>, Error> {
        let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
        match OpenOptions::new()
            .write(true)
            .custom_flags(flags)
            .open(&self.0)
        {
            Ok(file) => {
                // Blocking, because the data may exceed the pipe's capacity.
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
