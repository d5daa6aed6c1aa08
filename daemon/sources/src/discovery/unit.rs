//! Finds the validator of a systemd unit. The unit's cgroup comes first: it costs two reads, and is
//! right even if the main process is a shell or Frankendancer's supervisor.
//!
//! `systemctl` only resolves aliases and selects among several validators. Unlike a D-Bus library,
//! it costs nothing while it is not used.

use super::{
    SearchContext, SearchResult,
    candidates::{Choice, ambiguity_problem, choose, hidepid_problem, validator_candidates},
    process,
};
use faultline_core::supervisor::sync_command;
use faultline_kernel::HostRoot;
use faultline_metrics::{Problem, Stamp};
use itertools::Itertools;
use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    fs,
    io::Read,
    path::{Component, Path, PathBuf},
    process::{Child, Stdio},
    time::Duration,
};

const SYSTEMCTL_INTERVAL: Duration = Duration::from_secs(10);
const SYSTEMCTL_TIMEOUT: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Visited in each hierarchy by one search for a unit.
const MAX_FOLDERS: usize = 4096;
/// A unit with `Delegate=` may make cgroups of its own.
const DEPTH_BELOW_UNIT: u32 = 3;

pub struct UnitSearch {
    name: String,
    cgroup_folder: Option<PathBuf>,
    pub systemctl: OsString,
    systemctl_called_at: Option<Stamp>,
    unit_status: UnitStatus,
}

impl UnitSearch {
    /// As for `systemctl`, a name without a suffix is a service.
    pub fn new(name: &str) -> Self {
        let has_suffix = [".service", ".scope", ".slice"]
            .iter()
            .any(|suffix| name.ends_with(suffix));
        Self {
            name: format!("{name}{}", if has_suffix { "" } else { ".service" }),
            cgroup_folder: None,
            systemctl: "systemctl".into(),
            systemctl_called_at: None,
            unit_status: UnitStatus::default(),
        }
    }

    pub fn find(&mut self, context: &SearchContext<'_>) -> SearchResult {
        let (mut pids, mut choice, mut problems) = self.choose(context.root);
        if !matches!(choice, Choice::One(_)) && self.query_systemctl(context) {
            (pids, choice, problems) = self.choose(context.root);
        }
        problems.push(match choice {
            Choice::One(candidate) => return Ok(candidate.target),
            Choice::Several(found) => {
                let main_pid = self.unit_status.main_pid;
                match found
                    .iter()
                    .find(|target| Some(target.process.pid) == main_pid)
                {
                    Some(target) => return Ok(target.clone()),
                    None => ambiguity_problem(&found),
                }
            }
            Choice::None => Problem::absent_data(self.not_found(context.root, &pids)),
        });
        Err(problems)
    }

    fn choose(&mut self, root: &HostRoot) -> (Vec<u32>, Choice, Vec<Problem>) {
        self.find_folder(root);
        let pids = self
            .cgroup_folder
            .as_ref()
            .map(|folder| cgroup_pids(folder, DEPTH_BELOW_UNIT))
            .unwrap_or_default();
        let mut problems = Vec::new();
        let choice = choose(validator_candidates(
            root,
            pids.iter().copied(),
            "unit",
            &mut problems,
        ));
        (pids, choice, problems)
    }

    fn not_found(&self, root: &HostRoot, pids: &[u32]) -> String {
        let name = &self.name;
        if self.cgroup_folder.is_none() {
            return format!("the unit {name} has no cgroup: it does not run, or is not known here");
        }
        let describe = |&pid: &u32| {
            let inspected = process::inspect(root, pid, "unit").ok()?;
            let program = inspected.script.unwrap_or(inspected.target.comm);
            Some(format!("{pid} {program}"))
        };
        let descriptions = pids.iter().filter_map(describe).take(5).join(", ");
        if !descriptions.is_empty() {
            return format!(
                "the unit {name} has no validator among its processes ({descriptions}); --pid and --process-name follow any program"
            );
        }
        match pids.iter().find_map(|&pid| hidepid_problem(root, pid)) {
            Some(hidden) => format!("the unit {name}: {}", hidden.what),
            None => format!("the unit {name} has no process"),
        }
    }

    /// Prefers the cached folder, then that of systemctl, then one with the name of the unit.
    fn find_folder(&mut self, root: &HostRoot) {
        let cgroup = &root.cgroup;
        if self
            .cgroup_folder
            .as_ref()
            .is_some_and(|folder| folder.is_dir())
        {
            return;
        }
        // In order: v2 on a hybrid host, systemd's own hierarchy of v1, v2 without v1.
        let tops = ["unified", "systemd", ""].map(|hierarchy| cgroup.join(hierarchy));
        let from_systemctl = self
            .unit_status
            .control_group
            .as_deref()
            .and_then(relative_control_group)
            .and_then(|path| {
                tops.iter()
                    .map(|top| top.join(&path))
                    .find(|folder| folder.is_dir())
            });
        self.cgroup_folder = from_systemctl.or_else(|| {
            tops.into_iter()
                .find_map(|top| find_unit_folder(top, &self.name))
        });
    }

