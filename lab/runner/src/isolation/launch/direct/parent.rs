use super::{DirectLauncherPaths, v1};
use crate::isolation::launch::{
    LauncherAbilities, Limits, WithPath,
    cgroup::{has_word, read, subfolders, write},
    program::max_open_files,
};
use anyhow::{Result, anyhow, bail};
use faultline_kernel::{HostRoot, ReadError, locate_cgroups, parse::mountinfo};
use rustix::{
    fs::{Access, access},
    io::Errno,
};
use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process,
};

/// Folders of one launched program's cgroups, or of the parents of all such cgroups
/// ([`Cgroups::find_parents`]).
#[derive(Debug)]
pub enum Cgroups {
    V1 {
        folders: v1::Folders,
        /// A cgroup of version 2 without controllers, to read pressure. Its parent is this
        /// program's own cgroup, so that systemd still finds the launched processes in its unit.
        /// Absent if version 2 is not mounted or reports no pressure.
        pressure_cgroup: Option<Unified>,
    },
    V2(Unified),
}

#[derive(Debug)]
pub struct Unified {
    pub folder: PathBuf,
    /// The mount point. The limits of all ancestors up to the mount point apply as well. Cgroups of
    /// an earlier launcher may be anywhere below the mount point.
    pub top: PathBuf,
}

impl Unified {
    pub fn below(&self, name: &str) -> Self {
        Self {
            folder: self.folder.join(name),
            top: self.top.clone(),
        }
    }
}

impl Cgroups {
    /// Uses version 1 if it has the memory controller, because only one version can have it.
    pub fn find_parents(paths: &DirectLauncherPaths) -> Result<Self> {
        let host = &paths.host;
        let mounts = host.read_proc("self/mountinfo", mountinfo::parse)?;
        let v1 = |controller: &str| {
            let mount = mounts
                .iter()
                .find(|mount| mount.fs_type == "cgroup" && mount.has_super_option(controller))?;
            Some(mount.mount_point.clone())
        };
        if let Some(memory) = v1("memory") {
            check_writable(&memory)?;
            let folders = v1::Folders {
                memory,
                cpuset: v1("cpuset"),
                blkio: v1("blkio"),
            };
            let has_pressure = |own: &Unified| {
                host.procfs.join("pressure/memory").exists() && check_writable(&own.folder).is_ok()
            };
            return Ok(Self::V1 {
                folders,
                pressure_cgroup: own_cgroup(host).ok().filter(has_pressure),
            });
        }
        let own = own_cgroup(host)?;
        let folder = match &paths.delegated {
            Some(delegated) => delegated.clone(),
            None => cgroup_parent_folder(&own.folder),
        };
        let controllers = read(&folder, "cgroup.controllers")?;
        if !controllers.split_whitespace().any(|name| name == "memory") {
            bail!(
                "{}: no memory controller here (it has: {}); start the program in a unit with Delegate=yes",
                folder.display(),
                controllers.trim()
            );
        }
        check_writable(&folder)?;
        check_can_enable_controllers(&folder)?;
        Ok(Self::V2(Unified { folder, ..own }))
    }

    /// The folders with controllers of version 1, and the cgroup of version 2.
    pub fn folders(&self) -> (Vec<PathBuf>, Option<&Unified>) {
        match self {
            Self::V1 {
                folders,
                pressure_cgroup,
            } => (folders.all(), pressure_cgroup.as_ref()),
            Self::V2(unified) => (Vec::new(), Some(unified)),
        }
    }

    pub fn abilities(&self, host: &HostRoot) -> LauncherAbilities {
        let open_files = max_open_files(host);
        match self {
            Self::V1 {
                folders,
                pressure_cgroup,
            } => LauncherAbilities {
                memory_high: false,
                swap_max: folders.memory.join("memory.memsw.limit_in_bytes").exists(),
                cpus: folders.cpuset.is_some(),
                io: folders
                    .blkio
                    .as_ref()
                    .is_some_and(|blkio| blkio.join("blkio.throttle.read_bps_device").exists()),
                pressure: pressure_cgroup.is_some(),
                open_files,
            },
            Self::V2(Unified { folder, .. }) => {
                let has = |name: &str| has_word(folder, "cgroup.controllers", name);
                // The root cgroup has no limit files.
                let is_root = !folder.join("memory.max").exists();
                LauncherAbilities {
                    memory_high: true,
                    swap_max: folder.join("memory.swap.max").exists()
                        || is_root && host.procfs.join("swaps").exists(),
                    cpus: has("cpuset"),
                    io: has("io"),
                    pressure: folder.join("memory.pressure").exists(),
                    open_files,
                }
            }
        }
    }
}

