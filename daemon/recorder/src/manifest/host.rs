use super::{path_text, redact, shortened, without_nulls};
use faultline_kernel::{
    HostRoot, Location,
    hardware::{Disk, Hardware, Interface, Memory, NumaNode, Processors},
    locate_folder,
    parse::{memory::Swap, mountinfo::Mount},
};
use itertools::Itertools;
use serde_json::{Value, json};
use std::{ffi::OsStr, path::Path};
use sysinfo::{
    CpuRefreshKind, DiskKind, DiskRefreshKind, Disks, MemoryRefreshKind, RefreshKind, System,
};

const UNSUITABLE_FILE_SYSTEMS: [&str; 24] = [
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "ramfs",
    "rootfs",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "squashfs",
    "sysfs",
    "tracefs",
];

const UNSUITABLE_FOLDERS: [&str; 5] = ["/dev", "/proc", "/run", "/sys", "/var/lib/docker"];

/// Maximum mounts: a container host has thousands.
const MAX_MOUNTS: usize = 64;

/// Maximum bytes of mount options: those of an overlay list every layer.
const MAX_OPTION_BYTES: usize = 512;

pub fn describe(root: &HostRoot, hardware: &Hardware) -> Value {
    without_nulls(json!({
        "name": hardware.host_name,
        "system": hardware.os,
        "kernel": without_nulls(json!({
            "release": hardware.kernel_release,
            "command_line": hardware.kernel_command_line.as_deref().map(redact::line),
            "pressure": hardware.has_pressure,
            "task_delayacct": hardware.task_delayacct,
            "cgroup": hardware.cgroup_hierarchies,
        })),
        "cpu": processors(&hardware.processors),
        "memory": memory(&hardware.memory),
        "disks": hardware.disks.iter().map(disk).collect::<Value>(),
        "mounts": mounts(root, hardware),
        "network": hardware.interfaces.iter().map(interface).collect::<Value>(),
    }))
}

fn processors(cpu: &Processors) -> Value {
    without_nulls(json!({
        "model": cpu.model,
        "sockets": cpu.sockets,
        "cores": cpu.cores,
        "threads": cpu.threads,
        "base_mhz": cpu.base_mhz,
        "max_mhz": cpu.max_mhz,
        "governor": (!cpu.governors.is_empty()).then(|| cpu.governors.join(",")),
    }))
}

fn memory(memory: &Memory) -> Value {
    let swap = |swap: &Swap| {
        json!({
            "device": path_text(&swap.device),
            "kind": swap.kind,
            "bytes": swap.size,
            "used_bytes": swap.used,
            "priority": swap.priority,
        })
    };
    let node = |node: &NumaNode| {
        without_nulls(json!({
            "node": node.number,
            "cpus": node.cpus,
            "memory_bytes": node.memory,
        }))
    };
    without_nulls(json!({
        "total_bytes": memory.total,
        "swap_total_bytes": memory.swap_total,
        "swappiness": memory.swappiness,
        "max_map_count": memory.max_map_count,
        "transparent_hugepages": memory.huge_pages,
        "transparent_hugepages_defrag": memory.huge_pages_defrag,
        "swaps": memory.swaps.iter().map(swap).collect::<Value>(),
        "numa": memory.nodes.iter().map(node).collect::<Value>(),
    }))
}

fn disk(disk: &Disk) -> Value {
    without_nulls(json!({
        "name": disk.name,
        "device": disk.device.map(|device| device.to_string()),
        "model": disk.model,
        "mapped_name": disk.device_mapper_name,
        "bytes": disk.size,
        "rotational": disk.rotational,
        "scheduler": disk.scheduler,
        "read_ahead_bytes": disk.read_ahead,
        "made_of": Some(&disk.member_devices).filter(|devices| !devices.is_empty()),
    }))
}

fn interface(net: &Interface) -> Value {
    without_nulls(json!({
        "name": net.name,
        "speed_mbit": net.speed_mbit,
        "state": net.state,
    }))
}

fn mounts(root: &HostRoot, hardware: &Hardware) -> Value {
    let process_root = root.procfs.join("self/root");
    hardware
        .mounts
        .iter()
        .filter(|mount| can_store_files(mount))
        .take(MAX_MOUNTS)
        .map(|mount| {
            // If another mount hides this one, `locate_folder` returns the upper mount.
            let location = locate_folder(&process_root, &mount.mount_point, &hardware.mounts)
                .filter(|location| location.mount == *mount);
            let without_space = || Location {
                mount: mount.clone(),
                space: None,
            };
            describe_location(&location.unwrap_or_else(without_space), &hardware.disks)
        })
        .collect()
}

/// True if a validator could store files there.
fn can_store_files(mount: &Mount) -> bool {
    let is_in_unsuitable_folder = || {
        UNSUITABLE_FOLDERS
            .iter()
            .any(|folder| mount.mount_point.starts_with(folder))
    };
    match mount.fs_type.as_str() {
        "tmpfs" | "overlay" => !is_in_unsuitable_folder(),
        kind => !UNSUITABLE_FILE_SYSTEMS.contains(&kind),
    }
}

