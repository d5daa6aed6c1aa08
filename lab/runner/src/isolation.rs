//! Prepares the host for a run, and launches the run's programs in cgroups with limits.

pub mod cold;
mod file_tree;
pub mod folders;
pub mod host;
mod launch;

pub use launch::{
    CgroupName, CgroupState, CpuSet, DirectLauncher, DirectLauncherPaths, End, IoLimit, Job,
    Launched, Launcher, LauncherAbilities, Limits, Pressure, SystemdLauncher,
};
