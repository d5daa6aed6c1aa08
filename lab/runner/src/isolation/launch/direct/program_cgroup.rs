use super::{
    parent::{Cgroups, enable_controllers},
    v1,
};
use crate::isolation::launch::{
    CgroupName, CgroupState, IoLimit, Limits, NAME_PREFIX, WithPath,
    cgroup::{is_gone, processes, signal, subfolders, write},
    poll_until, v2,
};
use anyhow::{Result, bail};
use rustix::process::Signal;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    time::Duration,
};

/// Time for a killed process to exit: freeing a validator's memory takes time.
const KILL_TIMEOUT: Duration = Duration::from_secs(120);

pub struct ProgramCgroup {
    /// `faultline.EXPERIMENT.RUN.ROLE`.
    pub name: String,
    cgroups: Cgroups,
    /// Each requested limit, with the `MAJOR:MINOR` of its disk.
    io_limits: Vec<(String, IoLimit)>,
    swap_max: Option<u64>,
    exists: bool,
}

impl ProgramCgroup {
    pub fn create(
        parents: &Cgroups,
        name: &CgroupName,
        limits: &Limits,
        disk_numbers: Vec<String>,
    ) -> Result<Self> {
        let name = name.to_string();
        let cgroups = match parents {
            Cgroups::V1 { folders, .. } => Cgroups::V1 {
                folders: folders.below(&name, limits),
                pressure_cgroup: None,
            },
            Cgroups::V2(parent) => {
                enable_controllers(&parent.folder, limits)?;
                Cgroups::V2(parent.below(&name))
            }
        };
        let mut cgroup = Self {
            name,
            cgroups,
            io_limits: disk_numbers
                .into_iter()
                .zip(limits.io.iter().cloned())
                .collect(),
            swap_max: limits.swap_max,
            exists: false,
        };
        let mut created = Vec::new();
        for folder in cgroup.folders() {
            if let Err(error) = create_folder(&folder) {
                for folder in created {
                    let _ = fs::remove_dir(folder);
                }
                return Err(error);
            }
            created.push(folder);
        }
        cgroup.exists = true;
        // The cgroup for pressure is optional.
        if let Cgroups::V1 {
            pressure_cgroup, ..
        } = &mut cgroup.cgroups
            && let Cgroups::V1 {
                pressure_cgroup: parent,
                ..
            } = parents
        {
            let below = parent.as_ref().map(|parent| parent.below(&cgroup.name));
            *pressure_cgroup = below.filter(|cgroup| create_folder(&cgroup.folder).is_ok());
        }
        Ok(cgroup)
    }

    pub fn set_limits(&self, limits: &Limits) -> Result<()> {
        match &self.cgroups {
            Cgroups::V1 { folders, .. } => v1::set_limits(folders, limits, &self.io_limits),
            Cgroups::V2(own) => v2::set_limits(&own.folder, limits, &self.io_limits),
        }
    }

    pub fn set_memory_limit(&self, memory: Option<u64>) -> Result<Option<u64>> {
        match &self.cgroups {
            Cgroups::V1 { folders, .. } => {
                v1::set_memory_limit(&folders.memory, memory, self.swap_max)
            }
            Cgroups::V2(own) => v2::set_memory_high(&own.folder, memory),
        }
    }

    pub fn limits(&self) -> Result<Limits> {
        match &self.cgroups {
            Cgroups::V1 { folders, .. } => v1::limits(folders, &self.io_limits),
            Cgroups::V2(own) => {
                let requested: Vec<IoLimit> = self
                    .io_limits
                    .iter()
                    .map(|(_, limit)| limit.clone())
                    .collect();
                v2::effective_limits(&own.folder, &own.top, &requested)
            }
        }
    }

    pub fn state(&self) -> Result<CgroupState> {
        match &self.cgroups {
            Cgroups::V1 {
                folders,
                pressure_cgroup,
            } => {
                let pressure_folder = pressure_cgroup
                    .as_ref()
                    .map(|cgroup| cgroup.folder.as_path());
                v1::cgroup_state(&folders.memory, pressure_folder)
            }
            Cgroups::V2(own) => v2::cgroup_state(&own.folder),
        }
    }

    pub fn enter(&mut self, pid: u32) -> Result<()> {
        let enter = |folder: &Path| write(folder, "cgroup.procs", pid);
        let folders = match &mut self.cgroups {
            Cgroups::V1 {
                folders,
                pressure_cgroup,
            } => {
                if let Some(pressure_cgroup) =
                    pressure_cgroup.take_if(|cgroup| enter(&cgroup.folder).is_err())
                {
                    // An empty cgroup would report no stalls.
                    let _ = fs::remove_dir(pressure_cgroup.folder);
                }
                folders.all()
            }
            Cgroups::V2(own) => vec![own.folder.clone()],
        };
        folders.iter().try_for_each(|folder| enter(folder))
    }

