use super::{path_text, redact, without_nulls};
use faultline_kernel::{
    HostRoot, Location,
    hardware::{Disk, Hardware, Interface, Memory, NumaNode, Processors},
    locate_folder,
    parse::{memory::Swap, mountinfo::Mount},
};
use serde_json::{Value, json};
use std::path::Path;

const VIRTUAL_FILE_SYSTEMS: [&str; 24] = [
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

const SYSTEM_FOLDERS: [&str; 5] = ["/dev", "/proc", "/run", "/sys", "/var/lib/docker"];

/// Maximum mounts: a container host has thousands.
const MAX_MOUNTS: usize = 64;

/// Maximum bytes of mount options: those of an overlay list every layer.
const MAX_OPTION_BYTES: usize = 512;

pub fn describe(root: &HostRoot, hardware: &Hardware) -> Value {
    without_nulls(json!({
        "name": hardware.name,
        "system": hardware.system,
        "kernel": without_nulls(json!({
            "release": hardware.kernel_release,
            "command_line": hardware.kernel_command_line.as_deref().map(redact::line),
            "pressure": hardware.pressure,
            "task_delayacct": hardware.task_delayacct,
            "cgroup": hardware.cgroup,
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
        "mapped_name": disk.mapped_name,
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
    let described = hardware
        .mounts
        .iter()
        .filter(|mount| can_store_files(mount))
        .take(MAX_MOUNTS)
        .map(|mount| {
            let location = locate_folder(&process_root, &mount.mount_point, &hardware.mounts);
            // A mount on top hides this one, and its space would be reported instead.
            let space = location
                .filter(|location| location.mount == *mount)
                .and_then(|location| location.space);
            describe_location(
                &Location {
                    mount: mount.clone(),
                    space,
                },
                &hardware.disks,
            )
        });
    described.collect()
}

/// True if a validator could store files there.
fn can_store_files(mount: &Mount) -> bool {
    let is_system_folder = || {
        SYSTEM_FOLDERS
            .iter()
            .any(|folder| mount.mount_point.starts_with(folder))
    };
    match mount.fs_type.as_str() {
        "tmpfs" | "overlay" => mount.mount_point == Path::new("/") || !is_system_folder(),
        kind => !VIRTUAL_FILE_SYSTEMS.contains(&kind),
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
    let shown: Vec<String> = text.split(',').map(redact::line).collect();
    let mut shown = shown.join(",");
    if let Some((end, _)) = shown
        .char_indices()
        .find(|(index, _)| *index >= MAX_OPTION_BYTES)
    {
        shown.truncate(end);
        shown.push_str("...");
    }
    shown
}
