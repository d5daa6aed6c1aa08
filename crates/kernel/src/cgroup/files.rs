use std::sync::Arc;

use super::{
    cgroup_file::{CgroupFile, memory_stat},
    levels::{Ancestry, CgroupLevels},
    locate::{CgroupFolder, CgroupVersion, ProcessCgroups},
};
use crate::{
    Parsed, ReadError, Result,
    parse::{
        cgroup::{self, CpuStat, DeviceIo, Limit, MemoryEvents, MemoryStat},
        number,
        pressure::{self, Pressure},
    },
};

/// Open files of one process's cgroups. If a service restart has recreated a cgroup under the same
/// path, the next sample reads the new one.
#[derive(Debug)]
pub struct CgroupFiles {
    memory_version: CgroupVersion,
    io_version: CgroupVersion,
    current: CgroupFile,
    peak: CgroupFile,
    swap_current: CgroupFile,
    stat: CgroupFile,
    kernel_memory: CgroupFile,
    events: CgroupFile,
    failcnt: CgroupFile,
    io: CgroupFile,
    /// Fallback of v1 on older kernels, without descendants.
    io_local: CgroupFile,
    cpu: CgroupFile,
    pressures: [CgroupFile; 3],
    freezers: Freezers,
    ancestry: Result<Ancestry>,
    /// Files of `max`, of `high`, of the swap limit, and of the limit of memory with swap.
    limit_files: [CgroupFile; 4],
    limits: Option<[Result<Limit>; 4]>,
    hierarchical_limits: [Option<u64>; 2],
}

/// Includes descendants, except for throttling and, on v1, memory events and older kernels' I/O.
/// Each file has its own result.
#[derive(Debug)]
pub struct CgroupSample {
    /// Includes page cache, in bytes.
    pub memory_usage: Result<u64>,
    /// In bytes. v2 since Linux 5.19.
    pub memory_peak: Result<u64>,
    pub memory_max: Result<Limit>,
    /// v2 only.
    pub memory_high: Result<Limit>,
    /// In bytes.
    pub swap_usage: Result<u64>,
    /// v2 only: v1 limits memory and swap together.
    pub swap_max: Result<Limit>,
    /// v1 only.
    pub memory_and_swap_max: Result<Limit>,
    pub memory_stat: Result<MemoryStat>,
    pub memory_events: Result<MemoryEvents>,
    /// Devices without any I/O are absent.
    pub io: Result<Vec<DeviceIo>>,
    pub cpu: Result<CpuStat>,
    /// Pressure comes from the v2 hierarchy, also on a hybrid host; in the host's root cgroup it is
    /// the whole host's.
    pub cpu_pressure: Result<Pressure>,
    pub memory_pressure: Result<Pressure>,
    pub io_pressure: Result<Pressure>,
    /// By the process's own cgroup or an ancestor. `None` without a freezer: v2 before Linux 5.2.
    pub frozen: Result<Option<bool>>,
}

