use super::WithPath;
use anyhow::{Result, bail};
use faultline_kernel::HostRoot;
use rustix::fs::{major, minor};
use serde::Serialize;
use std::{
    fmt,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

/// `None`: no limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Limits {
    /// Bytes, without swap.
    pub memory_max: Option<u64>,
    pub memory_high: Option<u64>,
    pub swap_max: Option<u64>,
    pub cpus: Option<CpuSet>,
    pub io: Vec<IoLimit>,
}

/// CPU numbers, ascending and distinct. The text has the kernel's format (`0-3,8`).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(into = "String")]
pub struct CpuSet(Vec<u32>);

/// Limits of one block device per second; `None`: no limit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IoLimit {
    /// Device node such as `/dev/nvme0n1`, or a file on the device.
    pub device: PathBuf,
    pub read_bytes: Option<u64>,
    pub write_bytes: Option<u64>,
    pub read_operations: Option<u64>,
    pub write_operations: Option<u64>,
}

impl IoLimit {
    /// In the order of [`IoLimit::amounts`].
    pub const NAMES: [&str; 4] = [
        "read_bytes",
        "write_bytes",
        "read_operations",
        "write_operations",
    ];

    pub(crate) fn new(device: PathBuf, amounts: [Option<u64>; 4]) -> Self {
        let [read_bytes, write_bytes, read_operations, write_operations] = amounts;
        Self {
            device,
            read_bytes,
            write_bytes,
            read_operations,
            write_operations,
        }
    }

    pub(super) fn amounts(&self) -> [Option<u64>; 4] {
        [
            self.read_bytes,
            self.write_bytes,
            self.read_operations,
            self.write_operations,
        ]
    }
}

impl Limits {
    /// A text for each limit that differs from `actual`, which was read back from the kernel.
    pub fn differences(&self, actual: &Self) -> Vec<String> {
        let amounts = [
            ("memory_max", self.memory_max, actual.memory_max),
            ("memory_high", self.memory_high, actual.memory_high),
            ("swap_max", self.swap_max, actual.swap_max),
        ]
        .map(|(name, requested, effective)| {
            difference(name, requested.map(page_aligned), effective)
        });
        let cpus = difference("cpus", self.cpus.as_ref(), actual.cpus.as_ref());
        amounts
            .into_iter()
            .flatten()
            .chain(cpus)
            .chain(io_differences(&self.io, &actual.io))
            .collect()
    }
}

/// Rounds down, like the kernel.
pub fn page_aligned(bytes: u64) -> u64 {
    let page = rustix::param::page_size() as u64;
    bytes / page * page
}

fn difference<T: PartialEq + fmt::Display>(
    name: &str,
    requested: Option<T>,
    effective: Option<T>,
) -> Option<String> {
    let text = |value: &Option<T>| value.as_ref().map_or("no limit".to_owned(), T::to_string);
    (requested != effective).then(|| {
        format!(
            "{name}: requested {}, in effect {}",
            text(&requested),
            text(&effective)
        )
    })
}

fn io_differences(requested: &[IoLimit], effective: &[IoLimit]) -> Vec<String> {
    let amounts = |limits: &[IoLimit], limit: &IoLimit| {
        limits
            .iter()
            .find(|other| other.device == limit.device)
            .map_or([None; 4], IoLimit::amounts)
    };
    let mut differences = Vec::new();
    let unrequested = effective
        .iter()
        .filter(|limit| !requested.iter().any(|other| other.device == limit.device));
    for limit in requested.iter().chain(unrequested) {
        let pairs = amounts(requested, limit)
            .into_iter()
            .zip(amounts(effective, limit));
        for (name, (requested, effective)) in IoLimit::NAMES.into_iter().zip(pairs) {
            differences.extend(difference(
                &format!("{name} of {}", limit.device.display()),
                requested,
                effective,
            ));
        }
    }
    differences
}

impl CpuSet {
    /// Numbers may be at most 8191.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut cpus = Vec::new();
        for part in text.trim().split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| {
                text.trim()
                    .parse::<u32>()
                    .ok()
                    .filter(|number| *number < 8192)
                    .ok_or_else(|| {
                        format!("{part:?} is no CPU: write numbers and ranges, as in 0-3,8")
                    })
            };
            let first = number(first)?;
            let last = number(last)?;
            if first > last {
                return Err(format!(
                    "{part:?} is no range of CPUs: the smaller number comes first, as in 0-3"
                ));
            }
            cpus.extend(first..=last);
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(Self(cpus))
    }

    pub fn numbers(&self) -> &[u32] {
        &self.0
    }
}

impl From<CpuSet> for String {
    fn from(cpus: CpuSet) -> Self {
        cpus.to_string()
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges = self.0.chunk_by(|a, b| a + 1 == *b).filter_map(|run| {
            match (run.first()?, run.last()?) {
                (first, last) if first == last => Some(first.to_string()),
                (first, last) => Some(format!("{first}-{last}")),
            }
        });
        f.write_str(&Vec::from_iter(ranges).join(","))
    }
}

