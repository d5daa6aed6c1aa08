//! The followed process's cgroup, version 2 or 1, every tick, and its memory headroom.

mod counters;
mod headroom;

use super::host::{Memory, minor_faults, pressure};
use crate::discovery::{Following, FoundCgroup};
use crate::tick::{Finding, LIMITS_EVERY, Look, Poll, Throttle};
use counters::Counters;
use faultline_catalog::metrics::cgroup as c;
use faultline_catalog::{Problem, Reading, Source, Stamp, Status, Text};
use faultline_kernel::parse::cgroup_io::{Device, DeviceIo};
use faultline_kernel::parse::cgroup_memory_stat::MemoryStat;
use faultline_kernel::{
    CgroupFiles, CgroupLevels, CgroupLocator, CgroupSample, ErrorKind, HostRoot, Limit,
    ProcessCgroups, ProcessId, ReadError,
};
use headroom::Headroom;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Interval to resolve the cgroup again without a move, because mounts may change.
const LOOK_UP_AGAIN: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Cgroup {
    following: Following,
    process: Option<ProcessId>,
    locator: Option<CgroupLocator>,
    followed: Option<(Stamp, ProcessCgroups, CgroupFiles)>,
    /// On a hybrid host the process may be in the root cgroup of version 2, whose pressure is the
    /// whole machine's.
    own_pressure: bool,
    path: Option<Arc<str>>,
    memory: Memory,
    headroom: Headroom,
    limits: Throttle,
    devices: HashMap<Device, Arc<str>>,
    buffer: Vec<u8>,
    counters: Counters,
    counted: Option<ProcessCgroups>,
}

impl Cgroup {
    pub fn new(memory: Memory, following: Following) -> Self {
        Cgroup {
            following,
            process: None,
            locator: None,
            followed: None,
            own_pressure: false,
            path: None,
            headroom: Headroom::new(memory.clone()),
            memory,
            limits: Throttle::every(LIMITS_EVERY),
            devices: HashMap::default(),
            buffer: Vec::new(),
            counters: Counters::default(),
            counted: None,
        }
    }

    /// True if the files changed since the last tick.
    fn find(&mut self, look: &Look<'_>, process: ProcessId, finding: &mut Finding) -> bool {
        let locator = self
            .locator
            .get_or_insert_with(|| CgroupLocator::new(look.root, process.pid));
        let is_recent = |(at, ..): &(Stamp, _, _)| look.now.since(*at) < LOOK_UP_AGAIN;
        if self.followed.as_ref().is_some_and(is_recent) && !locator.has_moved() {
            return false;
        }
        let Some(cgroups) = finding.take(locator.locate()) else {
            self.followed = None;
            return false;
        };
        if let (true, Some((at, ..))) = (cgroups.is_gone(), &mut self.followed) {
            // The process is exiting: its memory stays in this cgroup until it is released.
            *at = look.now;
            return false;
        }
        self.path = cgroups.path().map(Arc::from);
        if let Some(top) = not_mounted(&cgroups) {
            let what = format!(
                "{}: no cgroup file system is mounted there; see paths.cgroup",
                top.display()
            );
            finding.problems.push(Problem::new(Status::Absent, what));
            self.followed = None;
            return false;
        }
        self.own_pressure = cgroups
            .unified
            .as_ref()
            .is_ok_and(|unified| unified.folder != unified.top);
        match &mut self.followed {
            Some((at, before, _)) if *before == cgroups => {
                *at = look.now;
                false
            }
            followed => {
                let files = CgroupFiles::new(&cgroups);
                *followed = Some((look.now, cgroups, files));
                true
            }
        }
    }

    fn pressures(&self, sample: &CgroupSample, finding: &mut Finding) {
        if !self.own_pressure {
            let what = "pressure: the process is in no cgroup of version 2 below the topmost one";
            finding.problems.push(Problem::new(Status::Absent, what));
            return;
        }
        for (resource, result) in [
            ("cpu", &sample.cpu_pressure),
            ("memory", &sample.memory_pressure),
            ("io", &sample.io_pressure),
        ] {
            pressure(&c::PRESSURE, resource, result.clone(), finding);
        }
    }

