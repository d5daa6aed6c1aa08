//! One process's cgroups, sample after sample.

use std::sync::Arc;

use super::freezer::Freezers;
use super::levels::{Ancestry, CgroupLevels, OwnMemory};
use super::locate::{CgroupFolder, CgroupVersion, ProcessCgroups};
use super::source::{Source, memory_stat};
use crate::parse::cgroup_events::{self, MemoryEvents};
use crate::parse::cgroup_io::{self, DeviceIo};
use crate::parse::cgroup_memory_stat::MemoryStat;
use crate::parse::cpu_stat::{self, CpuStat};
use crate::parse::pressure::{self, Pressure};
use crate::parse::{cgroup_limit, number};
use crate::{Limit, ReadError};

/// Holds the files of the cgroups of one process. A cgroup that is removed and made again under the same path, as at a
/// service's restart, is found again by the next sample.
#[derive(Debug)]
pub struct CgroupFiles {
    memory_version: CgroupVersion,
    io_version: CgroupVersion,
    current: Source,
    peak: Source,
    max: Source,
    high: Source,
    swap_current: Source,
    swap_max: Source,
    memsw_max: Source,
    stat: Source,
    kernel: Source,
    events: Source,
    failcnt: Source,
    io: Source,
    /// v1 before Linux 4.12 counts only what the cgroup itself does.
    io_local: Source,
    cpu: Source,
    pressures: [Source; 3],
    freezers: Freezers,
    ancestry: Result<Ancestry, ReadError>,
    limits: Option<Limits>,
}

/// Limits, which change rarely and are cached between samples.
#[derive(Debug, Clone)]
struct Limits {
    max: Result<Limit, ReadError>,
    high: Result<Limit, ReadError>,
    swap: Result<Limit, ReadError>,
    memory_and_swap: Result<Limit, ReadError>,
}

/// One sample of a cgroup with its descendants. Each file has its own result.
#[derive(Debug, Clone, PartialEq)]
pub struct CgroupSample {
    /// Memory in use, page cache included, in bytes.
    pub memory_usage: Result<u64, ReadError>,
    /// The highest usage so far, in bytes. v2 since Linux 5.19.
    pub memory_peak: Result<u64, ReadError>,
    pub memory_max: Result<Limit, ReadError>,
    /// Where slowing down begins. v2 only.
    pub memory_high: Result<Limit, ReadError>,
    /// Swap in use, in bytes.
    pub swap_usage: Result<u64, ReadError>,
    /// Most swap. v2 only: v1 limits memory and swap together.
    pub swap_max: Result<Limit, ReadError>,
    /// Most memory and swap together. v1 only.
    pub memory_and_swap_max: Result<Limit, ReadError>,
    /// What the memory consists of.
    pub memory_stat: Result<MemoryStat, ReadError>,
    /// How often a limit mattered.
    pub memory_events: Result<MemoryEvents, ReadError>,
    /// Bytes to and from each device that saw any.
    pub io: Result<Vec<DeviceIo>, ReadError>,
    /// Time held back by a CPU limit.
    pub cpu: Result<CpuStat, ReadError>,
    /// Waiting for the CPU. The three pressures are of the v2 hierarchy, also on a hybrid host; in its topmost cgroup
    /// they are the whole host's.
    pub cpu_pressure: Result<Pressure, ReadError>,
    pub memory_pressure: Result<Pressure, ReadError>,
    pub io_pressure: Result<Pressure, ReadError>,
    /// Whether a freezer, its own or an ancestor's, holds all its processes. `None` where no freezer tells: v2 before Linux
    /// 5.2.
    pub frozen: Result<Option<bool>, ReadError>,
}

impl CgroupFiles {
    /// Opens nothing yet: each file is opened by the first sample, and tried again by later ones while it is missing.
    #[must_use]
    pub fn new(cgroups: &ProcessCgroups) -> Self {
        let source = |cgroup: &Result<CgroupFolder, ReadError>, v2, v1| match cgroup {
            Ok(cgroup) => Source::in_folder(cgroup, v2, v1),
            Err(error) => Source::None(error.clone()),
        };
        let memory = |v2, v1| source(&cgroups.memory, v2, v1);
        let io = |v2, v1| source(&cgroups.io, v2, v1);
        let version = |cgroup: &Result<CgroupFolder, ReadError>| {
            cgroup
                .as_ref()
                .map_or(CgroupVersion::V2, |cgroup| cgroup.version)
        };
        Self {
            memory_version: version(&cgroups.memory),
            io_version: version(&cgroups.io),
            current: memory(Some("memory.current"), Some("memory.usage_in_bytes")),
            peak: memory(Some("memory.peak"), Some("memory.max_usage_in_bytes")),
            max: memory(Some("memory.max"), Some("memory.limit_in_bytes")),
            high: memory(Some("memory.high"), None),
            swap_current: memory(Some("memory.swap.current"), None),
            swap_max: memory(Some("memory.swap.max"), None),
            memsw_max: memory(None, Some("memory.memsw.limit_in_bytes")),
            stat: memory(Some("memory.stat"), Some("memory.stat")),
            kernel: memory(None, Some("memory.kmem.usage_in_bytes")),
            events: memory(Some("memory.events"), Some("memory.oom_control")),
            failcnt: memory(None, Some("memory.failcnt")),
            io: io(
                Some("io.stat"),
                Some("blkio.throttle.io_service_bytes_recursive"),
            ),
            io_local: io(None, Some("blkio.throttle.io_service_bytes")),
            cpu: source(&cgroups.cpu, Some("cpu.stat"), Some("cpu.stat")),
            pressures: ["cpu.pressure", "memory.pressure", "io.pressure"]
                .map(|name| source(&cgroups.unified, Some(name), None)),
            freezers: Freezers::new(cgroups),
            ancestry: cgroups
                .memory
                .as_ref()
                .map(Ancestry::new)
                .map_err(Clone::clone),
            limits: None,
        }
    }

