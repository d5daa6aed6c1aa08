//! The command `once` checks the target, its files, and the interfaces of validator and daemon. It
//! uses the daemon's code with short timeouts. It listens on no port and writes no file.

mod disks;
pub mod metrics;
mod pollers;
mod ports;
mod process;
mod report;

pub use report::{Check, CheckState, Report};

use crate::app;
use anyhow::{Result, bail};
use faultline_core::{clock::Clock, config::Config};
use faultline_metrics::{Stamp, Tick, metrics::process::START_TIME};
use faultline_sources::rpc::identity_of;
use faultline_status::{Answer, AnswerInputs, Status, Verdict};
use itertools::Itertools;
use process::ProcessInspection;
use std::time::Duration;

const INSPECTION_TIMEOUT: Duration = Duration::from_secs(5);
const NEEDS_DAEMON: &str =
    "not known without a running daemon that follows this process; its /status has the answer.";
const RUNTIME_END_TIMEOUT: Duration = Duration::from_secs(1);

/// Takes up to about 20 s if nothing answers.
///
/// # Errors
/// procfs is unreadable, or a thread cannot start.
pub fn examine(config: &Config) -> Result<Report> {
    let runtime = app::runtime()?;
    let report = runtime.block_on(build_report(config));
    runtime.shutdown_timeout(RUNTIME_END_TIMEOUT);
    report
}

async fn build_report(config: &Config) -> Result<Report> {
    let clock = Clock::start();
    let inspection = inspect(config, clock).await?;
    let interface_checks = async {
        let (admin, admin_facts) = pollers::check_admin(config, &inspection, clock).await;
        let (rpc, rpc_facts) =
            pollers::check_rpc(config, &inspection, admin_facts.clone(), clock).await;
        let votes =
            pollers::check_votes(config, &inspection, &admin_facts, &rpc_facts, clock).await;
        let process = inspection.target.as_ref().map(|target| target.process);
        let reported_identity = process.and_then(|process| {
            identity_of(
                process,
                rpc_facts.facts().as_deref(),
                admin_facts.get().as_deref(),
            )
        });
        (admin, rpc, votes, reported_identity)
    };
    let local_checks = async {
        tokio::join!(
            ports::check_ingest(config),
            ports::check_push(config, &inspection),
            ports::check_metrics(config),
            pollers::check_log(config, clock),
            disks::check(config, &inspection, clock)
        )
    };
    let ((admin, rpc, votes, reported_identity), (ingest, push, metrics, log, disks)) =
        tokio::join!(interface_checks, local_checks);
    let identity = reported_identity
        .or(inspection.target.as_ref().and(config.target.identity))
        .map(|key| key.to_string());
    let mut checks = vec![(
        "process",
        inspection.process_check.with_detail("identity", identity),
    )];
    checks.extend(inspection.source_checks);
    checks.extend(disks.into_iter().map(|disk| ("disk", disk)));
    checks.extend([
        ("admin", admin),
        ("rpc", rpc),
        ("votes", votes),
        ("ingest", ingest),
        ("push", push),
        ("metrics", metrics),
        ("log", log),
        ("config", config_check(config)),
    ]);
    Ok(Report {
        at: clock.now(),
        answers: answers(config, &inspection.tick, clock.now()).await,
        uid: rustix::process::geteuid().as_raw(),
        looking_for: inspection.target_handle.report().looking_for,
        checks,
    })
}

/// Returns the answers of a running daemon that follows the process of the tick. Without one, the
/// tick answers what it can.
async fn answers(config: &Config, tick: &Tick, now: Stamp) -> Vec<Answer> {
    let start = tick.value_of(&START_TIME, &[]);
    if let Some(answers) = ports::daemon_answers(config, start).await {
        return answers;
    }
    let mut answers = Status::of(
        tick,
        now,
        None,
        AnswerInputs::default(),
        &app::live::read_status_config(config),
    )
    .answers;
    for answer in &mut answers {
        match answer.verdict {
            Verdict::Unknown => NEEDS_DAEMON.clone_into(&mut answer.text),
            // A single tick shows no change over time.
            Verdict::Fine => {
                answer.verdict = Verdict::Unknown;
                answer.text.insert_str(
                    0,
                    "OOM kills, pressure and growth are seen only by a running daemon; ",
                );
            }
            Verdict::Look | Verdict::Act => {}
        }
    }
    answers
}

/// Reads on a blocking thread: procfs reads of a process that hangs in the kernel can block.
async fn inspect(config: &Config, clock: Clock) -> Result<ProcessInspection> {
    let config = config.clone();
    let inspection =
        tokio::task::spawn_blocking(move || ProcessInspection::inspect(&config, clock));
    match tokio::time::timeout(INSPECTION_TIMEOUT, inspection).await {
        Ok(Ok(inspection)) => inspection,
        Ok(Err(_)) => bail!("reading procfs failed; please report this"),
        Err(_) => bail!(
            "the files of a process in procfs, or systemctl, gave no answer within {} s: a process hangs in the kernel \
             (ps -eo pid,stat,wchan:32,comm), or systemd does",
            INSPECTION_TIMEOUT.as_secs()
        ),
    }
}

fn config_check(config: &Config) -> Check {
    match app::find_config_errors(config, &[]).as_slice() {
        [] => Check::ok("the daemon can start with this configuration"),
        some => Check::attention(
            some.iter().join("; "),
            "correct it; run faultlined check-config for details",
        ),
    }
}
