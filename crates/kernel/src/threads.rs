//! All threads of one process, sample after sample.

mod list;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::file::{Owner, Records, read_whole};
use crate::parse::pid_schedstat::{self, Schedstat};
use crate::parse::pid_stat::{self, ThreadStat};
use crate::parse::pid_status::{self, Switches};
use crate::process::open_folder;
use crate::{Comm, HostRoot, ParseError, ReadError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadSample {
    pub tid: u32,
    /// Its start, in clock ticks since the machine's start: tells it from an earlier thread with this number.
    pub start_ticks: u64,
    pub comm: Comm,
    /// Page faults that needed no disk.
    pub minflt: u64,
    /// Page faults that needed the disk.
    pub majflt: u64,
    /// CPU time in user mode, in clock ticks.
    pub utime_ticks: u64,
    /// CPU time in the kernel, in clock ticks.
    pub stime_ticks: u64,
    /// Time waited for block I/O, in clock ticks; 0 also where `kernel.task_delayacct` was off when it started.
    pub delayacct_blkio_ticks: u64,
    /// Time on a CPU, exact where the two above are whole ticks. `None` in a kernel that does not count it.
    pub on_cpu: Option<Duration>,
    /// Time ready to run but waiting for a CPU. `None` in a kernel without `CONFIG_SCHED_INFO`.
    pub run_queue_delay: Option<Duration>,
    /// Context switches because it waited. `None` when not asked for.
    pub voluntary_switches: Option<u64>,
    /// Context switches because the scheduler wanted. `None` when not asked for.
    pub involuntary_switches: Option<u64>,
}

/// Which files a sample reads besides the `schedstat` of every thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadDepth {
    /// `stat` of the threads that ran for a [`BUSY`] since their last one. The others keep its values.
    Busy,
    /// `stat` of all threads that ran since their last one.
    Ran,
    /// The same, and the context switches in `status`, which cost more than the other files together.
    Switches,
}

/// The growth in CPU time after which [`ReadDepth::Busy`] reads `stat`.
const BUSY: Duration = Duration::from_millis(1);

/// The threads of one process.
///
/// The folder of threads is listed only when the number of threads has changed, or one of them has ended: if
/// the count is unchanged and all are alive, the set is unchanged.
///
/// Of a thread whose files are open, `schedstat` is read first: the values of the others grow only while the thread runs.
/// [`ReadDepth`] says which threads have run enough to be read again. Most threads of a validator are idle most of the time.
#[derive(Debug)]
pub struct Threads {
    folder: OwnedFd,
    owner: Owner,
    path: Arc<Path>,
    /// Descriptors of the budget not in use.
    spare: usize,
    known: Vec<Known>,
    listed: Vec<u32>,
    buffer: Vec<u8>,
    samples: Vec<ThreadSample>,
}

/// A thread and what is held of it: its files, or none where the budget did not reach.
#[derive(Debug)]
struct Known {
    tid: u32,
    open: Option<OpenThread>,
    /// Of the held files' thread only: another one may get its number.
    last: Option<Last>,
}

#[derive(Debug)]
struct OpenThread {
    stat: OwnedFd,
    schedstat: Option<OwnedFd>,
}

/// How many descriptors that takes.
const DESCRIPTORS_EACH: usize = 2;

/// What grows whenever a thread runs, from its `schedstat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Activity {
    on_cpu: Duration,
    timeslices: Option<u64>,
}

impl Activity {
    /// `None` of a thread that has never run. A kernel that does not count says that of all threads.
    fn of(schedstat: &Schedstat) -> Option<Self> {
        let on_cpu = schedstat.on_cpu.filter(|time| !time.is_zero())?;
        Some(Activity {
            on_cpu,
            timeslices: schedstat.timeslices,
        })
    }
}

