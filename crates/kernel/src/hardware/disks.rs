use super::HardwareReader;
use crate::{
    HostRoot, ParseError, Parsed,
    parse::{cgroup::Device, mountinfo::Mount, number, selected_word},
    text::trimmed_text,
};

/// A whole disk, including device mapper and RAID devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    pub name: String,
    pub device: Option<Device>,
    /// `None` for virtual, device mapper and RAID disks.
    pub model: Option<String>,
    pub device_mapper_name: Option<String>,
    /// In bytes.
    pub size: u64,
    /// Virtual disks often report true.
    pub rotational: Option<bool>,
    /// Such as `none` or `mq-deadline`.
    pub scheduler: Option<String>,
    /// In bytes.
    pub read_ahead: Option<u64>,
    /// Disks or partitions below a device mapper or RAID device (`slaves`).
    pub member_devices: Vec<String>,
    pub partitions: Vec<Partition>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    pub name: String,
    pub device: Option<Device>,
}

impl Disk {
    /// Whether the mounted file system is on this disk or one of its partitions.
    pub fn holds(&self, mount: &Mount) -> bool {
        let parts = self.partitions.iter().map(|part| (&part.name, part.device));
        let has_device_number = mount.device.major != 0;
        std::iter::once((&self.name, self.device))
            .chain(parts)
            .any(|(name, device)| match has_device_number {
                true => device == Some(mount.device),
                // Such a file system (btrfs) has a path of the disk or partition as source.
                false => mount.source.strip_prefix("/dev/") == Some(name),
            })
            || (!has_device_number
                && self.device_mapper_name.is_some()
                && mount.source.strip_prefix("/dev/mapper/") == self.device_mapper_name.as_deref())
    }
}

pub fn read(reader: &mut HardwareReader<'_>) -> Vec<Disk> {
    let is_disk = |name: &String| !name.starts_with("loop") && !name.starts_with("ram");
    let disks = reader.names("block").into_iter().filter(is_disk);
    disks.filter_map(|name| disk(reader, name)).collect()
}

/// `None` for a drive without a medium or a readable size.
fn disk(reader: &mut HardwareReader<'_>, name: String) -> Option<Disk> {
    // Always in units of 512 bytes.
    let size = reader
        .sys(&file(&name, "size"), number)?
        .saturating_mul(512);
    if size == 0 {
        return None;
    }
    let mut partitions = Vec::new();
    for part in reader.names(&format!("block/{name}")) {
        if part.starts_with(&name) && is_partition(reader.root, &name, &part) {
            partitions.push(Partition {
                device: reader.sys(&file(&name, &format!("{part}/dev")), device),
                name: part,
            });
        }
    }
    Some(Disk {
        size,
        partitions,
        device: reader.sys(&file(&name, "dev"), device),
        model: reader
            .sys(&file(&name, "device/model"), trimmed_text)
            .filter(|model| !model.is_empty()),
        device_mapper_name: reader.sys(&file(&name, "dm/name"), trimmed_text),
        rotational: reader
            .sys(&file(&name, "queue/rotational"), number)
            .map(|value| value != 0),
        scheduler: reader.sys(&file(&name, "queue/scheduler"), selected_word),
        read_ahead: reader
            .sys(&file(&name, "queue/read_ahead_kb"), number)
            .and_then(|kb| kb.checked_mul(1024)),
        member_devices: reader.names(&file(&name, "slaves")),
        name,
    })
}

fn file(disk: &str, relative: &str) -> String {
    format!("block/{disk}/{relative}")
}

fn is_partition(root: &HostRoot, disk: &str, part: &str) -> bool {
    root.read_sys(&file(disk, &format!("{part}/partition")), number)
        .is_ok()
}

fn device(text: &[u8]) -> Parsed<Device> {
    Device::parse(text.trim_ascii())
        .ok_or_else(|| ParseError::new(1, text, "expected a device such as 8:0"))
}
