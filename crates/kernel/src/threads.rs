use std::{mem::MaybeUninit, os::fd::OwnedFd, path::Path, sync::Arc, time::Duration};

use rustix::{
    fs::{Mode, OFlags, RawDir, SeekFrom},
    io::Errno,
};

use crate::{
    Comm, HostRoot, ParseError, ReadError, Result,
    file::{FileOwner, READ_FILE, ReadUntil, read_whole},
    parse::{
        pid::PidSchedstat,
        pid_stat,
        pid_status::{self, Switches},
    },
    process::ProcFolder,
    text::number,
};

#[derive(Debug, Clone, Copy)]
pub struct ThreadSample {
    pub tid: u32,
    /// In clock ticks since boot: distinguishes threads with the same id.
    pub start_ticks: u64,
    pub comm: Comm,
    pub minflt: u64,
    pub majflt: u64,
    pub utime_ticks: u64,
    pub stime_ticks: u64,
    /// Block I/O wait; 0 also if `kernel.task_delayacct` was off when the thread started.
    pub delayacct_blkio_ticks: u64,
    /// More exact than `utime_ticks` and `stime_ticks`. `None` if the thread never ran, or if the
    /// kernel does not count it.
    pub on_cpu: Option<Duration>,
    /// Runnable but waiting for a CPU. `None` without `CONFIG_SCHED_INFO`.
    pub run_queue_delay: Option<Duration>,
    /// `None` if not requested.
    pub voluntary_switches: Option<u64>,
    /// `None` if not requested.
    pub involuntary_switches: Option<u64>,
}

/// Files that a sample reads. Each depth includes the files of the previous one. A thread without
/// counts in `schedstat` is never idle, and each depth reads its `stat`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ReadDepth {
    /// `schedstat` of all threads except idle ones. `stat` of threads that ran at least
    /// [`MIN_BUSY_TIME`] since their last `stat`. Other threads have their last values.
    Active,
    /// `schedstat` of every thread.
    AllCpuTimes,
    /// `stat` of all threads that ran since their last `stat`.
    AllThatRan,
    /// `AllThatRan` plus the context switches of `status`, which cost more than the other files
    /// together.
    AllWithSwitches,
}

/// A thread is idle after this many reads in a row without activity since its last `stat`.
const IDLE_READS: u8 = 2;

const MIN_BUSY_TIME: Duration = Duration::from_millis(1);

/// The threads of one process.
///
/// The folder is listed only if the number of threads has changed or a thread has ended: otherwise
/// the set is unchanged. `schedstat` of an open thread is read first, because its other values grow
/// only while it runs. [`ReadDepth`] decides which threads are read again: most threads of a
/// validator are idle most of the time. An idle thread that ends while another one starts is
/// noticed by a sample deeper than `Active`.
#[derive(Debug)]
pub struct Threads {
    folder: OwnedFd,
    owner: FileOwner,
    path: Arc<Path>,
    free_descriptors: usize,
    threads: Vec<TrackedThread>,
    listed: Vec<u32>,
    buffer: Vec<u8>,
}

/// A thread with its open files. It has none if all descriptors are in use.
#[derive(Debug)]
struct TrackedThread {
    tid: u32,
    open: Option<OpenThread>,
    last: Option<LastRead>,
}

#[derive(Debug)]
struct OpenThread {
    stat: OwnedFd,
    schedstat: Option<OwnedFd>,
}

const DESCRIPTORS_PER_THREAD: usize = 2;

/// `schedstat` values that grow whenever the thread runs.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Activity {
    on_cpu: Duration,
    timeslices: Option<u64>,
}

impl Activity {
    /// `None` if the thread never ran or the kernel does not count.
    fn of(schedstat: &PidSchedstat) -> Option<Self> {
        let on_cpu = schedstat.on_cpu.filter(|time| !time.is_zero())?;
        Some(Self {
            on_cpu,
            timeslices: schedstat.timeslices,
        })
    }
}

