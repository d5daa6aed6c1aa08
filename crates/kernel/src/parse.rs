//! One pure parser per file of the kernel; procfs-core is used where it keeps these rules:
//!
//! * Unknown keys are skipped, a missing key is `None`, and a known key with a value that
//!   is not a number is an error.
//! * A counter that the kernel has decremented below zero is `None`. If the parsed type of a
//!   line has no `None`, the whole line is left out.
//! * Memory is in bytes, whatever unit the file uses.

pub mod boot_time;
pub mod cgroup_events;
pub mod cgroup_frozen;
pub mod cgroup_io;
pub mod cgroup_limit;
pub mod cgroup_memory_stat;
pub mod choice;
pub mod cpu_list;
pub mod cpu_stat;
pub mod cpu_times;
pub mod cpuinfo;
pub mod diskstats;
pub mod interrupts;
pub mod locks;
pub mod meminfo;
pub mod mountinfo;
pub mod net_dev;
pub mod node_meminfo;
pub mod number;
pub mod os_release;
pub mod pid_cgroup;
pub mod pid_cmdline;
pub mod pid_environ;
pub mod pid_io;
pub mod pid_limits;
pub mod pid_schedstat;
pub mod pid_stat;
pub mod pid_status;
pub mod pressure;
pub mod swaps;
pub mod udp_counters;
pub mod udp_sockets;
pub mod vmstat;
pub mod zone_watermarks;

pub use cgroup_limit::Limit;
