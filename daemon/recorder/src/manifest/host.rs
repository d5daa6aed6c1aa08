use super::{put, redact, shown};
use faultline_kernel::hardware::{Disk, Hardware, Interface, Memory, NumaNode, Processors};
use faultline_kernel::parse::mountinfo::Mount;
use faultline_kernel::parse::swaps::Swap;
use faultline_kernel::{HostRoot, Location, locate_folder};
use serde_json::{Map, Value, json};
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

pub(super) fn describe(root: &HostRoot, hardware: &Hardware) -> Value {
    let mut host = Map::new();
    put(&mut host, "name", hardware.name.clone());
    put(&mut host, "system", hardware.system.clone());
    let mut kernel = Map::new();
    put(&mut kernel, "release", hardware.kernel_release.clone());
    put(
        &mut kernel,
        "command_line",
        hardware.kernel_command_line.as_deref().map(redact::line),
    );
    put(&mut kernel, "pressure", hardware.pressure);
    put(&mut kernel, "task_delayacct", hardware.task_delayacct);
    put(&mut kernel, "cgroup", hardware.cgroup);
    host.insert("kernel".to_owned(), kernel.into());
    host.insert("cpu".to_owned(), processors(&hardware.processors));
    host.insert("memory".to_owned(), memory(&hardware.memory));
    host.insert(
        "disks".to_owned(),
        hardware.disks.iter().map(disk).collect(),
    );
    host.insert("mounts".to_owned(), mounts(root, hardware));
    host.insert(
        "network".to_owned(),
        hardware.interfaces.iter().map(interface).collect(),
    );
    host.into()
}

fn processors(cpu: &Processors) -> Value {
    let mut out = Map::new();
    put(&mut out, "model", cpu.model.clone());
    put(&mut out, "sockets", cpu.sockets);
    put(&mut out, "cores", cpu.cores);
    put(&mut out, "threads", cpu.threads);
    put(&mut out, "base_mhz", cpu.base_mhz);
    put(&mut out, "max_mhz", cpu.max_mhz);
    put(
        &mut out,
        "governor",
        (!cpu.governors.is_empty()).then(|| cpu.governors.join(",")),
    );
    out.into()
}

fn memory(memory: &Memory) -> Value {
    let mut out = Map::new();
    put(&mut out, "total_bytes", memory.total);
    put(&mut out, "swap_total_bytes", memory.swap_total);
    put(&mut out, "swappiness", memory.swappiness);
    put(&mut out, "max_map_count", memory.max_map_count);
    put(&mut out, "transparent_hugepages", memory.huge_pages.clone());
    put(
        &mut out,
        "transparent_hugepages_defrag",
        memory.huge_pages_defrag.clone(),
    );
    let swap = |swap: &Swap| {
        json!({
            "device": shown(&swap.device),
            "kind": swap.kind,
            "bytes": swap.size,
            "used_bytes": swap.used,
            "priority": swap.priority,
        })
    };
    out.insert("swaps".to_owned(), memory.swaps.iter().map(swap).collect());
    let node = |node: &NumaNode| {
        let mut out = Map::from_iter([("node".to_owned(), node.number.into())]);
        put(&mut out, "cpus", node.cpus.clone());
        put(&mut out, "memory_bytes", node.memory);
        Value::from(out)
    };
    out.insert("numa".to_owned(), memory.nodes.iter().map(node).collect());
    out.into()
}

fn disk(disk: &Disk) -> Value {
    let mut out = Map::from_iter([("name".to_owned(), disk.name.clone().into())]);
    put(
        &mut out,
        "device",
        disk.device.map(|device| device.to_string()),
    );
    put(&mut out, "model", disk.model.clone());
    put(&mut out, "mapped_name", disk.mapped_name.clone());
    put(&mut out, "bytes", Some(disk.size));
    put(&mut out, "rotational", disk.rotational);
    put(&mut out, "scheduler", disk.scheduler.clone());
    put(&mut out, "read_ahead_bytes", disk.read_ahead);
    put(
        &mut out,
        "made_of",
        (!disk.member_devices.is_empty()).then(|| disk.member_devices.clone()),
    );
    out.into()
}

fn interface(net: &Interface) -> Value {
    let mut out = Map::from_iter([("name".to_owned(), net.name.clone().into())]);
    put(&mut out, "speed_mbit", net.speed_mbit);
    put(&mut out, "state", net.state.clone());
    out.into()
}

fn mounts(root: &HostRoot, hardware: &Hardware) -> Value {
    let process_root = root.procfs.join("self/root");
    let described = hardware
        .mounts
        .iter()
        .filter(|mount| can_hold_files(mount))
        .take(MAX_MOUNTS)
        .map(|mount| {
            let found = locate_folder(&process_root, &mount.mount_point, &hardware.mounts);
            // A mount on top hides this one, and its space would be reported instead.
            let space = found
                .filter(|found| found.mount == *mount)
                .and_then(|found| found.space);
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
fn can_hold_files(mount: &Mount) -> bool {
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

pub(super) fn describe_location(location: &Location, disks: &[Disk]) -> Value {
    let mount = &location.mount;
    let mut out = Map::new();
    put(&mut out, "mount_point", Some(shown(&mount.mount_point)));
    put(&mut out, "source", Some(redact::line(&mount.source)));
    put(
        &mut out,
        "device",
        (mount.device.major != 0).then(|| mount.device.to_string()),
    );
    put(
        &mut out,
        "root",
        (mount.root != Path::new("/")).then(|| shown(&mount.root)),
    );
    put(&mut out, "file_system", Some(mount.fs_type.clone()));
    put(&mut out, "options", Some(options(&mount.options)));
    put(
        &mut out,
        "file_system_options",
        Some(options(&mount.super_options)),
    );
    let names: Vec<&str> = disks
        .iter()
        .filter(|disk| disk.holds(mount))
        .map(|disk| disk.name.as_str())
        .collect();
    put(&mut out, "disk", names.first().copied());
    put(&mut out, "bytes", location.space.map(|(size, _)| size));
    put(&mut out, "free_bytes", location.space.map(|(_, free)| free));
    out.into()
}

fn options(text: &str) -> String {
    let shown: Vec<String> = text.split(',').map(redact::line).collect();
    let mut shown = shown.join(",");
    if let Some((end, _)) = shown.char_indices().find(|(at, _)| *at >= MAX_OPTION_BYTES) {
        shown.truncate(end);
        shown.push_str("...");
    }
    shown
}