    fn limits(&mut self, buffer: &mut Vec<u8>) -> Limits {
        if let Some(limits) = &self.limits {
            return limits.clone();
        }
        if let Ok(ancestry) = &mut self.ancestry {
            ancestry.read_limits(buffer);
        }
        let limits = Limits {
            max: self.max.parse(buffer, cgroup_limit::parse),
            high: self.high.parse(buffer, cgroup_limit::parse),
            swap: self.swap_max.parse(buffer, cgroup_limit::parse),
            memory_and_swap: self.memsw_max.parse(buffer, cgroup_limit::parse),
        };
        self.limits.insert(limits).clone()
    }

    pub fn sample(&mut self, buffer: &mut Vec<u8>) -> CgroupSample {
        self.limits = None;
        self.sample_with_last_limits(buffer)
    }

    /// The same, with the limits of the last sample as long as the cgroup is there.
    pub fn sample_with_last_limits(&mut self, buffer: &mut Vec<u8>) -> CgroupSample {
        let memory_usage = self.current.parse(buffer, number::parse);
        if memory_usage.is_err() {
            self.limits = None;
        }
        let limits = self.limits(buffer);
        let memory_stat = memory_stat(
            self.memory_version,
            &mut self.stat,
            &mut self.kernel,
            buffer,
        );
        let [cpu_pressure, memory_pressure, io_pressure] = self
            .pressures
            .each_mut()
            .map(|source| source.parse(buffer, pressure::parse));
        CgroupSample {
            memory_usage,
            memory_peak: self.peak.parse(buffer, number::parse),
            memory_max: limits.max,
            memory_high: limits.high,
            swap_usage: self.swap_usage(&memory_stat, buffer),
            swap_max: limits.swap,
            memory_and_swap_max: limits.memory_and_swap,
            memory_stat,
            memory_events: self.memory_events(buffer),
            io: self.io(buffer),
            cpu: self.cpu.parse(buffer, cpu_stat::parse),
            cpu_pressure,
            memory_pressure,
            io_pressure,
            frozen: self.freezers.frozen(buffer),
        }
    }

    /// The memory of each level that limits the process. `own` is what [`sample`](Self::sample) has just found.
    ///
    /// # Errors
    /// When the process's cgroup was not found.
    pub fn levels(
        &mut self,
        own: &CgroupSample,
        buffer: &mut Vec<u8>,
    ) -> Result<CgroupLevels, ReadError> {
        match &mut self.ancestry {
            Ok(ancestry) => {
                let own = OwnMemory {
                    usage: &own.memory_usage,
                    stat: &own.memory_stat,
                };
                Ok(ancestry.levels(own, buffer))
            }
            Err(error) => Err(error.clone()),
        }
    }

    fn swap_usage(
        &mut self,
        stat: &Result<MemoryStat, ReadError>,
        buffer: &mut Vec<u8>,
    ) -> Result<u64, ReadError> {
        match (self.memory_version, stat) {
            (CgroupVersion::V2, _) => self.swap_current.parse(buffer, number::parse),
            (
                CgroupVersion::V1,
                Ok(MemoryStat {
                    swap: Some(swap), ..
                }),
            ) => Ok(*swap),
            (CgroupVersion::V1, Ok(_)) => match &self.stat {
                Source::File(slot) => Err(ReadError::absent(
                    Arc::clone(slot.path()),
                    "swap is not accounted",
                )),
                Source::None(error) => Err(error.clone()),
            },
            (CgroupVersion::V1, Err(error)) => Err(error.clone()),
        }
    }

    fn memory_events(&mut self, buffer: &mut Vec<u8>) -> Result<MemoryEvents, ReadError> {
        let mut events = self.events.parse(buffer, cgroup_events::parse)?;
        if self.memory_version == CgroupVersion::V1 {
            events.max = self.failcnt.parse(buffer, number::parse).ok();
        }
        Ok(events)
    }

    fn io(&mut self, buffer: &mut Vec<u8>) -> Result<Vec<DeviceIo>, ReadError> {
        match self.io_version {
            CgroupVersion::V2 => self.io.parse(buffer, cgroup_io::parse_v2),
            CgroupVersion::V1 => match self.io.parse(buffer, cgroup_io::parse_v1) {
                Err(ReadError::Absent { .. }) => self.io_local.parse(buffer, cgroup_io::parse_v1),
                result => result,
            },
        }
    }
}

#[cfg(test)]
mod tests;
