use super::following::OomKills;
use faultline_kernel::parse::{cgroup_events, vmstat};
use faultline_kernel::{CgroupFolder, CgroupVersion, HostRoot, ProcessId, locate};
use faultline_metrics::Stamp;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

/// The kernel counts a kill when it sends the signal. To free hundreds of GB, the process then
/// takes many seconds to exit.
const DYING: Duration = Duration::from_secs(60);
/// The kernel writes at most seven lines of a short word and a number.
const LONGEST_EVENTS: usize = 1024;

/// Watches `oom_kill` of the process's cgroup, or of the host if that is unreadable. The host's
/// count includes other processes.
#[derive(Debug)]
pub(super) struct Kills {
    process: ProcessId,
    events: Option<PathBuf>,
    /// `events`, kept open so that a check is one read.
    open_file: Option<File>,
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
        let (cgroup, host) = Default::default();
        let memory = locate(root, process.pid).and_then(|cgroups| cgroups.memory);
        let mut kills = Kills {
            process,
            events: memory.ok().as_ref().map(events),
            open_file: None,
            cgroup,
            host,
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
                (self.cgroup, self.open_file) = (Count(found.oom_kills), None);
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

    fn in_cgroup(&mut self) -> Option<u64> {
        let mut text = [0; LONGEST_EVENTS];
        let open_file = self
            .open_file
            .as_ref()
            .and_then(|file| file.read_at(&mut text, 0).ok());
        let length = match open_file {
            Some(length) => length,
            // Not opened yet, or removed: another cgroup may have replaced it.
            None => {
                self.open_file = None;
                let file = File::open(self.events.as_ref()?).ok()?;
                let length = file.read_at(&mut text, 0).ok()?;
                self.open_file = Some(file);
                length
            }
        };
        cgroup_events::parse(text.get(..length)?).ok()?.oom_kill
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
