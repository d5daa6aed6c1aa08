use crate::args::Launching;
use crate::check::{self, LauncherFacts};
use crate::journal::JournalState;
use crate::plan::{Plan, Severity};
use crate::plan_command;
use anyhow::bail;
use faultline_common::output::say;
use faultline_kernel::HostRoot;
use faultline_runner::isolation::{CgroupRoots, Direct, Launcher, Systemd};
use std::path::Path;

/// Exists if systemd is PID 1.
const SYSTEMD: &str = "/run/systemd/system";

/// Fails with a remedy if the launcher does not work on this host.
pub fn launcher(kind: Launching) -> anyhow::Result<Box<dyn Launcher>> {
    match kind {
        Launching::Systemd => systemd(),
        Launching::Direct => direct(),
        Launching::Auto if Path::new(SYSTEMD).is_dir() => systemd(),
        Launching::Auto => direct(),
    }
}

pub(super) fn launcher_of(journal_state: &JournalState) -> anyhow::Result<Box<dyn Launcher>> {
    match &journal_state.planned {
        Some(begun) if begun.launcher == "systemd" => systemd(),
        _ => direct(),
    }
}

fn systemd() -> anyhow::Result<Box<dyn Launcher>> {
    Ok(Box::new(Systemd::connect(&HostRoot::default())?))
}

fn direct() -> anyhow::Result<Box<dyn Launcher>> {
    Ok(Box::new(Direct::new(&CgroupRoots::default())?))
}

pub fn facts(kind: Launching) -> Result<LauncherFacts, String> {
    let launcher = launcher(kind).map_err(|error| format!("{error:#}"))?;
    Ok(of(&*launcher))
}

fn of(launcher: &dyn Launcher) -> LauncherFacts {
    LauncherFacts {
        name: launcher.name().to_owned(),
        can: launcher.can().clone(),
    }
}

/// Prints all findings except notes. Fails if one refuses the plan.
pub(super) fn refuse(plan: &Plan, launcher: &dyn Launcher, i_vote: bool) -> anyhow::Result<()> {
    let facts = check::gather(plan, Ok(of(launcher)));
    let found = check::findings(plan, &facts, i_vote);
    let refused = found
        .iter()
        .filter(|finding| finding.severity == Severity::Refuse)
        .count();
    for finding in found
        .iter()
        .filter(|finding| finding.severity != Severity::Ignore)
    {
        say(&plan_command::finding(finding));
    }
    if refused > 0 {
        bail!("the plan cannot be run as it is: {refused} of its problems forbid it");
    }
    Ok(())
}
