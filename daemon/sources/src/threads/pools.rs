//! Sums by pool of threads. They stay exact while threads start and end.
//! The growth of a thread since its last read goes to its pool. The pool `exited` gets the rest of
//! the process's count: faults of threads that ended after their last read.
//!
//! The process is read after its threads. A thread may fault between its own read and that of the
//! process: then `exited` gets this fault. At the next read, the thread reports the fault. It is
//! pending until the process's count has grown by as many faults. So at every complete read the sum
//! of the pools is the process's count, and no count of a pool falls.
//! CPU time is the scheduler's, in nanoseconds. The kernel's clock ticks, as in `stat`, split it
//! into user and system. The process's CPU time is read before the threads, so `exited` never has
//! time of a living thread. `exited` is updated after a read of the CPU time of every thread.
//! Between such reads the pools may lack CPU time. They lack at most [`MAX_UNREPORTED_CPU`] or, if
//! that is more, one percent of the time that the process used since the last sample.

use crate::tick::CpuTime;
use faultline_agave::threads::pool_name;
use faultline_kernel::{Comm, HostConstants, ThreadSample};
use foldhash::HashMap;
use std::{sync::Arc, time::Duration};

/// The pools may lack this CPU time, because idle threads are not read each time.
const MAX_UNREPORTED_CPU: Duration = Duration::from_millis(10);

const MAX_NAMED_POOLS: usize = 150;
const OTHER: &str = "other";
const EXITED: &str = "exited";

#[derive(Clone, Default)]
pub struct ThreadTotals {
    /// Major and minor.
    pub faults: [u64; 2],
    pub total_cpu: Duration,
    utime_ticks: u64,
    stime_ticks: u64,
    pub blkio_ticks: u64,
    /// `None` if the kernel does not count it.
    pub run_queue_delay: Option<Duration>,
    /// `None` before the first read.
    pub voluntary_switches: Option<u64>,
    pub involuntary_switches: Option<u64>,
}

impl ThreadTotals {
    fn from_sample(thread: &ThreadSample, host: &HostConstants) -> Self {
        let ticks = thread.utime_ticks + thread.stime_ticks;
        Self {
            faults: [thread.majflt, thread.minflt],
            total_cpu: thread
                .on_cpu
                .unwrap_or_else(|| host.ticks_to_duration(ticks)),
            utime_ticks: thread.utime_ticks,
            stime_ticks: thread.stime_ticks,
            blkio_ticks: thread.delayacct_blkio_ticks,
            run_queue_delay: thread.run_queue_delay,
            voluntary_switches: thread.voluntary_switches,
            involuntary_switches: thread.involuntary_switches,
        }
    }

    /// 0 for a value that fell: CPU time by mode may fall.
    fn growth_since(&self, before: &Self) -> Self {
        let grown = |now: Option<u64>, before: Option<u64>| {
            now.map(|now| now.saturating_sub(before.unwrap_or(0)))
        };
        Self {
            faults: [0, 1].map(|kind| self.faults[kind].saturating_sub(before.faults[kind])),
            total_cpu: self.total_cpu.saturating_sub(before.total_cpu),
            utime_ticks: self.utime_ticks.saturating_sub(before.utime_ticks),
            stime_ticks: self.stime_ticks.saturating_sub(before.stime_ticks),
            blkio_ticks: self.blkio_ticks.saturating_sub(before.blkio_ticks),
            run_queue_delay: self
                .run_queue_delay
                .map(|now| now.saturating_sub(before.run_queue_delay.unwrap_or_default())),
            voluntary_switches: grown(self.voluntary_switches, before.voluntary_switches),
            involuntary_switches: grown(self.involuntary_switches, before.involuntary_switches),
        }
    }

    /// Adds all but the faults, which [`Pools::distribute_faults`] adds.
    pub fn add(&mut self, other: &Self) {
        let sum = |a: Option<u64>, b: Option<u64>| a.map_or(b, |a| Some(a + b.unwrap_or(0)));
        self.total_cpu += other.total_cpu;
        self.utime_ticks += other.utime_ticks;
        self.stime_ticks += other.stime_ticks;
        self.blkio_ticks += other.blkio_ticks;
        self.run_queue_delay = self.run_queue_delay.map_or(other.run_queue_delay, |a| {
            Some(a + other.run_queue_delay.unwrap_or_default())
        });
        self.voluntary_switches = sum(self.voluntary_switches, other.voluntary_switches);
        self.involuntary_switches = sum(self.involuntary_switches, other.involuntary_switches);
    }

    /// The kernel's part of the CPU time, by clock ticks; `None` without ticks.
    fn system_share(&self) -> Option<f64> {
        let ticks = self.utime_ticks + self.stime_ticks;
        (ticks > 0).then(|| self.stime_ticks as f64 / ticks as f64)
    }

