//! Cgroups created directly in the file system: version 2 in a delegated folder, version 1 at the
//! top of a hierarchy. Each program of a run has its own. A shell waits on its standard input until
//! it is in the cgroup, and then executes the program.

mod child;
mod parent;
mod program_cgroup;
mod v1;

use super::{
    Job, Launched, Launcher, LauncherAbilities, Limits,
    limits::disk_number,
    poll_until,
    program::{self, ExecGate, User},
};
use anyhow::{Context, Result, bail, ensure};
use child::Child;
use faultline_kernel::HostRoot;
use parent::{Cgroups, move_out_of_leaf};
use program_cgroup::{ProgramCgroup, find_by_experiment};
use rustix::process::geteuid;
use std::{ffi::OsString, os::unix::ffi::OsStrExt, path::PathBuf, time::Duration};

#[derive(Debug, Clone)]
pub struct DirectLauncherPaths {
    pub host: HostRoot,
    /// The folder of `passwd`.
    pub etc: PathBuf,
    /// Version 2: a folder without processes in which this program may create cgroups. `None`: this
    /// program's own cgroup.
    pub delegated: Option<PathBuf>,
}

impl Default for DirectLauncherPaths {
    fn default() -> Self {
        Self {
            host: HostRoot::default(),
            etc: "/etc".into(),
            delegated: None,
        }
    }
}

/// Creates cgroups itself. It cannot enforce [`Job::max_duration`]. Other users' programs need
/// `setpriv`.
#[derive(Debug)]
pub struct DirectLauncher {
    paths: DirectLauncherPaths,
    parents: Cgroups,
    abilities: LauncherAbilities,
}

impl DirectLauncher {
    /// Changes nothing before the first [`launch`](Launcher::launch). Fails if no cgroup version
    /// limits memory, or if the parent of new cgroups is not writable or has other processes.
    pub fn new(paths: &DirectLauncherPaths) -> Result<Self> {
        let parents = Cgroups::find_parents(paths)?;
        Ok(Self {
            paths: paths.clone(),
            abilities: parents.abilities(&paths.host),
            parents,
        })
    }

    fn disk_numbers(&self, limits: &Limits) -> Result<Vec<String>> {
        let disks = limits
            .io
            .iter()
            .map(|limit| disk_number(&self.paths.host.sysfs, &limit.device))
            .collect::<Result<Vec<_>, _>>()?;
        for (position, disk) in disks.iter().enumerate() {
            if let Some(earlier) = disks.iter().take(position).position(|other| other == disk) {
                let a = limits.io[earlier].device.display();
                let b = limits.io[position].device.display();
                bail!("{a} and {b} are on the same disk: limit it once");
            }
        }
        Ok(disks)
    }
}

impl Drop for DirectLauncher {
    fn drop(&mut self) {
        if let Cgroups::V2(parent) = &self.parents {
            let _ = move_out_of_leaf(&parent.folder);
        }
    }
}

impl Launcher for DirectLauncher {
    fn name(&self) -> &'static str {
        match self.parents {
            Cgroups::V1 { .. } => "cgroup v1",
            Cgroups::V2(_) => "cgroup v2",
        }
    }

    fn abilities(&self) -> &LauncherAbilities {
        &self.abilities
    }

    fn launches_children(&self) -> bool {
        true
    }

    fn launch(&self, job: &Job) -> Result<Box<dyn Launched>> {
        job.name.check()?;
        refuse_unsupported(job, &self.abilities)?;
        program::check_open_files(job, &self.abilities)?;
        let file = program::executable(job)?;
        if file.as_os_str().as_bytes().contains(&b'=') {
            bail!(
                "{}: a path with a = in it cannot be started",
                file.display()
            );
        }
        let user = User::of(job, &self.paths.etc)?;
        let user_switch_command = user.map_or(Ok(Vec::new()), build_user_switch_command)?;
        let disk_numbers = self.disk_numbers(&job.limits)?;
        let cgroup = ProgramCgroup::create(&self.parents, &job.name, &job.limits, disk_numbers)?;
        cgroup.set_limits(&job.limits)?;
        let exec_gate = ExecGate::create(job, user)?;
        Ok(Box::new(Child::start(
            job,
            &file,
            user_switch_command,
            cgroup,
            exec_gate,
        )?))
    }

    fn leftovers(&self, experiment: &str) -> Result<Vec<String>> {
        Ok(find_by_experiment(&self.parents, experiment)?
            .into_keys()
            .collect())
    }

    fn sweep(&self, experiment: &str, grace: Duration) -> Result<Vec<String>> {
        let cgroups = find_by_experiment(&self.parents, experiment)?;
        for folders in cgroups.values() {
            program_cgroup::lift_memory_limits(folders);
            program_cgroup::terminate(folders)?;
        }
        poll_until(grace, || {
            let are_empty = cgroups
                .values()
                .all(|folders| program_cgroup::is_empty(folders).unwrap_or(false));
            Ok(are_empty.then_some(()))
        })?;
        for (name, folders) in &cgroups {
            program_cgroup::kill(name, folders)?;
            program_cgroup::remove(folders)?;
        }
        Ok(cgroups.into_keys().collect())
    }
}

/// Sets user and supplementary groups before it executes the program.
const SETPRIV: &str = "setpriv";

/// Command that switches to `user` and executes its further arguments. Empty for the current user.
fn build_user_switch_command(user: User) -> Result<Vec<OsString>> {
    if user.uid == geteuid().as_raw() {
        return Ok(Vec::new());
    }
    ensure!(
        geteuid().is_root(),
        "only root starts programs as another user ({})",
        user.uid
    );
    let path = std::env::var_os("PATH");
    let setpriv = program::find_executable(path.as_deref(), SETPRIV.as_ref()).context(
        "programs of another user are started with setpriv of util-linux, which is not in PATH: \
         install it",
    )?;
    let uid = format!("--reuid={}", user.uid);
    let gid = format!("--regid={}", user.gid);
    Ok(vec![
        setpriv.into(),
        uid.into(),
        gid.into(),
        "--init-groups".into(),
        "--".into(),
    ])
}

fn refuse_unsupported(job: &Job, abilities: &LauncherAbilities) -> Result<()> {
    let limits = &job.limits;
    let requested = [
        (
            "memory_high",
            limits.memory_high.is_some(),
            abilities.memory_high,
        ),
        ("swap_max", limits.swap_max.is_some(), abilities.swap_max),
        ("cpus", limits.cpus.is_some(), abilities.cpus),
        ("io", !limits.io.is_empty(), abilities.io),
    ];
    if let Some((name, ..)) = requested
        .iter()
        .find(|(_, is_requested, is_possible)| *is_requested && !is_possible)
    {
        let reason = match *name {
            "memory_high" => "it needs cgroup version 2",
            "swap_max" => {
                "the kernel does not account for swap, see swapaccount= of its command line"
            }
            _ => "its cgroup controller is not available",
        };
        bail!("the limit {name} cannot be set on this host: {reason}");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
