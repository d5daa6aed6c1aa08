//! Enables controllers for groups in a cgroup of version 2. A cgroup that has processes itself
//! cannot pass controllers on.

use crate::isolation::launch::{
    Limits, at,
    cgroup::{folders, has_word, read, write},
};
use anyhow::{Result, bail};
use rustix::io::Errno;
use std::{fs, io::ErrorKind, path::Path};

/// The leaf that this program moves into, so that its cgroup has no processes.
pub const SELF_LEAF: &str = "faultline.own";

const ENABLED: &str = "cgroup.subtree_control";

pub fn enable(delegated: &Path, limits: &Limits) -> Result<()> {
    let wanted = [
        ("memory", true),
        ("cpuset", limits.cpus.is_some()),
        ("io", !limits.io.is_empty()),
    ];
    let missing: Vec<String> = { wanted.iter() }
        .filter(|(name, wanted)| *wanted && !has_word(delegated, ENABLED, name))
        .map(|(name, _)| format!("+{name}"))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let (path, text) = (delegated.join(ENABLED), missing.join(" "));
    match fs::write(&path, &text) {
        // EBUSY: the cgroup has processes itself.
        Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
            move_processes(delegated)?;
            write(delegated, ENABLED, text)
        }
        done => done.map_err(at(&path)),
    }
}

/// Whether groups below can have limits, now or after this program has moved.
pub fn check(folder: &Path) -> Result<()> {
    // The root cgroup has no `cgroup.type`, and may have processes.
    if has_word(folder, ENABLED, "memory") || !folder.join("cgroup.type").exists() {
        return Ok(());
    }
    check_no_other_processes(folder)
}

fn check_no_other_processes(folder: &Path) -> Result<()> {
    let own_pid = std::process::id().to_string();
    let text = read(folder, "cgroup.procs")?;
    if text.lines().all(|line| line == own_pid) {
        return Ok(());
    }
    bail!(
        "{}: other processes are in this cgroup, so it cannot have groups with limits: start the program alone in a unit \
         with Delegate=yes (systemd-run --scope -p Delegate=yes ...)",
        folder.display()
    )
}

fn move_processes(folder: &Path) -> Result<()> {
    check_no_other_processes(folder)?;
    let leaf = folder.join(SELF_LEAF);
    match fs::create_dir(&leaf) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(at(&leaf)(error));
        }
        _ => {}
    }
    write(&leaf, "cgroup.procs", std::process::id())
}

/// Moves this program back once no groups are left.
pub fn return_from_leaf(delegated: &Path) -> Result<()> {
    let leaf = delegated.join(SELF_LEAF);
    if folders(delegated)? != [leaf.clone()] {
        return Ok(());
    }
    let text: Vec<String> = read(delegated, ENABLED)?
        .split_whitespace()
        .map(|name| format!("-{name}"))
        .collect();
    write(delegated, ENABLED, text.join(" "))?;
    write(delegated, "cgroup.procs", std::process::id())?;
    fs::remove_dir(&leaf).map_err(at(&leaf))
}