impl CgroupFiles {
    /// The first sample opens the files; later ones retry missing files.
    pub fn new(cgroups: &ProcessCgroups) -> Self {
        let file = |cgroup: &Result<CgroupFolder>, v2, v1| match cgroup {
            Ok(cgroup) => CgroupFile::in_folder(cgroup, v2, v1),
            Err(error) => CgroupFile::Missing(error.clone()),
        };
        let memory = |v2, v1| file(&cgroups.memory, v2, v1);
        let io = |v2, v1| file(&cgroups.io, v2, v1);
        let version = |cgroup: &Result<CgroupFolder>| {
            cgroup
                .as_ref()
                .map_or(CgroupVersion::V2, |cgroup| cgroup.version)
        };
        Self {
            memory_version: version(&cgroups.memory),
            io_version: version(&cgroups.io),
            current: memory(Some("memory.current"), Some("memory.usage_in_bytes")),
            peak: memory(Some("memory.peak"), Some("memory.max_usage_in_bytes")),
            swap_current: memory(Some("memory.swap.current"), None),
            limit_files: [
                memory(Some("memory.max"), Some("memory.limit_in_bytes")),
                memory(Some("memory.high"), None),
                memory(Some("memory.swap.max"), None),
                memory(None, Some("memory.memsw.limit_in_bytes")),
            ],
            stat: memory(Some("memory.stat"), Some("memory.stat")),
            kernel_memory: memory(None, Some("memory.kmem.usage_in_bytes")),
            events: memory(Some("memory.events"), Some("memory.oom_control")),
            failcnt: memory(None, Some("memory.failcnt")),
            io: io(
                Some("io.stat"),
                Some("blkio.throttle.io_service_bytes_recursive"),
            ),
            io_local: io(None, Some("blkio.throttle.io_service_bytes")),
            cpu: file(&cgroups.cpu, Some("cpu.stat"), Some("cpu.stat")),
            pressures: ["cpu.pressure", "memory.pressure", "io.pressure"]
                .map(|name| file(&cgroups.unified, Some(name), None)),
            freezers: Freezers::new(cgroups),
            ancestry: cgroups
                .memory
                .as_ref()
                .map(Ancestry::new)
                .map_err(Clone::clone),
            limits: None,
            hierarchical_limits: [None; 2],
        }
    }

    /// The last ones, unless `usage` is above `max` or `high`. Without any, reads settings of all
    /// levels, too.
    fn limits(&mut self, usage: Option<u64>, buffer: &mut Vec<u8>) -> [Result<Limit>; 4] {
        if let Some(limits) = &self.limits {
            let mut max_and_high = limits.iter().take(2).flatten();
            if max_and_high.all(|limit| usage.map(Limit::Bytes) <= Some(*limit)) {
                return limits.clone();
            }
        } else if let Ok(ancestry) = &mut self.ancestry {
            ancestry.read_memory_settings(buffer);
        }
        let files = self.limit_files.each_mut();
        let limits = files.map(|file| file.parse(buffer, Limit::parse));
        self.limits.insert(limits).clone()
    }

    /// Without `read_limits`, repeats the last limits while the cgroup exists, its usage is within
    /// them, and hierarchical limits of v1 are the same.
    pub fn sample(&mut self, read_limits: bool, buffer: &mut Vec<u8>) -> CgroupSample {
        let memory_usage = self.current.parse(buffer, number);
        let memory_stat = memory_stat(
            self.memory_version,
            &mut self.stat,
            &mut self.kernel_memory,
            buffer,
        );
        let limits = memory_stat.as_ref().map_or([None; 2], |stat| {
            let with_swap = stat.hierarchical_memory_and_swap_limit;
            [stat.hierarchical_limit, with_swap]
        });
        if read_limits || memory_usage.is_err() || limits != self.hierarchical_limits {
            (self.limits, self.hierarchical_limits) = (None, limits);
        }
        let [memory_max, memory_high, swap_max, memory_and_swap_max] =
            self.limits(memory_usage.clone().ok(), buffer);
        let [cpu_pressure, memory_pressure, io_pressure] = self
            .pressures
            .each_mut()
            .map(|file| file.parse(buffer, pressure::parse));
        CgroupSample {
            memory_usage,
            memory_peak: self.peak.parse(buffer, number),
            memory_max,
            memory_high,
            swap_usage: self.swap_usage(&memory_stat, buffer),
            swap_max,
            memory_and_swap_max,
            memory_stat,
            memory_events: self.memory_events(buffer),
            io: self.io(buffer),
            cpu: self.cpu.parse(buffer, CpuStat::parse),
            cpu_pressure,
            memory_pressure,
            io_pressure,
            frozen: self.freezers.frozen(buffer),
        }
    }

