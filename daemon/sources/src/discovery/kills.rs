use super::following::OomKills;
use faultline_kernel::parse::{cgroup_events, vmstat};
use faultline_kernel::{CgroupFolder, CgroupVersion, HostRoot, ProcessId, locate};
use faultline_metrics::Stamp;

use std::path::PathBuf;
use std::time::Duration;

/// The kernel counts a kill when it sends the signal. To free hundreds of GB, the process then
/// takes many seconds to exit.
const DYING: Duration = Duration::from_secs(60);

/// Watches `oom_kill` of the process's cgroup, or of the host if that is unreadable. The host's
/// count includes other processes.
#[derive(Debug)]
pub(super) struct Kills {
    process: ProcessId,
    events: Option<PathBuf>,
    cgroup: Count,
    host: Count,
    rose: Option<Stamp>,
}

#[derive(Debug, Default)]
struct Count(Option<u64>);

impl Count {
    /// True if it increased. An unreadable count does not increase. A decrease means a new cgroup,
    /// or an older value of the host.
    fn rose(&mut self, now: Option<u64>) -> bool {
        let rose = self.0.zip(now).is_some_and(|(before, now)| now > before);
        self.0 = now.or(self.0);
        rose
    }
}

impl Kills {
    pub(super) fn begin(root: &HostRoot, process: ProcessId, now: Stamp) -> Self {
        let memory = locate(root, process.pid).and_then(|cgroups| cgroups.memory);
        let mut kills = Kills {
            process,
            events: memory.ok().as_ref().map(events),
            cgroup: Count::default(),
            host: Count::default(),
            rose: None,
        };
        kills.count(&OomKills::on_host(root), now);
        kills
    }

    /// If a tick finds the process in another cgroup, counting starts there anew.
    pub(super) fn count(&mut self, ticks: &OomKills, now: Stamp) {
        let found = ticks.cgroup.as_ref();
        if let Some(found) = found.filter(|found| found.process == self.process) {
            let events = events(&found.memory);
            if self.events.as_ref() != Some(&events) {
                self.cgroup = Count(found.oom_kills);
                self.events = Some(events);
            }
        }
        let in_cgroup = self.in_cgroup();
        // Updates both counts, so that an increase is seen once. A cgroup removed with its process
        // gives no count.
        let (here, somewhere) = (
            self.cgroup.rose(in_cgroup),
            self.host.rose(ticks.host.max(self.host.0)),
        );
        if here || (somewhere && in_cgroup.is_none()) {
            self.rose = Some(now);
        }
    }

    /// True if a process that ended now may have been killed.
    pub(super) fn recent(&self, now: Stamp) -> bool {
        self.rose.is_some_and(|rose| now.since(rose) <= DYING)
    }

    fn in_cgroup(&self) -> Option<u64> {
        let text = std::fs::read(self.events.as_ref()?).ok()?;
        cgroup_events::parse(&text).ok()?.oom_kill
    }
}

fn events(memory: &CgroupFolder) -> PathBuf {
    memory.folder.join(match memory.version {
        CgroupVersion::V2 => "memory.events",
        CgroupVersion::V1 => "memory.oom_control",
    })
}

impl OomKills {
    pub(super) fn on_host(root: &HostRoot) -> Self {
        OomKills {
            host: on_host(root),
            cgroup: None,
        }
    }
}

/// Processes OOM-killed since boot; since Linux 4.13.
pub(super) fn on_host(root: &HostRoot) -> Option<u64> {
    root.read_proc("vmstat", vmstat::parse).ok()?.oom_kill
}
