//! What a run of an experiment stands on: a group of processes with limits, folders that are cleared and filled, a page
//! cache that is cold, a host that is quiet.
//!
//! Everything here changes the host, and nothing here decides: when a run begins and what its end means is the lab's.

pub mod cold;
pub mod folders;
pub mod host;
mod launch;
mod tree;

pub use launch::{
    Abilities, CgroupRoots, CpuSet, Direct, End, Error, Evidence, GroupName, IoLimit, Job,
    Launched, Launcher, Limits, Pressure, Systemd,
};