pub fn describe_location(location: &Location, disks: &[Disk]) -> Value {
    let mount = &location.mount;
    let disk = disks.iter().find(|disk| disk.holds(mount));
    without_nulls(json!({
        "mount_point": path_text(&mount.mount_point),
        "source": redact::line(&mount.source),
        "device": (mount.device.major != 0).then(|| mount.device.to_string()),
        "root": (mount.root != Path::new("/")).then(|| path_text(&mount.root)),
        "file_system": mount.fs_type,
        "options": options(&mount.options),
        "file_system_options": options(&mount.super_options),
        "disk": disk.map(|disk| &disk.name),
        "bytes": location.space.map(|space| space.size),
        "free_bytes": location.space.map(|space| space.avail),
    }))
}

fn options(text: &str) -> String {
    let shown = text.split(',').map(redact::line).join(",");
    shortened(&shown, MAX_OPTION_BYTES)
}

/// Replaces facts that were read from files by those of the crate `sysinfo`, if `root` is this
/// machine. A fact stays if sysinfo returns 0 or nothing. A known name of the system always stays.
///
/// Does not query processes, because that raises the limit of open descriptors. Does not query file
/// system sizes, because that blocks on network mounts.
pub fn replace_with_sysinfo(root: &HostRoot, hardware: &mut Hardware) {
    let default_root = HostRoot::default();
    if (&root.procfs, &root.sysfs) != (&default_root.procfs, &default_root.sysfs) {
        return;
    }
    replace(&mut hardware.host_name, System::host_name());
    replace(&mut hardware.kernel_release, System::kernel_version());
    // For the system's name, files are preferred: they have the distribution's own name, and
    // describe the host even if the daemon runs in a container.
    hardware.os = hardware.os.take().or_else(|| {
        System::name()
            .zip(System::os_version())
            .map(|(name, version)| format!("{name} {version}"))
    });
    let memory = MemoryRefreshKind::nothing().with_ram().with_swap();
    let refreshed = RefreshKind::nothing()
        .with_cpu(CpuRefreshKind::nothing())
        .with_memory(memory);
    let system = System::new_with_specifics(refreshed);
    replace(
        &mut hardware.processors.model,
        system.cpus().first().map(|cpu| cpu.brand().to_owned()),
    );
    replace(
        &mut hardware.processors.threads,
        Some(system.cpus().len() as u64),
    );
    replace(&mut hardware.memory.total, Some(system.total_memory()));
    replace(&mut hardware.memory.swap_total, Some(system.total_swap()));
    for reported in
        &Disks::new_with_refreshed_list_specifics(DiskRefreshKind::nothing().with_kind())
    {
        let mount = hardware
            .mounts
            .iter()
            .find(|mount| is_mount(reported, mount));
        let disk = mount.and_then(|mount| hardware.disks.iter_mut().find(|disk| disk.holds(mount)));
        if let Some((disk, is_rotational)) = disk.zip(is_rotational(reported.kind())) {
            disk.rotational = Some(is_rotational);
        }
    }
}

fn replace<T: Default + PartialEq>(known: &mut Option<T>, reported: Option<T>) {
    if let Some(reported) = reported.filter(|reported| *reported != T::default()) {
        *known = Some(reported);
    }
}

/// True if this is the mount that sysinfo reports as a "disk".
fn is_mount(reported: &sysinfo::Disk, mount: &Mount) -> bool {
    mount.mount_point == reported.mount_point() && OsStr::new(&mount.source) == reported.name()
}

fn is_rotational(kind: DiskKind) -> Option<bool> {
    match kind {
        DiskKind::HDD => Some(true),
        DiskKind::SSD => Some(false),
        DiskKind::Unknown(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysinfo_and_procfs_describe_this_machine_equally() {
        let root = HostRoot::default();
        let files = Hardware::read(&root);
        let mut reported = Hardware {
            mounts: files.mounts.clone(),
            disks: files.disks.clone(),
            ..Hardware::default()
        };
        reported
            .disks
            .iter_mut()
            .for_each(|disk| disk.rotational = None);
        replace_with_sysinfo(&root, &mut reported);
        assert_eq!(
            (&reported.host_name, &reported.kernel_release),
            (&files.host_name, &files.kernel_release)
        );
        assert_eq!(reported.processors.threads, files.processors.threads);
        assert!(
            files.processors.model.is_none() || reported.processors.model == files.processors.model
        );
        assert_eq!(reported.memory.total, files.memory.total);
        assert_eq!(
            reported.memory.swap_total.unwrap_or(0),
            files.memory.swap_total.unwrap_or(0)
        );
        for (reported, files) in reported.disks.iter().zip(&files.disks) {
            assert!(
                reported.rotational.is_none() || reported.rotational == files.rotational,
                "{reported:?}"
            );
        }
    }

    #[test]
    fn for_another_root_only_its_files_describe_the_machine() {
        let mut hardware = Hardware::default();
        replace_with_sysinfo(&HostRoot::below("/host".as_ref()), &mut hardware);
        assert_eq!(
            (
                hardware.host_name,
                hardware.memory.total,
                hardware.processors.threads
            ),
            (None, None, None)
        );
    }
}