    /// True if `systemctl` answered. Never calls it from another pid namespace, in which its pids
    /// are invalid.
    fn query_systemctl(&mut self, context: &SearchContext<'_>) -> bool {
        let is_recent = |at| context.now.since(at) < SYSTEMCTL_INTERVAL;
        if !context.shares_pid_namespace || self.systemctl_called_at.is_some_and(is_recent) {
            return false;
        }
        self.systemctl_called_at = Some(context.now);
        match run_systemctl_show(&self.systemctl, &self.name, context) {
            Ok(unit_status) => {
                self.unit_status = unit_status;
                return true;
            }
            Err(why) => tracing::debug!(unit = self.name, why, "systemctl failed"),
        }
        false
    }
}

/// Relative to the root of the hierarchy. `None` for the root itself, and for paths that lead out
/// of the hierarchy.
fn relative_control_group(control_group: &str) -> Option<PathBuf> {
    let path = Path::new(control_group.trim_start_matches('/'));
    let leads_downwards = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    (leads_downwards && !path.as_os_str().is_empty()).then(|| path.to_owned())
}

/// Searches slices and the services `user@`: only these contain units.
fn find_unit_folder(top: PathBuf, name: &str) -> Option<PathBuf> {
    // The name of a unit is a single component of a path.
    if relative_control_group(name)?.components().count() != 1 {
        return None;
    }
    let in_system_slice = top.join("system.slice").join(name);
    if in_system_slice.is_dir() {
        return Some(in_system_slice);
    }
    let mut queue = VecDeque::from([top]);
    for _ in 0..MAX_FOLDERS {
        let folder = queue.pop_front()?;
        let unit = folder.join(name);
        if unit.is_dir() {
            return Some(unit);
        }
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        let parents = entries
            .flatten()
            .filter(|entry| entry.file_name().to_str().is_some_and(may_contain_units));
        queue.extend(parents.map(|entry| entry.path()));
    }
    None
}

fn may_contain_units(name: &str) -> bool {
    name.ends_with(".slice") || (name.starts_with("user@") && name.ends_with(".service"))
}

/// Includes descendants. A pid outside of the reader's namespace reads 0.
fn cgroup_pids(folder: &Path, depth: u32) -> Vec<u32> {
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    let mut pids = text
        .lines()
        .filter_map(|line| line.parse().ok())
        .filter(|&pid| pid != 0)
        .collect_vec();
    if depth > 0
        && let Ok(entries) = fs::read_dir(folder)
    {
        for entry in entries.flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                pids.extend(cgroup_pids(&entry.path(), depth - 1));
            }
        }
    }
    pids.sort_unstable();
    pids.dedup();
    pids
}

#[derive(Debug, Clone, PartialEq, Default)]
struct UnitStatus {
    main_pid: Option<u32>,
    /// Path from the root of the cgroup hierarchy; `None` while the unit does not run.
    control_group: Option<String>,
}

fn run_systemctl_show(
    systemctl: &OsStr,
    unit: &str,
    context: &SearchContext<'_>,
) -> Result<UnitStatus, String> {
    let mut child = sync_command(systemctl)
        .args(["show", "--property=MainPID,ControlGroup", "--", unit])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("{}: {error}", systemctl.display()))?;
    let ended = wait_for_exit(&mut child, context);
    // Also waits for a killed child: otherwise it stays a zombie.
    if ended.is_err()
        && let Err(error) = child.kill().and_then(|()| child.wait())
    {
        tracing::debug!(%error, "systemctl");
    }
    let succeeded = ended?;
    let mut text = String::new();
    // The output is two lines, which fit into the pipe.
    let read = child
        .stdout
        .take()
        .map(|mut output| output.read_to_string(&mut text));
    match read {
        Some(Ok(_)) if succeeded => Ok(parse_unit_status(&text)),
        _ => Err(format!(
            "systemctl does not know about {unit}: is systemd running here?"
        )),
    }
}

fn wait_for_exit(child: &mut Child, context: &SearchContext<'_>) -> Result<bool, String> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status.success()),
            Ok(None) if context.clock.now().since(context.now) > SYSTEMCTL_TIMEOUT => {
                return Err(format!(
                    "systemctl did not answer within {} s",
                    SYSTEMCTL_TIMEOUT.as_secs()
                ));
            }
            Ok(None) if context.stop.sleep(POLL_INTERVAL) => return Err("stopped".to_owned()),
            Ok(None) => {}
            Err(error) => return Err(format!("systemctl: {error}")),
        }
    }
}

fn parse_unit_status(text: &str) -> UnitStatus {
    let value = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
    };
    UnitStatus {
        main_pid: value("MainPID")
            .and_then(|pid| pid.parse().ok())
            .filter(|&pid| pid != 0),
        control_group: value("ControlGroup")
            .filter(|path| !path.is_empty())
            .map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_running_unit_has_a_main_pid_and_cgroup() {
        let running = parse_unit_status("MainPID=4711\nControlGroup=/system.slice/sol.service\n");
        assert_eq!(running.main_pid, Some(4711));
        assert_eq!(
            running.control_group.as_deref(),
            Some("/system.slice/sol.service")
        );
        assert_eq!(
            parse_unit_status("MainPID=0\nControlGroup=\n"),
            UnitStatus::default()
        );
        assert_eq!(parse_unit_status(""), UnitStatus::default());
    }
}
