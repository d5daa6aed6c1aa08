use super::CgroupRoots;
use super::controllers::{self, SELF_LEAF};
use super::folder::read;
use crate::isolation::launch::{Abilities, files};
use anyhow::{Result, anyhow, bail};
use faultline_kernel::parse::mountinfo::{self, Mount};
use faultline_kernel::{HostRoot, locate};
use rustix::fs::{Access, access};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GroupParent {
    V1(V1Roots),
    V2(Delegated),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct V1Roots {
    pub(super) memory: PathBuf,
    pub(super) cpuset: Option<PathBuf>,
    pub(super) blkio: Option<PathBuf>,
    /// A cgroup of version 2 without controllers, for pressure. Absent if version 2 is not mounted
    /// or reports no pressure.
    pub(super) stalls: Option<PressureParent>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PressureParent {
    /// This program's own cgroup, so that its manager, such as systemd, still finds the processes.
    pub(super) folder: PathBuf,
    /// May contain groups of an earlier program.
    pub(super) top: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Delegated {
    pub(super) folder: PathBuf,
    pub(super) top: PathBuf,
    pub(super) controllers: Vec<String>,
}

impl GroupParent {
    /// Version 1 if it has the memory controller, which the kernel gives to one version only.
    pub(super) fn find(roots: &CgroupRoots) -> Result<GroupParent> {
        let refused = |error: faultline_kernel::ReadError| anyhow!(error.to_string());
        let mounts = roots
            .host
            .read_proc("self/mountinfo", mountinfo::parse)
            .map_err(refused)?;
        let v1 = |controller: &str| {
            let has_controller =
                |mount: &&Mount| mount.fs_type == "cgroup" && mount.has_option(controller);
            mounts
                .iter()
                .find(has_controller)
                .map(|mount| mount.mount_point.clone())
        };
        if let Some(memory) = v1("memory") {
            check_writable(&memory)?;
            let stalls = stalls(&roots.host);
            return Ok(GroupParent::V1(V1Roots {
                memory,
                cpuset: v1("cpuset"),
                blkio: v1("blkio"),
                stalls,
            }));
        }
        let own = locate(&roots.host, std::process::id())
            .and_then(|cgroups| cgroups.unified)
            .map_err(refused)?;
        let folder = roots
            .delegated
            .clone()
            .unwrap_or_else(|| group_parent_folder(&own.folder));
        let path = folder.join("cgroup.controllers");
        let text = read(&path)?;
        let controllers: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        if !controllers.iter().any(|name| name == "memory") {
            bail!(
                "{}: no memory controller here (it has: {}); start the program in a unit with Delegate=yes",
                folder.display(),
                text.trim()
            );
        }
        check_writable(&folder)?;
        controllers::check(&folder)?;
        Ok(GroupParent::V2(Delegated {
            folder,
            top: own.top.to_path_buf(),
            controllers,
        }))
    }

    pub(super) fn abilities(&self, host: &HostRoot) -> Abilities {
        match self {
            GroupParent::V1(v1_roots) => Abilities {
                memory_max: true,
                memory_high: false,
                swap_max: v1_roots.memory.join("memory.memsw.limit_in_bytes").exists(),
                cpus: v1_roots.cpuset.is_some(),
                io: v1_roots
                    .blkio
                    .as_ref()
                    .is_some_and(|blkio| blkio.join("blkio.throttle.read_bps_device").exists()),
                pressure: v1_roots.stalls.is_some(),
                open_files: files::most(host),
            },
            GroupParent::V2(Delegated {
                folder,
                controllers,
                ..
            }) => {
                let has = |name: &str| controllers.iter().any(|controller| controller == name);
                // The root cgroup has no limit files.
                let is_root = !folder.join("memory.max").exists();
                let swap = folder.join("memory.swap.max").exists()
                    || is_root && host.procfs.join("swaps").exists();
                Abilities {
                    memory_max: has("memory"),
                    memory_high: has("memory"),
                    swap_max: has("memory") && swap,
                    cpus: has("cpuset"),
                    io: has("io"),
                    pressure: folder.join("memory.pressure").exists(),
                    open_files: files::most(host),
                }
            }
        }
    }
}

impl V1Roots {
    pub(super) fn controller_roots(&self) -> impl Iterator<Item = &PathBuf> {
        [
            Some(&self.memory),
            self.cpuset.as_ref(),
            self.blkio.as_ref(),
        ]
        .into_iter()
        .flatten()
    }
}

fn stalls(host: &HostRoot) -> Option<PressureParent> {
    let own = locate(host, std::process::id()).ok()?.unified.ok()?;
    let has_pressure =
        host.procfs.join("pressure/memory").exists() && check_writable(&own.folder).is_ok();
    has_pressure.then(|| PressureParent {
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