/// What was read of a thread last, each with its activity until then.
#[derive(Debug, Clone, Copy)]
struct Last {
    /// With no activity where the kernel does not count it.
    stat: (Option<Activity>, ThreadStat),
    run_queue_delay: Option<Duration>,
    switches: Option<(Activity, Switches)>,
}

impl Last {
    /// The last `stat`, unless `depth` wants a newer one.
    fn stat(&self, now: Option<Activity>, depth: ReadDepth) -> Option<(Activity, ThreadStat)> {
        let (now, before) = (now?, self.stat.0?);
        let recent = match depth {
            ReadDepth::Busy => now.on_cpu.saturating_sub(before.on_cpu) < BUSY,
            ReadDepth::Ran | ReadDepth::Switches => now == before,
        };
        recent.then_some((before, self.stat.1))
    }

    fn switches(&self, now: Option<Activity>) -> Option<Switches> {
        let (before, switches) = self.switches?;
        (now == Some(before)).then_some(switches)
    }
}

/// Why a thread gave no sample.
enum Failed {
    Ended,
    Read(Errno),
    Parse(&'static str, ParseError),
}

impl From<Errno> for Failed {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::SRCH | Errno::NOENT => Self::Ended,
            errno => Self::Read(errno),
        }
    }
}

impl Threads {
    /// Opens the folder of threads; the threads themselves are opened by the first sample. Up to `descriptors` are kept
    /// open, two for each thread; threads beyond are opened, read and closed at each sample, which takes more than twice
    /// as long. Must leave room below `RLIMIT_NOFILE`.
    ///
    /// # Errors
    /// `Gone` when there is no such process.
    pub fn open(root: &HostRoot, pid: u32, descriptors: usize) -> Result<Self, ReadError> {
        let (process, path) = open_folder(root, pid)?;
        let (owner, path) = (
            Owner::Process(Arc::clone(&process)),
            Arc::from(path.join("task")),
        );
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(&*process, "task", flags, Mode::empty())
            .map_err(|errno| ReadError::from_errno(errno, &path, || owner.is_there()))?;
        Ok(Self {
            folder,
            owner,
            path,
            spare: descriptors,
            known: Vec::new(),
            listed: Vec::new(),
            buffer: Vec::new(),
            samples: Vec::new(),
        })
    }

    /// Reads every thread that is alive now, by number. One that ends meanwhile is not in the result.
    ///
    /// # Errors
    /// `Gone` after the process has ended; `Broken` when a thread's text is not what the kernel promises, `Forbidden`
    /// when it may not be read, since both then hold for all threads.
    pub fn sample(&mut self, depth: ReadDepth) -> Result<&[ThreadSample], ReadError> {
        let listed = !self.still_the_same().map_err(|errno| self.error(errno))?;
        if listed {
            self.relist().map_err(|errno| self.error(errno))?;
        }
        let all_alive = self.read_known(depth)?;
        if !all_alive && !listed {
            // The count was right, so others must have come in the place of those that ended.
            self.relist().map_err(|errno| self.error(errno))?;
            self.read_known(depth)?;
        }
        Ok(&self.samples)
    }

    /// Takes a sample of each known thread and forgets those that have ended; whether there were none of these.
    fn read_known(&mut self, depth: ReadDepth) -> Result<bool, ReadError> {
        self.samples.clear();
        let before = self.known.len();
        let mut failure = None;
        let Self {
            folder,
            spare,
            known,
            buffer,
            samples,
            ..
        } = self;
        // Without excess capacity, of which thousands of threads would have much.
        samples.reserve_exact(known.len());
        known.retain_mut(|thread| {
            if failure.is_some() {
                return true;
            }
            match thread.read(folder, depth, buffer) {
                Ok(sample) => samples.push(sample),
                Err(Failed::Ended) => {
                    *spare += thread.open.take().map_or(0, |_| DESCRIPTORS_EACH);
                    return false;
                }
                Err(failed) => failure = Some((thread.tid, failed)),
            }
            true
        });
        match failure {
            None => Ok(self.known.len() == before),
            Some((tid, Failed::Parse(name, error))) => {
                Err(error.at(self.path.join(format!("{tid}/{name}"))))
            }
            Some((_, Failed::Read(errno))) => Err(self.error(errno)),
            Some((_, Failed::Ended)) => Err(self.error(Errno::SRCH)),
        }
    }

