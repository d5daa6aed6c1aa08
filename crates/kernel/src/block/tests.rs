use super::*;
use std::fs;

/// A host with two NVMe disks in an array, a volume on the array, and an eMMC. The layout is that
/// of Linux 6.8.
struct Host {
    folder: tempfile::TempDir,
}

impl Host {
    fn new() -> Self {
        let host = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let pci = "sys/devices/pci0000:00/nvme";
        for (disk, minor) in [("nvme0n1", 0), ("nvme1n1", 4)] {
            host.device(&format!("{pci}/{disk}"), &format!("259:{minor}"));
            host.device(
                &format!("{pci}/{disk}/{disk}p1"),
                &format!("259:{}", minor + 1),
            );
            host.file(&format!("{pci}/{disk}/{disk}p1/partition"), "1\n");
        }
        let array = "sys/devices/virtual/block/md127";
        host.device(array, "9:127");
        host.file(&format!("{array}/md/level"), "raid0\n");
        host.file(&format!("{array}/md/degraded"), "1\n");
        let volume = "sys/devices/virtual/block/dm-0";
        host.device(volume, "252:0");
        host.file(&format!("{volume}/dm/name"), "vg-ledger\n");
        host.file(&format!("{volume}/dm/uuid"), "LVM-abc\n");
        host.link(
            &format!("{array}/slaves/nvme0n1p1"),
            &format!("{pci}/nvme0n1/nvme0n1p1"),
        );
        host.link(
            &format!("{array}/slaves/nvme1n1p1"),
            &format!("{pci}/nvme1n1/nvme1n1p1"),
        );
        host.link(&format!("{volume}/slaves/md127"), array);
        host.link("sys/block/dm-0", volume);
        host.device("sys/devices/mmc/mmcblk0", "179:0");
        host.file("sys/devices/mmc/mmcblk0/device/life_time", "0x01 0x03\n");
        host
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.folder.path().join(relative)
    }

    fn file(&self, relative: &str, text: &str) {
        fs::create_dir_all(self.path(relative).parent().unwrap()).unwrap();
        fs::write(self.path(relative), text).unwrap();
    }

    fn device(&self, relative: &str, numbers: &str) {
        self.file(&format!("{relative}/dev"), &format!("{numbers}\n"));
        self.link(&format!("sys/dev/block/{numbers}"), relative);
        self.link(
            &format!("sys/class/block/{}", relative.rsplit('/').next().unwrap()),
            relative,
        );
    }

    fn link(&self, from: &str, to: &str) {
        fs::create_dir_all(self.path(from).parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(self.path(to), self.path(from)).unwrap();
    }

    fn under(&self, device: &str, source: &str) -> Vec<BlockDevice> {
        let line = format!("1 0 {device} / / rw - any {source} rw\n");
        let mounts = crate::parse::mountinfo::parse(line.as_bytes()).unwrap();
        under(&HostRoot::below(self.folder.path()), &mounts[0], 6)
    }
}

fn names(devices: &[BlockDevice]) -> Vec<(&str, &str)> {
    devices
        .iter()
        .map(|device| (device.name.as_str(), device.kind.as_str()))
        .collect()
}

#[test]
fn a_partition_resolves_to_its_disk() {
    let host = Host::new();
    let found = host.under("259:5", "/dev/nvme1n1p1");
    assert_eq!(names(&found), [("nvme1n1", "nvme")]);
    assert_eq!(
        (found[0].device, found[0].used_tenths_of_life),
        (
            Device {
                major: 259,
                minor: 4
            },
            None
        )
    );
}

#[test]
fn a_volume_is_listed_with_its_underlying_devices() {
    let host = Host::new();
    let found = host.under("252:0", "/dev/mapper/vg-ledger");
    assert_eq!(
        names(&found),
        [
            ("dm-0", "lvm"),
            ("md127", "raid0"),
            ("nvme0n1", "nvme"),
            ("nvme1n1", "nvme")
        ]
    );
    assert_eq!(
        (
            found[0].device_mapper_name.as_deref(),
            found[0].missing_members
        ),
        (Some("vg-ledger"), None)
    );
    assert_eq!(found[1].missing_members, Some(1));
}

#[test]
fn a_file_system_without_device_numbers_is_resolved_by_device_name() {
    let host = Host::new();
    assert_eq!(
        names(&host.under("0:45", "/dev/nvme0n1p1")),
        [("nvme0n1", "nvme")]
    );
    assert_eq!(host.under("0:45", "/dev/mapper/vg-ledger").len(), 4);
    for nothing in [
        "overlay",
        "tmpfs",
        "server:/export",
        "/dev/nvme9n1",
        "/dev/mapper/none",
        "pool/data",
    ] {
        assert_eq!(host.under("0:45", nothing), [], "{nothing}");
    }
}

#[test]
fn an_emmc_reports_its_wear_and_beyond_its_life_is_used_up() {
    let host = Host::new();
    let worn = |text: &str| {
        fs::write(host.path("sys/devices/mmc/mmcblk0/device/life_time"), text).unwrap();
        host.under("179:0", "/dev/mmcblk0")[0].used_tenths_of_life
    };
    assert_eq!(
        [worn("0x01 0x03\n"), worn("0x0b 0x01\n")],
        [Some(3), Some(10)]
    );
    assert_eq!([worn("0x00 0x00\n"), worn("what\n")], [None, None]);
}

#[test]
fn a_ufs_disk_reports_the_wear_from_its_controller() {
    let host = Host::new();
    let controller = "sys/devices/platform/112b0000.ufshci";
    let device = format!("{controller}/host0/target0:0:0/0:0:0:0");
    let disk = format!("{device}/block/sda");
    host.device(&disk, "8:0");
    host.link(&format!("{disk}/device"), &device);
    for (cell_type, text) in [("a", "0x02\n"), ("b", "0x01\n")] {
        let file = format!("{controller}/health_descriptor/life_time_estimation_{cell_type}");
        host.file(&file, text);
    }
    let found = host.under("8:0", "/dev/sda");
    assert_eq!(found[0].used_tenths_of_life, Some(2));
}

#[test]
fn this_machines_own_disk_is_found() {
    let root = HostRoot::default();
    let mounts = root
        .read_proc("self/mountinfo", crate::parse::mountinfo::parse)
        .unwrap();
    for mount in mounts.iter().filter(|mount| mount.device.major != 0) {
        assert!(!under(&root, mount, 6).is_empty(), "{mount:?}");
    }
}
