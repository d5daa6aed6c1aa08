use std::{
    ffi::OsString,
    fs,
    os::{fd::OwnedFd, unix::ffi::OsStringExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags},
    io::Errno,
};

use crate::{
    HostRoot, Parsed, ReadError, Result,
    file::{FileOwner, LazyFile, OpenFile, READ_FILE, ReadUntil},
    parse::{
        mountinfo::{self, Mount},
        number,
        pid::{self, Environment, PidIo, ProcessLimit},
        pid_stat::{self, PidStat, State},
        pid_status::PidStatus,
        signed_number,
    },
};

/// Identifies a process even after its pid is reused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId {
    pub pid: u32,
    /// Start, in clock ticks since boot.
    pub start_ticks: u64,
}

/// The reason in the error if the kernel reports 0 open descriptors.
const NO_FD_COUNT: &str = "not counted before Linux 6.2, nor for a kernel thread or a zombie";

/// `/proc/PID` or `/proc/PID/task/TID`. Files opened through the descriptor belong to this process
/// or thread, never to a later one with the same number.
#[derive(Debug, Clone)]
pub struct ProcFolder {
    pub descriptor: Arc<OwnedFd>,
    pub path: PathBuf,
}

impl ProcFolder {
    /// `task` is `PID` or `PID/task/TID`.
    pub fn open(root: &HostRoot, task: &str) -> Result<Self> {
        let path = root.procfs.join(task);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::openat(CWD, &path, flags, Mode::empty()) {
            Ok(descriptor) => Ok(Self {
                descriptor: Arc::new(descriptor),
                path,
            }),
            Err(errno) => {
                // A missing folder means that the task is `Gone`.
                let task_exists = || false;
                Err(ReadError::from_errno(errno, &Arc::from(path), task_exists))
            }
        }
    }

    fn of_living_thread(root: &HostRoot, pid: u32) -> Option<Self> {
        let living = first_threads(root, pid).find(|thread| !is_exiting(root, thread))?;
        Self::open(root, &living).ok()
    }

    pub fn file_owner(&self) -> FileOwner {
        FileOwner::Task(Arc::clone(&self.descriptor))
    }

    fn file(&self, name: &str) -> LazyFile {
        LazyFile::new(
            self.file_owner(),
            self.path.join(name),
            ReadUntil::ShortRead,
        )
    }
}

/// Limit of the search for a living thread: a killed process has hundreds of exiting ones.
const MAX_SEARCHED_THREADS: usize = 32;

pub fn first_threads(root: &HostRoot, pid: u32) -> impl Iterator<Item = String> {
    let threads = fs::read_dir(root.procfs.join(format!("{pid}/task"))).ok();
    let threads = threads.into_iter().flatten().flatten();
    threads
        .take(MAX_SEARCHED_THREADS)
        .filter_map(move |thread| Some(format!("{pid}/task/{}", thread.file_name().to_str()?)))
}

/// Whether a process or thread, such as `PID/task/TID`, exits or cannot be read.
pub fn is_exiting(root: &HostRoot, task: &str) -> bool {
    root.read_proc(&format!("{task}/stat"), pid_stat::parse)
        .map_or(true, |stat| stat.is_exiting)
}

fn only_main_thread_ended(stat: &PidStat) -> bool {
    stat.state == State::Zombie && !stat.all_threads_ended()
}

/// The `/proc` files of one process. They need at most eight descriptors of our own.
#[derive(Debug)]
pub struct ProcessFiles {
    root: HostRoot,
    id: ProcessId,
    folder: ProcFolder,
    /// `folder`, or that of a living thread if the main thread has ended. A main thread that has
    /// ended has no memory, arguments, program, mounts or descriptors.
    living_task: ProcFolder,
    fd_path: Arc<Path>,
    stat: LazyFile,
    status: LazyFile,
    io: LazyFile,
    oom_score: LazyFile,
    oom_score_adj: LazyFile,
    limits: LazyFile,
    last_oom_and_fds: Option<OomAndFdSample>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct OomAndFdSample {
    /// 0 to 2000: the highest is killed first.
    pub oom_score: Result<u64>,
    /// -1000 to 1000.
    pub oom_score_adj: Result<i64>,
    /// The kernel's count, never a listing of the folder. `Absent` before Linux 6.2, and for
    /// kernel threads and zombies.
    pub open_fds: Result<u64>,
    /// The soft limit; `None` is unlimited.
    pub max_fds: Result<Option<u64>>,
}

#[derive(Debug)]
pub struct ProcessSample {
    /// Readable by everybody.
    pub stat: Result<PidStat>,
    /// State of the main thread. Known also while the kernel removes the process and `stat` is
    /// `Gone`.
    pub state: Option<State>,
    /// Readable by everybody.
    pub status: Result<PidStatus>,
    /// `Forbidden` to other users without `CAP_SYS_PTRACE`.
    pub io: Result<PidIo>,
    pub oom_and_fds: OomAndFdSample,
}

impl ProcessFiles {
    /// Reads the start time. Other files are opened by the samples. `Gone` if the process does not
    /// exist (or `hidepid` hides it).
    pub fn open(root: &HostRoot, pid: u32) -> Result<Self> {
        let folder = ProcFolder::open(root, &pid.to_string())?;
        let mut stat = folder.file("stat");
        let first = stat.parse(&mut Vec::new(), pid_stat::parse)?;
        let living_thread = if only_main_thread_ended(&first) {
            ProcFolder::of_living_thread(root, pid)
        } else {
            None
        };
        let living_task = living_thread.unwrap_or_else(|| folder.clone());
        Ok(Self {
            root: root.clone(),
            id: ProcessId {
                pid,
                start_ticks: first.start_ticks,
            },
            stat,
            status: living_task.file("status"),
            io: folder.file("io"),
            oom_score: folder.file("oom_score"),
            oom_score_adj: folder.file("oom_score_adj"),
            limits: folder.file("limits"),
            last_oom_and_fds: None,
            fd_path: Arc::from(folder.path.join("fd")),
            folder,
            living_task,
        })
    }

