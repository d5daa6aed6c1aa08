//! One process, sample after sample.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::file::{Owner, Records, Slot};
use crate::parse::pid_stat::State;
use crate::parse::{
    mountinfo, number, pid_cmdline, pid_environ, pid_io, pid_limits, pid_stat, pid_status,
};
use crate::{HostRoot, ReadError};

/// A process for good: numbers are used again, a number with its start is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId {
    /// Its number in the pid namespace that `procfs` shows.
    pub pid: u32,
    /// Its start, in clock ticks since the machine's start.
    pub start_ticks: u64,
}

/// A count of 0 says nothing.
const NO_FD_COUNT: &str = "not counted before Linux 6.2, nor for a kernel thread or a zombie";

/// Opens `{procfs}/PID`. Everything below it that is opened through this descriptor belongs to this process, and not to
/// a later one with the same number.
pub(crate) fn open_folder(root: &HostRoot, pid: u32) -> Result<(Arc<OwnedFd>, PathBuf), ReadError> {
    open_task(root, &pid.to_string())
}

fn open_task(root: &HostRoot, task: &str) -> Result<(Arc<OwnedFd>, PathBuf), ReadError> {
    let path = root.procfs.join(task);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat(CWD, &path, flags, Mode::empty()) {
        Ok(folder) => Ok((Arc::new(folder), path)),
        Err(errno) => Err(ReadError::from_errno(errno, &Arc::from(path), || false)),
    }
}

/// The most threads that are searched for a living one: a process that is killed has hundreds, all of them exiting.
const MAX_SEARCHED_THREADS: usize = 32;

/// The folders of the first threads of a process, such as `PID/task/TID`.
pub(crate) fn first_threads(root: &HostRoot, pid: u32) -> impl Iterator<Item = String> {
    let threads = std::fs::read_dir(root.procfs.join(format!("{pid}/task"))).ok();
    let threads = threads.into_iter().flatten().flatten();
    threads
        .take(MAX_SEARCHED_THREADS)
        .filter_map(move |thread| Some(format!("{pid}/task/{}", thread.file_name().to_str()?)))
}

/// Whether a process or thread, such as `PID/task/TID`, has begun to exit, or cannot be read.
pub(crate) fn is_exiting(root: &HostRoot, task: &str) -> bool {
    !root
        .read_proc(&format!("{task}/stat"), pid_stat::parse)
        .is_ok_and(|stat| !stat.exiting)
}

fn only_main_thread_ended(stat: &pid_stat::PidStat) -> bool {
    stat.state == State::Zombie && !stat.has_ended()
}

fn open_living_thread(root: &HostRoot, pid: u32) -> Option<(Arc<OwnedFd>, PathBuf)> {
    let living = first_threads(root, pid).find(|thread| !is_exiting(root, thread))?;
    open_task(root, &living).ok()
}

/// Holds the files of one process; ten descriptors at most.
#[derive(Debug)]
pub struct ProcessFiles {
    root: HostRoot,
    id: ProcessId,
    folder: Arc<OwnedFd>,
    /// Where the files about its memory are, with arguments, program and mounts: a main thread that has ended has none of
    /// them, while others run.
    described: (Arc<OwnedFd>, PathBuf),
    fd_path: Arc<Path>,
    stat: Slot,
    status: Slot,
    io: Slot,
    oom_score: Slot,
    oom_score_adj: Slot,
    limits: Slot,
    max_fds: Option<Result<pid_limits::OpenFilesLimit, ReadError>>,
}

