//! The memory limit of this process.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The smallest memory limit in bytes of this process's cgroup and its ancestors; `None` without a limit.
pub fn memory_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    groups
        .lines()
        .filter_map(folder)
        .filter_map(|(folder, root, file)| smallest(&folder, root, file))
        .min()
}

/// For a line of `/proc/PID/cgroup`: folder of the cgroup, root of its hierarchy, and name of the limit's file.
fn folder(line: &str) -> Option<(PathBuf, &'static Path, &'static str)> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
    let roots: &[(&str, &str)] = match controllers {
        "" => &[
            ("/sys/fs/cgroup", "memory.max"),
            ("/sys/fs/cgroup/unified", "memory.max"),
        ],
        some if some.split(',').any(|one| one == "memory") => {
            &[("/sys/fs/cgroup/memory", "memory.limit_in_bytes")]
        }
        _ => &[],
    };
    let candidates = roots
        .iter()
        .map(|(root, file)| (Path::new(*root).join(path), Path::new(*root), *file));
    candidates
        .into_iter()
        .find(|(folder, ..)| folder.join("cgroup.procs").exists())
}

fn smallest(folder: &Path, root: &Path, file: &str) -> Option<u64> {
    let inside = folder
        .ancestors()
        .take_while(|folder| folder.starts_with(root));
    inside
        .filter_map(|folder| {
            fs::read_to_string(folder.join(file))
                .ok()?
                .trim()
                .parse()
                .ok()
        })
        .min()
}
