use std::{
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use crate::{
    HostRoot, ReadError, Result,
    file::{FileOwner, OpenFile, ReadUntil},
    parse::{
        cgroup::{self, Membership},
        mountinfo::{self, Mount},
    },
    process::{first_threads, is_exiting},
};

/// Mount points below this folder are searched below [`HostRoot::cgroup`].
const CGROUP_MOUNT_POINT: &str = "/sys/fs/cgroup";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CgroupVersion {
    /// Each hierarchy has some of the controllers.
    V1,
    V2,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupFolder {
    pub version: CgroupVersion,
    pub folder: Arc<Path>,
    /// The folder of the topmost cgroup in the hierarchy that the reader can see.
    pub mount_point: Arc<Path>,
    /// The path in the reader's cgroup namespace, such as `/system.slice/sol.service`.
    pub path: String,
}

impl CgroupFolder {
    /// From the folder up to the topmost visible one.
    pub fn with_ancestors(&self) -> impl Iterator<Item = &Path> {
        self.folder
            .ancestors()
            .take_while(|folder| folder.starts_with(&self.mount_point))
    }
}

/// The cgroups of a process by controller, which differ in version and path on a hybrid host. A v1
/// cgroup is `Gone` once all threads have begun to exit, because the kernel then reports `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessCgroups {
    pub memory: Result<CgroupFolder>,
    pub cpu: Result<CgroupFolder>,
    pub io: Result<CgroupFolder>,
    /// The cgroup in the v2 hierarchy. v1 has no pressure files.
    pub unified: Result<CgroupFolder>,
    pub freezer: Result<CgroupFolder>,
}

impl ProcessCgroups {
    /// Path in the reader's namespace of the memory cgroup, else of the v2 cgroup. `None` if the
    /// memory cgroup is gone or neither is reachable.
    pub fn path(&self) -> Option<&str> {
        let folder = match &self.memory {
            Err(ReadError::Gone { .. }) => None,
            memory => memory.as_ref().or(self.unified.as_ref()).ok(),
        };
        folder.map(|folder| &*folder.path)
    }

    /// True if a cgroup was removed or, on v1, the whole process is exiting.
    pub fn is_gone(&self) -> bool {
        let cgroups = [
            &self.memory,
            &self.cpu,
            &self.io,
            &self.unified,
            &self.freezer,
        ];
        cgroups
            .into_iter()
            .any(|cgroup| matches!(cgroup, Err(ReadError::Gone { .. })))
    }
}

/// Finds the cgroups of a process. If its main thread exits, another living thread is used.
///
/// A cgroup is `Absent` if it is outside the reader's cgroup namespace or above the mount. It is
/// `Gone` if it was removed under a zombie.
pub fn locate_cgroups(root: &HostRoot, pid: u32) -> Result<ProcessCgroups> {
    CgroupLocator::new(root, pid).locate()
}

/// Locates the cgroups of one process repeatedly, because it may be moved.
#[derive(Debug)]
pub struct CgroupLocator {
    root: HostRoot,
    pid: u32,
    /// The `cgroup` file that the last [`locate`](Self::locate) used, and its text then.
    cgroup_file: Option<(OpenFile, Vec<u8>)>,
    buffer: Vec<u8>,
}

impl CgroupLocator {
    pub fn new(root: &HostRoot, pid: u32) -> Self {
        Self {
            root: root.clone(),
            pid,
            cgroup_file: None,
            buffer: Vec::new(),
        }
    }

    /// Whether the process may have been moved since [`locate`](Self::locate). Reads one open file.
    pub fn has_moved(&mut self) -> bool {
        let Some((file, last_text)) = &self.cgroup_file else {
            return true;
        };
        file.read(&mut self.buffer)
            .map_or(true, |text| text != last_text)
    }

    pub fn locate(&mut self) -> Result<ProcessCgroups> {
        self.cgroup_file = None;
        let main = TaskCgroupFile::read(&self.root, self.pid.to_string())?;
        let path = Arc::from(main.file.path());
        let (task_file, all_exiting) = if main.is_stale(&self.root) {
            let living = first_threads(&self.root, self.pid)
                .filter_map(|thread| TaskCgroupFile::read(&self.root, thread).ok())
                .find(|file| !file.is_stale(&self.root));
            let all_exiting = living.is_none();
            (living.unwrap_or(main), all_exiting)
        } else {
            (main, false)
        };
        // The reader's mounts, because the reader opens the files. The usual folder is tried for a
        // hierarchy without a mount.
        let mounts = self
            .root
            .read_proc("self/mountinfo", mountinfo::parse)
            .unwrap_or_default();
        let search = Search {
            root: &self.root,
            path,
            memberships: task_file.memberships,
            all_exiting,
            mounts,
        };
        let cgroups = ProcessCgroups {
            memory: search.find_controller("memory"),
            cpu: search.find_controller("cpu"),
            io: search.find_controller("blkio"),
            unified: search.find_unified(),
            freezer: search.find_controller("freezer"),
        };
        self.cgroup_file = Some((task_file.file, task_file.text));
        Ok(cgroups)
    }
}

struct TaskCgroupFile {
    task: String,
    file: OpenFile,
    text: Vec<u8>,
    memberships: Vec<Membership>,
}

impl TaskCgroupFile {
    fn read(root: &HostRoot, task: String) -> Result<Self> {
        let folder = root.procfs.join(&task);
        let path = Arc::from(folder.join("cgroup"));
        let file = OpenFile::open(
            FileOwner::Folder(Arc::from(folder)),
            path,
            ReadUntil::ShortRead,
        )?;
        let mut text = Vec::new();
        let memberships = file.parse(&mut text, cgroup::memberships)?;
        Ok(Self {
            task,
            file,
            text,
            memberships,
        })
    }

    /// Whether the thread is exiting and has only `/` as v1 paths. The kernel then reports `/` in
    /// every v1 hierarchy, also in a cgroup namespace, long before the memory is freed. In v2 the
    /// thread stays in its cgroup.
    /// Flags are read after the file: a thread that is not exiting now was not exiting then.
    fn is_stale(&self, root: &HostRoot) -> bool {
        let mut v1 = self.memberships.iter().filter(|entry| !entry.is_unified);
        v1.all(|entry| entry.path == "/") && is_exiting(root, &self.task)
    }
}

struct Search<'a> {
    root: &'a HostRoot,
    path: Arc<Path>,
    memberships: Vec<Membership>,
    all_exiting: bool,
    mounts: Vec<Mount>,
}