/// One sample of a process. Each file has its own result.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessSample {
    /// `stat`; of all threads, dead ones included. Readable by everybody.
    pub stat: Result<pid_stat::PidStat, ReadError>,
    /// What the main thread is doing. Known for as long as `stat` can be read, also of a process that is being removed.
    pub state: Option<pid_stat::State>,
    /// `status`. Readable by everybody.
    pub status: Result<pid_status::PidStatus, ReadError>,
    /// `io`; of all threads, dead ones included. `Forbidden` to other users without `CAP_SYS_PTRACE`.
    pub io: Result<pid_io::PidIo, ReadError>,
    /// `oom_score`, 0 to 2000: the highest is killed first.
    pub oom_score: Result<u64, ReadError>,
    /// `oom_score_adj`, -1000 to 1000.
    pub oom_score_adj: Result<i64, ReadError>,
    /// Open descriptors. `Absent` before Linux 6.2, which does not count them, and for a kernel thread or a zombie, which
    /// have none; they are never listed.
    pub open_fds: Result<u64, ReadError>,
    /// The limits of open descriptors.
    pub max_fds: Result<pid_limits::OpenFilesLimit, ReadError>,
}

impl ProcessFiles {
    /// Finds the process and reads its start. A file that may not be opened is no obstacle: it is tried again by each
    /// sample.
    ///
    /// # Errors
    /// `Gone` when there is no such process (or `hidepid` hides it); any error of `stat`.
    pub fn open(root: &HostRoot, pid: u32) -> Result<Self, ReadError> {
        let (folder, path) = open_folder(root, pid)?;
        let slot = |name: &str| slot(&folder, &path, name, Records::One);
        let mut stat = slot("stat");
        let first = stat.parse(&mut Vec::new(), pid_stat::parse)?;
        let described = if only_main_thread_ended(&first) {
            open_living_thread(root, pid)
        } else {
            None
        };
        let described = described.unwrap_or_else(|| (Arc::clone(&folder), path.clone()));
        Ok(Self {
            root: root.clone(),
            id: ProcessId {
                pid,
                start_ticks: first.start_ticks,
            },
            stat,
            status: self::slot(&described.0, &described.1, "status", Records::One),
            io: slot("io"),
            oom_score: slot("oom_score"),
            oom_score_adj: slot("oom_score_adj"),
            limits: slot("limits"),
            max_fds: None,
            fd_path: Arc::from(path.join("fd")),
            folder,
            described,
        })
    }

    #[must_use]
    pub fn id(&self) -> ProcessId {
        self.id
    }

    /// Reads everything once. After the process has ended each result is `Gone`; of a zombie, `stat` still tells.
    pub fn sample(&mut self, buffer: &mut Vec<u8>) -> ProcessSample {
        self.max_fds = None;
        self.sample_with_last_limits(buffer)
    }

    /// The same, with the limits of the last sample as long as the process is there.
    pub fn sample_with_last_limits(&mut self, buffer: &mut Vec<u8>) -> ProcessSample {
        let stat = self.stat(buffer);
        if stat.is_err() {
            self.max_fds = None;
        }
        let mut status = self.status(buffer);
        if stat.as_ref().is_ok_and(only_main_thread_ended)
            && status
                .as_ref()
                .map_or(true, |status| status.vm_size.is_none())
            && let Some((folder, path)) = open_living_thread(&self.root, self.id.pid)
        {
            self.status = slot(&folder, &path, "status", Records::One);
            self.described = (folder, path);
            status = self.status(buffer);
        }
        let max_fds = match self.max_fds.take() {
            Some(known) => known,
            None => self.max_fds(buffer),
        };
        self.max_fds = Some(max_fds.clone());
        ProcessSample {
            state: stat.as_ref().ok().map(|stat| stat.state),
            stat: stat.and_then(|stat| self.living(stat)),
            status,
            io: self.io.parse(buffer, pid_io::parse),
            oom_score: self.oom_score.parse(buffer, number::parse),
            oom_score_adj: self.oom_score_adj.parse(buffer, number::parse_signed),
            open_fds: self.open_fds(),
            max_fds,
        }
    }

    /// Reads `stat` alone.
    pub fn stat(&mut self, buffer: &mut Vec<u8>) -> Result<pid_stat::PidStat, ReadError> {
        self.stat.parse(buffer, pid_stat::parse)
    }

    /// Reads `status` alone.
    pub fn status(&mut self, buffer: &mut Vec<u8>) -> Result<pid_status::PidStatus, ReadError> {
        self.status.parse(buffer, pid_status::parse)
    }

