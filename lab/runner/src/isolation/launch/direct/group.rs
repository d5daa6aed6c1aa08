use super::folder::{folders, write};
use super::parent::GroupParent;
use super::{controllers, procs, v1, v2};
use crate::isolation::launch::wait::wait;
use crate::isolation::launch::{Evidence, GroupName, IoLimit, Limits, NAME_PREFIX, at, unified};
use anyhow::{Result, anyhow, bail};
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time for a killed process to exit: freeing a validator's memory takes time.
const KILL_TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(super) struct Group {
    name: String,
    kind: Kind,
    io: Vec<(String, IoLimit)>,
    removed: bool,
}

#[derive(Debug)]
enum Kind {
    V1(v1::Folders),
    V2 {
        folder: PathBuf,
        /// The limits of all ancestors up to this one apply as well.
        top: PathBuf,
    },
    Existing(Vec<PathBuf>),
}

impl Group {
    pub(super) fn make(
        parent: &GroupParent,
        name: &GroupName,
        limits: &Limits,
        disks: Vec<String>,
    ) -> Result<Group> {
        let name = name.to_string();
        let kind = match parent {
            GroupParent::V1(v1_roots) => Kind::V1(v1::Folders {
                memory: v1_roots.memory.join(&name),
                cpuset: v1_roots
                    .cpuset
                    .as_ref()
                    .filter(|_| limits.cpus.is_some())
                    .map(|top| top.join(&name)),
                blkio: v1_roots
                    .blkio
                    .as_ref()
                    .filter(|_| !limits.io.is_empty())
                    .map(|top| top.join(&name)),
                stalls: None,
            }),
            GroupParent::V2(delegated) => {
                controllers::enable(&delegated.folder, limits)?;
                Kind::V2 {
                    folder: delegated.folder.join(&name),
                    top: delegated.top.clone(),
                }
            }
        };
        let io = disks.into_iter().zip(limits.io.iter().cloned()).collect();
        let mut group = Group {
            name,
            kind,
            io,
            removed: true,
        };
        for folder in group.folders() {
            let made = make_folder(folder);
            if made.is_err() {
                group.remove_folders_before(folder);
            }
            made?;
        }
        group.removed = false;
        // Pressure files are optional.
        if let (Kind::V1(folders), GroupParent::V1(v1_roots)) = (&mut group.kind, parent) {
            let stalls = v1_roots
                .stalls
                .as_ref()
                .map(|stalls| stalls.folder.join(&group.name));
            folders.stalls = stalls.filter(|folder| make_folder(folder).is_ok());
        }
        Ok(group)
    }

    pub(super) fn find_by_scope(parent: &GroupParent, scope: &str) -> Result<Vec<Group>> {
        let prefix = format!("{NAME_PREFIX}.{scope}.");
        match parent {
            GroupParent::V1(v1_roots) => {
                let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
                for top in v1_roots.controller_roots() {
                    for folder in folders(top)? {
                        if let Some(name) = name_with_prefix(&folder, &prefix) {
                            found.entry(name).or_default().push(folder);
                        }
                    }
                }
                if let Some(stalls) = &v1_roots.stalls {
                    for (name, folder) in below(&[&stalls.top, &stalls.folder], &prefix)? {
                        found.entry(name).or_default().push(folder);
                    }
                }
                Ok(found
                    .into_iter()
                    .map(|(name, folders)| Group::found(folders, name))
                    .collect())
            }
            GroupParent::V2(delegated) => {
                let found = below(&[&delegated.top, &delegated.folder], &prefix)?;
                Ok(found
                    .into_iter()
                    .map(|(name, folder)| Group::found(vec![folder], name))
                    .collect())
            }
        }
    }

