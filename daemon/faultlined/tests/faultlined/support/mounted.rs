//! File systems that a test mounts. Needs root.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Command, Stdio},
};

/// A file system; unmounted when dropped.
pub struct Mounted(pub PathBuf, Option<File>);

impl Mounted {
    /// `None` if the machine does not allow the mount.
    pub fn new(place: PathBuf, arguments: &[&str]) -> Option<Self> {
        fs::create_dir_all(&place).expect("a mount point");
        run("mount", &[arguments, &[&place.to_string_lossy()]].concat())
            .then_some(Self(place, None))
    }

    /// A file system that never responds, like that of a dead server. `None` also without FUSE.
    pub fn dead(place: PathBuf) -> Option<Self> {
        fs::create_dir_all(&place).expect("a mount point");
        let server = File::options()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .ok()?;
        let mut mount = Command::new("mount");
        mount
            .args([
                "-i",
                "-t",
                "fuse",
                "-o",
                "fd=0,rootmode=40000,user_id=0,group_id=0",
                "none",
            ])
            .arg(&place);
        mount
            .stdin(server.try_clone().ok()?)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        mount
            .status()
            .is_ok_and(|status| status.success())
            .then_some(Self(place, Some(server)))
    }

    /// Bytes that users other than root can still write.
    pub fn avail(&self) -> u64 {
        let space = rustix::fs::statvfs(&self.0).expect("statvfs");
        space.f_bavail * space.f_frsize
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Ends pending requests with an error.
        drop(self.1.take());
        run("umount", &["-l", &self.0.to_string_lossy()]);
    }
}

/// Runs a program and discards its output. True if it succeeded.
pub fn run(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}
