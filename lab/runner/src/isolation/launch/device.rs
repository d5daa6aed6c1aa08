use crate::isolation::launch::at;
use anyhow::{Result, bail};
use faultline_kernel::HostRoot;
use rustix::fs::{major, minor};
use std::{
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

/// The whole disk behind `path`, as `MAJOR:MINOR`, because the kernel limits disks. A partition
/// gives its disk. Fails if the file system does not report its disk.
pub fn disk(sysfs: &Path, path: &Path) -> Result<String> {
    let meta = path.metadata().map_err(at(path))?;
    let number = if meta.file_type().is_block_device() {
        meta.rdev()
    } else {
        meta.dev()
    };
    let number = format!("{}:{}", major(number), minor(number));
    let Ok(folder) = sysfs.join("dev/block").join(&number).canonicalize() else {
        bail!(
            "{}: its file system does not say which disk it is on: name the disk, as in /dev/nvme0n1",
            path.display()
        );
    };
    if !folder.join("partition").exists() {
        return Ok(number);
    }
    let disk_number_file = folder.parent().unwrap_or(&folder).join("dev");
    let text = std::fs::read_to_string(&disk_number_file).map_err(at(&disk_number_file))?;
    Ok(text.trim().to_owned())
}

/// The disk's canonical node, to compare two paths.
pub fn node(path: &Path) -> Result<PathBuf> {
    let number = disk(&HostRoot::default().sysfs, path)?;
    Ok(Path::new("/dev/block").join(number))
}

pub fn path(major: u32, minor: u32) -> PathBuf {
    PathBuf::from(format!("/dev/block/{major}:{minor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_io_limit_resolves_a_partition_to_its_disk_or_is_refused() {
        let sysfs = tempfile::tempdir().unwrap();
        let file = sysfs.path().join("file");
        std::fs::write(&file, "").unwrap();
        let without_disk = disk(sysfs.path(), &file).unwrap_err().to_string();
        assert!(without_disk.contains("name the disk"), "{without_disk}");
        let missing = disk(sysfs.path(), Path::new("/nonexistent")).unwrap_err();
        let cause = missing.root_cause().downcast_ref::<std::io::Error>();
        assert!(cause.is_some(), "{missing}");

        let number = file.metadata().unwrap().dev();
        let number = format!("{}:{}", major(number), minor(number));
        let partition = sysfs.path().join("devices/sda/sda1");
        std::fs::create_dir_all(&partition).unwrap();
        std::fs::create_dir_all(sysfs.path().join("dev/block")).unwrap();
        std::os::unix::fs::symlink(&partition, sysfs.path().join("dev/block").join(&number))
            .unwrap();
        assert_eq!(disk(sysfs.path(), &file).unwrap(), number);
        std::fs::write(partition.join("partition"), "1\n").unwrap();
        std::fs::write(sysfs.path().join("devices/sda/dev"), "8:0\n").unwrap();
        assert_eq!(disk(sysfs.path(), &file).unwrap(), "8:0");
    }
}
