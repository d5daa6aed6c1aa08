use super::*;
use faultline_testkit::host::FakeHost;

fn words(line: &[&str]) -> Vec<String> {
    line.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn accounts_paths_are_read_from_every_form_of_the_option() {
    assert_eq!(
        accounts_paths(&words(&[
            "v",
            "--accounts",
            "/a,/b",
            "--accounts=/c",
            "--accounts-index-path",
            "/d"
        ])),
        ["/a", "/b", "/c"].map(Path::new)
    );
    assert!(accounts_paths(&words(&["v", "--accounts"])).is_empty());
}

#[test]
fn only_a_recording_in_the_ledgers_file_system_gives_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = ValidatorFolder {
        role: "ledger",
        path: folder.path().to_owned(),
        pid: None,
    };
    let root = HostRoot::default();
    let found = shared_disk_warnings(
        &root,
        &folder.path().join("run.fltl"),
        std::slice::from_ref(&ledger),
    );
    assert!(
        found.len() == 1
            && found[0].contains("ledger")
            && found[0].contains("put it on another disk"),
        "{found:?}"
    );
    // A folder in procfs is on no disk.
    assert_eq!(
        shared_disk_warnings(&root, Path::new("/proc/self/run.fltl"), &[ledger]),
        Vec::<String>::new()
    );
    let missing = ValidatorFolder {
        role: "ledger",
        path: "/no/such/folder".into(),
        pid: None,
    };
    assert_eq!(
        shared_disk_warnings(&root, &folder.path().join("run.fltl"), &[missing]),
        Vec::<String>::new()
    );
}

#[test]
fn a_running_validators_folders_are_resolved_in_its_own_mount_namespace() {
    let folder = tempfile::tempdir().unwrap();
    let own = std::process::id();
    let ledger = ValidatorFolder {
        role: "accounts",
        path: folder.path().to_owned(),
        pid: Some(own),
    };
    let found = shared_disk_warnings(
        &HostRoot::default(),
        &folder.path().join("run.fltl"),
        &[ledger],
    );
    assert!(
        found.len() == 1 && found[0].contains("accounts"),
        "{found:?}"
    );
}

#[test]
fn partitions_and_volumes_lead_to_their_disks() {
    let host = FakeHost::empty().unwrap();
    for file in [
        "sys/devices/nvme0n1/size",
        "sys/devices/nvme0n1/nvme0n1p2/partition",
        "sys/devices/sdb/size",
        "sys/devices/dm-0/size",
        "sys/dev/block/placeholder",
    ] {
        host.write(file, "1\n").unwrap();
    }
    let link = |name: &str, to: &str| {
        let path = host.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(host.path(to), path).unwrap();
    };
    link("sys/dev/block/259:2", "sys/devices/nvme0n1/nvme0n1p2");
    link("sys/dev/block/253:0", "sys/devices/dm-0");
    link(
        "sys/devices/dm-0/slaves/nvme0n1p2",
        "sys/devices/nvme0n1/nvme0n1p2",
    );
    link("sys/devices/dm-0/slaves/sdb", "sys/devices/sdb");
    let disks = |number: &str| {
        let mut disks = BTreeSet::new();
        add_disks(
            &host.path(&format!("sys/dev/block/{number}")),
            &mut disks,
            0,
        );
        disks.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(disks("259:2"), ["nvme0n1"]);
    assert_eq!(disks("253:0"), ["nvme0n1", "sdb"]);
    assert_eq!(disks("8:0"), Vec::<String>::new());
    let place = |device, number: &str| FolderDisks {
        device,
        disks: disks(number).into_iter().collect(),
    };
    assert_eq!(
        place(1, "259:2").shared(&place(2, "253:0")).as_deref(),
        Some("on the same disk (nvme0n1)")
    );
    assert_eq!(place(1, "8:0").shared(&place(2, "8:0")), None);
}
