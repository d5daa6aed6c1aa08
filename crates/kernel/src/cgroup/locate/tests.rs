use super::*;
use crate::ErrorKind;
use std::fs;

const HYBRID_MOUNTS: &str = include_str!("../../../tests/text/linux-6.18/mountinfo");

/// A simulated host where process 7 is in the given cgroups.
fn locate_in(
    cgroup: &str,
    mountinfo: Option<&str>,
) -> (ProcessCgroups, HostRoot, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let root = HostRoot::below(folder.path());
    for (name, text) in [("7/cgroup", Some(cgroup)), ("self/mountinfo", mountinfo)] {
        let path = root.procfs.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if let Some(text) = text {
            fs::write(path, text).unwrap();
        }
    }
    (locate_cgroups(&root, 7).unwrap(), root, folder)
}

fn mount(root: &str, point: &str, fs_type: &str, options: &str) -> String {
    format!("31 23 0:28 {root} {point} rw,relatime shared:9 - {fs_type} {fs_type} rw,{options}\n")
}

#[test]
fn on_a_v2_host_every_controller_is_in_the_unified_hierarchy() {
    let mounts = mount("/", "/sys/fs/cgroup", "cgroup2", "nsdelegate");
    let (found, root, _folder) = locate_in("0::/system.slice/sol.service\n", Some(&mounts));
    let memory = found.memory.clone().unwrap();
    assert_eq!(memory.version, CgroupVersion::V2);
    assert_eq!(
        &*memory.folder,
        root.cgroup.join("system.slice/sol.service")
    );
    assert_eq!(
        (&found.cpu, &found.io, &found.unified),
        (&found.memory, &found.memory, &found.memory)
    );
    let above: Vec<&Path> = memory.with_ancestors().collect();
    assert_eq!(
        above,
        [
            &*memory.folder,
            &root.cgroup.join("system.slice"),
            &root.cgroup
        ]
    );
}

#[test]
fn on_a_hybrid_host_memory_is_v1_and_pressure_is_v2() {
    let text = "7:blkio:/b\n4:memory:/validator\n1:cpu:/\n0::/u\n";
    let (found, root, _folder) = locate_in(text, Some(HYBRID_MOUNTS));
    let memory = found.memory.unwrap();
    assert_eq!(
        (memory.version, &*memory.folder),
        (CgroupVersion::V1, &*root.cgroup.join("memory/validator"))
    );
    assert_eq!(&*found.io.unwrap().folder, root.cgroup.join("blkio/b"));
    assert_eq!(&*found.cpu.unwrap().folder, root.cgroup.join("cpu"));
    let unified = found.unified.unwrap();
    assert_eq!(
        (unified.version, &*unified.folder),
        (CgroupVersion::V2, &*root.cgroup.join("unified/u"))
    );
}

#[test]
fn controllers_that_share_a_v1_hierarchy_share_its_mount() {
    let mounts = mount("/", "/sys/fs/cgroup/cpu,cpuacct", "cgroup", "cpu,cpuacct");
    let (found, root, _folder) = locate_in("2:cpu,cpuacct:/v\n", Some(&mounts));
    assert_eq!(
        &*found.cpu.unwrap().folder,
        root.cgroup.join("cpu,cpuacct/v")
    );
    assert_eq!(found.memory.unwrap_err().kind(), ErrorKind::Absent);
}

#[test]
fn a_cgroup_path_is_resolved_relative_to_its_bind_mounted_subtree() {
    let mounts = mount("/docker/abc", "/sys/fs/cgroup/memory", "cgroup", "memory");
    let (found, root, _folder) = locate_in("4:memory:/docker/abc/inner\n", Some(&mounts));
    let memory = found.memory.unwrap();
    assert_eq!(&*memory.folder, root.cgroup.join("memory/inner"));
    assert_eq!(
        memory.with_ancestors().count(),
        2,
        "what is above the mount is not visible"
    );
}

