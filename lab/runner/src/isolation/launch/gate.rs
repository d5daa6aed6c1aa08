use super::{Job, at, program::User, wait};
use anyhow::{Result, bail};
use rustix::{
    fs::{CWD, Mode, OFlags, fcntl_setfl, mkfifoat},
    io::Errno,
};
use std::{
    fs::{File, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    time::Duration,
};

const GATE_TIMEOUT: Duration = Duration::from_secs(120);

/// Dropping it removes the FIFO; a program that still waits then waits forever.
#[derive(Debug)]
pub struct Gate(PathBuf);

impl Gate {
    /// Only `user`, or this program's user, may read it. Fails if it exists.
    pub fn make(job: &Job, user: Option<User>) -> Result<Option<Gate>> {
        let Some(path) = job.gate.as_deref() else {
            return Ok(None);
        };
        mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).map_err(at(path))?;
        let gate = Gate(path.to_owned());
        if let Some(User { uid, gid }) = user {
            std::os::unix::fs::chown(path, Some(uid), Some(gid)).map_err(at(path))?;
        }
        Ok(Some(gate))
    }

    /// Waits for the program called `name` and writes `word`. While nobody waits at the gate, `check`
    /// fails if the program has ended.
    pub fn release(
        &self,
        name: &str,
        word: &[u8],
        mut check: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let opened = wait(GATE_TIMEOUT, || {
            let file = self.open()?;
            if file.is_none() {
                check()?;
            }
            Ok(file)
        })?;
        match opened {
            Some(mut file) => file.write_all(word).map_err(at(&self.0)),
            None => bail!("{name} does not come to its gate {}", self.0.display()),
        }
    }

    /// Opens it for writing; `None` if nobody waits at it.
    fn open(&self) -> Result<Option<File>> {
        let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
        match OpenOptions::new()
            .write(true)
            .custom_flags(flags)
            .open(&self.0)
        {
            Ok(file) => {
                // Blocking, because the data may exceed the pipe's capacity.
                fcntl_setfl(&file, OFlags::empty()).map_err(at(&self.0))?;
                Ok(Some(file))
            }
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => Ok(None),
            Err(error) => Err(at(&self.0)(error)),
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