    /// Whether the kernel counts as many threads as are known. The link count of the folder is two more.
    fn still_the_same(&self) -> Result<bool, Errno> {
        let links =
            usize::try_from(rustix::fs::fstat(&self.folder)?.st_nlink).unwrap_or(usize::MAX);
        Ok(!self.known.is_empty() && links.checked_sub(2) == Some(self.known.len()))
    }

    fn relist(&mut self) -> Result<(), Errno> {
        list::numbers(&self.folder, &mut self.listed)?;
        let mut before = std::mem::take(&mut self.known).into_iter().peekable();
        self.known.reserve_exact(self.listed.len());
        for &tid in &self.listed {
            while let Some(ended) = before.next_if(|thread| thread.tid < tid) {
                self.spare += ended.open.map_or(0, |_| DESCRIPTORS_EACH);
            }
            let known = before.next_if(|thread| thread.tid == tid);
            let mut thread = known.unwrap_or(Known {
                tid,
                open: None,
                last: None,
            });
            if thread.open.is_none() && self.spare >= DESCRIPTORS_EACH {
                // A thread that ended since is found out when it is read.
                thread.open = OpenThread::open(&self.folder, tid).ok();
                self.spare -= thread.open.as_ref().map_or(0, |_| DESCRIPTORS_EACH);
            }
            self.known.push(thread);
        }
        self.spare += before.filter(|thread| thread.open.is_some()).count() * DESCRIPTORS_EACH;
        Ok(())
    }

    fn error(&self, errno: Errno) -> ReadError {
        ReadError::from_errno(errno, &self.path, || self.owner.is_there())
    }
}

impl Known {
    fn read(
        &mut self,
        folder: &OwnedFd,
        depth: ReadDepth,
        buffer: &mut Vec<u8>,
    ) -> Result<ThreadSample, Failed> {
        let tid = self.tid;
        let Some(open) = &self.open else {
            return OpenThread::open(folder, tid)?.read(folder, tid, &mut None, depth, buffer);
        };
        match open.read(folder, tid, &mut self.last, depth, buffer) {
            Err(Failed::Ended) => {
                // Its number may already be another thread's.
                self.last = None;
                let successor = OpenThread::open(folder, tid)?;
                let sample = successor.read(folder, tid, &mut self.last, depth, buffer)?;
                self.open = Some(successor);
                Ok(sample)
            }
            result => result,
        }
    }
}

impl OpenThread {
    fn open(folder: &OwnedFd, tid: u32) -> Result<Self, Errno> {
        let mut name = list::Name::new(tid);
        let stat = name.open(folder, "stat")?;
        let schedstat = match name.open(folder, "schedstat") {
            Ok(fd) => Some(fd),
            // A kernel without it; or the thread has ended, which reading its stat tells.
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(errno),
        };
        Ok(Self { stat, schedstat })
    }

