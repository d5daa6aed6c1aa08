use super::HostRoot;
use crate::file::{LazyFile, Owner, ReadMode};
use crate::parse::{pressure, vmstat};
use crate::{ReadError, parse};

/// `meminfo` is not included because others share it: [`HostRoot::open_proc_piece`].
#[derive(Debug)]
pub struct HostFiles {
    vmstat: LazyFile,
    cpu_pressure: LazyFile,
    memory_pressure: LazyFile,
    io_pressure: LazyFile,
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
    #[must_use]
    pub fn new(root: &HostRoot) -> Self {
        let slot = |relative: &str, records| {
            LazyFile::new(Owner::Host, root.procfs.join(relative), records)
        };
        Self {
            vmstat: slot("vmstat", ReadMode::Lines),
            cpu_pressure: slot("pressure/cpu", ReadMode::One),
            memory_pressure: slot("pressure/memory", ReadMode::One),
            io_pressure: slot("pressure/io", ReadMode::One),
            max_map_count: slot("sys/vm/max_map_count", ReadMode::One),
            max_maps: None,
        }
    }

    pub fn sample(&mut self, buffer: &mut Vec<u8>) -> HostSample {
        self.max_maps = None;
        self.sample_with_last_limits(buffer)
    }

    pub fn sample_with_last_limits(&mut self, buffer: &mut Vec<u8>) -> HostSample {
        let max_map_count = match self.max_maps.take() {
            Some(known) => known,
            None => self.max_map_count.parse(buffer, parse::number::parse),
        };
        self.max_maps = Some(max_map_count.clone());
        HostSample {
            vmstat: self.vmstat.parse(buffer, vmstat::parse),
            cpu_pressure: self.cpu_pressure.parse(buffer, pressure::parse),
            memory_pressure: self.memory_pressure.parse(buffer, pressure::parse),
            io_pressure: self.io_pressure.parse(buffer, pressure::parse),
            max_map_count,
        }
    }
}
