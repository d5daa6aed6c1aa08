//! Reads memory and threads from the kernel, and the distance to the tip from the recording.

use crate::{
    runner::Observer,
    search::{Reading, ReplayedSlot},
};
use faultline_agave::threads::{pool_name, purpose};
use faultline_common::clock;
use faultline_kernel::{
    CgroupFiles, HostRoot, Limit, headroom::CgroupUsage, locate_cgroups, parse::pid::PidSchedstat,
};
use faultline_recording::{LiveStatus, Recording};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// Interval of reads of the recording, which is opened each time.
const READ_INTERVAL: Duration = Duration::from_millis(500);
/// A sample of the recorder (tick) is too old if it was first seen longer ago.
const MAX_TICK_AGE: Duration = Duration::from_secs(3);
const LIST_INTERVAL: Duration = Duration::from_secs(5);
const REPLAY_PURPOSE: &str = "replay";

#[derive(Default)]
pub struct RunObserver {
    root: HostRoot,
    pid: u32,
    recording: PathBuf,
    /// Files of the cgroup of the process, and whether its pressure excludes that of this program.
    cgroup: Option<(CgroupFiles, bool)>,
    buffer: Vec<u8>,
    threads: ReplayThreads,
    recorded: RecordedState,
}

#[derive(Default)]
struct RecordedState {
    sampled_at: Option<Duration>,
    /// Id of the newest sample of the recorder, and when the sample was first seen.
    newest_tick: Option<(i64, Duration)>,
    live: LiveStatus,
}

#[derive(Default)]
struct ReplayThreads {
    pid: u32,
    listed_at: Option<Duration>,
    /// Time waited for a CPU and time run, by thread.
    by_thread: BTreeMap<u32, (Duration, Duration)>,
    /// Sums over all threads, including ended ones.
    total: Option<(Duration, Duration)>,
}

impl RunObserver {
    pub fn new(root: HostRoot, pid: u32, recording: PathBuf) -> Self {
        Self {
            root,
            pid,
            recording,
            ..Self::default()
        }
    }

    fn read_memory(&mut self, reading: &mut Reading) {
        if self.cgroup.is_none() {
            let location = locate_cgroups(&self.root, self.pid)
                .ok()
                .filter(|location| location.memory.is_ok());
            // On a host with cgroup v1, pressure is read from a v2 cgroup. The process may share
            // this v2 cgroup with this program.
            let own_cgroup = locate_cgroups(&self.root, std::process::id())
                .ok()
                .and_then(|own| own.unified.ok());
            self.cgroup = location.map(|location| {
                let has_own_pressure = location
                    .unified
                    .as_ref()
                    .is_ok_and(|cgroup| own_cgroup.as_ref() != Some(cgroup));
                (CgroupFiles::new(&location), has_own_pressure)
            });
        }
        let Some((files, has_own_pressure)) = &mut self.cgroup else {
            return;
        };
        let sample = files.sample(true, &mut self.buffer);
        let stat = sample.memory_stat.ok();
        reading.memory = sample.memory_usage.ok();
        // cgroup v1 has no `memory.high`, only the hard limit.
        reading.applied_limit = match sample.memory_high.or(sample.memory_max) {
            Ok(Limit::Bytes(bytes)) => Some(bytes),
            _ => None,
        };
        reading.unreclaimable = reading
            .memory
            .zip(stat.as_ref())
            .and_then(|(usage, stat)| CgroupUsage::new(usage, stat))
            .map(|usage| usage.unreclaimable());
        reading.refaults = stat.and_then(|stat| stat.workingset_refault_file);
        if *has_own_pressure && let Ok(pressure) = sample.memory_pressure {
            reading.stalled = pressure.full;
        }
    }

    fn read_recording(&mut self, at: Duration, reading: &mut Reading) {
        let recorded = &mut self.recorded;
        if recorded
            .sampled_at
            .is_none_or(|sampled_at| at.saturating_sub(sampled_at) >= READ_INTERVAL)
        {
            recorded.sampled_at = Some(at);
            // If the recording is unreadable, its last data stays valid until it is too old.
            if let Ok(live) = Recording::open(&self.recording)
                .and_then(|recording| recording.live_status(recorded.live.last_point_rowid))
            {
                let tick = live.tick.as_ref().map(|tick| tick.id);
                if tick != recorded.newest_tick.map(|(newest, _)| newest) {
                    recorded.newest_tick = tick.map(|tick| (tick, at));
                }
                // Converts Unix time to the clock of the readings. On this clock, `at` is now.
                let now = clock::since_1970();
                let replays = live.replays.iter().map(|(unix_ns, us)| ReplayedSlot {
                    at: at.saturating_sub(now.saturating_sub(clock::from_nanoseconds(*unix_ns))),
                    replay_us: *us,
                });
                reading.replays = replays.collect();
                recorded.live = live;
            }
        }
        if recorded
            .newest_tick
            .is_some_and(|(_, seen_at)| at.saturating_sub(seen_at) <= MAX_TICK_AGE)
        {
            reading.has_recent_sample = true;
            reading.slots_behind = recorded.live.slots_behind;
            reading.tip_slot = recorded.live.newest_shred_slot;
        }
    }
}

impl Observer for RunObserver {
    fn read(&mut self, at: Duration) -> Reading {
        let mut reading = Reading {
            at,
            ..Reading::default()
        };
        self.read_memory(&mut reading);
        self.read_recording(at, &mut reading);
        let pid = self.recorded.live.pid.unwrap_or(self.pid);
        reading.replay_cpu = self.threads.sample(&self.root, pid, at);
        reading
    }
}

impl ReplayThreads {
    /// Total time waited for a CPU, and total time run.
    fn sample(&mut self, root: &HostRoot, pid: u32, at: Duration) -> Option<(Duration, Duration)> {
        let folder = root.procfs.join(pid.to_string()).join("task");
        if self.pid != pid
            || self
                .listed_at
                .is_none_or(|listed_at| at.saturating_sub(listed_at) >= LIST_INTERVAL)
        {
            (self.pid, self.listed_at) = (pid, Some(at));
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            let tids: Vec<u32> = entries
                .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
                .collect();
            self.by_thread.retain(|tid, _| tids.contains(tid));
            for tid in tids {
                if !self.by_thread.contains_key(&tid)
                    && let Ok(comm) = fs::read(folder.join(tid.to_string()).join("comm"))
                    && purpose(&pool_name(&comm))
                        .is_some_and(|purpose| purpose.starts_with(REPLAY_PURPOSE))
                    && let Some(first) = schedstat(&folder, tid)
                {
                    self.by_thread.insert(tid, first);
                    self.total.get_or_insert_default();
                }
            }
        }
        for (tid, last) in &mut self.by_thread {
            let (Some(now), Some(total)) = (schedstat(&folder, *tid), &mut self.total) else {
                continue;
            };
            total.0 += now.0.saturating_sub(last.0);
            total.1 += now.1.saturating_sub(last.1);
            *last = now;
        }
        self.total.filter(|_| !self.by_thread.is_empty())
    }
}

fn schedstat(folder: &Path, tid: u32) -> Option<(Duration, Duration)> {
    let text = fs::read(folder.join(tid.to_string()).join("schedstat")).ok()?;
    let stat = PidSchedstat::parse(&text).ok()?;
    Some((stat.run_queue_delay?, stat.on_cpu?))
}
