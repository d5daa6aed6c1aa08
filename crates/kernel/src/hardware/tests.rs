use std::{fs, path::Path};

use super::*;
use crate::parse::cgroup::Device;

/// A host that consists of a few files.
struct FakeHost(tempfile::TempDir);

impl FakeHost {
    fn new(files: &[(&str, &str)]) -> Self {
        let host = Self(tempfile::tempdir().unwrap());
        for folder in ["proc", "sys"] {
            fs::create_dir(host.0.path().join(folder)).unwrap();
        }
        files.iter().for_each(|(path, text)| host.write(path, text));
        host
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self) -> Hardware {
        Hardware::read(&HostRoot::below(self.0.path()))
    }
}

#[test]
fn an_empty_procfs_gives_unknown_hardware_without_errors() {
    let found = FakeHost::new(&[]).read();
    assert_eq!(
        (found.host_name, found.processors, found.memory),
        (None, Processors::default(), Memory::default())
    );
    assert!(found.disks.is_empty() && found.mounts.is_empty() && found.interfaces.is_empty());
    assert_eq!(
        (
            found.has_pressure,
            found.cgroup_hierarchies,
            found.clock_synchronized
        ),
        (Some(false), None, None)
    );
    assert!(found.problems.is_empty(), "{:?}", found.problems);
}

