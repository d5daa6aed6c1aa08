//! A file system for one test. Needs root.

use std::{path::Path, process::Command};

pub struct Mount<'a>(&'a Path);

impl<'a> Mount<'a> {
    /// A small tmpfs. `None` with a message if it cannot be mounted.
    pub fn of_bytes(at: &'a Path, bytes: u64) -> Option<Self> {
        Self::with(at, &["-t", "tmpfs", "-o", &format!("size={bytes}"), "none"])
    }

    /// Another folder, mounted a second time.
    pub fn bound(at: &'a Path, other: &Path) -> Option<Self> {
        Self::with(at, &["--bind", other.to_str()?])
    }

    fn with(at: &'a Path, how: &[&str]) -> Option<Self> {
        if Command::new("mount")
            .args(how)
            .arg(at)
            .output()
            .is_ok_and(|output| output.status.success())
        {
            return Some(Mount(at));
        }
        eprintln!("SKIPPED: a file system cannot be mounted here; that takes root");
        None
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}
