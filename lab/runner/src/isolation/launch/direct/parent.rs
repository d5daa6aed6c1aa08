use super::{
    CgroupRoots,
    controllers::{self, SELF_LEAF},
    v1,
};
use crate::isolation::launch::{
    Abilities,
    cgroup::{has_word, read},
    files,
};
use anyhow::{Result, anyhow, bail};
use faultline_kernel::{HostRoot, ReadError, locate, parse::mountinfo};
use rustix::fs::{Access, access};
use std::path::{Path, PathBuf};

/// The parents of groups, or the cgroups of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cgroups {
    V1 {
        folders: v1::Folders,
        /// A cgroup of version 2 without controllers, for pressure. It is below this program's own
        /// cgroup, so that its manager, such as systemd, still finds the processes. Absent if
        /// version 2 is not mounted or reports no pressure.
        stalls: Option<Unified>,
    },
    V2(Unified),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unified {
    pub folder: PathBuf,
    /// The limits of all ancestors up to this one apply as well. Groups of an earlier program may
    /// be anywhere below it.
    pub top: PathBuf,
}

impl Unified {
    pub fn below(&self, name: &str) -> Unified {
        Unified {
            folder: self.folder.join(name),
            top: self.top.clone(),
        }
    }
}

impl Cgroups {
    /// Version 1 if it has the memory controller, which the kernel gives to one version only.
    pub fn parents(roots: &CgroupRoots) -> Result<Cgroups> {
        let host = &roots.host;
        let mounts = host.read_proc("self/mountinfo", mountinfo::parse)?;
        let v1 = |controller: &str| {
            let mut mounts = mounts.iter();
            let mount = mounts
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
            return Ok(Cgroups::V1 {
                folders,
                stalls: own(host).ok().filter(has_pressure),
            });
        }
        let own = own(host)?;
        let folder = match &roots.delegated {
            Some(delegated) => delegated.clone(),
            None => group_parent_folder(&own.folder),
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
        controllers::check(&folder)?;
        Ok(Cgroups::V2(Unified { folder, ..own }))
    }

    pub fn abilities(&self, host: &HostRoot) -> Abilities {
        let open_files = files::most(host);
        match self {
            Cgroups::V1 { folders, stalls } => Abilities {
                memory_max: true,
                memory_high: false,
                swap_max: folders.memory.join("memory.memsw.limit_in_bytes").exists(),
                cpus: folders.cpuset.is_some(),
                io: folders
                    .blkio
                    .as_ref()
                    .is_some_and(|blkio| blkio.join("blkio.throttle.read_bps_device").exists()),
                pressure: stalls.is_some(),
                open_files,
            },
            Cgroups::V2(Unified { folder, .. }) => {
                let has = |name: &str| has_word(folder, "cgroup.controllers", name);
                // The root cgroup has no limit files.
                let is_root = !folder.join("memory.max").exists();
                Abilities {
                    memory_max: true,
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

/// This program's own cgroup of version 2.
fn own(host: &HostRoot) -> Result<Unified, ReadError> {
    let own = locate(host, std::process::id())?.unified?;
    Ok(Unified {
        folder: own.folder.to_path_buf(),
        top: own.top.to_path_buf(),
    })
}

fn check_writable(folder: &Path) -> Result<()> {
    access(folder, Access::WRITE_OK).map_err(|error| {
        anyhow!(
            "{}: no groups can be made here ({error}): start the program as root",
            folder.display()
        )
    })
}

/// Parent of new groups; `own` may be this program's leaf in it.
fn group_parent_folder(own: &Path) -> PathBuf {
    match (own.file_name(), own.parent()) {
        (Some(name), Some(parent)) if name == SELF_LEAF => parent.to_owned(),
        _ => own.to_owned(),
    }
}