impl Search<'_> {
    /// Finds the cgroup by the controller's v1 name, else in the unified hierarchy.
    fn find_controller(&self, name: &str) -> Result<CgroupFolder> {
        match self.memberships.iter().find(|entry| {
            entry
                .controllers
                .iter()
                .any(|controller| controller == name)
        }) {
            Some(entry) => {
                let mounted =
                    |mount: &Mount| mount.fs_type == "cgroup" && mount.has_super_option(name);
                self.find_folder(
                    CgroupVersion::V1,
                    entry,
                    mounted,
                    self.root.cgroup.join(name),
                )
            }
            None => self.find_unified(),
        }
    }

    fn find_unified(&self) -> Result<CgroupFolder> {
        let Some(entry) = self.memberships.iter().find(|entry| entry.is_unified) else {
            return Err(self.absent("the process is in no hierarchy with this controller"));
        };
        let is_mounted = |fs_type: &str| self.mounts.iter().any(|mount| mount.fs_type == fs_type);
        // The usual folder then has the hierarchies of v1.
        if is_mounted("cgroup") && !is_mounted("cgroup2") {
            return Err(self.absent("the v2 hierarchy is not mounted"));
        }
        let hybrid = self.root.cgroup.join("unified");
        let default_mount_point = if hybrid.is_dir() {
            hybrid
        } else {
            self.root.cgroup.clone()
        };
        self.find_folder(
            CgroupVersion::V2,
            entry,
            |mount| mount.fs_type == "cgroup2",
            default_mount_point,
        )
    }

    fn find_folder(
        &self,
        version: CgroupVersion,
        entry: &Membership,
        mounted: impl Fn(&Mount) -> bool,
        default_mount_point: PathBuf,
    ) -> Result<CgroupFolder> {
        if entry.is_deleted || (self.all_exiting && version == CgroupVersion::V1) {
            return Err(ReadError::Gone {
                path: Arc::clone(&self.path),
            });
        }
        let mut mounts = self.mounts.iter().filter(|mount| mounted(mount)).peekable();
        let located = if mounts.peek().is_none() {
            relative_to(&entry.path, Path::new("/")).map(|relative| (default_mount_point, relative))
        } else {
            let mut visible = mounts.filter(|mount| self.is_visible(mount));
            visible.find_map(|mount| {
                Some((
                    self.reachable_path(&mount.mount_point)?,
                    relative_to(&entry.path, &mount.root)?,
                ))
            })
        };
        let Some((mount_point, relative)) = located else {
            return Err(
                self.absent("the cgroup is outside of the cgroup namespace or of what is mounted")
            );
        };
        let folder = if relative.as_os_str().is_empty() {
            mount_point.clone()
        } else {
            mount_point.join(relative)
        };
        Ok(CgroupFolder {
            version,
            folder: Arc::from(folder),
            mount_point: Arc::from(mount_point),
            path: entry.path.clone(),
        })
    }

    /// True if no later mount hides the mount. If the list has no topmost mount, only mounts at the
    /// same point are compared.
    fn is_visible(&self, mount: &Mount) -> bool {
        let at_same_point = |other: &&Mount| other.mount_point == mount.mount_point;
        let topmost = mountinfo::mount_of_path(&self.mounts, &mount.mount_point)
            .or_else(|| self.mounts.iter().rfind(at_same_point));
        topmost.is_none_or(|topmost| topmost.id == mount.id)
    }

    /// Maps a mount point below `/sys/fs/cgroup` to [`HostRoot::cgroup`]. `None` if below neither.
    fn reachable_path(&self, mount_point: &Path) -> Option<PathBuf> {
        if mount_point.starts_with(&self.root.cgroup) {
            return Some(mount_point.to_owned());
        }
        let relative = mount_point.strip_prefix(CGROUP_MOUNT_POINT).ok()?;
        let at_top = relative.as_os_str().is_empty();
        Some(if at_top {
            self.root.cgroup.clone()
        } else {
            self.root.cgroup.join(relative)
        })
    }

    fn absent(&self, why: &'static str) -> ReadError {
        ReadError::absent(Arc::clone(&self.path), why)
    }
}

/// `path` relative to `mount_root`; `None` if it is outside, or if `..` leads out of the namespace.
fn relative_to(path: &str, mount_root: &Path) -> Option<PathBuf> {
    let relative = Path::new(path).strip_prefix(mount_root).ok()?;
    relative
        .components()
        .all(|part| matches!(part, Component::Normal(_)))
        .then(|| relative.to_owned())
}

#[cfg(test)]
mod tests;