#[test]
fn a_cgroup_outside_namespace_or_mount_is_absent_with_the_reason() {
    let whole = mount("/", "/sys/fs/cgroup", "cgroup2", "nsdelegate");
    let part = mount("/docker/abc", "/sys/fs/cgroup", "cgroup2", "nsdelegate");
    for (path, mounts) in [
        ("/../sibling", &whole),
        ("/../../x", &whole),
        ("/docker/other", &part),
        ("/a/../b", &whole),
    ] {
        let (found, ..) = locate_in(&format!("0::{path}\n"), Some(mounts));
        let error = found.memory.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Absent, "{path}");
        assert!(
            error
                .to_string()
                .contains("outside of the cgroup namespace"),
            "{error}"
        );
    }
}

#[test]
fn a_mount_above_the_namespace_root_reaches_a_sibling_cgroup() {
    let mounts = mount("/..", "/sys/fs/cgroup", "cgroup2", "nsdelegate");
    let (found, root, _folder) = locate_in("0::/../sibling\n", Some(&mounts));
    assert_eq!(&*found.memory.unwrap().folder, root.cgroup.join("sibling"));
}

#[test]
fn the_upper_of_two_mounts_at_one_point_is_used() {
    let lower = mount("/", "/sys/fs/cgroup", "cgroup2", "nsdelegate");
    let upper = "50 31 0:28 /validator.slice /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    for topmost in ["", "23 1 0:2 / / rw - ext4 a rw\n"] {
        let mounts = format!("{topmost}{lower}{upper}");
        let (found, root, _folder) = locate_in("0::/validator.slice/sol.service\n", Some(&mounts));
        let memory = found.memory.unwrap();
        assert_eq!(&*memory.folder, root.cgroup.join("sol.service"));
        assert_eq!(&*memory.mount_point, root.cgroup);
        let (found, ..) = locate_in("0::/other\n", Some(&mounts));
        assert_eq!(found.memory.unwrap_err().kind(), ErrorKind::Absent);
    }
    let other = "50 31 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    let (found, root, _folder) = locate_in("0::/v\n", Some(&format!("{lower}{other}")));
    assert_eq!(&*found.memory.unwrap().folder, root.cgroup.join("v"));
}

#[test]
fn a_cgroup_move_is_noticed_even_after_the_main_thread_exited() {
    let (_, root, _folder) = locate_in("0::/a\n", None);
    let mut locator = CgroupLocator::new(&root, 7);
    assert!(locator.has_moved(), "nothing is known yet");
    let path = |locator: &mut CgroupLocator| {
        let found = locator.locate().unwrap();
        found.path().map(str::to_owned)
    };
    assert_eq!(path(&mut locator).as_deref(), Some("/a"));
    assert!(!locator.has_moved());
    let write = |list: &str, text: &str| fs::write(root.procfs.join(list), text).unwrap();
    write("7/cgroup", "0::/b\n");
    assert!(locator.has_moved());
    assert_eq!(path(&mut locator).as_deref(), Some("/b"));

    fs::create_dir_all(root.procfs.join("7/task/9")).unwrap();
    write("7/stat", &stat(0x4));
    write("7/task/9/stat", &stat(0));
    write("7/task/9/cgroup", "0::/c\n");
    assert_eq!(path(&mut locator).as_deref(), Some("/c"));
    write("7/task/9/cgroup", "0::/d\n");
    assert!(locator.has_moved());
    assert_eq!(path(&mut locator).as_deref(), Some("/d"));
    assert!(!locator.has_moved());
    fs::remove_dir_all(root.procfs.join("7")).unwrap();
    assert_eq!(locator.locate().unwrap_err().kind(), ErrorKind::Gone);
    assert!(locator.has_moved());
}

