//! Finding the folders of the cgroups that a process is in.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::file::{OpenFile, Owner, Records};
use crate::parse::mountinfo::{self, Mount};
use crate::parse::pid_cgroup::{self, Membership};
use crate::process::{first_threads, is_exiting};
use crate::{HostRoot, ReadError};

/// Where hosts mount their cgroups; a mount point below it is looked for below [`HostRoot::cgroup`].
const USUAL_FOLDER: &str = "/sys/fs/cgroup";

/// Which interface a hierarchy has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CgroupVersion {
    /// One hierarchy for a controller or two.
    V1,
    V2,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupFolder {
    /// Which files it has.
    pub version: CgroupVersion,
    /// Its place, below [`HostRoot::cgroup`].
    pub folder: Arc<Path>,
    /// The topmost visible folder of its hierarchy.
    pub top: Arc<Path>,
    /// Its path as the kernel shows it to this reader, such as `/system.slice/sol.service`.
    pub path: String,
}

impl CgroupFolder {
    /// The folder and those above it, up to the topmost visible one.
    pub fn with_ancestors(&self) -> impl Iterator<Item = &Path> {
        self.folder
            .ancestors()
            .take_while(|folder| folder.starts_with(&self.top))
    }
}

/// Where a process is accounted, by controller. On a hybrid host they differ in version and path. A cgroup of version 1 is
/// `Gone` once all threads of the process have begun to exit: the kernel then shows them in `/`, wherever they were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessCgroups {
    /// The cgroup with the memory files.
    pub memory: Result<CgroupFolder, ReadError>,
    /// The cgroup with the CPU files.
    pub cpu: Result<CgroupFolder, ReadError>,
    /// The cgroup with the block I/O files.
    pub io: Result<CgroupFolder, ReadError>,
    /// The cgroup in the v2 hierarchy, which alone has pressure files.
    pub unified: Result<CgroupFolder, ReadError>,
    pub freezer: Result<CgroupFolder, ReadError>,
}

impl ProcessCgroups {
    /// Where the process's memory is accounted, as the kernel shows it to this reader. `None` when that is gone, or
    /// nothing of it can be reached.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        let folder = match &self.memory {
            Err(ReadError::Gone { .. }) => None,
            memory => memory.as_ref().or(self.unified.as_ref()).ok(),
        };
        folder.map(|folder| &*folder.path)
    }

    /// Whether one of them is `Gone`: the process is exiting, or its cgroup was removed.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        let all = [
            &self.memory,
            &self.cpu,
            &self.io,
            &self.unified,
            &self.freezer,
        ];
        all.into_iter()
            .any(|cgroup| matches!(cgroup, Err(ReadError::Gone { .. })))
    }
}

/// Finds the cgroups of a process.
///
/// Once the main thread has begun to exit, the answer is that of a living thread.
///
/// A cgroup outside this reader's cgroup namespace, or above what is mounted, cannot be reached: it is `Absent` with that
/// reason. One that was removed under a zombie is `Gone`.
///
/// # Errors
/// When `{procfs}/PID/cgroup` cannot be read; `Gone` when there is no such process.
pub fn locate(root: &HostRoot, pid: u32) -> Result<ProcessCgroups, ReadError> {
    CgroupLocator::new(root, pid).locate()
}

/// Finds the cgroups of one process again and again: it may be moved.
#[derive(Debug)]
pub struct CgroupLocator {
    root: HostRoot,
    pid: u32,
    /// The list of the thread that the last answer is about, held open, and its text then.
    list: Option<(OpenFile, Vec<u8>)>,
    buffer: Vec<u8>,
}

impl CgroupLocator {
    /// Nothing is read yet.
    #[must_use]
    pub fn new(root: &HostRoot, pid: u32) -> Self {
        Self {
            root: root.clone(),
            pid,
            list: None,
            buffer: Vec::new(),
        }
    }

    /// Whether [`locate`](Self::locate) may have another answer than the last one. Reads one open file.
    pub fn has_moved(&mut self) -> bool {
        let Some((file, last)) = &self.list else {
            return true;
        };
        file.read(&mut self.buffer).map_or(true, |now| now != last)
    }

    pub fn locate(&mut self) -> Result<ProcessCgroups, ReadError> {
        self.list = None;
        let main = List::read(&self.root, self.pid.to_string())?;
        let path = Arc::from(main.file.path());
        let (list, exiting) = if main.is_stale(&self.root) {
            let living = first_threads(&self.root, self.pid)
                .filter_map(|thread| List::read(&self.root, thread).ok())
                .find(|list| !list.is_stale(&self.root));
            let exiting = living.is_none();
            (living.unwrap_or(main), exiting)
        } else {
            (main, false)
        };
        // What this reader can open is what is mounted for this reader. Without the list the usual places are tried.
        let mounts = self
            .root
            .read_proc("self/mountinfo", mountinfo::parse)
            .unwrap_or_default();
        let search = Search {
            root: &self.root,
            list: path,
            memberships: list.memberships,
            exiting,
            mounts,
        };
        let cgroups = ProcessCgroups {
            memory: search.controller("memory"),
            cpu: search.controller("cpu"),
            io: search.controller("blkio"),
            unified: search.unified(),
            freezer: search.controller("freezer"),
        };
        self.list = Some((list.file, list.text));
        Ok(cgroups)
    }
}

