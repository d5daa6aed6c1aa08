use std::{path::Path, process::Command};

/// A file system in memory, until it is dropped.
pub struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None`, with a message, if it cannot be mounted here.
    pub fn mount(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        if mount(folder.path(), &format!("size={size}")) {
            return Some(Self(folder));
        }
        eprintln!("SKIPPED: no file system can be mounted here");
        None
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn resize(&self, size: &str) {
        assert!(mount(self.path(), &format!("remount,size={size}")));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

fn mount(folder: &Path, options: &str) -> bool {
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", options, "none"]);
    let status = command.arg(folder).status();
    status.is_ok_and(|status| status.success())
}