#[derive(Debug, Clone, Copy)]
struct LastRead {
    /// The last value of each field.
    sample: ThreadSample,
    activity_at_stat: Option<Activity>,
    activity_at_switches: Option<Activity>,
    /// Consecutive reads that found no activity since the last `stat`.
    idle_reads: u8,
}

impl LastRead {
    fn is_stat_current(&self, now: Option<Activity>, depth: ReadDepth) -> bool {
        let Some((now, before)) = now.zip(self.activity_at_stat) else {
            return false;
        };
        match depth {
            ReadDepth::Active | ReadDepth::AllCpuTimes => {
                now.on_cpu.saturating_sub(before.on_cpu) < MIN_BUSY_TIME
            }
            ReadDepth::AllThatRan | ReadDepth::AllWithSwitches => now == before,
        }
    }

    fn sample(&self, depth: ReadDepth) -> ThreadSample {
        match depth {
            ReadDepth::AllWithSwitches => self.sample,
            _ => ThreadSample {
                voluntary_switches: None,
                involuntary_switches: None,
                ..self.sample
            },
        }
    }
}

enum SampleError {
    Ended,
    Read(Errno),
    Parse(&'static str, ParseError),
}

impl From<Errno> for SampleError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::SRCH | Errno::NOENT => Self::Ended,
            errno => Self::Read(errno),
        }
    }
}

impl Threads {
    /// The first sample opens the threads. Up to `max_descriptors` stay open, two per thread; other
    /// threads are opened at each sample, which takes more than twice as long. The maximum must be
    /// below `RLIMIT_NOFILE`.
    pub fn open(root: &HostRoot, pid: u32, max_descriptors: usize) -> Result<Self> {
        let process = ProcFolder::open(root, &pid.to_string())?;
        let (owner, path) = (process.file_owner(), Arc::from(process.path.join("task")));
        let flags = READ_FILE | OFlags::DIRECTORY;
        let folder = rustix::fs::openat(&process.descriptor, "task", flags, Mode::empty())
            .map_err(|errno| owner.error(errno, &path))?;
        Ok(Self {
            folder,
            owner,
            path,
            free_descriptors: max_descriptors,
            threads: Vec::new(),
            listed: Vec::new(),
            buffer: Vec::new(),
        })
    }

    /// Samples of all living threads, by tid. `Broken` and `Forbidden` fail the whole sample,
    /// because they affect all threads.
    pub fn sample(
        &mut self,
        depth: ReadDepth,
    ) -> Result<impl Iterator<Item = ThreadSample> + Clone> {
        let was_listed = !self.has_same_count().map_err(|errno| self.error(errno))?;
        if was_listed {
            self.list_threads()?;
        }
        let all_alive = self.read_tracked(depth)?;
        if !all_alive && !was_listed {
            // The count matched, so new threads have replaced the ended ones.
            self.list_threads()?;
            self.read_tracked(depth)?;
        }
        let last = self
            .threads
            .iter()
            .filter_map(|thread| thread.last.as_ref());
        Ok(last.map(move |last| last.sample(depth)))
    }

    /// Samples the known threads and drops ended ones. True if none had ended.
    fn read_tracked(&mut self, depth: ReadDepth) -> Result<bool> {
        let before = self.threads.len();
        let mut failure = None;
        let Self {
            folder,
            owner,
            path,
            free_descriptors,
            threads,
            buffer,
            ..
        } = self;
        threads.retain_mut(|thread| {
            if failure.is_some() {
                return true;
            }
            failure = match thread.read(folder, depth, buffer) {
                Ok(()) => None,
                Err(SampleError::Ended) => {
                    *free_descriptors += thread.open.take().map_or(0, |_| DESCRIPTORS_PER_THREAD);
                    return false;
                }
                Err(SampleError::Read(errno)) => Some(owner.error(errno, path)),
                Err(SampleError::Parse(name, error)) => {
                    Some(error.at(path.join(format!("{}/{name}", thread.tid))))
                }
            };
            true
        });
        failure.map_or(Ok(threads.len() == before), Err)
    }