fn own_cgroup(host: &HostRoot) -> Result<Unified, ReadError> {
    let own = locate_cgroups(host, process::id())?.unified?;
    Ok(Unified {
        folder: own.folder.to_path_buf(),
        top: own.mount_point.to_path_buf(),
    })
}

fn check_writable(folder: &Path) -> Result<()> {
    access(folder, Access::WRITE_OK).map_err(|error| {
        anyhow!(
            "{}: no cgroups can be made here ({error}): start the program as root",
            folder.display()
        )
    })
}

/// Parent of new cgroups: this program's cgroup `own`, or the cgroup around it if it is the leaf.
fn cgroup_parent_folder(own: &Path) -> PathBuf {
    match (own.file_name(), own.parent()) {
        (Some(name), Some(parent)) if name == SELF_LEAF => parent.to_owned(),
        _ => own.to_owned(),
    }
}

/// The leaf that this program moves into, so that the delegated cgroup has no processes.
const SELF_LEAF: &str = "faultline.own";

const SUBTREE_CONTROL: &str = "cgroup.subtree_control";

/// Enables the needed controllers for cgroups in `delegated`. A cgroup that has processes itself
/// cannot enable controllers.
pub fn enable_controllers(delegated: &Path, limits: &Limits) -> Result<()> {
    let controllers = [
        ("memory", true),
        ("cpuset", limits.cpus.is_some()),
        ("io", !limits.io.is_empty()),
    ];
    let missing: Vec<String> = controllers
        .iter()
        .filter(|(name, is_needed)| *is_needed && !has_word(delegated, SUBTREE_CONTROL, name))
        .map(|(name, _)| format!("+{name}"))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let path = delegated.join(SUBTREE_CONTROL);
    let text = missing.join(" ");
    match fs::write(&path, &text) {
        // EBUSY: the cgroup has processes itself.
        Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
            move_into_leaf(delegated)?;
            write(delegated, SUBTREE_CONTROL, text)
        }
        done => done.with_path(&path),
    }
}

/// Fails if cgroups in `folder` cannot have limits, even after this program has moved to a leaf.
fn check_can_enable_controllers(folder: &Path) -> Result<()> {
    // The root cgroup has no `cgroup.type`, and may have processes.
    if has_word(folder, SUBTREE_CONTROL, "memory") || !folder.join("cgroup.type").exists() {
        return Ok(());
    }
    check_no_other_processes(folder)
}

fn check_no_other_processes(folder: &Path) -> Result<()> {
    let own_pid = process::id().to_string();
    if read(folder, "cgroup.procs")?
        .lines()
        .all(|line| line == own_pid)
    {
        return Ok(());
    }
    bail!(
        "{}: other processes are in this cgroup, so it cannot contain cgroups with limits: start the program alone in a unit \
         with Delegate=yes (systemd-run --scope -p Delegate=yes ...)",
        folder.display()
    )
}

fn move_into_leaf(folder: &Path) -> Result<()> {
    check_no_other_processes(folder)?;
    let leaf = folder.join(SELF_LEAF);
    match fs::create_dir(&leaf) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        created => created.with_path(&leaf)?,
    }
    write(&leaf, "cgroup.procs", process::id())
}

/// Moves this program back to `delegated` if no other cgroup is in it.
pub fn move_out_of_leaf(delegated: &Path) -> Result<()> {
    let leaf = delegated.join(SELF_LEAF);
    if subfolders(delegated)? != [leaf.clone()] {
        return Ok(());
    }
    let text: Vec<String> = read(delegated, SUBTREE_CONTROL)?
        .split_whitespace()
        .map(|name| format!("-{name}"))
        .collect();
    write(delegated, SUBTREE_CONTROL, text.join(" "))?;
    write(delegated, "cgroup.procs", process::id())?;
    fs::remove_dir(&leaf).with_path(&leaf)
}
