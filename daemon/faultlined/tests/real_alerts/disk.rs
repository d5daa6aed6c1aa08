//! A disk that can be filled.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A file system in a file. Dropping this unmounts it.
pub struct Disk {
    folder: PathBuf,
    image: PathBuf,
}

impl Disk {
    /// A file system of this size, mounted at `folder`; `None` if the machine does not allow that.
    pub fn mount(folder: &Path, bytes: u64) -> Option<Self> {
        let disk = Self {
            folder: folder.to_owned(),
            image: folder.with_extension("img"),
        };
        fs::File::create(&disk.image).ok()?.set_len(bytes).ok()?;
        fs::create_dir(folder).ok()?;
        let done = |command: &mut Command| {
            command
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
        };
        let made = done(
            Command::new("mke2fs")
                .args(["-q", "-m", "0", "-t", "ext4"])
                .arg(&disk.image),
        );
        (made
            && done(
                Command::new("mount")
                    .args(["-o", "loop"])
                    .arg(&disk.image)
                    .arg(folder),
            ))
        .then_some(disk)
    }

    /// Fills the disk until this share is free.
    pub fn fill(&self, left: f64) {
        let size = rustix::fs::statvfs(&self.folder).expect("a file system");
        let all = size.f_blocks as f64 * size.f_frsize as f64;
        let bytes = size.f_bavail as f64 * size.f_frsize as f64 - left * all;
        let filler = fs::File::create(self.filler()).expect("a file");
        rustix::fs::fallocate(
            &filler,
            rustix::fs::FallocateFlags::empty(),
            0,
            bytes as u64,
        )
        .expect("room");
    }

    /// Frees the space again.
    pub fn empty(&self) {
        fs::remove_file(self.filler()).expect("the filler");
    }

    fn filler(&self) -> PathBuf {
        self.folder.join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.folder).status();
        let _ = fs::remove_file(&self.image);
    }
}