    /// Adds the readings and returns the limiting levels; `None` without a cgroup. `found`: the
    /// files changed since the last tick.
    fn sample(
        &mut self,
        look: &Look<'_>,
        found: Option<ProcessId>,
        finding: &mut Finding,
    ) -> Option<CgroupLevels> {
        let (_, cgroups, files) = self.followed.as_mut()?;
        let sample = if self.limits.is_due(look.now) {
            files.sample(&mut self.buffer)
        } else {
            files.sample_with_last_limits(&mut self.buffer)
        };
        let levels = files.levels(&sample, &mut self.buffer);
        finding.up = sample.memory_usage.is_ok() || sample.memory_stat.is_ok();
        let moved = found.is_some() && self.counted.as_ref() != Some(cgroups);
        if moved {
            self.counted = Some(cgroups.clone());
        }
        if let Some(process) = found {
            report(&self.following, process, cgroups, &sample);
        }
        let frozen = finding.take(sample.frozen.clone()).flatten();
        look.condition.frozen.set(frozen);
        finding
            .readings
            .extend(frozen.map(|frozen| Reading::flag(&c::FROZEN, [], frozen)));
        self.pressures(&sample, finding);
        let io = sample.io.clone();
        read(sample, finding);
        self.io(io, look, finding);
        if moved {
            self.counters.moved(&finding.readings);
        }
        self.counters.resume(&mut finding.readings);
        finding.take(levels)
    }

    fn io(&mut self, io: Result<Vec<DeviceIo>, ReadError>, look: &Look<'_>, finding: &mut Finding) {
        for device in finding.take(io).unwrap_or_default() {
            let name = self.device(look.root, device.device);
            for (direction, bytes) in [("read", device.read_bytes), ("write", device.write_bytes)] {
                let labels = [name.clone(), direction.into()];
                let reading = Reading::counter(&c::IO_BYTES, labels, bytes);
                finding.readings.push(reading);
            }
        }
    }

    fn device(&mut self, root: &HostRoot, device: Device) -> Text {
        let name = self.devices.entry(device).or_insert_with(|| {
            let number = format!("{}:{}", device.major, device.minor);
            let link = std::fs::read_link(root.sysfs.join("dev/block").join(&number)).ok();
            let name = link
                .as_ref()
                .and_then(|path| path.file_name())
                .map(|name| name.to_string_lossy().into_owned());
            name.unwrap_or(number).into()
        });
        Text::Shared(Arc::clone(name))
    }
}

/// Stores the cgroup, which is needed for the process's end reason.
fn report(
    following: &Following,
    process: ProcessId,
    cgroups: &ProcessCgroups,
    sample: &CgroupSample,
) {
    if let Ok(memory) = &cgroups.memory {
        let events = sample.memory_events.as_ref().ok();
        following.saw_cgroup(FoundCgroup {
            process,
            memory: memory.clone(),
            oom_kills: events.and_then(|events| events.oom_kill),
        });
    }
}

/// The root of the memory hierarchy if it is missing: a mount does not vanish with a process,
/// unlike a cgroup.
fn not_mounted(cgroups: &ProcessCgroups) -> Option<&Path> {
    let memory = cgroups.memory.as_ref().ok()?;
    (!memory.top.is_dir()).then_some(&*memory.top)
}

impl Poll for Cgroup {
    fn source(&self) -> Source {
        Source::Cgroup
    }

    fn look(&mut self, look: &Look<'_>) -> Finding {
        let mut finding = Finding::with_room(96);
        let process = look.target.map(|target| target.process);
        if self.process != process {
            *self = Cgroup {
                process,
                counters: std::mem::take(&mut self.counters),
                counted: self.counted.take(),
                ..Cgroup::new(self.memory.clone(), self.following.clone())
            };
        }
        let Some(process) = process else {
            return finding;
        };
        let found = self.find(look, process, &mut finding);
        if let Some(path) = &self.path {
            // Set once: this source runs once per tick.
            drop(look.condition.cgroup.set(Arc::clone(path)));
        }
        let levels = self.sample(look, found.then_some(process), &mut finding);
        self.headroom.read(look, process.pid, levels, &mut finding);
        finding
    }
}

