use super::*;
use faultline_core::clock::Clock;
use faultline_sources::discovery::{Finder, Target};
use faultline_testkit::host::FakeHost;
use std::path::Path;

/// The machine of a researcher: a RAID for the accounts, a btrfs subvolume for the ledger, and an
/// overlay below a container's root.
const MOUNTS: &str = "\
    23 1 259:2 / / rw,noatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro\n\
    24 23 0:21 / /sys rw,nosuid - sysfs sysfs rw\n\
    29 23 0:24 / /run rw,nosuid,nodev shared:11 - tmpfs tmpfs rw,size=147460k\n\
    40 23 0:45 /@ledger /mnt/the\\040ledger rw,noatime - btrfs /dev/nvme1n1 rw,compress=zstd:1,subvol=/@ledger\n\
    41 23 9:0 / /mnt/accounts rw,noatime - xfs /dev/md0 rw,noquota\n\
    42 23 0:60 / /mnt/ramdisk rw - tmpfs tmpfs rw,size=536870912k\n\
    43 23 0:61 / /srv/image rw - overlay overlay rw,lowerdir=/l1:/l2,upperdir=/u,workdir=/w\n\
    44 23 7:0 / /snap/core rw - squashfs /dev/loop0 ro\n";

const ARGUMENTS: [&str; 12] = [
    "/usr/local/bin/agave-validator",
    "--identity",
    "/etc/solana/identity.json",
    "--ledger",
    "/mnt/the ledger",
    "--accounts",
    "/mnt/accounts/a,/mnt/ramdisk",
    "--rpc-bigtable-api-key",
    "s3cr3t",
    "--entrypoint=https://me:s3cr3t@example.com/?api-key=s3cr3t",
    "--log",
    "-",
];

fn fixture(name: &str) -> FakeHost {
    let hosts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/testkit/fixtures/hosts");
    FakeHost::from_fixture(&hosts.join(name)).unwrap()
}

fn researcher() -> FakeHost {
    let host = fixture("linux-6.8-v2");
    let environment = "RUST_LOG=solana=info\0SOLANA_METRICS_CONFIG=host=h,db=d,u=me,p=s3cr3t\0MALLOC_CONF=x\0TOKEN=s3cr3t\0";
    for (path, text) in [
        ("proc/4242/mountinfo", MOUNTS),
        ("proc/self/mountinfo", MOUNTS),
        ("proc/4242/cmdline", &(ARGUMENTS.join("\0") + "\0")),
        ("proc/4242/environ", environment),
        (
            "proc/cmdline",
            "BOOT_IMAGE=/vmlinuz root=UUID=1 mitigations=off rd.luks.key=s3cr3t quiet\n",
        ),
        (
            "proc/swaps",
            "Filename Type Size Used Priority\n/dev/zram0 partition 8388604 1024 100\n",
        ),
        (
            "proc/1/root/etc/os-release",
            "PRETTY_NAME=\"Ubuntu 24.04.2 LTS\"\n",
        ),
        ("sys/block/nvme1n1/size", "15002931888\n"),
        ("sys/block/nvme1n1/dev", "259:5\n"),
        ("sys/block/nvme1n1/device/model", "SAMSUNG MZQL27T6HBLA\n"),
        ("sys/block/nvme1n1/queue/scheduler", "[none] mq-deadline\n"),
        ("sys/block/md0/size", "15002931888\n"),
        ("sys/block/md0/dev", "9:0\n"),
    ] {
        host.write(path, text).unwrap();
    }
    host
}

fn target(host: &FakeHost) -> (HostRoot, Target) {
    let root = HostRoot::below(host.root());
    let mut finder = Finder::build(
        &faultline_core::config::Target::default(),
        root.clone(),
        Clock::start(),
    );
    let target = finder.find_once().expect("the fake host has a validator");
    (root, Target::clone(&target))
}

