//! What a run of an experiment stands on: a group of processes with limits, folders that are cleared and filled, a page
//! cache that is cold, a host that is quiet.
//!
//! Everything here changes the host, and nothing here decides: when a run begins and what its end means is the lab's.

mod launch;

pub use launch::{
    Abilities, CpuSet, End, Error, Evidence, GroupName, IoLimit, Job, Launched, Launcher, Limits, Pressure,
};
