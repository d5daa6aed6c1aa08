//! Finds the validator and samples everything on the tick. A source returns readings and problems;
//! the framework adds the time it took.
//!
//! A *polled* source reads the kernel on the tick (process, threads, cgroup, host). A *listening*
//! one is filled by its own task (datapoints, log, JSON-RPC, admin socket), so that a slow response
//! delays no tick.

pub mod admin;
mod asking;
pub mod cgroup;
pub mod conclusions;
pub mod discovery;
pub mod distance;
pub mod host;
pub mod listening;
pub mod process;
pub mod resources;
pub mod rpc;
pub mod selfwatch;
#[cfg(test)]
mod tests;
pub mod threads;
pub mod tick;
pub mod votes;

use conclusions::Inputs;
use discovery::Following;
use faultline_core::config::Config;
use faultline_core::hub::Latest;
use faultline_kernel::HostRoot;
use tick::Poll;

/// In polling order. The listening sources follow.
pub fn polled(config: &Config, root: &HostRoot, following: &Following) -> Vec<Box<dyn Poll>> {
    let mut sources: Vec<Box<dyn Poll>> = vec![
        Box::new(listening::Target {
            following: following.clone(),
            last_reported: None,
        }),
        Box::new(process::Process::new()),
    ];
    if config.threads.enabled {
        sources.push(Box::new(threads::Threads::new(
            config.threads.clone(),
            faultline_core::limits::raise_open_files(),
        )));
    }
    let memory = host::Memory::default();
    sources.push(Box::new(cgroup::Cgroup::new(
        memory.clone(),
        following.clone(),
    )));
    sources.push(Box::new(host::Host::new(root, memory, following.clone())));
    sources
}

/// The listening sources, then the conclusions from all. `live` is the current configuration.
pub fn with_inputs(
    config: &Config,
    datapoints: listening::Datapoints,
    inputs: Inputs,
    live: Latest<Config>,
) -> Vec<Box<dyn Poll>> {
    let mut sources: Vec<Box<dyn Poll>> = Vec::new();
    let slot_time = Latest::default();
    if config.host.enabled {
        let (found, interval) = (inputs.resources.clone(), config.host.interval);
        sources.push(Box::new(resources::Resources {
            found,
            interval,
            last_reported: None,
        }));
    }
    if config.ingest.enabled || config.log.is_some() {
        sources.push(Box::new(datapoints));
    }
    if let Some(view) = inputs.log.clone() {
        sources.push(Box::new(listening::Log(view)));
    }
    if config.rpc.enabled {
        sources.push(Box::new(listening::Rpc {
            handle: inputs.rpc.clone(),
            last_reported: None,
        }));
    }
    if config.rpc.enabled && config.validator.enabled {
        sources.push(Box::new(votes::Votes {
            handle: inputs.votes.clone(),
            rpc: inputs.rpc.clone(),
            intake: inputs.intake.clone(),
            slot_time: slot_time.clone(),
            last_reported: None,
            judged: None,
            requested_for: None,
        }));
    }
    if config.admin.enabled {
        sources.push(Box::new(listening::Admin {
            facts: inputs.admin.clone(),
            last_reported: None,
        }));
    }
    sources.push(Box::new(conclusions::Conclusions::new(
        live, inputs, slot_time,
    )));
    sources
}
