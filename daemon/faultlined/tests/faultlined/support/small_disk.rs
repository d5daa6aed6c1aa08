//! A small disk that a test fills.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A small file system in memory, unmounted when dropped.
pub struct Small(pub PathBuf);

impl Small {
    /// `None` if the machine does not allow the mount.
    pub fn mount(at: &Path) -> Option<Self> {
        fs::create_dir(at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=3m", "tmpfs"])
            .arg(at)
            .stderr(Stdio::null())
            .status();
        mounted
            .is_ok_and(|status| status.success())
            .then(|| Self(at.to_owned()))
    }

    /// Fills the disk. Returns the file to remove to free it again.
    pub fn fill(&self) -> PathBuf {
        let filler = self.0.join("filler");
        assert!(
            fs::write(&filler, vec![1; 4 << 20]).is_err(),
            "the disk was not filled"
        );
        filler
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