    pub fn id(&self) -> ProcessId {
        self.id
    }

    /// Each result is `Gone` after the process was reaped. The `/proc` files of a zombie are
    /// readable, but lack memory and the count of descriptors.
    /// Without `read_oom_and_fds`, repeats these values of the last sample until the process ends.
    pub fn sample(&mut self, read_oom_and_fds: bool, buffer: &mut Vec<u8>) -> ProcessSample {
        let stat = self.stat(buffer);
        let mut status = self.status(buffer);
        if stat.as_ref().is_ok_and(only_main_thread_ended)
            && status
                .as_ref()
                .map_or(true, |status| status.vm_size.is_none())
            && let Some(living) = ProcFolder::of_living_thread(&self.root, self.id.pid)
        {
            self.status = living.file("status");
            self.living_task = living;
            status = self.status(buffer);
        }
        let has_ended = stat.as_ref().map_or(true, PidStat::all_threads_ended);
        let renew = read_oom_and_fds || has_ended;
        let oom_and_fds = match self.last_oom_and_fds.take().filter(|_| !renew) {
            Some(last) => last,
            None => self.oom_and_fd_sample(buffer),
        };
        self.last_oom_and_fds = Some(oom_and_fds.clone());
        ProcessSample {
            state: stat.as_ref().ok().map(|stat| stat.state),
            stat: match stat {
                // The kernel then writes zeros for the totals of the threads.
                Ok(stat) if stat.state == State::Dead => Err(ReadError::Gone {
                    path: Arc::clone(&self.stat.path),
                }),
                stat => stat,
            },
            status,
            io: self.io.parse(buffer, PidIo::parse),
            oom_and_fds,
        }
    }

    fn oom_and_fd_sample(&mut self, buffer: &mut Vec<u8>) -> OomAndFdSample {
        OomAndFdSample {
            oom_score: self.oom_score.parse(buffer, number),
            oom_score_adj: self.oom_score_adj.parse(buffer, signed_number),
            open_fds: self.open_fds(),
            max_fds: self.max_fds(buffer),
        }
    }

    pub fn stat(&mut self, buffer: &mut Vec<u8>) -> Result<PidStat> {
        self.stat.parse(buffer, pid_stat::parse)
    }

    pub fn status(&mut self, buffer: &mut Vec<u8>) -> Result<PidStatus> {
        self.status.parse(buffer, PidStatus::parse)
    }

    pub fn max_fds(&mut self, buffer: &mut Vec<u8>) -> Result<Option<u64>> {
        self.limits.parse(buffer, pid::max_open_files)
    }

    pub fn cmdline(&self) -> Result<Vec<OsString>> {
        self.read("cmdline", pid::cmdline)
    }

    /// Ends in ` (deleted)` after the file was replaced. `Forbidden` to other users, `Absent` for
    /// kernel threads.
    pub fn exe(&self) -> Result<PathBuf> {
        self.link("exe")
    }

    pub fn cwd(&self) -> Result<PathBuf> {
        self.link("cwd")
    }

    fn link(&self, name: &str) -> Result<PathBuf> {
        let ProcFolder { descriptor, path } = &self.living_task;
        let target = rustix::fs::readlinkat(descriptor, name, Vec::new())
            .map_err(|errno| self.error(errno, &Arc::from(path.join(name))))?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    /// Opens the running program's file, even if it was replaced or removed on disk.
    pub fn open_exe(&self) -> Result<fs::File> {
        let ProcFolder { descriptor, path } = &self.living_task;
        rustix::fs::openat(descriptor, "exe", READ_FILE, Mode::empty())
            .map(fs::File::from)
            .map_err(|errno| self.error(errno, &Arc::from(path.join("exe"))))
    }

    /// `keeps_value` gets a variable's name. `Forbidden` to other users.
    pub fn environment(&self, keeps_value: impl Fn(&str) -> bool) -> Result<Environment> {
        self.read("environ", |text| Environment::parse(text, keeps_value))
    }

    pub fn mounts(&self) -> Result<Vec<Mount>> {
        self.read("mountinfo", mountinfo::parse)
    }

    pub fn limits(&self) -> Result<Vec<ProcessLimit>> {
        self.read("limits", pid::limits)
    }

    fn read<T>(&self, name: &str, parse: impl FnOnce(&[u8]) -> Parsed<T>) -> Result<T> {
        let path = Arc::from(self.living_task.path.join(name));
        OpenFile::open(self.living_task.file_owner(), path, ReadUntil::EmptyRead)?
            .parse(&mut Vec::new(), parse)
    }

    pub fn open_fds(&self) -> Result<u64> {
        match rustix::fs::statat(&self.living_task.descriptor, "fd", AtFlags::empty()) {
            Ok(stat) if stat.st_size > 0 => Ok(u64::try_from(stat.st_size).unwrap_or_default()),
            Ok(_) => Err(ReadError::absent(Arc::clone(&self.fd_path), NO_FD_COUNT)),
            Err(errno) => Err(self.error(errno, &self.fd_path)),
        }
    }

    fn error(&self, errno: Errno, path: &Arc<Path>) -> ReadError {
        self.folder.file_owner().error(errno, path)
    }
}

#[cfg(test)]
mod tests;
