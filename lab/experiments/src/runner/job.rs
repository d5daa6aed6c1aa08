use super::ActiveRun;
use crate::{
    folder::{self, EXEC_GATE, OUTPUT, PROGRAM_FOLDER},
    passwd,
    plan::{Plan, expand},
};
use anyhow::{Context, Result};
use faultline_common::files::AtPath;
use faultline_runner::isolation::{CpuSet, Job, Launcher, folders::UserAndGroup};
use itertools::Itertools;
use std::{collections::BTreeMap, env, ffi::OsString, path::Path, time::Duration};

/// A launcher that can limit the run time kills a run this long after its latest planned end.
const KILL_MARGIN: Duration = Duration::from_secs(3600);
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub fn job(
    plan: &Plan,
    run: &ActiveRun,
    experiment_id: &str,
    launcher: &dyn Launcher,
) -> Result<Job> {
    let program_folder = run.folder.join(PROGRAM_FOLDER);
    let replicate = run.scheduled.replicate;
    let expanded = expand(plan, &run.arm, &run.lane, &program_folder, replicate)
        .map_err(|errors| anyhow::anyhow!(errors.iter().map(|error| &error.message).join("; ")))?;
    let exec_gate = run.folder.join(EXEC_GATE);
    let mut command = command_prefix(launcher, Some(&exec_gate), None)?;
    command.extend(expanded.command.into_iter().map(OsString::from));
    Ok(Job {
        name: folder::cgroup_name(experiment_id, run.scheduled.run, run.attempt, "validator"),
        command,
        environment: environment(plan.workload.user.as_deref(), expanded.environment),
        user: plan.workload.user.clone(),
        folder: plan.workload.current_dir.clone(),
        output: run.folder.join(OUTPUT),
        limits: run.arm.limits(&run.lane),
        open_files: plan.workload.open_files,
        exec_gate: Some(exec_gate),
        max_duration: plan.max_run_time().map(|time| time + KILL_MARGIN),
        grace: plan.stop.grace,
    })
}

/// The exec shim, to which the caller appends a command. The shim waits at `exec_gate`, sets its
/// affinity to `cpus` and executes the command. As a child process, it dies with this program.
pub fn command_prefix(
    launcher: &dyn Launcher,
    exec_gate: Option<&Path>,
    cpus: Option<&CpuSet>,
) -> Result<Vec<OsString>> {
    let this_program = env::current_exe().context("this program's own file is not known")?;
    let mut command = vec![this_program.into(), "hold".into()];
    if launcher.launches_children() {
        let pid = std::process::id().to_string();
        command.extend(["--parent".into(), pid.into()]);
    }
    if let Some(exec_gate) = exec_gate {
        command.extend(["--gate".into(), exec_gate.into()]);
    }
    if let Some(cpus) = cpus {
        command.extend(["--cpus".into(), cpus.to_string().into()]);
    }
    command.push("--".into());
    Ok(command)
}

fn environment(user: Option<&str>, planned: BTreeMap<String, String>) -> Vec<(OsString, OsString)> {
    let path = env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    let home = match user {
        Some(user) => passwd::account(user)
            .ok()
            .map(|account| account.home.into())
            .filter(|home: &OsString| !home.is_empty()),
        None => env::var_os("HOME"),
    };
    let user = user.map(OsString::from);
    let base_variables = [
        ("PATH", Some(path)),
        ("LANG", Some("C.UTF-8".into())),
        ("USER", user.clone()),
        ("LOGNAME", user),
        ("HOME", home),
    ];
    let mut variables: BTreeMap<OsString, OsString> = base_variables
        .into_iter()
        .filter_map(|(name, value)| Some((name.into(), value?)))
        .collect();
    variables.extend(
        planned
            .into_iter()
            .map(|(name, value)| (name.into(), value.into())),
    );
    variables.into_iter().collect()
}

pub fn user_and_group(user: Option<&str>) -> Result<Option<UserAndGroup>> {
    let account = user.map(passwd::account).transpose()?;
    Ok(account.map(|account| account.ids))
}

/// Makes the run's folder. With a `user`, the workload may write only in [`PROGRAM_FOLDER`].
pub fn make_folder(folder: &Path, user: Option<&str>) -> Result<()> {
    let program_folder = folder.join(PROGRAM_FOLDER);
    std::fs::create_dir_all(&program_folder).at(&program_folder)?;
    match user_and_group(user)? {
        Some(UserAndGroup { uid, gid }) => {
            std::os::unix::fs::chown(&program_folder, Some(uid), Some(gid)).at(&program_folder)
        }
        None => Ok(()),
    }
}