    /// The limits of open descriptors alone.
    pub fn max_fds(
        &mut self,
        buffer: &mut Vec<u8>,
    ) -> Result<pid_limits::OpenFilesLimit, ReadError> {
        self.limits.parse(buffer, pid_limits::parse)
    }

    /// The arguments, program first.
    pub fn cmdline(&self) -> Result<Vec<OsString>, ReadError> {
        self.once("cmdline")
            .parse(&mut Vec::new(), pid_cmdline::parse)
    }

    /// The program's file; ends in ` (deleted)` after it was replaced on disk.
    ///
    /// # Errors
    /// As any file of the process; `Forbidden` to other users, `Absent` for kernel threads.
    pub fn exe(&self) -> Result<PathBuf, ReadError> {
        self.link("exe")
    }

    pub fn cwd(&self) -> Result<PathBuf, ReadError> {
        self.link("cwd")
    }

    fn link(&self, name: &str) -> Result<PathBuf, ReadError> {
        let (folder, path) = &self.described;
        match rustix::fs::readlinkat(&**folder, name, Vec::new()) {
            Ok(target) => Ok(PathBuf::from(OsString::from_vec(target.into_bytes()))),
            Err(errno) => Err(self.error(errno, &Arc::from(path.join(name)))),
        }
    }

    /// The program's file as it runs, opened for reading, also after it was replaced or removed on disk.
    pub fn open_exe(&self) -> Result<std::fs::File, ReadError> {
        let (folder, path) = &self.described;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        match rustix::fs::openat(&**folder, "exe", flags, Mode::empty()) {
            Ok(file) => Ok(file.into()),
            Err(errno) => Err(self.error(errno, &Arc::from(path.join("exe")))),
        }
    }

    /// What it was started with: the names of its variables, and the values of those that are `wanted`.
    ///
    /// # Errors
    /// As any file of the process; `Forbidden` to other users.
    pub fn environment(
        &self,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<pid_environ::Environment, ReadError> {
        self.once("environ")
            .parse(&mut Vec::new(), |text| pid_environ::parse(text, wanted))
    }

    pub fn mounts(&self) -> Result<Vec<mountinfo::Mount>, ReadError> {
        self.once("mountinfo")
            .parse(&mut Vec::new(), mountinfo::parse)
    }

    pub fn limits(&self) -> Result<Vec<pid_limits::ProcessLimit>, ReadError> {
        self.once("limits")
            .parse(&mut Vec::new(), pid_limits::parse_all)
    }

    /// A file that is not worth keeping open.
    fn once(&self, name: &str) -> Slot {
        slot(&self.described.0, &self.described.1, name, Records::Many)
    }

    /// While it lets go of a process, in state `X`, the kernel writes zeros for the totals of its threads.
    fn living(&self, stat: pid_stat::PidStat) -> Result<pid_stat::PidStat, ReadError> {
        match stat.state {
            State::Dead => Err(ReadError::Gone {
                path: Arc::clone(self.stat.path()),
            }),
            _ => Ok(stat),
        }
    }

    /// The number of open descriptors alone.
    pub fn open_fds(&self) -> Result<u64, ReadError> {
        match rustix::fs::statat(&*self.folder, "fd", AtFlags::empty()) {
            Ok(stat) if stat.st_size > 0 => Ok(u64::try_from(stat.st_size).unwrap_or_default()),
            Ok(_) => Err(ReadError::absent(Arc::clone(&self.fd_path), NO_FD_COUNT)),
            Err(errno) => Err(self.error(errno, &self.fd_path)),
        }
    }

    fn error(&self, errno: Errno, path: &Arc<Path>) -> ReadError {
        ReadError::from_errno(errno, path, || {
            Owner::Process(Arc::clone(&self.folder)).is_there()
        })
    }
}

fn slot(folder: &Arc<OwnedFd>, path: &Path, name: &str, records: Records) -> Slot {
    Slot::new(Owner::Process(Arc::clone(folder)), path.join(name), records)
}

#[cfg(test)]
mod tests;
