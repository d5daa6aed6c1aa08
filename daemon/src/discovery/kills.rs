//! Whether the kernel has just OOM-killed.

use super::following::OomKills;
use faultline_catalog::Stamp;
use faultline_kernel::parse::{cgroup_events, vmstat};
use faultline_kernel::{CgroupFolder, CgroupVersion, HostRoot, ProcessId, locate};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

/// The kernel counts a kill when it sends the signal. Giving back hundreds of GB, up to the end of the process, takes it
/// many seconds more.
const DYING: Duration = Duration::from_secs(60);
/// The kernel writes seven lines at most, of a short word and a number.
const LONGEST_EVENTS: usize = 1024;

/// Watches the `oom_kill` counts of one process's cgroup, and where that cannot be read, of its host: others are killed on
/// it, too.
#[derive(Debug)]
pub(super) struct Kills {
    process: ProcessId,
    events: Option<PathBuf>,
    /// `events`, held open: a look is then one read.
    held: Option<File>,
    cgroup: Count,
    host: Count,
    rose: Option<Stamp>,
}

/// A count, of which only a rise matters.
#[derive(Debug, Default)]
struct Count(Option<u64>);

impl Count {
    /// Whether it rose. A count that cannot be read does not rise; one that fell belongs to a new cgroup, or is the host's and
    /// older than the one before.
    fn rose(&mut self, now: Option<u64>) -> bool {
        let rose = self.0.zip(now).is_some_and(|(before, now)| now > before);
        self.0 = now.or(self.0);
        rose
    }
}

impl Kills {
    /// Counts from now on.
    pub(super) fn begin(root: &HostRoot, process: ProcessId, now: Stamp) -> Self {
        let (cgroup, host) = Default::default();
        let memory = locate(root, process.pid).and_then(|cgroups| cgroups.memory);
        let mut kills = Kills {
            process,
            events: memory.ok().as_ref().map(events),
            held: None,
            cgroup,
            host,
            rose: None,
        };
        kills.look(&OomKills::on_host(root), now);
        kills
    }

    /// Reads the cgroup's count. A cgroup that ticks have found the process in since is counted from then on.
    pub(super) fn look(&mut self, ticks: &OomKills, now: Stamp) {
        let found = ticks.cgroup.as_ref();
        if let Some(found) = found.filter(|found| found.process == self.process) {
            let events = events(&found.memory);
            if self.events.as_ref() != Some(&events) {
                (self.cgroup, self.held) = (Count(found.oom_kills), None);
                self.events = Some(events);
            }
        }
        let in_cgroup = self.in_cgroup();
        // Both counts are taken: a rise seen now must not be seen again. A cgroup that went with its process tells nothing.
        let (here, somewhere) = (
            self.cgroup.rose(in_cgroup),
            self.host.rose(ticks.host.max(self.host.0)),
        );
        if here || (somewhere && in_cgroup.is_none()) {
            self.rose = Some(now);
        }
    }

    /// Whether a process that ended now may have been killed.
    pub(super) fn recent(&self, now: Stamp) -> bool {
        self.rose.is_some_and(|rose| now.since(rose) <= DYING)
    }

    /// `None` where there is no count or no cgroup any more.
    fn in_cgroup(&mut self) -> Option<u64> {
        let mut text = [0; LONGEST_EVENTS];
        let held = self
            .held
            .as_ref()
            .and_then(|file| file.read_at(&mut text, 0).ok());
        let length = match held {
            Some(length) => length,
            // Not opened yet, or removed: another one may have been made in its place.
            None => {
                self.held = None;
                let file = File::open(self.events.as_ref()?).ok()?;
                let length = file.read_at(&mut text, 0).ok()?;
                self.held = Some(file);
                length
            }
        };
        cgroup_events::parse(text.get(..length)?).ok()?.oom_kill
    }
}

/// The file in which a cgroup counts them.
fn events(memory: &CgroupFolder) -> PathBuf {
    memory.folder.join(match memory.version {
        CgroupVersion::V2 => "memory.events",
        CgroupVersion::V1 => "memory.oom_control",
    })
}

impl OomKills {
    /// Without ticks: those of the host.
    pub(super) fn on_host(root: &HostRoot) -> Self {
        OomKills {
            host: on_host(root),
            cgroup: None,
        }
    }
}

/// How many processes the kernel has OOM-killed since its start; since Linux 4.13.
pub(super) fn on_host(root: &HostRoot) -> Option<u64> {
    root.read_proc("vmstat", vmstat::parse).ok()?.oom_kill
}
