use super::HostRoot;
use crate::{
    ReadError,
    file::{LazyFile, Owner, ReadMode},
    parse::{self, pressure, vmstat},
};

/// `meminfo` is not included because others share it: [`HostRoot::open_proc_single_read`].
#[derive(Debug)]
pub struct HostFiles {
    vmstat: LazyFile,
    pressures: [LazyFile; 3],
    max_map_count: LazyFile,
    max_maps: Option<Result<u64, ReadError>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct HostSample {
    pub vmstat: Result<vmstat::Vmstat, ReadError>,
    /// Since Linux 4.20; `Absent` without it or with `psi=0`.
    pub cpu_pressure: Result<pressure::Pressure, ReadError>,
    pub memory_pressure: Result<pressure::Pressure, ReadError>,
    pub io_pressure: Result<pressure::Pressure, ReadError>,
    pub max_map_count: Result<u64, ReadError>,
}

impl HostFiles {
    /// The first sample opens the files; later ones retry missing files.
    pub fn new(root: &HostRoot) -> Self {
        let lazy_file = |relative: &str, read_mode| {
            LazyFile::new(Owner::Host, root.procfs.join(relative), read_mode)
        };
        Self {
            // The kernel sums over all CPUs at each read. The later lines are not wanted.
            vmstat: lazy_file("vmstat", ReadMode::LinesUntil(b"oom_kill ")),
            pressures: ["pressure/cpu", "pressure/memory", "pressure/io"]
                .map(|name| lazy_file(name, ReadMode::One)),
            max_map_count: lazy_file("sys/vm/max_map_count", ReadMode::One),
            max_maps: None,
        }
    }

    pub fn sample(&mut self, buffer: &mut Vec<u8>) -> HostSample {
        self.max_maps = None;
        self.sample_with_last_limits(buffer)
    }

    pub fn sample_with_last_limits(&mut self, buffer: &mut Vec<u8>) -> HostSample {
        let Self {
            max_map_count,
            max_maps,
            ..
        } = self;
        let max_maps = max_maps
            .get_or_insert_with(|| max_map_count.parse(buffer, parse::number::parse))
            .clone();
        let [cpu_pressure, memory_pressure, io_pressure] = self
            .pressures
            .each_mut()
            .map(|file| file.parse(buffer, pressure::parse));
        HostSample {
            vmstat: self.vmstat.parse(buffer, vmstat::parse),
            cpu_pressure,
            memory_pressure,
            io_pressure,
            max_map_count: max_maps,
        }
    }
}
