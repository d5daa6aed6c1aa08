//! Prepares the host for the run of an experiment: cgroups with limits, folders, page cache, host
//! state. The lab decides when a run begins and ends.

pub mod cold;
pub mod folders;
pub mod host;
mod launch;
mod tree;

pub use launch::{
    Abilities, CgroupRoots, CpuSet, Direct, End, Evidence, GroupName, IoLimit, Job, Launched,
    Launcher, Limits, Pressure, Systemd,
};