    /// Keeps values that `newer` lacks: switches are read less often.
    fn updated_with(&self, newer: Self) -> Self {
        Self {
            voluntary_switches: newer.voluntary_switches.or(self.voluntary_switches),
            involuntary_switches: newer.involuntary_switches.or(self.involuntary_switches),
            ..newer
        }
    }
}

/// Threads whose names differ only in a number.
pub struct Pool {
    pub name: Arc<str>,
    pub threads: u64,
    pub totals: ThreadTotals,
    /// `totals.total_cpu` by mode.
    pub cpu_by_mode: CpuTime,
    /// Reported by threads, but not exported yet.
    pending_faults: [u64; 2],
}

/// Thread id and start time: ids are reused.
type ThreadKey = (u32, u64);

struct TrackedThread {
    key: ThreadKey,
    last_totals: ThreadTotals,
    read_number: u64,
}

#[derive(Default)]
pub struct Pools {
    pub pools: Vec<Pool>,
    index_by_comm: HashMap<Comm, usize>,
    index_by_name: HashMap<Arc<str>, usize>,
    /// Sorted by key. A hash table would take twice the memory.
    threads: Vec<TrackedThread>,
    read_number: u64,
    /// Thread names that went into the pool `other`. A name may count twice.
    pub folded_names: u64,
    /// Of threads that ended between reads, and of living threads after their read.
    pub exited_faults: [u64; 2],
    /// Of threads that ended between reads. `None` without `has_scheduler_times`.
    pub exited_cpu: Option<CpuTime>,
    /// The kernel gives the CPU time of every thread in nanoseconds, not only in clock ticks.
    has_scheduler_times: bool,
    /// The process's CPU time at the last sample.
    process_cpu: Duration,
}

impl Pools {
    /// Adds a sample of all living threads. A thread that was not read has the values of its last
    /// read. A thread that the sample lacks has ended: the rest of its CPU time and faults goes to
    /// `exited`. If it returned, its values would count twice. `process_cpu` was read before the
    /// sample.
    pub fn add(
        &mut self,
        threads: impl Iterator<Item = ThreadSample> + Clone,
        process_cpu: Option<CpuTime>,
        host: &HostConstants,
    ) {
        self.read_number += 1;
        let read_number = self.read_number;
        self.pools.iter_mut().for_each(|pool| pool.threads = 0);
        self.add_new(threads.clone());
        self.has_scheduler_times = true;
        for (position, thread) in threads.enumerate() {
            let no_ticks = thread.utime_ticks + thread.stime_ticks == 0;
            self.has_scheduler_times &= thread.on_cpu.is_some() || no_ticks;
            let now = ThreadTotals::from_sample(&thread, host);
            let Some(tracked) = self.tracked(&thread, position) else {
                continue;
            };
            let growth = now.growth_since(&tracked.last_totals);
            tracked.last_totals = tracked.last_totals.updated_with(now);
            tracked.read_number = read_number;
            let index = self.index_of(thread.comm);
            if let Some(pool) = self.pools.get_mut(index) {
                pool.threads += 1;
                pool.pending_faults[0] += growth.faults[0];
                pool.pending_faults[1] += growth.faults[1];
                pool.totals.add(&growth);
            }
        }
        self.threads
            .retain(|tracked| tracked.read_number == read_number);
        // Names of living threads return with the next sample.
        if self.index_by_comm.len() > 4 * (self.threads.len() + MAX_NAMED_POOLS) {
            self.index_by_comm.clear();
        }
        self.split_cpu(process_cpu);
    }

    /// True if the process used clearly more CPU time than its pools explain. Stores that time.
    pub fn check_unreported_cpu(&mut self, process_cpu: Option<CpuTime>) -> bool {
        let Some(process_cpu) = process_cpu
            .map(|cpu| cpu.total())
            .filter(|_| self.has_scheduler_times)
        else {
            return false;
        };
        let exited = self.exited_cpu.unwrap_or_default().total();
        let unreported = process_cpu.saturating_sub(self.sum_cpu(CpuTime::total) + exited);
        let before = std::mem::replace(&mut self.process_cpu, process_cpu);
        let one_percent = process_cpu.saturating_sub(before) / 100;
        unreported >= one_percent.max(MAX_UNREPORTED_CPU)
    }

    fn sum_cpu(&self, part: fn(&CpuTime) -> Duration) -> Duration {
        self.pools.iter().map(|pool| part(&pool.cpu_by_mode)).sum()
    }

