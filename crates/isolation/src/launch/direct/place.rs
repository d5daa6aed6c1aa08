//! Where groups are made on this host.

use super::CgroupRoots;
use super::group::Group;
use super::room;
use crate::launch::{Abilities, Error, GroupName, files};
use faultline_kernel::parse::mountinfo::{self, Mount};
use faultline_kernel::{HostRoot, locate};
use rustix::fs::{Access, access};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What the names of all groups begin with. Dots divide their parts, which have none.
const OURS: &str = "faultline";

/// The folders that groups are made in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    V1(Tops),
    V2(Delegated),
}

/// The topmost folder of each hierarchy of version 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tops {
    pub(super) memory: PathBuf,
    pub(super) cpuset: Option<PathBuf>,
    pub(super) blkio: Option<PathBuf>,
}

/// Of version 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Delegated {
    /// In which groups are made.
    pub(super) folder: PathBuf,
    /// Below which those of an earlier program may be.
    pub(super) top: PathBuf,
    /// The controllers that it has.
    pub(super) controllers: Vec<String>,
}

impl Place {
    /// Version 1 where it has the memory controller, as the kernel gives it to one version only.
    pub(super) fn find(roots: &CgroupRoots) -> Result<Place, Error> {
        let refused = |error: faultline_kernel::ReadError| Error::Refused(error.to_string());
        let mounts = roots.host.read_proc("self/mountinfo", mountinfo::parse).map_err(refused)?;
        let v1 = |controller: &str| {
            let is_it = |mount: &&Mount| mount.fs_type == "cgroup" && mount.has_option(controller);
            mounts.iter().find(is_it).map(|mount| mount.mount_point.clone())
        };
        if let Some(memory) = v1("memory") {
            may_be_written(&memory)?;
            return Ok(Place::V1(Tops { memory, cpuset: v1("cpuset"), blkio: v1("blkio") }));
        }
        let own = locate(&roots.host, std::process::id()).and_then(|cgroups| cgroups.unified).map_err(refused)?;
        let folder = roots.delegated.clone().unwrap_or_else(|| home(&own.folder));
        let path = folder.join("cgroup.controllers");
        let text = fs::read_to_string(&path).map_err(Error::at(&path))?;
        let controllers: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        if !controllers.iter().any(|name| name == "memory") {
            return Err(Error::Refused(format!(
                "{}: no memory controller here (it has: {}); start the program in a unit with Delegate=yes",
                folder.display(),
                text.trim()
            )));
        }
        may_be_written(&folder)?;
        room::check(&folder)?;
        Ok(Place::V2(Delegated { folder, top: own.top.to_path_buf(), controllers }))
    }

    pub(super) fn abilities(&self, host: &HostRoot) -> Abilities {
        match self {
            Place::V1(tops) => Abilities {
                memory_max: true,
                memory_high: false,
                swap_max: tops.memory.join("memory.memsw.limit_in_bytes").exists(),
                cpus: tops.cpuset.is_some(),
                io: tops.blkio.as_ref().is_some_and(|blkio| blkio.join("blkio.throttle.read_bps_device").exists()),
                pressure: false,
                open_files: files::most(host),
            },
            Place::V2(Delegated { folder, controllers, .. }) => {
                let has = |name: &str| controllers.iter().any(|controller| controller == name);
                // The root of the host's cgroups has no limits of its own to tell by.
                let is_root = !folder.join("memory.max").exists();
                let swap = folder.join("memory.swap.max").exists() || is_root && host.procfs.join("swaps").exists();
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

    /// The groups of this scope that are there, whoever made them.
    pub(super) fn groups_of(&self, scope: &str) -> Result<Vec<Group>, Error> {
        let prefix = format!("{OURS}.{scope}.");
        let mut names = BTreeSet::new();
        match self {
            Place::V1(tops) => {
                for top in [Some(&tops.memory), tops.cpuset.as_ref(), tops.blkio.as_ref()].into_iter().flatten() {
                    names.extend(folders(top)?.into_iter().filter_map(|folder| named(&folder, &prefix)));
                }
                Ok(names.into_iter().map(|name| Group::found(tops.folders(&name), name)).collect())
            }
            Place::V2(delegated) => {
                let mut found = Vec::new();
                let mut to_look = vec![delegated.top.clone(), delegated.folder.clone()];
                let mut seen = BTreeSet::new();
                while let Some(folder) = to_look.pop().filter(|folder| seen.insert(folder.clone())) {
                    for inner in folders(&folder)? {
                        match named(&inner, &prefix) {
                            Some(name) => found.push(Group::found(vec![inner], name)),
                            None => to_look.push(inner),
                        }
                    }
                }
                Ok(found)
            }
        }
    }
}

impl Tops {
    /// The folders that a group may have.
    fn folders(&self, name: &str) -> Vec<PathBuf> {
        let tops = [Some(&self.memory), self.cpuset.as_ref(), self.blkio.as_ref()];
        tops.into_iter().flatten().map(|top| top.join(name)).filter(|folder| folder.is_dir()).collect()
    }
}

fn may_be_written(folder: &Path) -> Result<(), Error> {
    access(folder, Access::WRITE_OK).map_err(|error| {
        Error::Refused(format!("{}: no groups can be made here ({error}): start the program as root", folder.display()))
    })
}

/// The folder's name of a group.
pub(super) fn folder_name(name: &GroupName) -> String {
    format!("{OURS}.{}.{}.{}", name.scope, name.run, name.part)
}

/// Where the program itself is once it had to make room in its cgroup.
pub(super) const OWN_LEAF: &str = "faultline.own";

/// The cgroup to make groups in for a program in this one, which may be its leaf.
fn home(own: &Path) -> PathBuf {
    match (own.file_name(), own.parent()) {
        (Some(name), Some(parent)) if name == OWN_LEAF => parent.to_owned(),
        _ => own.to_owned(),
    }
}

/// The cgroups right below one; none if it is gone.
pub(super) fn folders(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(Error::at(folder))?,
    };
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    Ok(entries.flatten().filter(is_folder).map(|entry| entry.path()).collect())
}

fn named(folder: &Path, prefix: &str) -> Option<String> {
    folder.file_name()?.to_str().filter(|name| name.starts_with(prefix)).map(str::to_owned)
}