    /// Memory of each level that limits the process. `own_sample` is the result of the
    /// preceding [`sample`](Self::sample).
    pub fn levels(
        &mut self,
        own_sample: &CgroupSample,
        buffer: &mut Vec<u8>,
    ) -> Result<CgroupLevels> {
        let ancestry = self.ancestry.as_mut().map_err(|error| error.clone())?;
        Ok(ancestry.levels(&own_sample.memory_usage, &own_sample.memory_stat, buffer))
    }

    fn swap_usage(&mut self, stat: &Result<MemoryStat>, buffer: &mut Vec<u8>) -> Result<u64> {
        if self.memory_version == CgroupVersion::V2 {
            return self.swap_current.parse(buffer, number);
        }
        let stat = stat.as_ref().map_err(Clone::clone)?;
        stat.swap.ok_or_else(|| match &self.stat {
            CgroupFile::File(file) => {
                ReadError::absent(Arc::clone(&file.path), "swap is not accounted")
            }
            CgroupFile::Missing(error) => error.clone(),
        })
    }

    fn memory_events(&mut self, buffer: &mut Vec<u8>) -> Result<MemoryEvents> {
        let mut events = self.events.parse(buffer, MemoryEvents::parse)?;
        if self.memory_version == CgroupVersion::V1 {
            events.max = self.failcnt.parse(buffer, number).ok();
        }
        Ok(events)
    }

    fn io(&mut self, buffer: &mut Vec<u8>) -> Result<Vec<DeviceIo>> {
        match self.io_version {
            CgroupVersion::V2 => self.io.parse(buffer, cgroup::io_v2),
            CgroupVersion::V1 => match self.io.parse(buffer, cgroup::io_v1) {
                Err(ReadError::Absent { .. }) => self.io_local.parse(buffer, cgroup::io_v1),
                result => result,
            },
        }
    }
}

#[derive(Debug)]
pub struct Freezers(Vec<Freezer>);

#[derive(Debug)]
struct Freezer {
    file: CgroupFile,
    parse: fn(&[u8]) -> Parsed<Option<bool>>,
    is_top: bool,
    /// The top cgroup has no such file and cannot be frozen, so it is checked only once.
    cannot_freeze: bool,
}

impl Freezers {
    pub fn new(cgroups: &ProcessCgroups) -> Self {
        let v1 = cgroups
            .freezer
            .as_ref()
            .ok()
            .filter(|cgroup| cgroup.version == CgroupVersion::V1);
        let hierarchies = [v1, cgroups.unified.as_ref().ok()].into_iter().flatten();
        // The state of a hierarchy that is not mounted here is unknown.
        Self(
            hierarchies
                .filter(|cgroup| cgroup.mount_point.is_dir())
                .map(Freezer::new)
                .collect(),
        )
    }

    pub fn frozen(&mut self, buffer: &mut Vec<u8>) -> Result<Option<bool>> {
        let mut frozen = None;
        for freezer in &mut self.0 {
            // `Some(true)` is the maximum: one frozen cgroup is enough.
            frozen = frozen.max(freezer.frozen(buffer)?);
        }
        Ok(frozen)
    }
}

impl Freezer {
    fn new(cgroup: &CgroupFolder) -> Self {
        let file = CgroupFile::in_folder(cgroup, Some("cgroup.events"), Some("freezer.state"));
        Self {
            file,
            parse: match cgroup.version {
                CgroupVersion::V2 => cgroup::frozen_v2,
                CgroupVersion::V1 => cgroup::frozen_v1,
            },
            is_top: cgroup.folder == cgroup.mount_point,
            cannot_freeze: false,
        }
    }

    fn frozen(&mut self, buffer: &mut Vec<u8>) -> Result<Option<bool>> {
        if self.cannot_freeze {
            return Ok(Some(false));
        }
        match self.file.parse(buffer, self.parse) {
            Err(ReadError::Absent { .. }) if self.is_top => {
                self.cannot_freeze = true;
                Ok(Some(false))
            }
            result => result,
        }
    }
}

#[cfg(test)]
mod tests;
