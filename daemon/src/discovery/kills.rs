//! Whether the kernel has just OOM-killed.

use faultline_catalog::Stamp;
use faultline_kernel::parse::{cgroup_events, vmstat};
use faultline_kernel::{CgroupVersion, HostRoot, locate};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

/// The kernel counts a kill when it sends the signal. Giving back hundreds of GB, up to the end of the process, takes it
/// many seconds more.
const DYING: Duration = Duration::from_secs(60);
/// Processes may be moved to another cgroup: where it is is asked again after this time.
const LOCATE_EVERY: Duration = Duration::from_secs(30);
/// The kernel writes seven lines at most, of a short word and a number.
const LONGEST_EVENTS: usize = 1024;

/// Watches the `oom_kill` counts of one process's cgroup, and where that cannot be read, of its host: others are killed on
/// it, too.
#[derive(Debug)]
pub(super) struct Kills {
    pid: u32,
    events: Option<PathBuf>,
    /// `events`, held open: a look is then one read.
    held: Option<File>,
    cgroup: Count,
    host: Count,
    located: Option<Stamp>,
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
    pub(super) fn begin(root: &HostRoot, pid: u32, now: Stamp) -> Self {
        let (cgroup, host) = Default::default();
        let mut kills = Kills {
            pid,
            events: None,
            held: None,
            cgroup,
            host,
            located: None,
            rose: None,
        };
        kills.look(root, on_host(root), now);
        kills
    }

    /// Reads the cgroup's count; `on_host` is the host's.
    pub(super) fn look(&mut self, root: &HostRoot, on_host: Option<u64>, now: Stamp) {
        if self.located.is_none_or(|at| now.since(at) >= LOCATE_EVERY) {
            self.find_place(root);
            self.located = Some(now);
        }
        let in_cgroup = self.in_cgroup();
        // Both counts are taken: a rise seen now must not be seen again. A cgroup that went with its process tells nothing.
        let (here, somewhere) = (
            self.cgroup.rose(in_cgroup),
            self.host.rose(on_host.max(self.host.0)),
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

    fn find_place(&mut self, root: &HostRoot) {
        let Ok(Ok(memory)) = locate(root, self.pid).map(|cgroups| cgroups.memory) else {
            return;
        };
        let events = memory.folder.join(match memory.version {
            CgroupVersion::V2 => "memory.events",
            CgroupVersion::V1 => "memory.oom_control",
        });
        if self.events.as_ref() != Some(&events) {
            (self.cgroup, self.held) = Default::default();
            self.events = Some(events);
        }
    }
}

/// How many processes the kernel has OOM-killed since its start; since Linux 4.13.
pub(super) fn on_host(root: &HostRoot) -> Option<u64> {
    root.read_proc("vmstat", vmstat::parse).ok()?.oom_kill
}