    /// Compares the number of threads by the folder's link count, which is two higher.
    fn has_same_count(&self) -> Result<bool, Errno> {
        let links =
            usize::try_from(rustix::fs::fstat(&self.folder)?.st_nlink).unwrap_or(usize::MAX);
        Ok(!self.threads.is_empty() && links.checked_sub(2) == Some(self.threads.len()))
    }

    fn list_threads(&mut self) -> Result<()> {
        list_numbers(&self.folder, &mut self.listed).map_err(|errno| self.error(errno))?;
        let mut before = std::mem::take(&mut self.threads).into_iter().peekable();
        self.threads.reserve_exact(self.listed.len());
        for &tid in &self.listed {
            while let Some(ended) = before.next_if(|thread| thread.tid < tid) {
                self.free_descriptors += ended.open.map_or(0, |_| DESCRIPTORS_PER_THREAD);
            }
            let earlier = before.next_if(|thread| thread.tid == tid);
            let mut thread = earlier.unwrap_or(TrackedThread {
                tid,
                open: None,
                last: None,
            });
            if thread.open.is_none() && self.free_descriptors >= DESCRIPTORS_PER_THREAD {
                thread.open = OpenThread::open(&self.folder, tid).ok();
                // Without open files another thread may have had this tid.
                thread.last = None;
                self.free_descriptors -= thread.open.as_ref().map_or(0, |_| DESCRIPTORS_PER_THREAD);
            }
            self.threads.push(thread);
        }
        self.free_descriptors +=
            before.filter(|thread| thread.open.is_some()).count() * DESCRIPTORS_PER_THREAD;
        Ok(())
    }

    fn error(&self, errno: Errno) -> ReadError {
        self.owner.error(errno, &self.path)
    }
}

impl TrackedThread {
    fn read(
        &mut self,
        folder: &OwnedFd,
        depth: ReadDepth,
        buffer: &mut Vec<u8>,
    ) -> Result<(), SampleError> {
        let tid = self.tid;
        let known = self.open.as_ref();
        let read = match known.map(|open| open.read(folder, tid, self.last.take(), depth, buffer)) {
            None => OpenThread::open(folder, tid)?.read(folder, tid, None, depth, buffer),
            Some(Err(SampleError::Ended)) => {
                // Another thread may have this tid already.
                let successor = OpenThread::open(folder, tid)?;
                let read = successor.read(folder, tid, None, depth, buffer)?;
                self.open = Some(successor);
                Ok(read)
            }
            Some(result) => result,
        };
        self.last = Some(read?);
        Ok(())
    }
}

impl OpenThread {
    fn open(folder: &OwnedFd, tid: u32) -> Result<Self, Errno> {
        let stat = open_file(folder, tid, "stat")?;
        let schedstat = match open_file(folder, tid, "schedstat") {
            Ok(fd) => Some(fd),
            // The kernel has no `schedstat`, or the thread has ended, which the read of `stat`
            // detects.
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(errno),
        };
        Ok(Self { stat, schedstat })
    }

    fn read(
        &self,
        folder: &OwnedFd,
        tid: u32,
        last: Option<LastRead>,
        depth: ReadDepth,
        buffer: &mut Vec<u8>,
    ) -> Result<LastRead, SampleError> {
        if let Some(last) = last.filter(|last| last.idle_reads >= IDLE_READS)
            && depth == ReadDepth::Active
        {
            return Ok(last);
        }
        // Read first, so that the other values are at least as new.
        let schedstat = self.schedstat(last.as_ref(), buffer)?;
        let activity = schedstat.as_ref().and_then(Activity::of);
        let current = last.filter(|last| last.is_stat_current(activity, depth));
        let mut read = match current {
            Some(last) => last,
            None => LastRead {
                sample: self.stat(tid, last.as_ref(), buffer)?,
                activity_at_stat: activity,
                activity_at_switches: last.and_then(|last| last.activity_at_switches),
                idle_reads: 0,
            },
        };
        read.idle_reads = match current {
            // `AllCpuTimes` does not count: it follows an `Active` read of the same tick.
            Some(last) if last.activity_at_stat == activity => last
                .idle_reads
                .saturating_add(u8::from(depth != ReadDepth::AllCpuTimes)),
            _ => 0,
        };
        read.sample.on_cpu = activity.map(|now| now.on_cpu);
        read.sample.run_queue_delay = schedstat.and_then(|now| now.run_queue_delay);
        let are_switches_current = activity.is_some() && activity == read.activity_at_switches;
        if depth == ReadDepth::AllWithSwitches && !are_switches_current {
            [
                read.sample.voluntary_switches,
                read.sample.involuntary_switches,
            ] = read_switches(folder, tid, buffer)?;
            read.activity_at_switches = activity;
        }
        Ok(read)
    }

