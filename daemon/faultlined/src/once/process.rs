//! Finds the target and checks which of its files are readable.

use super::{metrics, report::Check};
use crate::METRICS_CONFIG;
use faultline_core::{
    clock::Clock,
    config::{Config, TargetSelector},
};
use faultline_kernel::{
    ErrorKind, HostRoot, ProcessFiles, ReadError, locate_cgroups, parse::pid::Environment,
};
use faultline_metrics::{
    Batch, Problem, ProblemKind, Source, Tick,
    metrics::{cgroup::FROZEN, process::STATE},
};
use faultline_sources::discovery::{Finder, Target, TargetHandle, process_uid};
use faultline_status::{MemoryStatus, Tone};
use itertools::Itertools;
use std::{path::Path, sync::Arc};

pub struct ProcessInspection {
    pub target_handle: TargetHandle,
    pub target: Option<Arc<Target>>,
    pub process_uid: Option<u32>,
    /// All names, and the value of [`METRICS_CONFIG`]. `None` without a process, or if it could not be
    /// opened.
    pub environment: Option<Result<Environment, ReadError>>,
    pub process_check: Check,
    pub source_checks: Vec<(&'static str, Check)>,
    pub tick: Arc<Tick>,
}

impl ProcessInspection {
    /// Blocks if a read in the kernel hangs.
    pub fn inspect(config: &Config, clock: Clock) -> anyhow::Result<Self> {
        let root = config.paths.clone();
        let mut finder = Finder::build(&config.target, root.clone(), clock);
        let target_handle = finder.target_handle.clone();
        let target = finder.find_once();
        let tick = metrics::tick(config, &root, target_handle.clone(), clock)?;
        let Some(target) = target else {
            let process_check = no_process_check(config, &target_handle);
            let source_checks = tick
                .batches
                .iter()
                .filter(|batch| batch.source == Source::Host)
                .filter_map(|host| batch_check(host, None))
                .collect();
            return Ok(Self {
                target_handle,
                target: None,
                process_uid: None,
                environment: None,
                process_check,
                source_checks,
                tick,
            });
        };
        let process_uid = process_uid(&root, target.process);
        let files = ProcessFiles::open(&root, target.process.pid)
            .ok()
            .filter(|files| files.id() == target.process);
        let folder = root.procfs.join(target.process.pid.to_string());
        let environment = files
            .as_ref()
            .map(|files| files.environment(|name| name == METRICS_CONFIG));
        let mut source_checks = files
            .zip(environment.as_ref())
            .map(|(files, environment)| file_checks(files, &folder, environment, process_uid))
            .unwrap_or_default();
        let batches = tick.batches.iter();
        source_checks.extend(batches.filter_map(|batch| batch_check(batch, process_uid)));
        source_checks.extend(memory_check(&tick));
        let mut add = |what, remedy| source_checks.push(("state", Check::attention(what, remedy)));
        if tick.value_of(&FROZEN, &[]) == Some(1.0) {
            add("its cgroup is frozen", "thaw it or a cgroup above it");
        }
        if tick.value_of(&STATE, &["stopped"]) == Some(1.0) {
            add("stopped by a signal", "continue it: kill -CONT PID");
        }
        let process_check = target_check(&target, process_uid, &root);
        Ok(Self {
            target_handle,
            target: Some(target),
            process_uid,
            environment,
            process_check,
            source_checks,
            tick,
        })
    }
}

fn no_process_check(config: &Config, target_handle: &TargetHandle) -> Check {
    let problems = target_handle.report().problems;
    let is_hidden = is_any_forbidden(&problems);
    let remedy = match &config.target.selector {
        TargetSelector::Pid(_) | TargetSelector::ProcessTree(_) if is_hidden => {
            "start the daemon with rights on this process, and check again with the same rights".to_owned()
        }
        TargetSelector::Scan => {
            "if the validator does not run, start it; else say which process it is: target.unit, target.ledger or target.pid (--unit, --ledger, \
             --pid)"
                .to_owned()
        }
        TargetSelector::Pid(pid) | TargetSelector::ProcessTree(pid) => format!(
            "give the number of a running process instead of {pid}, or set target.unit"
        ),
        TargetSelector::Ledger(folder) => format!(
            "start the validator with --ledger {}, correct target.ledger, or set target.unit instead",
            faultline_text::path(folder)
        ),
        TargetSelector::Unit(unit) => format!(
            "see systemctl status {unit}; start the unit, or correct target.unit"
        ),
        TargetSelector::ProcessName(name) => format!(
            "start {name}, or correct target.process_name: ps -eo pid,comm"
        ),
    };
    Check::attention(
        problems.iter().map(|problem| &problem.what).join("; "),
        remedy,
    )
}

fn target_check(target: &Target, process_uid: Option<u32>, root: &HostRoot) -> Check {
    let finding = match (&target.validator, target.found_by) {
        (Some(_), _) => format!("{} is the validator that is followed", target.comm),
        (None, "process_name") => format!("{} is the process that is followed", target.comm),
        (None, _) => format!(
            "{} is followed, and is not known as a validator's program: the daemon asks neither JSON-RPC nor the admin socket",
            target.comm
        ),
    };
    let shown = faultline_text::path;
    let cgroup = locate_cgroups(root, target.process.pid)
        .ok()
        .and_then(|cgroups| cgroups.memory.or(cgroups.unified).ok());
    Check::ok(finding)
        .with_detail("pid", Some(target.process.pid))
        .with_detail("found_by", Some(found_by(target.found_by)))
        .with_detail("user", process_uid)
        .with_detail("program", target.exe.as_deref().map(shown))
        .with_detail("ledger", target.ledger.as_deref().map(shown))
        .with_detail("cgroup", cgroup.map(|cgroup| cgroup.path))
}

fn found_by(method: &'static str) -> &'static str {
    match method {
        "pid" => "its number (target.pid)",
        "descendant" => "a process above it (--process-tree)",
        "unit" => "its systemd unit (target.unit)",
        "admin.rpc" => "its admin socket (target.ledger)",
        "ledger.lock" => "its lock on ledger.lock (target.ledger)",
        "process_name" => "its name (target.process_name)",
        _ => "its name and arguments in /proc",
    }
}

/// Checks the files that only the process's user or root may read.
fn file_checks(
    mut files: ProcessFiles,
    folder: &Path,
    environment: &Result<Environment, ReadError>,
    process_uid: Option<u32>,
) -> Vec<(&'static str, Check)> {
    let sample = files.sample(true, &mut Vec::new());
    let environment = environment.as_ref().err().cloned();
    let all = [
        ("io", "bytes read and written", sample.io.err()),
        ("fd", "open descriptors", sample.oom_and_fds.open_fds.err()),
        ("exe", "the program's file", files.exe().err()),
        ("environ", "its environment variables", environment),
    ];
    let check = |(name, what, error): (_, _, Option<ReadError>)| {
        let what = format!("{}/{name}: {what}", folder.display());
        (name, file_check(&what, error.as_ref(), process_uid))
    };
    all.map(check).into()
}

fn file_check(what: &str, error: Option<&ReadError>, process_uid: Option<u32>) -> Check {
    match error {
        None => Check::ok(what),
        Some(error) => match error.kind() {
            ErrorKind::Absent => Check::off(error),
            ErrorKind::Forbidden => Check::attention(
                format!("no right to read {what}"),
                rights_remedy(process_uid),
            ),
            ErrorKind::Gone | ErrorKind::Broken => Check::attention(error, CHECK_AGAIN),
        },
    }
}

pub fn is_any_forbidden<'a>(problems: impl IntoIterator<Item = &'a Problem>) -> bool {
    problems
        .into_iter()
        .any(|problem| problem.kind == ProblemKind::Forbidden)
}

const CHECK_AGAIN: &str = "check again; if it stays so, report it with this line";

pub fn rights_remedy(process_uid: Option<u32>) -> String {
    if process_uid == Some(rustix::process::geteuid().as_raw()) {
        return "faultlined runs as the process's user, but the process has capabilities that faultlined lacks: start the validator \
                without them, give the daemon CAP_SYS_PTRACE, or do without this value"
            .to_owned();
    }
    let user = process_uid.map_or_else(
        || "the process's user".to_owned(),
        |user| format!("user {user}, the process's own"),
    );
    format!(
        "run the daemon as {user} (drop-in faultlined/same-user.conf), or do without this value"
    )
}

fn memory_check(tick: &Tick) -> Option<(&'static str, Check)> {
    let memory = MemoryStatus::of(tick)?;
    let items = memory.items();
    let finding = items.iter().map(|item| &item.text).join("; ");
    let is_nearly_full = items.iter().any(|item| item.tone == Tone::Bad);
    let check = match memory.binding() {
        _ if is_nearly_full => Check::attention(finding, "see docs/runbooks/AgaveOomAhead.md"),
        Some(_) => Check::ok(finding),
        None => Check::attention(finding, "see the line \"cgroup\""),
    };
    Some(("memory", check))
}

/// `None` for a source with a check of its own, or with counts since the daemon's start.
fn batch_check(batch: &Batch, process_uid: Option<u32>) -> Option<(&'static str, Check)> {
    let (name, what) = match batch.source {
        Source::Process => ("status", "memory, page faults and CPU of the process"),
        Source::Threads => ("threads", "page faults, CPU and waiting of its threads"),
        Source::Cgroup => ("cgroup", "usage, limits and events of its cgroup"),
        Source::Host => ("host", "memory and pressure of this machine"),
        Source::Target
        | Source::Interrupts
        | Source::Resources
        | Source::Datapoints
        | Source::Log
        | Source::Rpc
        | Source::Votes
        | Source::AdminRpc
        | Source::Conclusions
        | Source::Recorder
        | Source::Daemon => return None,
    };
    // The checks of single files report these problems already.
    let has_own_check =
        |what: &str| name == "status" && (what.contains("/io: ") || what.contains("/fd: "));
    let (absent, mut serious): (Vec<_>, Vec<_>) = batch
        .problems
        .iter()
        .partition(|problem| problem.kind == ProblemKind::Absent);
    serious.retain(|problem| !has_own_check(&problem.what));
    if serious.is_empty() && batch.up {
        let note = match absent.len() {
            0 => String::new(),
            count => format!(" ({count} absent, see --metrics)"),
        };
        return Some((name, Check::ok(format!("{what}{note}"))));
    }
    let reported = if serious.is_empty() { absent } else { serious };
    let lines = reported
        .iter()
        .take(3)
        .map(|problem| &problem.what)
        .join("; ");
    let remedy = if is_any_forbidden(reported) {
        rights_remedy(process_uid)
    } else {
        CHECK_AGAIN.to_owned()
    };
    Some((name, Check::attention(format!("{what}: {lines}"), remedy)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_testkit::host::FakeHost;

    #[test]
    fn a_frozen_or_stopped_process_needs_attention() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/testkit/fixtures");
        for (fixture, freezer, thawed, frozen) in [
            (
                "hosts/linux-5.15-v1",
                "freezer/sol/freezer.state",
                "THAWED",
                "FROZEN",
            ),
            (
                "hosts/linux-6.8-v2",
                "validator.slice/sol.service/cgroup.events",
                "frozen 0",
                "frozen 1",
            ),
        ] {
            let host = FakeHost::from_fixture(&fixtures.join(fixture)).unwrap();
            let mut config = Config {
                paths: HostRoot::below(host.root()),
                ..Config::default()
            };
            config.target.selector = TargetSelector::Pid(4242);
            let change = |file: &str, from: &str, to: &str| {
                let text = std::fs::read_to_string(host.path(file)).unwrap();
                assert!(text.contains(from), "{text}");
                host.write(file, text.replacen(from, to, 1)).unwrap();
            };
            let found = || {
                let inspected = ProcessInspection::inspect(&config, Clock::start()).unwrap();
                let mut checks = inspected.source_checks.into_iter();
                let (_, check) = checks.find(|(name, _)| *name == "state")?;
                assert!(check.remedy.is_some());
                Some(check.finding)
            };
            let freezer = format!("sys/fs/cgroup/{freezer}");
            assert_eq!(found(), None, "{fixture}");
            change(&freezer, thawed, frozen);
            assert_eq!(found().as_deref(), Some("its cgroup is frozen"));
            change(&freezer, frozen, thawed);
            change("proc/4242/stat", ") S ", ") T ");
            assert_eq!(found().as_deref(), Some("stopped by a signal"));
        }
    }
}