    /// Reads what `depth` wants of what may have changed since `last`, and renews that.
    fn read(
        &self,
        folder: &OwnedFd,
        tid: u32,
        last: &mut Option<Last>,
        depth: ReadDepth,
        buffer: &mut Vec<u8>,
    ) -> Result<ThreadSample, Failed> {
        // Before the others: what they say is then at least as new.
        let schedstat = self.schedstat(last.as_ref(), buffer)?;
        let activity = schedstat.as_ref().and_then(Activity::of);
        let known = last.and_then(|last| last.stat(activity, depth));
        let (read_at, stat) = match known {
            Some((read_at, stat)) => (Some(read_at), stat),
            None => (activity, self.stat(last.map(|last| last.stat.1), buffer)?),
        };
        let run_queue_delay = schedstat.and_then(|now| now.run_queue_delay);
        let mut switches = last.and_then(|last| last.switches);
        let mut sample = sample_of(tid, &stat);
        sample.on_cpu = activity.map(|now| now.on_cpu);
        sample.run_queue_delay = run_queue_delay;
        if depth == ReadDepth::Switches {
            let known = last.and_then(|last| last.switches(activity));
            let now = known.map_or_else(|| read_switches(folder, tid, buffer), Ok)?;
            [sample.voluntary_switches, sample.involuntary_switches] = now;
            switches = activity.map(|activity| (activity, now));
        }
        *last = Some(Last {
            stat: (read_at, stat),
            run_queue_delay,
            switches,
        });
        Ok(sample)
    }

    /// `None` in a kernel without it. A counter that underflowed has its value of `last`.
    fn schedstat(
        &self,
        last: Option<&Last>,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<Schedstat>, Failed> {
        let Some(fd) = &self.schedstat else {
            return Ok(None);
        };
        read_whole(fd, Records::One, buffer)?;
        let now =
            pid_schedstat::parse(buffer).map_err(|error| Failed::Parse("schedstat", error))?;
        Ok(Some(Schedstat {
            on_cpu: now
                .on_cpu
                .or(last.and_then(|last| Some(last.stat.0?.on_cpu))),
            run_queue_delay: now
                .run_queue_delay
                .or(last.and_then(|last| last.run_queue_delay)),
            ..now
        }))
    }

    /// A counter that underflowed has its value of `before`: no growth.
    fn stat(&self, before: Option<ThreadStat>, buffer: &mut Vec<u8>) -> Result<ThreadStat, Failed> {
        read_whole(&self.stat, Records::One, buffer)?;
        let stat = pid_stat::parse_thread(buffer).map_err(|error| Failed::Parse("stat", error))?;
        if stat.state == pid_stat::State::Dead {
            return Err(Failed::Ended);
        }
        let or_before =
            |now: Option<u64>, value: fn(ThreadStat) -> Option<u64>| now.or(before.and_then(value));
        Ok(ThreadStat {
            minflt: or_before(stat.minflt, |before| before.minflt),
            majflt: or_before(stat.majflt, |before| before.majflt),
            utime_ticks: or_before(stat.utime_ticks, |before| before.utime_ticks),
            stime_ticks: or_before(stat.stime_ticks, |before| before.stime_ticks),
            delayacct_blkio_ticks: or_before(stat.delayacct_blkio_ticks, |before| {
                before.delayacct_blkio_ticks
            }),
            ..stat
        })
    }
}

/// From `stat` alone.
fn sample_of(tid: u32, stat: &ThreadStat) -> ThreadSample {
    ThreadSample {
        tid,
        start_ticks: stat.start_ticks,
        comm: stat.comm,
        minflt: stat.minflt.unwrap_or_default(),
        majflt: stat.majflt.unwrap_or_default(),
        utime_ticks: stat.utime_ticks.unwrap_or_default(),
        stime_ticks: stat.stime_ticks.unwrap_or_default(),
        delayacct_blkio_ticks: stat.delayacct_blkio_ticks.unwrap_or_default(),
        on_cpu: None,
        run_queue_delay: None,
        voluntary_switches: None,
        involuntary_switches: None,
    }
}

/// From `status`, which is not held: it is read rarely.
fn read_switches(folder: &OwnedFd, tid: u32, buffer: &mut Vec<u8>) -> Result<Switches, Failed> {
    read_whole(
        &list::Name::new(tid).open(folder, "status")?,
        Records::One,
        buffer,
    )?;
    pid_status::switches(buffer).map_err(|error| Failed::Parse("status", error))
}

#[cfg(test)]
mod tests;
