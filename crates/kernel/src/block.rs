//! The block device under a file system: the disk of a partition, and what a volume or an array is made of.

use std::path::{Path, PathBuf};

use crate::parse::cgroup_io::{Device, parse_device};
use crate::parse::mountinfo::Mount;
use crate::parse::number;
use crate::{HostRoot, ParseError};

/// Volumes on arrays on partitions: no more levels are followed.
const MOST_LEVELS: u32 = 8;

/// A whole block device, never a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDevice {
    /// Its name in `/dev`, such as `nvme0n1`, `dm-0` or `md127`.
    pub name: String,
    pub device: Device,
    /// `nvme`, `disk`, `lvm`, `crypt`, another `device_mapper`, or an array's level such as `raid0`.
    pub kind: String,
    /// The name that it was given as one made of others, such as `vg-ledger`.
    pub mapped_name: Option<String>,
    /// Share of its life that is used up, in tenths, as it says itself: eMMC and UFS do in sysfs, NVMe and SATA do not.
    pub worn_tenths: Option<u64>,
    /// How many members an array lacks; `None` for anything else.
    pub missing_members: Option<u64>,
}

/// The device under `mount`, and behind it those that it is made of, at most `most`. Empty for a file system without one:
/// overlay, tmpfs, NFS, ZFS.
#[must_use]
pub fn under(root: &HostRoot, mount: &Mount, most: usize) -> Vec<BlockDevice> {
    let mut found = Vec::new();
    if let Some(folder) = folder_of(root, mount) {
        add(&folder, &mut found, most, 0);
    }
    found
}

/// The folder of the device in sysfs. File systems with several devices (btrfs) have no numbers of one, but a name.
fn folder_of(root: &HostRoot, mount: &Mount) -> Option<PathBuf> {
    if mount.device.major != 0 {
        return root
            .sysfs
            .join(format!("dev/block/{}", mount.device))
            .canonicalize()
            .ok();
    }
    let name = Path::new(&mount.source).strip_prefix("/dev").ok()?;
    if let Ok(mapped) = name.strip_prefix("mapper") {
        let blocks = root.list_sys("block").ok()?;
        let is_it = |block: &String| {
            text(&root.sysfs.join("block").join(block).join("dm/name"))
                .is_some_and(|name| Path::new(&name) == mapped)
        };
        let block = blocks.into_iter().find(is_it)?;
        return root.sysfs.join("block").join(block).canonicalize().ok();
    }
    root.sysfs
        .join("class/block")
        .join(name)
        .canonicalize()
        .ok()
}

fn add(folder: &Path, found: &mut Vec<BlockDevice>, most: usize, level: u32) {
    let whole = if folder.join("partition").exists() {
        folder.parent().unwrap_or(folder)
    } else {
        folder
    };
    let Some(device) = describe(whole) else {
        return;
    };
    if found.len() >= most || found.iter().any(|known| known.device == device.device) {
        return;
    }
    found.push(device);
    let below = std::fs::read_dir(whole.join("slaves"))
        .into_iter()
        .flatten()
        .flatten();
    let mut below: Vec<PathBuf> = below
        .filter_map(|entry| entry.path().canonicalize().ok())
        .collect();
    below.sort_unstable();
    if level < MOST_LEVELS {
        below
            .iter()
            .for_each(|member| add(member, found, most, level + 1));
    }
}

fn describe(folder: &Path) -> Option<BlockDevice> {
    let name = folder.file_name()?.to_str()?.to_owned();
    let device = parse_device(text(&folder.join("dev"))?.as_bytes())?;
    Some(BlockDevice {
        kind: kind(folder, &name),
        name,
        device,
        mapped_name: text(&folder.join("dm/name")),
        worn_tenths: worn(folder),
        missing_members: read(&folder.join("md/degraded"), number::parse),
    })
}

fn kind(folder: &Path, name: &str) -> String {
    if let Some(level) = text(&folder.join("md/level")) {
        return level;
    }
    let kind = match text(&folder.join("dm/uuid")) {
        Some(uuid) if uuid.starts_with("LVM-") => "lvm",
        Some(uuid) if uuid.starts_with("CRYPT-") => "crypt",
        _ if folder.join("dm").exists() => "device_mapper",
        _ if name.starts_with("nvme") => "nvme",
        _ => "disk",
    };
    kind.to_owned()
}

/// `0x01 0x03`: the worse of two kinds of cells, in tenths; 0 is "not known", 11 "beyond its life". UFS has them apart.
fn worn(folder: &Path) -> Option<u64> {
    let of_both = |letter| {
        text(&folder.join(format!(
            "device/health_descriptor/life_time_estimation_{letter}"
        )))
    };
    let life_time = match text(&folder.join("device/life_time")) {
        Some(life_time) => life_time,
        None => format!("{} {}", of_both('a')?, of_both('b')?),
    };
    let tenths = life_time
        .split_whitespace()
        .filter_map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    tenths
        .max()
        .filter(|worst| (1..=11).contains(worst))
        .map(|worst| worst.min(10))
}

fn text(file: &Path) -> Option<String> {
    let text = read(file, |text| {
        Ok(String::from_utf8_lossy(text.trim_ascii()).into_owned())
    })?;
    (!text.is_empty()).then_some(text)
}

/// Small files of sysfs; `None` for those that are not there and those that answer with an error.
fn read<T>(file: &Path, parse: impl FnOnce(&[u8]) -> Result<T, ParseError>) -> Option<T> {
    parse(&std::fs::read(file).ok()?).ok()
}

#[cfg(test)]
mod tests;
