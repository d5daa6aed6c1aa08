//! Prepares the host for a run: cgroups with limits, folders, page cache, host state.

pub mod cold;
pub mod folders;
pub mod host;
mod launch;
mod tree;

pub use launch::{
    Abilities, CgroupName, CgroupState, CpuSet, Direct, DirectPaths, End, IoLimit, Job, Launched,
    Launcher, Limits, Pressure, Systemd,
};
