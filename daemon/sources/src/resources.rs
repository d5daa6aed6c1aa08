//! File systems, disks, network and processors. A task on its own thread samples every
//! `host.interval` and after a change of process. The tick exports the latest result. A file system
//! that hangs blocks only its own calls.

mod disks;
mod filesystems;
mod fill_forecast;
mod network;

pub use filesystems::{FileSystemUsage, Folder, UnavailableFolder, inspect};

use crate::{
    Registry,
    discovery::{Target, TargetHandle},
    polling::{PollResult, PollResultSampler, PollTimer},
    tick::{BuildContext, SourceOutput},
};
use disks::BusyTimes;
use faultline_core::{clock::Clock, publish::Latest, supervisor::Stop};
use faultline_kernel::{
    HostRoot, ProcessId, Result, block, cpus::CpuSpeeds, filesystem::Mounts,
    parse::mountinfo::Mount,
};
use faultline_metrics::{
    AddReadings, LabelText, Problem, ProblemKind, Reading, Source, metrics::resources as m,
};
use filesystems::{FileSystems, FoldersAndPorts};
use network::Network;
use std::{sync::Arc, time::Duration};

/// Maximum number of file system calls at once. Each folder has one, because all may hang, and some
/// are for folders of an earlier process.
pub const MAX_BLOCKING_CALLS: usize = filesystems::MAX_FOLDERS + 4;

pub fn register(registry: &mut Registry, context: &BuildContext<'_>) {
    let config = &context.config.host;
    if !config.enabled {
        return;
    }
    let latest = Latest::default();
    registry.add_sampler(
        Source::Resources,
        PollResultSampler::new(config.interval, latest.clone()),
    );
    let poller = Poller::new(context, latest);
    registry.on_start(|workers| {
        workers.task_thread("resources", MAX_BLOCKING_CALLS, |stop| poller.run(stop))
    });
}

/// One of this many polls samples the CPUs. On some kernels the sample interrupts each CPU.
const POLLS_PER_CPU_SAMPLE: u64 = 4;

struct Poller {
    interval: Duration,
    clock: Clock,
    root: HostRoot,
    target_handle: TargetHandle,
    latest: Latest<PollResult>,
    polls: u64,
    target: Option<Arc<Target>>,
    folders_and_ports: FoldersAndPorts,
    mount_cache: MountCache,
    file_systems: FileSystems,
    busy_times: BusyTimes,
    network: Network,
    cpu_readings: Vec<Reading>,
}

impl Poller {
    fn new(context: &BuildContext<'_>, latest: Latest<PollResult>) -> Self {
        Self {
            interval: context.config.host.interval,
            clock: context.clock,
            root: context.root.clone(),
            target_handle: context.target_handle.clone(),
            latest,
            polls: 0,
            target: None,
            folders_and_ports: FoldersAndPorts::default(),
            mount_cache: MountCache::default(),
            file_systems: FileSystems::default(),
            busy_times: BusyTimes::default(),
            network: Network::default(),
            cpu_readings: Vec::new(),
        }
    }

    async fn run(mut self, stop: Stop) {
        let mut timer = PollTimer::new(self.clock, self.interval, stop);
        let mut process = self.target_handle.watch_process();
        loop {
            tokio::select! {
                more = timer.next() => if !more { return },
                Ok(()) = process.changed() => {}
            }
            // No action if the next poll falls due during this one: the sampler notices that the
            // result is old.
            if timer.wait_for(self.poll(), || {}).await.is_none() {
                return;
            }
        }
    }

