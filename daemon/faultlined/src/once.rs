//! One short check for the terminal: the target, the readable files, and the reachable interfaces.
//! It uses the daemon's own code with short timeouts, listens nowhere and writes nothing.

mod disks;
pub mod metrics;
mod pollers;
mod ports;
mod report;
mod rights;
mod votes;

pub use report::{Check, Report, State};

use crate::app;
use anyhow::{Context, bail};
use faultline_core::clock::Clock;
use faultline_core::config::Config;
use faultline_core::supervisor::Stage;
use faultline_sources::rpc::identity_of;
use rights::ProcessInspection;
use std::time::Duration;
use tokio::runtime::Handle;

const PATIENCE: Duration = Duration::from_secs(5);
const GRACE: Duration = Duration::from_secs(1);

/// Takes some seconds at most.
///
/// # Errors
/// procfs is unreadable, or a thread cannot start.
pub fn examine(config: &Config) -> anyhow::Result<Report> {
    let runtime = app::runtime()?;
    let report = runtime.block_on(check(config));
    runtime.shutdown_timeout(GRACE);
    report
}

async fn check(config: &Config) -> anyhow::Result<Report> {
    let clock = Clock::start();
    let seen = inspect(config, clock).await?;
    let questions = async {
        let (admin, facts) = pollers::admin(config, &seen, clock).await;
        let (rpc, rpc_facts) = pollers::rpc(config, &seen, facts.clone(), clock).await;
        let votes = votes::check(config, &seen, (facts.clone(), rpc_facts.clone()), clock).await;
        let process = seen.target.as_ref().map(|target| target.process);
        let reported_identity = process.and_then(|process| {
            identity_of(
                process,
                rpc_facts.facts().as_deref(),
                facts.get().as_deref(),
            )
        });
        (admin, rpc, votes, reported_identity)
    };
    let others = async {
        tokio::join!(
            ports::ingest(config),
            ports::push(config, &seen),
            ports::metrics(config),
            pollers::log(config, clock),
            disks::check(config, &seen, clock)
        )
    };
    let ((admin, rpc, votes, reported_identity), (ingest, push, metrics, log, disks)) =
        tokio::join!(questions, others);
    let identity = reported_identity.or(seen.target.as_ref().and(config.target.identity));
    let mut checks = vec![
        seen.process
            .with("identity", identity.map(|key| key.to_string())),
    ];
    checks.extend(seen.rights);
    checks.extend(disks);
    checks.extend([
        admin,
        rpc,
        votes,
        ingest,
        push,
        metrics,
        log,
        configuration(config),
    ]);
    let user = rustix::process::geteuid().as_raw();
    Ok(Report {
        at: clock.now(),
        user,
        looking_for: seen.following.report().looking_for,
        checks,
    })
}

/// Runs on a thread, because procfs reads of a process that hangs in the kernel can block.
async fn inspect(config: &Config, clock: Clock) -> anyhow::Result<ProcessInspection> {
    let mut stage = Stage::new("once", &Handle::current());
    let (send, seen) = tokio::sync::oneshot::channel();
    let wanted = config.clone();
    stage
        .thread("look", move |_| {
            drop(send.send(ProcessInspection::inspect(&wanted, clock)))
        })
        .context("a thread cannot be started")?;
    match tokio::time::timeout(PATIENCE, seen).await {
        Ok(Ok(seen)) => seen,
        Ok(Err(_)) => bail!("the look at procfs failed; please report this"),
        Err(_) => bail!(
            "the files of a process in procfs, or systemctl, gave no answer within {} s: a process hangs in the kernel \
             (ps -eo pid,stat,wchan:32,comm), or systemd does",
            PATIENCE.as_secs()
        ),
    }
}

fn configuration(config: &Config) -> Check {
    match app::mistakes(config, &[]).as_slice() {
        [] => Check::ok("config", "the daemon can start with this configuration"),
        some => {
            let all: Vec<String> = some.iter().map(ToString::to_string).collect();
            Check::attention(
                "config",
                all.join("; "),
                "correct it; run faultlined check-config for details",
            )
        }
    }
}
