//! A cgroup in which the kernel OOM kills.

#![allow(dead_code, reason = "each test program needs a part of it")]

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

/// Number in the cgroup's name, because tests of one program have cgroups at the same time.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A cgroup with a memory limit. Dropping it removes it, so its process must have ended before.
pub struct LimitedCgroup {
    folder: PathBuf,
    kills: &'static str,
}

impl LimitedCgroup {
    /// Uses the version that has the memory controller. `None` if a cgroup with a limit cannot be
    /// made.
    pub fn new(limit: u64) -> Option<Self> {
        let name = format!(
            "faultline-test-{}-{}",
            std::process::id(),
            NUMBER.fetch_add(1, Ordering::Relaxed)
        );
        [
            (
                "/sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                "memory.memsw.limit_in_bytes",
                "memory.oom_control",
            ),
            (
                "/sys/fs/cgroup",
                "memory.max",
                "memory.swap.max",
                "memory.events",
            ),
        ]
        .into_iter()
        .find_map(|(top, max, swap, kills)| {
            if !Path::new(top).join("cgroup.procs").exists() {
                return None;
            }
            let folder = Path::new(top).join(&name);
            fs::create_dir(&folder).ok()?;
            let cgroup = Self { folder, kills };
            cgroup.write(max, limit).ok()?;
            // Version 1 has one limit for memory and one for memory plus swap. The latter file is
            // missing without swap.
            let _ = cgroup.write(swap, if kills == "memory.events" { 0 } else { limit });
            Some(cgroup)
        })
    }

    pub fn write(&self, file: &str, value: u64) -> io::Result<()> {
        write_number(&self.folder.join(file), value)
    }

    /// `cgroup.procs` of this process's cgroup.
    fn own_procs(&self) -> io::Result<PathBuf> {
        let controller = if self.is_version_1() {
            ":memory:"
        } else {
            "0::"
        };
        let text = fs::read_to_string("/proc/self/cgroup")?;
        let path = text
            .lines()
            .find_map(|line| Some(line.split_once(controller)?.1))
            .ok_or(io::ErrorKind::NotFound)?;
        let top = self.folder.parent().unwrap_or(&self.folder);
        Ok(top.join(path.trim_start_matches('/')).join("cgroup.procs"))
    }

    /// Runs `start` in the cgroup. Memory that a process allocated before it was moved stays
    /// charged to its old cgroup.
    pub fn run<T>(&self, start: impl FnOnce() -> T) -> io::Result<T> {
        let (own, before) = (std::process::id().into(), self.own_procs()?);
        self.write("cgroup.procs", own)?;
        let started = start();
        write_number(&before, own)?;
        Ok(started)
    }

    /// Sets another limit.
    pub fn limit(&self, bytes: u64) -> io::Result<()> {
        if !self.is_version_1() {
            return self.write("memory.max", bytes);
        }
        // The limit of memory plus swap must never be below that of memory.
        let both = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"];
        let first = both.map(|file| self.write(file, bytes));
        let again = self.write(both[0], bytes);
        let [_, swap] = first;
        match swap {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => again,
        }
    }

    /// True for a cgroup of version 1.
    pub fn is_version_1(&self) -> bool {
        self.kills != "memory.events"
    }

    /// The path that the kernel shows to processes outside of any cgroup namespace.
    pub fn path(&self) -> String {
        format!("/{}", self.folder.file_name().unwrap_or_default().display())
    }

    /// The path of one of the cgroup's files.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Memory in use, in bytes; 0 if that cannot be read.
    pub fn usage(&self) -> u64 {
        let file = if self.is_version_1() {
            "memory.usage_in_bytes"
        } else {
            "memory.current"
        };
        let text = fs::read_to_string(self.folder.join(file)).unwrap_or_default();
        text.trim().parse().unwrap_or_default()
    }

    /// Number of OOM kills in the cgroup.
    pub fn kills(&self) -> Option<u64> {
        let text = fs::read_to_string(self.folder.join(self.kills)).ok()?;
        text.lines()
            .find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok())
    }
}

/// Writes to an existing file. On a disk, a missing file would be created: here that is an error.
fn write_number(path: &Path, value: u64) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).open(path)?;
    io::Write::write_all(&mut file, value.to_string().as_bytes())
}

impl Drop for LimitedCgroup {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.folder) {
            eprintln!("{}: {error}", self.folder.display());
        }
    }
}
