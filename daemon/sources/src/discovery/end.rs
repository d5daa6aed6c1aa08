//! Notices the end of the followed process, and its reason.

use super::{EndReason, process::has_ended, target_handle::OomKillCounts};
use faultline_core::supervisor::Stop;
use faultline_kernel::{
    CgroupFolder, CgroupVersion, HostRoot, ProcessId, locate_cgroups,
    parse::{cgroup::MemoryEvents, memory::Vmstat},
};
use faultline_metrics::Stamp;
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, pidfd_open},
};
use std::{
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    time::Duration,
};

/// Poll interval without a pidfd.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum time from an OOM kill to the end of the process. The kernel counts a kill at its signal.
/// To free hundreds of GB then takes many seconds.
const MAX_EXIT_TIME: Duration = Duration::from_secs(60);

pub struct EndWatch {
    /// Since Linux 5.3. `None` in a sandbox, or if `/proc` of the host root is of another pid
    /// namespace: then `stat` is polled.
    pub pidfd: Option<OwnedFd>,
}

impl EndWatch {
    /// `None` if the process has ended already.
    /// `shares_pid_namespace`: `/proc` of the host root shows this daemon's own pid namespace.
    pub fn begin(root: &HostRoot, id: ProcessId, shares_pid_namespace: bool) -> Option<Self> {
        let pid = i32::try_from(id.pid)
            .ok()
            .and_then(Pid::from_raw)
            .filter(|_| shares_pid_namespace);
        let pidfd = match pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) {
            Some(Err(Errno::SRCH)) => return None,
            opened => opened.and_then(Result::ok),
        };
        // Only this check proves that the pidfd is not that of a later process with the same pid.
        (!has_ended(root, id)).then_some(Self { pidfd })
    }

    /// `None` while the process runs.
    pub fn wait(
        &self,
        root: &HostRoot,
        id: ProcessId,
        stop: &Stop,
        timeout: Duration,
    ) -> Option<EndReason> {
        if let Some(pidfd) = &self.pidfd {
            match stop.wait_readable(pidfd.as_fd(), timeout) {
                Ok(has_ended) => return has_ended.then_some(EndReason::Exit),
                Err(error) => {
                    tracing::debug!(pid = id.pid, %error, "cannot wait for the end of the process")
                }
            }
        }
        let is_stopping = stop.sleep(POLL_INTERVAL.min(timeout));
        (!is_stopping && has_ended(root, id)).then_some(EndReason::Unknown)
    }
}

/// Watches the OOM kill count of the process's cgroup. If that is unreadable, watches the count of
/// the host, which includes other processes.
pub struct OomKillWatch {
    process: ProcessId,
    events_file: Option<PathBuf>,
    cgroup_count: Option<u64>,
    host_count: Option<u64>,
    last_kill_at: Option<Stamp>,
}

/// True if the count increased. An unreadable count does not increase. A decrease means a new
/// cgroup.
fn update_count(count: &mut Option<u64>, newest: Option<u64>) -> bool {
    let increased = count.zip(newest).is_some_and(|(before, now)| now > before);
    *count = newest.or(*count);
    increased
}

impl OomKillWatch {
    pub fn begin(root: &HostRoot, process: ProcessId) -> Self {
        let memory = locate_cgroups(root, process.pid).and_then(|cgroups| cgroups.memory);
        let mut watch = Self {
            process,
            events_file: memory.ok().as_ref().map(events_file),
            cgroup_count: None,
            host_count: host_oom_kills(root),
            last_kill_at: None,
        };
        watch.cgroup_count = watch.cgroup_kills();
        watch
    }

    /// If a tick found the process in another cgroup, that cgroup's count replaces the earlier
    /// one's.
    pub fn update(&mut self, oom_counts: &OomKillCounts, now: Stamp) {
        let tick_cgroup = oom_counts.found_cgroup.as_ref();
        if let Some(tick_cgroup) =
            tick_cgroup.filter(|tick_cgroup| tick_cgroup.process == self.process)
        {
            let events_file = events_file(&tick_cgroup.memory_folder);
            if self.events_file.as_ref() != Some(&events_file) {
                self.cgroup_count = tick_cgroup.oom_kills;
                self.events_file = Some(events_file);
            }
        }
        let cgroup_kills = self.cgroup_kills();
        // No short circuit: both counts must advance, or the next update sees the same increase.
        let rose_in_cgroup = update_count(&mut self.cgroup_count, cgroup_kills);
        let host_kills = oom_counts.host.max(self.host_count);
        let rose_on_host = update_count(&mut self.host_count, host_kills);
        // The count of a removed cgroup is unreadable: the host's decides.
        if rose_in_cgroup || (rose_on_host && cgroup_kills.is_none()) {
            self.last_kill_at = Some(now);
        }
    }

    /// True if a process that ended now may have been killed.
    pub fn has_recent_kill(&self, now: Stamp) -> bool {
        self.last_kill_at
            .is_some_and(|at| now.since(at) <= MAX_EXIT_TIME)
    }

    fn cgroup_kills(&self) -> Option<u64> {
        let text = std::fs::read(self.events_file.as_ref()?).ok()?;
        MemoryEvents::parse(&text).ok()?.oom_kill
    }
}

fn events_file(memory: &CgroupFolder) -> PathBuf {
    memory.folder.join(match memory.version {
        CgroupVersion::V2 => "memory.events",
        CgroupVersion::V1 => "memory.oom_control",
    })
}

/// Processes OOM-killed since boot; since Linux 4.13.
pub fn host_oom_kills(root: &HostRoot) -> Option<u64> {
    root.read_proc("vmstat", Vmstat::parse).ok()?.oom_kill
}
