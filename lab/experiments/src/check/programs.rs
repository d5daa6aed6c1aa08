use super::Findings;
use super::facts::HostFacts;
use crate::plan::{Plan, Severity};
use std::path::Path;

pub(super) fn check(plan: &Plan, facts: &HostFacts, found: &mut Findings) {
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
        // systemd requires more than this file.
        let systemd = facts
            .launcher
            .as_ref()
            .is_ok_and(|launcher| launcher.name == "systemd");
        let severity = if systemd {
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
}