#[test]
fn the_session_manifest_describes_the_machine() {
    let host = researcher();
    let all = session(
        &HostRoot::below(host.root()),
        &Config::default(),
        7,
        "9.8.7",
        false,
    );
    assert_eq!(all["clock"]["realtime_minus_monotonic_ns"], 7);
    assert_eq!(
        (&all["host"]["system"], &all["demo"]),
        (&"Ubuntu 24.04.2 LTS".into(), &false.into())
    );
    assert_eq!(
        all["host"]["kernel"]["command_line"],
        "BOOT_IMAGE=/vmlinuz root=UUID=1 mitigations=off rd.luks.key=***"
    );
    assert_eq!(
        all["host"]["memory"]["swaps"][0]["bytes"],
        8_388_604_u64 << 10
    );
    assert_eq!(all["host"]["disks"][1]["model"], "SAMSUNG MZQL27T6HBLA");
    assert_eq!(all["daemon"]["version"], "9.8.7");
    assert_eq!(all["daemon"]["interval_seconds"], 1.0);
    let mounts: Vec<&str> = all["host"]["mounts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mount| mount["mount_point"].as_str().unwrap())
        .collect();
    assert_eq!(
        mounts,
        [
            "/",
            "/mnt/the ledger",
            "/mnt/accounts",
            "/mnt/ramdisk",
            "/srv/image"
        ]
    );
    assert_eq!(all["problems"], Value::Null, "{}", all["problems"]);
}

#[test]
fn the_process_manifest_lists_folders_and_limits() {
    let host = researcher();
    let (root, target) = target(&host);
    let all = ManifestCollector::new(root).describe(&target);
    let folders: Vec<(&str, &str, &str, &str)> = all["folders"]
        .as_array()
        .unwrap()
        .iter()
        .map(|folder| {
            let text =
                |value: &'_ Value| value.as_str().unwrap_or_default().to_owned().leak() as &str;
            let mount = &folder["mount"];
            (
                text(&folder["what"]),
                text(&folder["path"]),
                text(&mount["file_system"]),
                text(&mount["disk"]),
            )
        })
        .collect();
    let expected = [
        ("ledger", "/mnt/the ledger", "btrfs", "nvme1n1"),
        ("accounts", "/mnt/accounts/a", "xfs", "md0"),
        ("accounts", "/mnt/ramdisk", "tmpfs", ""),
    ];
    assert_eq!(folders, expected);
    assert_eq!(all["folders"][0]["mount"]["options"], "rw,noatime");
    assert_eq!(all["folders"][0]["mount"]["root"], "/@ledger");
    assert_eq!(all["arguments"][2], "/etc/solana/identity.json");
    let values = json!({ "MALLOC_CONF": "x", "RUST_LOG": "solana=info" });
    assert_eq!(all["environment"]["values"], values);
    assert_eq!(
        all["environment"]["names"],
        json!(["MALLOC_CONF", "RUST_LOG", "SOLANA_METRICS_CONFIG", "TOKEN"])
    );
    assert!(
        all["limits"]["open files"]["soft"].is_u64(),
        "{}",
        all["limits"]
    );
    assert!(all["cgroup"].is_string());
    let paths: Vec<&str> = all["cgroup_limits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|level| level["path"].as_str().unwrap())
        .collect();
    assert_eq!(
        paths,
        ["/validator.slice/sol.service", "/validator.slice", "/"]
    );
    assert!(!all.to_string().contains("s3cr3t"), "{all}");
}

#[test]
fn folders_of_a_later_process_with_the_same_pid_are_not_used() {
    let host = researcher();
    let (root, mut target) = target(&host);
    let folders = crate::recorder::disks::process_folders;
    assert_eq!(folders(&root, &target).len(), 3);
    target.process.start_ticks -= 1;
    assert!(folders(&root, &target).is_empty());
    let all = ManifestCollector::new(root).describe(&target);
    assert_eq!(all["folders"], Value::Null);
}

#[test]
fn every_fake_host_is_described_correctly() {
    for name in [
        "linux-5.15-v1",
        "linux-5.15-v2",
        "linux-6.1-v2",
        "linux-6.8-v2",
        "linux-6.12-v2",
        "linux-6.18-hybrid",
    ] {
        let host = fixture(name);
        let (root, target) = target(&host);
        let all = session(&root, &Config::default(), 0, "9.8.7", false);
        assert!(
            all["host"]["memory"]["total_bytes"]
                .as_u64()
                .is_some_and(|bytes| bytes > 1 << 20),
            "{name}: {all}"
        );
        assert_eq!(all["host"]["disks"], json!([]), "{name}");
        let process = ManifestCollector::new(root).describe(&target);
        assert_eq!(process["program"], "agave-validator", "{name}");
        let own = &process["cgroup_limits"][0]["settings"];
        let limit = if name.ends_with("v2") {
            &own["memory.max"]
        } else {
            &own["memory.limit_in_bytes"]
        };
        assert!(limit.is_u64() || limit == "max", "{name}: {own}");
    }
}

#[test]
fn an_exited_process_is_described_from_its_known_data() {
    let host = researcher();
    let (root, target) = target(&host);
    host.remove("proc/4242").unwrap();
    let all = ManifestCollector::new(root).describe(&target);
    assert_eq!(
        (&all["pid"], &all["arguments"]),
        (&4242.into(), &Value::Null)
    );
    assert!(
        all["problems"][0]
            .as_str()
            .is_some_and(|problem| problem.contains("gone")),
        "{all}"
    );
}

/// Adds the names of all keys, except those that the kernel or the process chooses.
fn keys(value: &Value, out: &mut std::collections::BTreeSet<String>) {
    match value {
        Value::Array(all) => all.iter().for_each(|one| keys(one, out)),
        Value::Object(all) => {
            for (key, value) in all {
                out.insert(key.clone());
                match key.as_str() {
                    "settings" | "values" => {}
                    "limits" => value
                        .as_object()
                        .into_iter()
                        .flat_map(|all| all.values())
                        .for_each(|one| keys(one, out)),
                    _ => keys(value, out),
                }
            }
        }
        _ => {}
    }
}

#[test]
fn every_key_is_in_the_description_of_the_format() {
    let page = include_str!("../../../../docs/RECORDING.md");
    let section = page
        .split("## Manifests")
        .nth(1)
        .and_then(|rest| rest.split("\n## ").next())
        .unwrap();
    let host = researcher();
    let (root, target) = target(&host);
    let mut found = std::collections::BTreeSet::new();
    // Each of the two machines has keys that the other lacks.
    for root in [&root, &HostRoot::default()] {
        keys(
            &session(root, &Config::default(), 0, "9.8.7", false),
            &mut found,
        );
    }
    keys(&ManifestCollector::new(root).describe(&target), &mut found);
    let missing: Vec<&String> = found
        .iter()
        .filter(|key| !section.contains(&format!("`{key}`")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(found.len() > 70, "{found:?}");
}
