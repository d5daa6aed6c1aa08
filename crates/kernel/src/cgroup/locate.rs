//! Finding the folders of the cgroups that a process is in.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::file::{HeldFile, Owner, Records};
use crate::parse::mountinfo::{self, Mount};
use crate::parse::pid_cgroup::{self, Membership};
use crate::parse::pid_stat;
use crate::{HostRoot, ReadError};

/// Where hosts mount their cgroups; a mount point below it is looked for below [`HostRoot::cgroup`].
const USUAL_FOLDER: &str = "/sys/fs/cgroup";

/// So many threads are asked where an exiting process is: a process that is killed has hundreds, all of them exiting.
const MOST_THREADS: usize = 32;

/// Which interface a hierarchy has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CgroupVersion {
    /// One hierarchy for a controller or two.
    V1,
    /// The unified hierarchy.
    V2,
}

/// The folder of one cgroup.
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
    /// The cgroup with the freezer.
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
    let process = root.procfs.join(pid.to_string());
    let list: Arc<Path> = Arc::from(process.join("cgroup"));
    let file = HeldFile::open(
        Owner::Folder(Arc::from(process)),
        Arc::clone(&list),
        Records::Many,
    )?;
    let own = file.parse(&mut Vec::new(), pid_cgroup::parse)?;
    let living = if is_hidden(root, &pid.to_string(), &own) {
        of_a_living_thread(root, pid)
    } else {
        Some(own.clone())
    };
    // What this reader can open is what is mounted for this reader. Without the list the usual places are tried.
    let mounts = root
        .read_proc("self/mountinfo", mountinfo::parse)
        .unwrap_or_default();
    let exiting = living.is_none();
    let search = Search {
        root,
        list,
        memberships: living.unwrap_or(own),
        exiting,
        mounts,
    };
    Ok(ProcessCgroups {
        memory: search.controller("memory"),
        cpu: search.controller("cpu"),
        io: search.controller("blkio"),
        unified: search.unified(),
        freezer: search.controller("freezer"),
    })
}

/// Whether version 1 keeps back where a task is. The kernel shows a task in `/` of every hierarchy of version 1 from the
/// beginning of its exit, also in a cgroup namespace, and long before its memory is released; in version 2 it stays where
/// it was. The flags are read after the list: a task that is not exiting now was not exiting then.
fn is_hidden(root: &HostRoot, task: &str, list: &[Membership]) -> bool {
    let mut v1 = list.iter().filter(|entry| !entry.unified).peekable();
    v1.peek().is_some()
        && v1.all(|entry| entry.path == "/")
        && !root
            .read_proc(&format!("{task}/stat"), pid_stat::parse)
            .is_ok_and(|stat| !stat.exiting)
}

/// Where the first threads say that they are, one of which is not exiting. `None` if all of them are.
fn of_a_living_thread(root: &HostRoot, pid: u32) -> Option<Vec<Membership>> {
    let threads = std::fs::read_dir(root.procfs.join(format!("{pid}/task")))
        .ok()?
        .flatten();
    threads.take(MOST_THREADS).find_map(|thread| {
        let task = format!("{pid}/task/{}", thread.file_name().to_str()?);
        let list = root
            .read_proc(&format!("{task}/cgroup"), pid_cgroup::parse)
            .ok()?;
        (!is_hidden(root, &task, &list)).then_some(list)
    })
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
            mounts.find_map(|mount| {
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