    pub fn folders(&self) -> Vec<PathBuf> {
        let (mut folders, unified) = self.cgroups.folders();
        folders.extend(unified.map(|unified| unified.folder.clone()));
        folders
    }

    pub fn kill(&self) -> Result<()> {
        kill(&self.name, &self.folders())
    }

    pub fn remove(&mut self) -> Result<()> {
        remove(&self.folders())?;
        self.exists = false;
        Ok(())
    }
}

impl Drop for ProgramCgroup {
    fn drop(&mut self) {
        if self.exists {
            let _ = self.kill().and_then(|()| self.remove());
        }
    }
}

pub fn find_by_experiment(
    parents: &Cgroups,
    experiment: &str,
) -> Result<BTreeMap<String, Vec<PathBuf>>> {
    let prefix = format!("{NAME_PREFIX}.{experiment}.");
    let mut cgroups: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    let (controllers, unified) = parents.folders();
    for root in controllers {
        for folder in subfolders(&root)? {
            if let Some(name) = name_with_prefix(&folder, &prefix) {
                cgroups.entry(name).or_default().push(folder);
            }
        }
    }
    let mut unvisited = unified.map_or_else(Vec::new, |unified| {
        vec![unified.top.clone(), unified.folder.clone()]
    });
    let mut seen = BTreeSet::new();
    while let Some(folder) = unvisited.pop() {
        if !seen.insert(folder.clone()) {
            continue;
        }
        for inner in subfolders(&folder)? {
            match name_with_prefix(&inner, &prefix) {
                Some(name) => cgroups.entry(name).or_default().push(inner),
                None => unvisited.push(inner),
            }
        }
    }
    Ok(cgroups)
}

fn name_with_prefix(folder: &Path, prefix: &str) -> Option<String> {
    let name = folder.file_name()?.to_str()?;
    name.starts_with(prefix).then(|| name.to_owned())
}

/// Lifts limits under which processes wait for memory and cannot handle SIGTERM; best effort.
pub fn lift_memory_limits(folders: &[PathBuf]) {
    for folder in folders {
        // Fails in version 1, which has no `memory.high`.
        let _ = v2::set_memory_high(folder, None);
        if v1::waits_when_full(folder) {
            let _ = v1::set_memory_limit(folder, None, None);
        }
    }
}

/// Sends SIGTERM once to each process. In version 1, several folders list the same process.
pub fn terminate(folders: &[PathBuf]) -> Result<()> {
    let mut signalled = BTreeSet::new();
    for folder in folders {
        signalled.extend(signal(folder, Signal::TERM, &signalled)?);
    }
    Ok(())
}

pub fn is_empty(folders: &[PathBuf]) -> Result<bool> {
    Ok(all_processes(folders)?.is_empty())
}

fn all_processes(folders: &[PathBuf]) -> Result<BTreeSet<i32>> {
    let mut all = BTreeSet::new();
    for folder in folders {
        all.extend(processes(folder)?);
    }
    Ok(all)
}

pub fn kill(name: &str, folders: &[PathBuf]) -> Result<()> {
    let emptied = poll_until(KILL_TIMEOUT, || {
        for folder in folders {
            kill_all(folder)?;
        }
        Ok(is_empty(folders).unwrap_or(false).then_some(()))
    })?;
    if emptied.is_some() {
        return Ok(());
    }
    let survivors = Vec::from_iter(all_processes(folders)?.iter().map(i32::to_string));
    bail!(
        "{name}: these processes do not end: {}",
        survivors.join(", ")
    )
}

pub fn remove(folders: &[PathBuf]) -> Result<()> {
    folders.iter().try_for_each(|folder| remove_folder(folder))
}

fn create_folder(folder: &Path) -> Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(
            "{}: a cgroup of this name exists already, from a run that continues or was killed: stop that run, or remove the cgroup",
            folder.display()
        ),
        created => created.with_path(folder),
    }
}

/// Uses `cgroup.kill` where it exists (version 2 since Linux 5.14).
fn kill_all(folder: &Path) -> Result<()> {
    match fs::write(folder.join("cgroup.kill"), "1") {
        Ok(()) => Ok(()),
        Err(_) => signal(folder, Signal::KILL, &BTreeSet::new()).map(drop),
    }
}

/// Removes a cgroup and those below it. A process that has just exited may keep it busy for a
/// moment.
fn remove_folder(folder: &Path) -> Result<()> {
    remove(&subfolders(folder)?)?;
    poll_until(KILL_TIMEOUT, || match fs::remove_dir(folder) {
        Err(error) if is_gone(&error) => Ok(Some(())),
        Err(error) if error.kind() == ErrorKind::ResourceBusy => Ok(None),
        removed => removed.map(Some).with_path(folder),
    })?
    .ok_or(ErrorKind::ResourceBusy)
    .with_path(folder)
}