    /// `None` if the kernel has no such file. An underflowed counter keeps its value of `last`.
    fn schedstat(
        &self,
        last: Option<&LastRead>,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<PidSchedstat>, SampleError> {
        let Some(fd) = &self.schedstat else {
            return Ok(None);
        };
        read_whole(fd, ReadUntil::ShortRead, buffer)?;
        let now =
            PidSchedstat::parse(buffer).map_err(|error| SampleError::Parse("schedstat", error))?;
        Ok(Some(PidSchedstat {
            on_cpu: now.on_cpu.or(last.and_then(|last| last.sample.on_cpu)),
            run_queue_delay: now
                .run_queue_delay
                .or(last.and_then(|last| last.sample.run_queue_delay)),
            ..now
        }))
    }

    /// Underflowed counters and the switches keep their values of `last`; else a counter is 0.
    fn stat(
        &self,
        tid: u32,
        last: Option<&LastRead>,
        buffer: &mut Vec<u8>,
    ) -> Result<ThreadSample, SampleError> {
        read_whole(&self.stat, ReadUntil::ShortRead, buffer)?;
        let stat = pid_stat::parse(buffer).map_err(|error| SampleError::Parse("stat", error))?;
        if stat.state == pid_stat::State::Dead {
            return Err(SampleError::Ended);
        }
        let last = last.map(|last| &last.sample);
        let or_last = |now: Option<u64>, last_value: fn(&ThreadSample) -> u64| {
            now.or(last.map(last_value)).unwrap_or_default()
        };
        Ok(ThreadSample {
            tid,
            start_ticks: stat.start_ticks,
            comm: stat.comm,
            minflt: or_last(stat.minflt, |last| last.minflt),
            majflt: or_last(stat.majflt, |last| last.majflt),
            utime_ticks: or_last(stat.utime_ticks, |last| last.utime_ticks),
            stime_ticks: or_last(stat.stime_ticks, |last| last.stime_ticks),
            delayacct_blkio_ticks: or_last(stat.delayacct_blkio_ticks, |last| {
                last.delayacct_blkio_ticks
            }),
            on_cpu: None,
            run_queue_delay: None,
            voluntary_switches: last.and_then(|last| last.voluntary_switches),
            involuntary_switches: last.and_then(|last| last.involuntary_switches),
        })
    }
}

/// Numeric names, ascending; replaces the contents of `numbers`.
fn list_numbers(folder: &OwnedFd, numbers: &mut Vec<u32>) -> Result<(), Errno> {
    numbers.clear();
    rustix::fs::seek(folder, SeekFrom::Start(0))?;
    let mut space = [MaybeUninit::uninit(); 16 * 1024];
    let mut entries = RawDir::new(folder, &mut space);
    while let Some(entry) = entries.next() {
        numbers.extend(number::<u32>(entry?.file_name().to_bytes()));
    }
    numbers.sort_unstable();
    Ok(())
}

fn open_file(folder: &OwnedFd, tid: u32, name: &str) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(folder, format!("{tid}/{name}"), READ_FILE, Mode::empty())
}

/// `status` is read rarely and not kept open.
fn read_switches(
    folder: &OwnedFd,
    tid: u32,
    buffer: &mut Vec<u8>,
) -> Result<Switches, SampleError> {
    read_whole(
        &open_file(folder, tid, "status")?,
        ReadUntil::ShortRead,
        buffer,
    )?;
    pid_status::switches(buffer).map_err(|error| SampleError::Parse("status", error))
}

#[cfg(test)]
mod tests;
