//! The block device under a file system: a partition's disk, and the members of a volume or array.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    HostRoot, Parsed,
    parse::{cgroup::Device, mountinfo::Mount, number},
    text::trimmed_text,
};

const MAX_DEPTH: u32 = 8;

/// A whole block device, never a partition.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockDevice {
    pub name: String,
    pub device: Device,
    /// `nvme`, `disk`, `lvm`, `crypt`, a RAID level such as `raid0`, or `device_mapper` for other
    /// mapped devices.
    pub kind: String,
    pub device_mapper_name: Option<String>,
    /// Consumed lifetime in tenths. Only eMMC and UFS devices report it in sysfs.
    pub used_tenths_of_life: Option<u64>,
    /// Missing members of a redundant array; `None` for other devices.
    pub missing_members: Option<u64>,
}

/// The device under `mount`, then its members, at most `max_devices` in total. Empty for overlay,
/// tmpfs, NFS and ZFS.
pub fn under(root: &HostRoot, mount: &Mount, max_devices: usize) -> Vec<BlockDevice> {
    let mut devices = Vec::new();
    if let Some(folder) = folder_of(root, mount) {
        add_with_members(&folder, &mut devices, max_devices, 0);
    }
    devices
}

/// The device's folder in sysfs. File systems with several devices (btrfs) have a number with major
/// 0, and a device name.
fn folder_of(root: &HostRoot, mount: &Mount) -> Option<PathBuf> {
    let folder = if mount.device.major != 0 {
        root.sysfs.join(format!("dev/block/{}", mount.device))
    } else {
        let name = Path::new(&mount.source).strip_prefix("/dev").ok()?;
        match name.strip_prefix("mapper") {
            Ok(mapped) => {
                let mapped = Some(mapped.to_str()?);
                let blocks = root.list_sys("block").ok()?.into_iter();
                blocks
                    .map(|block| root.sysfs.join("block").join(block))
                    .find(|block| read_text(&block.join("dm/name")).as_deref() == mapped)?
            }
            Err(_) => root.sysfs.join("class/block").join(name),
        }
    };
    folder.canonicalize().ok()
}

fn add_with_members(folder: &Path, devices: &mut Vec<BlockDevice>, max_devices: usize, depth: u32) {
    let device_folder = if folder.join("partition").exists() {
        folder.parent().unwrap_or(folder)
    } else {
        folder
    };
    let Some(device) = read_device(device_folder) else {
        return;
    };
    if devices.len() >= max_devices || devices.iter().any(|known| known.device == device.device) {
        return;
    }
    devices.push(device);
    if depth == MAX_DEPTH {
        return;
    }
    let members = fs::read_dir(device_folder.join("slaves"));
    let mut members: Vec<PathBuf> = { members.into_iter().flatten().flatten() }
        .filter_map(|entry| entry.path().canonicalize().ok())
        .collect();
    members.sort_unstable();
    for member in members {
        add_with_members(&member, devices, max_devices, depth + 1);
    }
}

fn read_device(folder: &Path) -> Option<BlockDevice> {
    let name = folder.file_name()?.to_str()?.to_owned();
    let device = Device::parse(read_text(&folder.join("dev"))?.as_bytes())?;
    Some(BlockDevice {
        kind: kind(folder, &name),
        name,
        device,
        device_mapper_name: read_text(&folder.join("dm/name")),
        used_tenths_of_life: used_tenths_of_life(folder),
        missing_members: read(&folder.join("md/degraded"), number),
    })
}

fn kind(folder: &Path, name: &str) -> String {
    if let Some(level) = read_text(&folder.join("md/level")) {
        return level;
    }
    let kind = match read_text(&folder.join("dm/uuid")) {
        Some(uuid) if uuid.starts_with("LVM-") => "lvm",
        Some(uuid) if uuid.starts_with("CRYPT-") => "crypt",
        _ if folder.join("dm").exists() => "device_mapper",
        _ if name.starts_with("nvme") => "nvme",
        _ => "disk",
    };
    kind.to_owned()
}

/// `life_time` has tenths of two cell types, such as `0x01 0x03`; the worse one counts. 0 is
/// unknown, 11 "beyond its life". UFS has a file for each type in the folder of the controller,
/// three levels above the SCSI device.
fn used_tenths_of_life(folder: &Path) -> Option<u64> {
    let device_file = |file: &str| read_text(&folder.join("device").join(file));
    let life_time = device_file("life_time").or_else(|| {
        let first = device_file("../../../health_descriptor/life_time_estimation_a")?;
        Some(first + " " + &device_file("../../../health_descriptor/life_time_estimation_b")?)
    })?;
    let tenths = life_time
        .split_whitespace()
        .filter_map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    let worst = tenths.max().filter(|worst| (1..=11).contains(worst))?;
    Some(worst.min(10))
}

fn read_text(file: &Path) -> Option<String> {
    read(file, trimmed_text).filter(|text| !text.is_empty())
}

fn read<T>(file: &Path, parse: impl FnOnce(&[u8]) -> Parsed<T>) -> Option<T> {
    parse(&fs::read(file).ok()?).ok()
}

#[cfg(test)]
mod tests;