    fn found(folders: Vec<PathBuf>, name: String) -> Group {
        Group {
            name,
            kind: Kind::Existing(folders),
            io: Vec::new(),
            removed: true,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn limit(&self, limits: &Limits) -> Result<()> {
        match &self.kind {
            Kind::V1(folders) => v1::limit(folders, limits, &self.io),
            Kind::V2 { folder, .. } => v2::limit(folder, limits, &self.io),
            Kind::Existing(_) => Ok(()),
        }
    }

    pub(super) fn set_memory_limit(&self, memory: Option<u64>) -> Result<Option<u64>> {
        match &self.kind {
            Kind::V1(folders) => v1::set_memory_limit(&folders.memory, memory),
            Kind::V2 { folder, .. } => v2::set_memory_limit(folder, memory),
            Kind::Existing(_) => bail!("{}: this group belongs to another program", self.name),
        }
    }

    pub(super) fn limits(&self) -> Result<Limits> {
        match &self.kind {
            Kind::V1(folders) => v1::limits(folders, &self.io),
            Kind::V2 { folder, top } => v2::limits(folder, top, &self.requested()),
            Kind::Existing(_) => Ok(Limits::default()),
        }
    }

    pub(super) fn evidence(&self) -> Result<Evidence> {
        match &self.kind {
            Kind::V1(folders) => v1::evidence(&folders.memory, folders.stalls.as_deref()),
            Kind::V2 { folder, .. } => unified::evidence(folder),
            Kind::Existing(_) => Ok(Evidence::default()),
        }
    }

    pub(super) fn enter(&mut self, pid: u32) -> Result<()> {
        let write = |folder: &Path| write(&folder.join("cgroup.procs"), &pid.to_string());
        if let Kind::V1(folders) = &mut self.kind
            && let Some(stalls) = folders.stalls.take_if(|stalls| write(stalls).is_err())
        {
            // An empty cgroup would report no stalls.
            let _ = fs::remove_dir(stalls);
        }
        let stalls = match &self.kind {
            Kind::V1(folders) => folders.stalls.as_deref(),
            _ => None,
        };
        self.folders()
            .into_iter()
            .filter(|folder| Some(*folder) != stalls)
            .try_for_each(write)
    }

    /// Lifts limits under which processes wait for memory and cannot handle SIGTERM; best effort.
    pub(super) fn lift_memory_limits(&self) {
        for folder in self.folders() {
            // Opening a missing file fails, because nothing can be created in a cgroup.
            let _ = v2::set_memory_limit(folder, None);
            if v1::waits_when_full(folder) {
                let _ = v1::set_memory_limit(folder, None);
            }
        }
    }

    /// Sends SIGTERM once to each process: in version 1 a process is in a folder of every
    /// controller.
    pub(super) fn terminate(&self) -> Result<()> {
        let folders = match &self.kind {
            Kind::V1(folders) => vec![folders.memory.as_path()],
            Kind::V2 { .. } | Kind::Existing(_) => self.folders(),
        };
        let mut requested = BTreeSet::new();
        for folder in folders {
            let listed = procs::list(folder)?;
            if !listed.is_subset(&requested) {
                procs::signal(folder, Signal::TERM)?;
            }
            requested.extend(listed);
        }
        Ok(())
    }

    /// True also if it cannot be determined.
    pub(super) fn is_busy(&self) -> bool {
        !self.is_empty().unwrap_or(false)
    }

    pub(super) fn is_empty(&self) -> Result<bool> {
        for folder in self.folders() {
            if !procs::list(folder)?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn kill(&self) -> Result<()> {
        let emptied = wait(KILL_TIMEOUT, || {
            self.folders().into_iter().try_for_each(kill_all)?;
            Ok((!self.is_busy()).then_some(()))
        })?;
        if emptied.is_some() {
            return Ok(());
        }
        let survivors = self
            .folders()
            .into_iter()
            .map(procs::list)
            .collect::<Result<Vec<_>, _>>()?;
        let survivors: Vec<String> = survivors
            .into_iter()
            .flatten()
            .map(|pid| pid.to_string())
            .collect();
        bail!(
            "{}: these processes do not end: {}",
            self.name,
            survivors.join(", ")
        )
    }

    pub(super) fn end(mut self) -> Result<()> {
        self.kill()?;
        self.remove()
    }

    pub(super) fn remove(&mut self) -> Result<()> {
        self.folders().into_iter().try_for_each(remove_folder)?;
        self.removed = true;
        Ok(())
    }

    fn requested(&self) -> Vec<IoLimit> {
        self.io.iter().map(|(_, limit)| limit.clone()).collect()
    }

    fn folders(&self) -> Vec<&Path> {
        match &self.kind {
            Kind::V1(folders) => folders.all(),
            Kind::V2 { folder, .. } => vec![folder],
            Kind::Existing(folders) => folders.iter().map(PathBuf::as_path).collect(),
        }
    }

    fn remove_folders_before(&self, last: &Path) {
        for folder in self
            .folders()
            .into_iter()
            .take_while(|folder| *folder != last)
        {
            let _ = fs::remove_dir(folder);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.removed {
            let _ = self.kill().and_then(|()| self.remove());
        }
    }
}

fn below(roots: &[&Path], prefix: &str) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    let mut unvisited: Vec<PathBuf> = roots.iter().map(|root| root.to_path_buf()).collect();
    let mut seen = BTreeSet::new();
    while let Some(folder) = unvisited.pop() {
        if !seen.insert(folder.clone()) {
            continue;
        }
        for inner in folders(&folder)? {
            match name_with_prefix(&inner, prefix) {
                Some(name) => found.push((name, inner)),
                None => unvisited.push(inner),
            }
        }
    }
    Ok(found)
}

fn name_with_prefix(folder: &Path, prefix: &str) -> Option<String> {
    folder
        .file_name()?
        .to_str()
        .filter(|name| name.starts_with(prefix))
        .map(str::to_owned)
}

fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir(folder).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => anyhow!("{}: a group of this name is there already, from a run that is going on or was killed: stop that one first",
            folder.display()),
        _ => at(folder)(error),
    })
}

/// Uses `cgroup.kill` where it exists (version 2 since Linux 5.14).
fn kill_all(folder: &Path) -> Result<()> {
    match fs::write(folder.join("cgroup.kill"), "1") {
        Ok(()) => Ok(()),
        Err(_) => procs::signal(folder, Signal::KILL),
    }
}

/// Removes a cgroup and those below it. A process that has just exited may keep it busy for a
/// moment.
fn remove_folder(folder: &Path) -> Result<()> {
    for inner in folders(folder)? {
        remove_folder(&inner)?;
    }
    let removed = wait(KILL_TIMEOUT, || match fs::remove_dir(folder) {
        Ok(()) => Ok(Some(())),
        Err(error) if procs::is_gone(&error) => Ok(Some(())),
        Err(error) if error.kind() == ErrorKind::ResourceBusy => Ok(None),
        Err(error) => Err(at(folder)(error)),
    })?;
    removed.ok_or_else(|| at(folder)(std::io::Error::from(ErrorKind::ResourceBusy)))
}
