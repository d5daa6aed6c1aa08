//! The sources of the daemon. A source is a group of readings with one state `up`. Its module has
//! `register` and a sampler, which the tick calls.
//! Some samplers read kernel files within the tick. The other sources also have a poller: a task or
//! thread that publishes its latest result. So a slow response delays no tick.

macro_rules! named_fields {
    ($value:ident: $($field:ident),*) => {
        [$((stringify!($field), $value.$field)),*]
    };
}

pub mod admin;
mod cgroup;
pub mod conclusions;
mod datapoints;
pub mod discovery;
pub mod distance;
pub mod host;
mod interrupts;
pub mod own_process;
mod polling;
mod process;
pub mod resources;
pub mod rpc;
mod target;
#[cfg(test)]
mod tests;
mod threads;
pub mod tick;
pub mod votes;

use admin::AdminFacts;
use conclusions::Conclusions;
use faultline_core::{
    config::Config,
    publish::Latest,
    supervisor::{Stop, WorkerGroup},
};
use faultline_datapoints::{forward, ingest::Listener, validator::intake::Intake};
use faultline_metrics::Source;
use futures_util::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use std::io;
use tick::{BuildContext, Sampler};

type StartHook = Box<dyn FnOnce(&mut WorkerGroup) -> io::Result<()> + Send>;
type PollerStart = Box<dyn FnOnce(Stop) -> BoxFuture<'static, ()> + Send>;

#[derive(Default)]
pub struct Registry {
    /// In the order in which a tick samples them.
    pub samplers: Vec<(Source, Box<dyn Sampler>)>,
    start_hooks: Vec<StartHook>,
    validator_pollers: Vec<PollerStart>,
}

impl Registry {
    pub(crate) fn add_sampler(&mut self, source: Source, sampler: impl Sampler + 'static) {
        self.samplers.push((source, Box::new(sampler)));
    }

    /// `start` adds a thread or task to the workers, which stop together.
    pub fn on_start(
        &mut self,
        start: impl FnOnce(&mut WorkerGroup) -> io::Result<()> + Send + 'static,
    ) {
        self.start_hooks.push(Box::new(start));
    }

    /// Adds a task to the thread `rpc`. With the default intervals, polls of the validator are due
    /// at the same times, so one thread wakes for all.
    fn add_validator_poller<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        run: impl FnOnce(Stop) -> F + Send + 'static,
    ) {
        // Boxed: futures that are moved by value would take 100 kB of the stack.
        self.validator_pollers
            .push(Box::new(|stop| run(stop).boxed()));
    }

    pub fn start(self, workers: &mut WorkerGroup) -> io::Result<()> {
        for start in self.start_hooks {
            start(workers)?;
        }
        let pollers = self.validator_pollers;
        if pollers.is_empty() {
            return Ok(());
        }
        // DNS lookups are its only blocking calls.
        workers.task_thread("rpc", rpc::MAX_DNS_LOOKUPS, |stop| async move {
            join_all(pollers.into_iter().map(|run| run(stop.clone()))).await;
        })
    }
}

pub fn register_kernel(registry: &mut Registry, context: &BuildContext<'_>) {
    target::register(registry, context);
    process::register(registry);
    threads::register(registry, context);
    let meminfo = host::SharedMeminfo::default();
    cgroup::register(registry, context, &meminfo);
    host::register(registry, context, meminfo);
    interrupts::register(registry, context);
}

/// Registers all sources in the order of sampling. `latest_config` is the configuration after
/// reloads. The manifest of a recording needs both returned values.
pub fn register(
    registry: &mut Registry,
    context: &BuildContext<'_>,
    intake: &Intake,
    listener: Option<Listener<Intake>>,
    forward: Option<forward::Handle>,
    latest_config: Latest<Config>,
) -> (rpc::Handle, Latest<AdminFacts>) {
    let admin = Latest::default();
    register_kernel(registry, context);
    resources::register(registry, context);
    datapoints::register(registry, context, intake, listener, forward);
    let log_status = datapoints::register_validator_log(registry, context, intake);
    let rpc = rpc::register(registry, context, &admin);
    let votes = votes::register(registry, context, intake, &rpc, &admin);
    admin::register(registry, context, &admin, latest_config.clone());
    registry.add_sampler(
        Source::Conclusions,
        Conclusions::new(
            latest_config,
            intake.clone(),
            rpc.clone(),
            votes,
            admin.clone(),
            log_status,
        ),
    );
    (rpc, admin)
}