/// Number (`MAJOR:MINOR`) of the whole disk of `path`, even for a partition: the kernel limits only
/// whole disks. Fails if the file system does not report its disk.
pub fn disk_number(sysfs: &Path, path: &Path) -> Result<String> {
    let meta = path.metadata().with_path(path)?;
    let number = if meta.file_type().is_block_device() {
        meta.rdev()
    } else {
        meta.dev()
    };
    let number = format!("{}:{}", major(number), minor(number));
    let Ok(folder) = sysfs.join("dev/block").join(&number).canonicalize() else {
        bail!(
            "{}: the file system does not report its disk: name the disk, as in /dev/nvme0n1",
            path.display()
        );
    };
    if !folder.join("partition").exists() {
        return Ok(number);
    }
    let disk_number_file = folder.parent().unwrap_or(&folder).join("dev");
    Ok(std::fs::read_to_string(&disk_number_file)
        .with_path(&disk_number_file)?
        .trim()
        .to_owned())
}

/// The disk's canonical node. Paths on one disk have the same node.
pub fn disk_node(path: &Path) -> Result<PathBuf> {
    let number = disk_number(&HostRoot::default().sysfs, path)?;
    Ok(Path::new("/dev/block").join(number))
}

pub fn device_path(major: u32, minor: u32) -> PathBuf {
    PathBuf::from(format!("/dev/block/{major}:{minor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounded_limits_are_equal_and_ignored_limits_differ() {
        let page = rustix::param::page_size() as u64;
        let requested = Limits {
            memory_max: Some(5 * page + 1),
            swap_max: Some(0),
            ..Limits::default()
        };
        let mut effective = Limits {
            memory_max: Some(5 * page),
            swap_max: Some(0),
            ..Limits::default()
        };
        assert!(requested.differences(&effective).is_empty());
        effective.memory_max = Some(6 * page);
        effective.swap_max = None;
        effective.cpus = Some(CpuSet::parse("0").unwrap());
        let expected = [
            format!("memory_max: requested {}, in effect {}", 5 * page, 6 * page),
            "swap_max: requested 0, in effect no limit".to_owned(),
            "cpus: requested no limit, in effect 0".to_owned(),
        ];
        assert_eq!(requested.differences(&effective), expected);
    }

    #[test]
    fn limits_of_devices_are_compared_by_device_in_any_order() {
        let limit = |device: &str, read: u64| IoLimit {
            device: device.into(),
            read_bytes: Some(read),
            write_bytes: None,
            read_operations: None,
            write_operations: None,
        };
        let requested = Limits {
            io: vec![limit("/a", 1), limit("/b", 2)],
            ..Limits::default()
        };
        let mut effective = Limits {
            io: vec![limit("/b", 2), limit("/a", 1)],
            ..Limits::default()
        };
        assert!(requested.differences(&effective).is_empty());
        effective.io = vec![limit("/b", 2), limit("/c", 1)];
        let expected = [
            "read_bytes of /a: requested 1, in effect no limit",
            "read_bytes of /c: requested no limit, in effect 1",
        ];
        assert_eq!(requested.differences(&effective), expected);
    }

    #[test]
    fn cpu_lists_are_parsed_and_printed_in_kernel_format() {
        assert_eq!(CpuSet::parse("8,0-2,1").unwrap().to_string(), "0-2,8");
        assert_eq!(CpuSet::parse("3").unwrap().numbers(), [3]);
        for bad in ["", "a", "1-", "3-1", "9000", "-1"] {
            assert!(CpuSet::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_io_limit_resolves_a_partition_to_its_disk_or_is_refused() {
        let sysfs = tempfile::tempdir().unwrap();
        let file = sysfs.path().join("file");
        std::fs::write(&file, "").unwrap();
        let without_disk = disk_number(sysfs.path(), &file).unwrap_err().to_string();
        assert!(without_disk.contains("name the disk"), "{without_disk}");
        let missing = disk_number(sysfs.path(), Path::new("/nonexistent")).unwrap_err();
        let cause = missing.root_cause().downcast_ref::<std::io::Error>();
        assert!(cause.is_some(), "{missing}");

        let number = file.metadata().unwrap().dev();
        let number = format!("{}:{}", major(number), minor(number));
        let partition = sysfs.path().join("devices/sda/sda1");
        std::fs::create_dir_all(&partition).unwrap();
        std::fs::create_dir_all(sysfs.path().join("dev/block")).unwrap();
        std::os::unix::fs::symlink(&partition, sysfs.path().join("dev/block").join(&number))
            .unwrap();
        assert_eq!(disk_number(sysfs.path(), &file).unwrap(), number);
        std::fs::write(partition.join("partition"), "1\n").unwrap();
        std::fs::write(sysfs.path().join("devices/sda/dev"), "8:0\n").unwrap();
        assert_eq!(disk_number(sysfs.path(), &file).unwrap(), "8:0");
    }
}