#[test]
fn without_mountinfo_the_default_cgroup_paths_are_used() {
    let (found, root, _folder) = locate_in("4:memory:/v\n0::/u\n", None);
    assert_eq!(&*found.memory.unwrap().folder, root.cgroup.join("memory/v"));
    assert_eq!(&*found.unified.unwrap().folder, root.cgroup.join("u"));
}

#[test]
fn the_folder_of_v1_mounts_is_not_the_v2_hierarchy() {
    let mounts = mount("/", "/sys/fs/cgroup/memory", "cgroup", "memory");
    let text = "4:memory:/v\n0::/system.slice/containerd.service\n";
    let (found, root, _folder) = locate_in(text, Some(&mounts));
    assert_eq!(&*found.memory.unwrap().folder, root.cgroup.join("memory/v"));
    for unmounted in [found.unified, found.cpu] {
        let error = unmounted.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Absent);
        assert!(error.to_string().contains("not mounted"), "{error}");
    }
}

#[test]
fn a_removed_cgroup_of_a_zombie_is_gone() {
    let (found, ..) = locate_in("0::/sol.service (deleted)\n", None);
    assert_eq!(found.memory.unwrap_err().kind(), ErrorKind::Gone);
}

/// The `stat` of a thread with these flags.
fn stat(flags: u64) -> String {
    format!("7 (x) S 1 7 7 0 -1 {flags} {}\n", "0 ".repeat(43))
}

/// The cgroups of a thread that has begun to exit: the root in version 1, and its cgroup in version
/// 2.
const EXITING: &str = "4:memory:/\n1:cpu:/\n0::/u\n";

/// A host with an exiting process 7 and its threads: number, list of cgroups, flags.
fn exiting(threads: &[(u32, &str, u64)]) -> ProcessCgroups {
    let (_, root, _folder) = locate_in(EXITING, None);
    for (tid, cgroup, flags) in [(7, EXITING, 0x4)].iter().chain(threads) {
        let thread = root.procfs.join(format!("7/task/{tid}"));
        fs::create_dir_all(&thread).unwrap();
        fs::write(thread.join("cgroup"), cgroup).unwrap();
        fs::write(thread.join("stat"), stat(*flags)).unwrap();
    }
    fs::write(root.procfs.join("7/stat"), stat(0x40_0004)).unwrap();
    locate_cgroups(&root, 7).unwrap()
}

#[test]
fn with_an_exiting_main_thread_the_cgroup_of_a_living_thread_counts() {
    let found = exiting(&[
        (8, EXITING, 0x40_0004),
        (9, "4:memory:/v\n1:cpu:/\n0::/u\n", 0x40_0000),
    ]);
    assert_eq!((found.path(), found.is_gone()), (Some("/v"), false));
    let found = exiting(&[(9, EXITING, 0x40_0000)]);
    assert_eq!(
        found.path(),
        Some("/"),
        "the living thread really is at the top"
    );
}

#[test]
fn an_exiting_process_without_threads_is_gone_in_v1_not_v2() {
    let found = exiting(&[(8, EXITING, 0x4)]);
    assert!(found.is_gone());
    assert_eq!(found.memory.as_ref().unwrap_err().kind(), ErrorKind::Gone);
    assert_eq!(
        (found.path(), found.unified.as_ref().unwrap().path.as_str()),
        (None, "/u")
    );
}

#[test]
fn a_live_process_in_the_v1_root_is_in_the_root_cgroup() {
    let (_, root, _folder) = locate_in("4:memory:/\n0::/u\n", None);
    fs::write(root.procfs.join("7/stat"), stat(0x40_0000)).unwrap();
    assert_eq!(locate_cgroups(&root, 7).unwrap().path(), Some("/"));
}

#[test]
fn a_missing_process_is_gone() {
    let (_, root, _folder) = locate_in("0::/\n", None);
    assert_eq!(
        locate_cgroups(&root, 8).unwrap_err().kind(),
        ErrorKind::Gone
    );
}