    async fn poll(&mut self) {
        let mut output = SourceOutput::with_capacity(128);
        let target = self.target_handle.current();
        let last_target = self.target.as_ref();
        // An exec in place makes a new target.
        if let Some(target) = &target
            && last_target.is_none_or(|last| !Arc::ptr_eq(last, target))
        {
            self.folders_and_ports.udp_ports = None;
            let found = FoldersAndPorts::of(&self.root, target);
            if let Some(found) = output.value_or_problem(found) {
                self.target = Some(Arc::clone(target));
                self.file_systems.set_folders(found.folders.clone());
                self.folders_and_ports = found;
            }
        }
        self.sample_file_systems(target.as_deref(), &mut output)
            .await;
        if self.polls.is_multiple_of(POLLS_PER_CPU_SAMPLE) {
            self.cpu_readings = cpu_readings(&CpuSpeeds::read(&self.root));
        }
        self.polls += 1;
        output.readings.extend_from_slice(&self.cpu_readings);
        let readings = std::mem::take(&mut output.readings);
        if let Some(target) = &target {
            let ports = self.folders_and_ports.udp_ports.as_deref();
            self.network.poll(&self.root, target, ports, &mut output);
        }
        let network_readings = std::mem::replace(&mut output.readings, readings);
        let result = PollResult {
            polled_at: self.clock.now(),
            output,
            process_readings: target.map(|target| (target.process, network_readings)),
        };
        self.latest.set(Some(Arc::new(result)));
    }

    /// `up` stays false without mounts, without [`FileSystems::is_up`], or with a `Broken` problem.
    async fn sample_file_systems(&mut self, target: Option<&Target>, output: &mut SourceOutput) {
        let process = target.map(|target| target.process);
        let mounts = self.mount_cache.read(&self.root, process);
        let Some(mounts) = output.value_or_problem(mounts) else {
            return;
        };
        let pid = process.map(|process| process.pid);
        self.file_systems
            .poll_folders(&self.root, pid, &Arc::new(mounts), self.clock)
            .await;
        let usages = self.file_systems.usages();
        let disks: Vec<_> = usages
            .iter()
            .map(|usage| block::under(&self.root, &usage.file_system.mount, disks::MAX_DISKS))
            .collect();
        self.file_systems.add_readings(
            &usages,
            &disks,
            self.clock.now(),
            self.interval,
            &mut output.readings,
        );
        output.problems.extend(self.file_systems.problems());
        disks::add_readings(&self.root, &disks, &mut self.busy_times, self.clock, output);
        let is_broken = |problem: &Problem| problem.kind == ProblemKind::Broken;
        output.up = self.file_systems.is_up() && !output.problems.iter().any(is_broken);
    }
}

/// The mounts of the last process. They are unreadable after its end, and the daemon's own mounts
/// cannot replace them: their options differ.
#[derive(Default)]
struct MountCache(Option<(ProcessId, Vec<Mount>)>);

impl MountCache {
    /// The mounts of the process, current or last known, and of the daemon.
    /// An error if the daemon's own mounts are unreadable.
    fn read(&mut self, root: &HostRoot, process: Option<ProcessId>) -> Result<Mounts> {
        let pid = process.map(|process| process.pid);
        let mut mounts = Mounts::read(root, pid).or_else(|_| Mounts::read(root, None))?;
        if !mounts.process.is_empty() {
            self.0 = process.zip(Some(mounts.process.clone()));
        } else if process.is_some() {
            self.0.take_if(|(owner, _)| Some(*owner) != process);
        }
        if let Some((_, known)) = &self.0 {
            mounts.process.clone_from(known);
        }
        Ok(mounts)
    }
}

fn cpu_readings(speeds: &CpuSpeeds) -> Vec<Reading> {
    let mut out = Vec::new();
    if let Some(hertz) = speeds.hertz {
        for (name, hertz) in [("min", hertz.min), ("mean", hertz.mean), ("max", hertz.max)] {
            out.real(&m::CPU_FREQUENCY, [name.into()], hertz);
        }
    }
    let governor = match speeds.governors.len() {
        0 | 1 => speeds.governors.first().cloned().map(LabelText::from),
        _ => Some("mixed".into()),
    };
    if let Some(governor) = governor {
        out.flag(&m::CPU_GOVERNOR, [governor], true);
    }
    out.integer(&m::CPU_THROTTLES, ["core".into()], speeds.core_throttles);
    let packages = speeds.package_throttles;
    out.integer(&m::CPU_THROTTLES, ["package".into()], packages);
    out
}

#[cfg(test)]
mod tests;