#[test]
fn processors_and_memory_are_read_from_kernel_files() {
    let found = FakeHost::new(&[
        ("proc/cpuinfo", "processor : 0\nmodel name : Intel(R) Xeon(R) CPU @ 2.40GHz\nphysical id : 0\ncore id : 0\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "schedutil\n"),
        ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
        ("sys/devices/system/cpu/cpufreq/boost", "1\n"),
        ("proc/meminfo", "MemTotal: 1024 kB\nSwapTotal: 0 kB\n"),
        ("proc/swaps", "Filename Type Size Used Priority\n/dev/zram0 partition 8 0 100\n"),
        ("proc/sys/vm/swappiness", "60\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ("sys/devices/system/node/node10/cpulist", "\n"),
        ("sys/devices/system/node/node2/meminfo", "Node 2 MemTotal:       1024 kB\nNode 2 MemFree: 1 kB\n"),
        ("sys/devices/system/node/possible", "0-10\n"),
    ])
    .read();
    assert_eq!(
        (found.processors.base_mhz, found.processors.cores),
        (Some(2400), Some(1))
    );
    assert_eq!(found.processors.governors, ["performance", "schedutil"]);
    assert_eq!(
        (found.memory.total, found.memory.swap_total),
        (Some(1 << 20), Some(0))
    );
    assert_eq!(
        (found.memory.swaps[0].size, found.memory.swappiness),
        (8192, Some(60))
    );
    assert_eq!(found.memory.huge_pages.as_deref(), Some("madvise"));
    let nodes: Vec<_> = found
        .memory
        .nodes
        .iter()
        .map(|node| (node.number, node.memory))
        .collect();
    assert_eq!(nodes, [(2, Some(1 << 20)), (10, None)]);
}

#[test]
fn the_drivers_base_frequency_takes_precedence_over_the_model_name() {
    let host = FakeHost::new(&[
        (
            "proc/cpuinfo",
            "processor : 0\nmodel name : X CPU @ 2.40GHz\n",
        ),
        (
            "sys/devices/system/cpu/cpu0/acpi_cppc/nominal_freq",
            "3100\n",
        ),
    ]);
    assert_eq!(host.read().processors.base_mhz, Some(3100));
    host.write(
        "sys/devices/system/cpu/cpu0/cpufreq/base_frequency",
        "2600000\n",
    );
    assert_eq!(host.read().processors.base_mhz, Some(2600));
}

fn disks() -> FakeHost {
    FakeHost::new(&[
        ("sys/block/nvme0n1/size", "1000215216\n"),
        ("sys/block/nvme0n1/dev", "259:0\n"),
        ("sys/block/nvme0n1/device/model", "SAMSUNG MZQL2      \n"),
        ("sys/block/nvme0n1/queue/rotational", "0\n"),
        ("sys/block/nvme0n1/queue/scheduler", "[none] mq-deadline\n"),
        ("sys/block/nvme0n1/nvme0n1p1/partition", "1\n"),
        ("sys/block/nvme0n1/nvme0n1p1/dev", "259:1\n"),
        ("sys/block/dm-0/size", "16\n"),
        ("sys/block/dm-0/dev", "253:0\n"),
        ("sys/block/dm-0/dm/name", "vg-data\n"),
        ("sys/block/dm-0/slaves/nvme0n1p1/x", ""),
        ("sys/block/loop0/size", "16\n"),
        ("sys/block/sr0/size", "0\n"),
        ("sys/class/net/eth0/speed", "10000\n"),
        ("sys/class/net/eth0/operstate", "up\n"),
        ("sys/class/net/docker0/speed", "-1\n"),
        ("sys/class/net/docker0/operstate", "down\n"),
        ("sys/class/net/lo/operstate", "unknown\n"),
        ("sys/class/net/bonding_masters", "bond0\n"),
    ])
}

#[test]
fn disks_have_model_size_partitions_and_underlying_devices() {
    let found = disks().read();
    let [mapped, disk] = &found.disks[..] else {
        panic!("{:?}", found.disks)
    };
    assert_eq!(
        (disk.model.as_deref(), disk.size),
        (Some("SAMSUNG MZQL2"), 512_110_190_592)
    );
    assert_eq!(
        (disk.rotational, disk.scheduler.as_deref()),
        (Some(false), Some("none"))
    );
    assert_eq!(
        disk.partitions,
        [Partition {
            name: "nvme0n1p1".into(),
            device: Some(Device {
                major: 259,
                minor: 1
            })
        }]
    );
    assert_eq!(
        (
            mapped.device_mapper_name.as_deref(),
            &mapped.member_devices[..]
        ),
        (Some("vg-data"), &["nvme0n1p1".to_owned()][..])
    );
    let speeds: Vec<_> = found
        .interfaces
        .iter()
        .map(|net| (net.name.as_str(), net.speed_mbit))
        .collect();
    assert_eq!(speeds, [("docker0", None), ("eth0", Some(10000))]);
}

#[test]
fn the_disk_under_a_mount_is_identified_by_number_or_name() {
    let disks = disks().read().disks;
    let under = |line: &str| {
        let mounts = mountinfo::parse(line.as_bytes()).unwrap();
        disks
            .iter()
            .filter(|disk| disk.holds(&mounts[0]))
            .map(|disk| disk.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(under("1 0 259:1 / / rw - ext4 /dev/root rw"), ["nvme0n1"]);
    assert_eq!(
        under("1 0 253:0 / / rw - xfs /dev/mapper/vg-data rw"),
        ["dm-0"]
    );
    assert_eq!(
        under("1 0 0:40 /@ / rw - btrfs /dev/mapper/vg-data rw,subvol=/@"),
        ["dm-0"]
    );
    assert_eq!(
        under("1 0 0:40 /@ / rw - btrfs /dev/nvme0n1p1 rw,subvol=/@"),
        ["nvme0n1"]
    );
    assert!(under("1 0 0:41 / / rw - tmpfs tmpfs rw").is_empty());
    assert!(under("1 0 0:41 / / rw - overlay overlay rw,lowerdir=/a").is_empty());
}

#[test]
fn unparsable_hardware_files_are_reported() {
    let found = FakeHost::new(&[
        ("proc/swaps", "Filename\n/dev/sda2 partition\n"),
        ("proc/sys/vm/swappiness", "lots\n"),
    ]);
    let problems = found.read().problems;
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(
        problems
            .iter()
            .all(|problem| problem.kind() == crate::ErrorKind::Broken)
    );
}

#[test]
fn this_machine_is_described() {
    if !Path::new("/proc/cpuinfo").exists() {
        return;
    }
    let found = Hardware::read(&HostRoot::default());
    let threads = std::thread::available_parallelism().unwrap().get() as u64;
    assert!(
        found
            .processors
            .threads
            .is_some_and(|online| online >= threads),
        "{:?}",
        found.processors
    );
    assert!(found.memory.total.is_some_and(|total| total > 64 << 20));
    assert!(found.host_name.is_some() && found.kernel_release.is_some());
}