fn read(sample: CgroupSample, finding: &mut Finding) {
    let usage = finding.take(sample.memory_usage);
    finding.whole(&c::USAGE, [], usage);
    let peak = finding.take(sample.memory_peak);
    finding.whole(&c::PEAK, [], peak);
    let max = finding.take(sample.memory_max);
    finding.whole(&c::LIMIT, ["max"], max.and_then(Limit::bytes));
    let high = finding.take(sample.memory_high);
    finding.whole(&c::LIMIT, ["high"], high.and_then(Limit::bytes));
    let swap_max = match (sample.swap_max, sample.memory_and_swap_max) {
        (Ok(limit), _) => limit.bytes(),
        // Version 1 limits memory and swap together; the excess over the memory limit is swap's.
        (Err(_), Ok(both)) => both
            .bytes()
            .zip(max.and_then(Limit::bytes))
            .map(|(both, memory)| both.saturating_sub(memory)),
        // Each version lacks the other's file; the other error is the reason.
        (Err(error), Err(other)) => {
            let lacks = error.kind() == ErrorKind::Absent;
            finding.problem(if lacks { &other } else { &error });
            None
        }
    };
    finding.whole(&c::LIMIT, ["swap_max"], swap_max);
    let swap = finding.take(sample.swap_usage);
    finding.whole(&c::SWAP, [], swap);
    if let Some(stat) = finding.take(sample.memory_stat) {
        read_stat(&stat, finding);
    }
    if let Some(events) = finding.take(sample.memory_events) {
        for (event, count) in [
            ("low", events.low),
            ("high", events.high),
            ("max", events.max),
            ("oom", events.oom),
            ("oom_kill", events.oom_kill),
        ] {
            finding.whole(&c::EVENTS, [event], count);
        }
    }
    let throttled = finding.take(sample.cpu).and_then(|cpu| cpu.throttled);
    finding.seconds(&c::CPU_THROTTLED, [], throttled);
}

fn read_stat(stat: &MemoryStat, finding: &mut Finding) {
    for (kind, bytes) in [
        ("anon", stat.anon),
        ("file", stat.file),
        ("file_mapped", stat.file_mapped),
        ("shmem", stat.shmem),
        ("kernel", stat.kernel),
        ("kernel_stack", stat.kernel_stack),
        ("pagetables", stat.pagetables),
        ("percpu", stat.percpu),
        ("vmalloc", stat.vmalloc),
        ("sock", stat.sock),
        ("slab", stat.slab),
        ("slab_reclaimable", stat.slab_reclaimable),
        ("slab_unreclaimable", stat.slab_unreclaimable),
        ("unevictable", stat.unevictable),
        ("swapcached", stat.swapcached),
    ] {
        finding.whole(&c::STAT, [kind], bytes);
    }
    finding.whole(&c::REFAULTS, ["anon"], stat.workingset_refault_anon);
    finding.whole(&c::REFAULTS, ["file"], stat.workingset_refault_file);
    finding.whole(&c::PAGE_FAULTS, ["major"], stat.pgmajfault);
    finding.whole(
        &c::PAGE_FAULTS,
        ["minor"],
        minor_faults(stat.pgfault, stat.pgmajfault),
    );
    for (op, by, pages) in [
        ("scan", "kswapd", stat.pgscan_kswapd),
        ("scan", "direct", stat.pgscan_direct),
        ("steal", "kswapd", stat.pgsteal_kswapd),
        ("steal", "direct", stat.pgsteal_direct),
    ] {
        finding.whole(&c::RECLAIM, [op, by], pages);
    }
}