/// The cgroups that the kernel lists for a process or thread.
struct List {
    task: String,
    file: OpenFile,
    text: Vec<u8>,
    memberships: Vec<Membership>,
}

impl List {
    fn read(root: &HostRoot, task: String) -> Result<Self, ReadError> {
        let folder = root.procfs.join(&task);
        let path = Arc::from(folder.join("cgroup"));
        let file = OpenFile::open(Owner::Folder(Arc::from(folder)), path, Records::One)?;
        let mut text = Vec::new();
        let memberships = file.parse(&mut text, pid_cgroup::parse)?;
        Ok(Self {
            task,
            file,
            text,
            memberships,
        })
    }

    /// Whether it is that of an exiting thread. The kernel shows such a thread in `/` of every hierarchy of version 1, also in a
    /// cgroup namespace, and long before its memory is released. In version 2 it stays where it was, also when the others are
    /// moved. The flags are read after the list: a thread that is not exiting now was not exiting then.
    fn is_stale(&self, root: &HostRoot) -> bool {
        let mut v1 = self.memberships.iter().filter(|entry| !entry.unified);
        v1.all(|entry| entry.path == "/") && is_exiting(root, &self.task)
    }
}

struct Search<'a> {
    root: &'a HostRoot,
    list: Arc<Path>,
    memberships: Vec<Membership>,
    exiting: bool,
    mounts: Vec<Mount>,
}

impl Search<'_> {
    /// By the v1 name of the controller; where no v1 hierarchy has it, the unified one does.
    fn controller(&self, name: &str) -> Result<CgroupFolder, ReadError> {
        match self.memberships.iter().find(|entry| {
            entry
                .controllers
                .iter()
                .any(|controller| controller == name)
        }) {
            Some(entry) => {
                let mounted = |mount: &Mount| mount.fs_type == "cgroup" && mount.has_option(name);
                self.folder(
                    CgroupVersion::V1,
                    entry,
                    mounted,
                    self.root.cgroup.join(name),
                )
            }
            None => self.unified(),
        }
    }

    fn unified(&self) -> Result<CgroupFolder, ReadError> {
        let Some(entry) = self.memberships.iter().find(|entry| entry.unified) else {
            return Err(self.absent("the process is in no hierarchy with this controller"));
        };
        let hybrid = self.root.cgroup.join("unified");
        let usual = if hybrid.is_dir() {
            hybrid
        } else {
            self.root.cgroup.clone()
        };
        self.folder(
            CgroupVersion::V2,
            entry,
            |mount| mount.fs_type == "cgroup2",
            usual,
        )
    }

    fn folder(
        &self,
        version: CgroupVersion,
        entry: &Membership,
        mounted: impl Fn(&Mount) -> bool,
        usual: PathBuf,
    ) -> Result<CgroupFolder, ReadError> {
        if entry.deleted || (self.exiting && version == CgroupVersion::V1) {
            return Err(ReadError::Gone {
                path: Arc::clone(&self.list),
            });
        }
        let mut mounts = self.mounts.iter().filter(|mount| mounted(mount)).peekable();
        let found = if mounts.peek().is_none() {
            below(&entry.path, Path::new("/")).map(|relative| (usual, relative))
        } else {
            let mut visible = mounts.filter(|mount| self.is_visible(mount));
            visible.find_map(|mount| {
                Some((
                    self.reachable(&mount.mount_point)?,
                    below(&entry.path, &mount.root)?,
                ))
            })
        };
        let Some((top, relative)) = found else {
            return Err(
                self.absent("the cgroup is outside of the cgroup namespace or of what is mounted")
            );
        };
        // Joining an empty path would leave a slash at the end.
        let folder = if relative.as_os_str().is_empty() {
            top.clone()
        } else {
            top.join(relative)
        };
        Ok(CgroupFolder {
            version,
            folder: Arc::from(folder),
            top: Arc::from(top),
            path: entry.path.clone(),
        })
    }

    /// Whether no later mount lies over it. Of a list without a topmost mount only the mounts at the same point are known.
    fn is_visible(&self, mount: &Mount) -> bool {
        let at_same_point = |other: &&Mount| other.mount_point == mount.mount_point;
        let seen = mountinfo::holding(&self.mounts, &mount.mount_point)
            .or_else(|| self.mounts.iter().rfind(at_same_point));
        seen.is_none_or(|seen| seen.id == mount.id)
    }

    /// A mount point as seen through the injected folder.
    fn reachable(&self, mount_point: &Path) -> Option<PathBuf> {
        if mount_point.starts_with(&self.root.cgroup) {
            return Some(mount_point.to_owned());
        }
        let relative = mount_point.strip_prefix(USUAL_FOLDER).ok()?;
        let at_top = relative.as_os_str().is_empty();
        Some(if at_top {
            self.root.cgroup.clone()
        } else {
            self.root.cgroup.join(relative)
        })
    }

    fn absent(&self, why: &'static str) -> ReadError {
        ReadError::absent(Arc::clone(&self.list), why)
    }
}

/// `path` from `mount_root` downwards; `None` where it is elsewhere, or leads upwards out of the namespace.
fn below(path: &str, mount_root: &Path) -> Option<PathBuf> {
    let relative = Path::new(path).strip_prefix(mount_root).ok()?;
    relative
        .components()
        .all(|part| matches!(part, Component::Normal(_)))
        .then(|| relative.to_owned())
}

#[cfg(test)]
mod tests;