    fn add_new(&mut self, threads: impl Iterator<Item = ThreadSample> + Clone) {
        let keys = threads.map(|thread| key(&thread));
        let known = self.threads.iter().map(|tracked| tracked.key);
        if known.eq(keys.clone()) {
            return;
        }
        let old = self.threads.len();
        for key in keys {
            let known = self.threads.get(..old).unwrap_or_default();
            if known
                .binary_search_by_key(&key, |tracked| tracked.key)
                .is_err()
            {
                self.threads.push(TrackedThread {
                    key,
                    last_totals: ThreadTotals::default(),
                    read_number: 0,
                });
            }
        }
        if self.threads.len() > old {
            self.threads.sort_by_key(|tracked| tracked.key);
            self.threads.dedup_by_key(|tracked| tracked.key);
            self.threads.shrink_to_fit();
        }
    }

    /// `position` is right as long as no thread starts or ends.
    fn tracked(&mut self, thread: &ThreadSample, position: usize) -> Option<&mut TrackedThread> {
        let key = key(thread);
        let is_at_position = self
            .threads
            .get(position)
            .is_some_and(|tracked| tracked.key == key);
        let index = if is_at_position {
            position
        } else {
            let found = self
                .threads
                .binary_search_by_key(&key, |tracked| tracked.key);
            found.ok()?
        };
        self.threads.get_mut(index)
    }

    /// A pool with less than one clock tick gets the process's split.
    fn split_cpu(&mut self, process_cpu: Option<CpuTime>) {
        let process_share = process_cpu
            .and_then(|cpu| cpu.system_share())
            .unwrap_or(0.0);
        for pool in &mut self.pools {
            let share = pool.totals.system_share().unwrap_or(process_share);
            pool.cpu_by_mode.grow_to(pool.totals.total_cpu, share);
        }
    }

    /// Ended threads get the CPU time beyond the sum of the threads. Call it only after a read of
    /// the CPU time of every thread.
    pub fn update_exited_cpu(&mut self, process_cpu: Option<CpuTime>) {
        let Some(process_cpu) = process_cpu.filter(|_| self.has_scheduler_times) else {
            return;
        };
        self.process_cpu = process_cpu.total();
        let exited = process_cpu
            .total()
            .saturating_sub(self.sum_cpu(CpuTime::total));
        let system = process_cpu
            .system
            .saturating_sub(self.sum_cpu(|cpu| cpu.system));
        let share = system.as_secs_f64() / exited.as_secs_f64().max(f64::MIN_POSITIVE);
        self.exited_cpu
            .get_or_insert_default()
            .grow_to(exited, share);
    }

    /// The faults of the process were read after the threads. After a complete read, the remaining
    /// faults are those of ended threads.
    pub fn distribute_faults(&mut self, minflt: u64, majflt: u64, is_complete: bool) {
        for (fault_kind, process_faults) in [majflt, minflt].into_iter().enumerate() {
            let faults = self.pools.iter().map(|pool| pool.totals.faults[fault_kind]);
            let exported = faults.sum::<u64>() + self.exited_faults[fault_kind];
            let mut remaining = process_faults.saturating_sub(exported);
            for pool in &mut self.pools {
                let granted = pool.pending_faults[fault_kind].min(remaining);
                pool.pending_faults[fault_kind] -= granted;
                remaining -= granted;
                pool.totals.faults[fault_kind] += granted;
            }
            if is_complete {
                self.exited_faults[fault_kind] += remaining;
            }
        }
    }

    fn index_of(&mut self, comm: Comm) -> usize {
        if let Some(index) = self.index_by_comm.get(&comm) {
            return *index;
        }
        let name = pool_name(comm.as_bytes());
        // A pool of that name would collide with the pool of ended threads.
        let name = if *name == *EXITED {
            "exited_threads"
        } else {
            &name
        };
        let known = self.index_by_name.get(name).copied();
        let index = known.unwrap_or_else(|| {
            let full = self.pools.len() >= MAX_NAMED_POOLS;
            self.folded_names += u64::from(full);
            self.add_pool(if full { OTHER } else { name })
        });
        self.index_by_comm.insert(comm, index);
        index
    }

    fn add_pool(&mut self, name: &str) -> usize {
        if let Some(index) = self.index_by_name.get(name) {
            return *index;
        }
        let name: Arc<str> = name.into();
        self.pools.push(Pool {
            name: Arc::clone(&name),
            threads: 0,
            totals: ThreadTotals::default(),
            cpu_by_mode: CpuTime::default(),
            pending_faults: [0; 2],
        });
        self.index_by_name.insert(name, self.pools.len() - 1);
        self.pools.len() - 1
    }
}

fn key(thread: &ThreadSample) -> ThreadKey {
    (thread.tid, thread.start_ticks)
}

#[cfg(test)]
mod tests;
