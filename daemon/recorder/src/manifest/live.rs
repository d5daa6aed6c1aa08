//! Hardware facts from sysinfo, which can only read the machine that the daemon runs on.

use faultline_kernel::{HostRoot, hardware::Hardware, parse::mountinfo::Mount};
use std::ffi::OsStr;
use sysinfo::{
    CpuRefreshKind, Disk, DiskKind, DiskRefreshKind, Disks, MemoryRefreshKind, RefreshKind, System,
};

/// Replaces facts that were read from files, if `root` is this machine. Keeps them where sysinfo
/// returns 0 or nothing.
///
/// Does not query processes, because that raises the limit of open descriptors. Does not query file
/// system sizes, because that blocks on network mounts.
pub fn describe(root: &HostRoot, hardware: &mut Hardware) {
    let default_root = HostRoot::default();
    if (&root.procfs, &root.sysfs) != (&default_root.procfs, &default_root.sysfs) {
        return;
    }
    replace(&mut hardware.name, System::host_name());
    replace(&mut hardware.kernel_release, System::kernel_version());
    // The files are preferred: they have the distribution's own name, and describe the host even
    // if the daemon runs in a container.
    hardware.system = hardware
        .system
        .take()
        .or_else(|| System::name().zip(System::os_version()).map(system_name));
    let memory = MemoryRefreshKind::nothing().with_ram().with_swap();
    let wanted = RefreshKind::nothing()
        .with_cpu(CpuRefreshKind::nothing())
        .with_memory(memory);
    let system = System::new_with_specifics(wanted);
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

fn system_name((name, version): (String, String)) -> String {
    format!("{name} {version}")
}

/// True if this is the mount that sysinfo reports as a "disk".
fn is_mount(reported: &Disk, mount: &Mount) -> bool {
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
        describe(&root, &mut reported);
        assert_eq!(
            (&reported.name, &reported.kernel_release),
            (&files.name, &files.kernel_release)
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
        describe(&HostRoot::below("/host".as_ref()), &mut hardware);
        assert_eq!(
            (
                hardware.name,
                hardware.memory.total,
                hardware.processors.threads
            ),
            (None, None, None)
        );
    }
}
