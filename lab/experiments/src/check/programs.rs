use super::{Findings, HostFacts, OptionPresence};
use crate::plan::{Arm, Lane, PageCache, Plan, Severity, expand};
use std::path::{Path, PathBuf};

const FINCORE: &str = "fincore";
const SETPRIV: &str = "setpriv";
/// All of util-linux.
pub const TOOLS: [&str; 2] = [FINCORE, SETPRIV];

pub fn check(plan: &Plan, facts: &HostFacts, found: &mut Findings) {
    for (named, program) in &facts.programs {
        let reported = facts
            .files
            .get(Path::new(named))
            .is_some_and(Result::is_err);
        if let (Err(why), false) = (program, reported) {
            found.refuse(
                format!("the command begins with {named}: {why}"),
                "name the program's file in workload.command",
            );
        }
    }
    if let (Some(user), Err(why)) = (&plan.workload.user, &facts.user) {
        // systemd also finds users that are not in this file.
        let severity = if facts.uses_systemd() {
            Severity::Warn
        } else {
            Severity::Refuse
        };
        let remedy = "name a user of this host in workload.user, or make it (useradd)";
        found.add(severity, format!("user {user:?}: {why}"), remedy);
    }
    if let Err(why) = &facts.recorder {
        found.refuse(
            format!("there is no recorder: {why}"),
            "put faultlined into the folder of this program or into PATH, or set recorder.program",
        );
    }
    if let (Some(config), Some(Err(why))) = (&plan.recorder.config, &facts.configuration) {
        found.refuse(
            format!("recorder.config {}: {why}", config.display()),
            "fix it: `faultlined check-config --config FILE` lists the errors",
        );
    }
    for (file, usable) in &facts.files {
        if let Err(why) = usable {
            found.refuse(
                format!("{}: {why}", file.display()),
                "fix the plan, or create it",
            );
        }
    }
    tools(plan, facts, found);
    cache(plan, facts, found);
}

fn tools(plan: &Plan, facts: &HostFacts, found: &mut Findings) {
    if plan.page_cache != PageCache::Leave && !facts.tools.contains(FINCORE) {
        found.warn(
            "fincore is not in PATH: a cold start cannot be verified, and every run will be marked unproven",
            "install util-linux (Debian: util-linux-extra)",
        );
    }
    if facts.other_user && !facts.uses_systemd() && !facts.tools.contains(SETPRIV) {
        found.refuse(
            "workload.user is another user, and setpriv, which switches to that user, is not in PATH",
            "install util-linux",
        );
    }
    let most = facts
        .launcher
        .as_ref()
        .ok()
        .and_then(|launcher| launcher.can.open_files);
    if let (Some(wanted), Some(most)) = (plan.workload.open_files, most)
        && wanted > most
    {
        found.refuse(
            format!("workload.open_files is {wanted}, and at most {most} can be given here"),
            "raise the hard limit of the user who runs this (`ulimit -Hn`, LimitNOFILE=), or fs.nr_open, or ask for fewer",
        );
    }
}

/// The arm's binary, the workload's, or the command's first word.
pub fn program_of(plan: &Plan, arm: &Arm, facts: &HostFacts) -> Option<PathBuf> {
    arm.binary
        .clone()
        .or_else(|| plan.workload.binary.clone())
        .or_else(|| {
            facts
                .programs
                .get(command_of(plan, arm).first()?)?
                .clone()
                .ok()
        })
}

/// Empty if it has placeholders without a value.
pub fn command_of(plan: &Plan, arm: &Arm) -> Vec<String> {
    let lane = Lane::default();
    let lane = plan.lanes.first().unwrap_or(&lane);
    expand(plan, arm, lane, Path::new("/"), 1).map_or_else(|_| Vec::new(), |found| found.command)
}

fn cache(plan: &Plan, facts: &HostFacts, found: &mut Findings) {
    let variable = &plan.workload.cache_variable;
    for arm in plan.arms.iter().filter(|arm| arm.cache_entries.is_some()) {
        let Some(file) = program_of(plan, arm, facts) else {
            continue;
        };
        if matches!(facts.files.get(&file), Some(Err(_))) {
            continue;
        }
        let (name, shown) = (&arm.name, file.display());
        match facts.options.get(&(file.clone(), variable.clone())) {
            Some(OptionPresence::Present) | None => {}
            Some(OptionPresence::Missing) => found.refuse(
                format!(
                    "arm {name:?} sets cache_entries, but {variable} is not in {shown}: it would be ignored silently"
                ),
                "use a binary with the switch, as scripts/install-agave builds it",
            ),
            Some(OptionPresence::Script) => found.refuse(
                format!(
                    "arm {name:?} sets cache_entries, and {shown} is a script: which program it starts is not known"
                ),
                "name the program that it starts with workload.binary (or binary of the arm), and start {binary} or \
                 $FAULTLINE_BINARY in the script",
            ),
            Some(OptionPresence::Unreadable(why)) => found.refuse(
                format!("arm {name:?} sets cache_entries, and {shown} cannot be looked at: {why}"),
                "name a program file that can be read",
            ),
        }
    }
}
