//! The host's counters and pressure, sample after sample.

use super::HostRoot;
use crate::file::{Owner, Records, Slot};
use crate::parse::{pressure, vmstat};
use crate::{ReadError, parse};

/// Holds `vmstat`, the pressure files and the limit of mappings of the host. Its `meminfo` others need as well:
/// [`HostRoot::hold_proc_piece`] holds it.
#[derive(Debug)]
pub struct HostFiles {
    vmstat: Slot,
    cpu_pressure: Slot,
    memory_pressure: Slot,
    io_pressure: Slot,
    max_map_count: Slot,
}

/// One sample of the host.
#[derive(Debug, Clone, PartialEq)]
pub struct HostSample {
    /// `/proc/vmstat`
    pub vmstat: Result<vmstat::Vmstat, ReadError>,
    /// `/proc/pressure/cpu`, since Linux 4.20; `Absent` without it or with `psi=0`.
    pub cpu_pressure: Result<pressure::Pressure, ReadError>,
    /// `/proc/pressure/memory`
    pub memory_pressure: Result<pressure::Pressure, ReadError>,
    /// `/proc/pressure/io`
    pub io_pressure: Result<pressure::Pressure, ReadError>,
    /// `vm.max_map_count`
    pub max_map_count: Result<u64, ReadError>,
}

impl HostFiles {
    /// Opens nothing yet: each file is opened by the first sample, and tried again by later ones while it is missing.
    #[must_use]
    pub fn new(root: &HostRoot) -> Self {
        let slot =
            |relative: &str, records| Slot::new(Owner::Host, root.procfs.join(relative), records);
        Self {
            vmstat: slot("vmstat", Records::Lines),
            cpu_pressure: slot("pressure/cpu", Records::One),
            memory_pressure: slot("pressure/memory", Records::One),
            io_pressure: slot("pressure/io", Records::One),
            max_map_count: slot("sys/vm/max_map_count", Records::One),
        }
    }

    /// Reads everything once.
    pub fn sample(&mut self, buffer: &mut Vec<u8>) -> HostSample {
        HostSample {
            vmstat: self.vmstat.parse(buffer, vmstat::parse),
            cpu_pressure: self.cpu_pressure.parse(buffer, pressure::parse),
            memory_pressure: self.memory_pressure.parse(buffer, pressure::parse),
            io_pressure: self.io_pressure.parse(buffer, pressure::parse),
            max_map_count: self.max_map_count.parse(buffer, parse::number::parse),
        }
    }
}
