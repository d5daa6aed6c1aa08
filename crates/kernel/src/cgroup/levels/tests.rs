use std::{
    fs,
    path::{Path, PathBuf},
};

use super::*;
use crate::{CgroupFiles, ErrorKind, ProcessCgroups, headroom::binding_level};

/// A cgroup tree of version 2 or 1, with files.
struct Tree {
    top: tempfile::TempDir,
    version: CgroupVersion,
}

impl Tree {
    fn new(version: CgroupVersion) -> Self {
        let top = tempfile::tempdir().unwrap();
        Self { top, version }
    }

    fn path(&self, relative: &str) -> PathBuf {
        match relative {
            "" => self.top.path().to_owned(),
            relative => self.top.path().join(relative),
        }
    }

    fn write(&self, relative: &str, files: &[(&str, &str)]) {
        let folder = self.path(relative);
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), format!("{text}\n")).unwrap();
        }
    }

    fn levels(&self, own: &str) -> CgroupLevels {
        let (mut files, mut buffer) = (self.files(own), Vec::new());
        let sample = files.sample(true, &mut buffer);
        files.levels(&sample, &mut buffer).unwrap()
    }

    fn files(&self, own: &str) -> CgroupFiles {
        let folder = Ok(CgroupFolder {
            version: self.version,
            folder: Arc::from(self.path(own)),
            mount_point: Arc::from(self.top.path() as &Path),
            path: format!("/{own}"),
        });
        CgroupFiles::new(&ProcessCgroups {
            memory: folder.clone(),
            cpu: folder.clone(),
            io: folder.clone(),
            freezer: folder.clone(),
            unified: folder,
        })
    }
}

fn summary(levels: &[LevelMemory]) -> Vec<(String, &str, u64, u64)> {
    levels
        .iter()
        .map(|one| (one.id.to_string(), &*one.path, one.limit, one.unreclaimable))
        .collect()
}

const OWN: &str = "sol.slice/sol.service";

fn v2() -> Tree {
    let tree = Tree::new(CgroupVersion::V2);
    tree.write(
        OWN,
        &[
            ("memory.max", "6000"),
            ("memory.current", "4000"),
            (
                "memory.stat",
                "anon 1\nactive_file 1000\ninactive_file 200\nslab_reclaimable 30\nfile_dirty 7",
            ),
        ],
    );
    tree.write(
        "sol.slice",
        &[
            ("memory.max", "6500"),
            ("memory.current", "6100"),
            (
                "memory.stat",
                "active_file 1200\ninactive_file 200\nslab_reclaimable 30",
            ),
        ],
    );
    tree
}

#[test]
fn a_slice_with_a_larger_limit_and_a_neighbour_binds() {
    let levels = v2().levels(OWN);
    assert_eq!(
        summary(&levels.limits),
        [
            ("0".to_owned(), "/sol.slice/sol.service", 6000, 2770),
            ("1".to_owned(), "/sol.slice", 6500, 4670),
        ]
    );
    assert_eq!(levels.limits[0].dirty, Some(7));
    assert_eq!(levels.own_unreclaimable, Some(2770));
    assert_eq!(binding_level(&levels.limits).unwrap().id, Level::Cgroup(1));
    assert_eq!((levels.swap, levels.errors), (Some(Limit::Max), vec![]));
}

#[test]
fn all_charged_memory_is_unreclaimable_except_droppable_cache() {
    let tree = v2();
    // Huge pages and locked files count as usage, but not as reclaimable memory.
    tree.write(OWN, &[("memory.current", "5900"), ("memory.stat", "anon 1\nhugetlb 3000\nfile 2000\nunevictable 1990\nactive_file 10\ninactive_file 0")]);
    let levels = tree.levels(OWN);
    assert_eq!(levels.limits[0].headroom(), 110);
}

#[test]
fn memory_min_cache_is_unreclaimable_for_the_parent_not_the_own_limit() {
    let tree = v2();
    tree.write(OWN, &[("memory.min", "3000")]);
    let levels = tree.levels(OWN);
    assert_eq!(levels.limits[0].unreclaimable, 2770);
    assert_eq!(levels.limits[1].unreclaimable, 4670 + 230);
    tree.write(OWN, &[("memory.max", "max")]);
    assert_eq!(summary(&tree.levels(OWN).limits)[0].3, 4670 + 230);
}

#[test]
fn a_neighbours_protected_cache_is_unreclaimable_for_parent_and_host() {
    let tree = v2();
    let neighbour = [
        ("memory.min", "900"),
        ("memory.current", "1000"),
        ("memory.stat", "active_file 600\ninactive_file 0"),
    ];
    tree.write("sol.slice/db.service", &neighbour);
    tree.write("sol.slice/idle.service", &[("memory.min", "0")]);
    tree.write("other.slice", &neighbour);
    let levels = tree.levels(OWN);
    assert_eq!(levels.limits[0].unreclaimable, 2770);
    assert_eq!(levels.limits[1].unreclaimable, 4670 + 500);
    assert_eq!(levels.protected_bytes, 500, "by other.slice");
    tree.write("sol.slice", &[("memory.min", "6000")]);
    assert_eq!(tree.levels(OWN).protected_bytes, 500 + 1330);
}

#[test]
fn memory_high_and_swap_are_separate_from_oom_limits() {
    let tree = v2();
    tree.write(
        "sol.slice",
        &[
            ("memory.max", "max"),
            ("memory.high", "5000"),
            ("memory.swap.max", "700"),
            ("memory.swap.current", "650"),
        ],
    );
    tree.write(
        OWN,
        &[("memory.swap.max", "90"), ("memory.swap.current", "10")],
    );
    let levels = tree.levels(OWN);
    assert_eq!(levels.limits.len(), 1);
    assert_eq!(
        summary(&levels.high),
        [("1".to_owned(), "/sol.slice", 5000, 4670)]
    );
    assert_eq!(levels.swap, Some(Limit::Bytes(50)));
    tree.write(OWN, &[("memory.swap.current", "unclear")]);
    assert_eq!(tree.levels(OWN).swap, None);
}

#[test]
fn a_cgroup_without_a_limit_has_no_memory_level() {
    let tree = v2();
    tree.write(OWN, &[("memory.max", "max")]);
    tree.write("sol.slice", &[("memory.max", "max")]);
    let levels = tree.levels(OWN);
    assert_eq!(
        (levels.limits, levels.high, levels.errors),
        (vec![], vec![], vec![])
    );
}

#[test]
fn a_limit_without_a_usage_is_an_error() {
    let tree = v2();
    fs::remove_file(tree.path(OWN).join("memory.current")).unwrap();
    let levels = tree.levels(OWN);
    assert_eq!(levels.limits[0].id, Level::Cgroup(1));
    assert_eq!(levels.errors[0].kind(), ErrorKind::Absent);
}

#[test]
fn an_unreadable_limit_is_an_error_next_to_readable_levels() {
    let tree = v2();
    tree.write("sol.slice", &[("memory.max", "unclear")]);
    let levels = tree.levels(OWN);
    assert_eq!(levels.limits.len(), 1);
    assert_eq!(levels.errors[0].kind(), ErrorKind::Broken);
}

fn v1() -> Tree {
    let tree = Tree::new(CgroupVersion::V1);
    let stat =
        "cache 1\nhierarchical_memory_limit 5000\ntotal_active_file 100\ntotal_inactive_file 20";
    tree.write(
        "",
        &[
            ("memory.limit_in_bytes", "9223372036854771712"),
            ("memory.usage_in_bytes", "4500"),
            ("memory.stat", stat),
        ],
    );
    tree.write(
        "box",
        &[
            ("memory.limit_in_bytes", "9223372036854771712"),
            ("memory.usage_in_bytes", "3000"),
            ("memory.stat", stat),
            ("memory.memsw.limit_in_bytes", "4400"),
            ("memory.memsw.usage_in_bytes", "3300"),
        ],
    );
    tree
}

#[test]
fn a_limit_above_the_namespace_is_a_level_using_visible_usage() {
    let levels = v1().levels("box");
    assert_eq!(
        summary(&levels.limits),
        [
            ("0_swap".to_owned(), "/box", 4400, 3180),
            ("above".to_owned(), "/", 5000, 4380),
        ]
    );
    let levels = v1().levels("");
    assert_eq!(
        summary(&levels.limits),
        [("above".to_owned(), "/", 5000, 4380)]
    );
    assert_eq!(levels.own_unreclaimable, None);
}

#[test]
fn a_limit_above_the_namespace_is_a_level_next_to_a_smaller_own_limit() {
    let tree = v1();
    tree.write("box", &[("memory.limit_in_bytes", "4000")]);
    let levels: Vec<_> = tree.levels("box").limits.iter().map(|one| one.id).collect();
    assert_eq!(
        levels,
        [Level::Cgroup(0), Level::MemoryAndSwap(0), Level::Above]
    );
}

#[test]
fn a_limit_equal_to_the_hierarchical_limit_is_reported_once() {
    let tree = v1();
    tree.write("", &[("memory.limit_in_bytes", "5000")]);
    let levels: Vec<_> = tree.levels("box").limits.iter().map(|one| one.id).collect();
    assert_eq!(levels, [Level::MemoryAndSwap(0), Level::Cgroup(1)]);
}

/// A v1 cgroup whose limits are not due to be read when they change.
#[test]
fn a_changed_v1_limit_is_no_limit_above_the_visible_cgroups() {
    let tree = v1();
    let stat = |limit: &str| {
        format!("hierarchical_memory_limit {limit}\ntotal_active_file 100\ntotal_inactive_file 20")
    };
    let set_limits = |own: &str, hierarchical: &str| {
        let files = [
            ("memory.limit_in_bytes", own),
            ("memory.memsw.limit_in_bytes", own),
            ("memory.stat", &stat(hierarchical)),
        ];
        tree.write("box", &files);
    };
    tree.write("", &[("memory.stat", &stat("9223372036854771712"))]);
    let (mut files, mut buffer) = (tree.files("box"), Vec::new());
    for own in ["4000", "3500", "6000"] {
        set_limits(own, own);
        let sample = files.sample(false, &mut buffer);
        let levels = files.levels(&sample, &mut buffer).unwrap();
        let own: u64 = own.parse().unwrap();
        assert_eq!(
            summary(&levels.limits),
            [
                ("0".to_owned(), "/box", own, 2880),
                ("0_swap".to_owned(), "/box", own, 3180)
            ]
        );
    }
    // The limit was raised between the reads of `memory.stat` and of the limit.
    set_limits("6000", "5900");
    let sample = files.sample(false, &mut buffer);
    let levels = files.levels(&sample, &mut buffer).unwrap();
    assert!(levels.limits.iter().all(|one| one.id != Level::Above));
}

/// The limits of no level are due to be read when they change.
#[test]
fn usage_above_a_known_limit_makes_the_limits_of_that_level_be_read_again() {
    let tree = v2();
    tree.write(OWN, &[("memory.high", "5000")]);
    let (mut files, mut buffer) = (tree.files(OWN), Vec::new());
    let mut limits = || {
        let own = files.sample(false, &mut buffer);
        let levels = files.levels(&own, &mut buffer).unwrap();
        assert_eq!(levels.errors, []);
        let limits = |levels: &[LevelMemory]| levels.iter().map(|one| one.limit).collect();
        let all: [Vec<u64>; 2] = [limits(&levels.limits), limits(&levels.high)];
        let own = [own.memory_max, own.memory_high].map(|limit| limit.unwrap().bytes().unwrap());
        (own, all)
    };
    let read_first = ([6000, 5000], [vec![6000, 6500], vec![5000]]);
    assert_eq!(limits(), read_first);
    tree.write(OWN, &[("memory.max", "8000"), ("memory.high", "7000")]);
    tree.write("sol.slice", &[("memory.max", "9000")]);
    tree.write(OWN, &[("memory.current", "5000")]);
    tree.write("sol.slice", &[("memory.current", "6500")]);
    assert_eq!(limits(), read_first, "no usage is above a known limit");
    tree.write("sol.slice", &[("memory.current", "6501")]);
    assert_eq!(
        limits(),
        ([6000, 5000], [vec![6000, 9000], vec![5000]]),
        "the usage of the slice is above its limit"
    );
    tree.write(OWN, &[("memory.current", "5001")]);
    assert_eq!(
        limits(),
        ([8000, 7000], [vec![8000, 9000], vec![7000]]),
        "the own usage is above memory.high"
    );
    tree.write(OWN, &[("memory.max", "9000"), ("memory.high", "max")]);
    tree.write(OWN, &[("memory.current", "8001")]);
    tree.write("sol.slice", &[("memory.max", "unclear")]);
    tree.write("sol.slice", &[("memory.current", "9001")]);
    let own = files.sample(false, &mut buffer);
    let levels = files.levels(&own, &mut buffer).unwrap();
    assert_eq!(own.memory_max, Ok(Limit::Bytes(9000)));
    assert_eq!(levels.errors[0].kind(), ErrorKind::Broken);
}

/// The limit of the parent and that of memory with swap are raised, but not the lowest limit.
#[test]
fn v1_limits_other_than_the_lowest_are_read_when_usage_exceeds_them_or_swap_changes() {
    let tree = v1();
    let set_limits = |own_with_swap: &str, top: &str| {
        let stat = |memory: &str, with_swap: &str| {
            let limits =
                format!("hierarchical_memory_limit {memory}\nhierarchical_memsw_limit {with_swap}");
            format!("{limits}\ntotal_active_file 100\ntotal_inactive_file 20")
        };
        tree.write(
            "",
            &[
                ("memory.limit_in_bytes", top),
                ("memory.stat", &stat(top, "9223372036854771712")),
            ],
        );
        let own = [
            ("memory.limit_in_bytes", "4000"),
            ("memory.memsw.limit_in_bytes", own_with_swap),
            ("memory.stat", &stat("4000", own_with_swap)),
        ];
        tree.write("box", &own);
    };
    let (mut files, mut buffer) = (tree.files("box"), Vec::new());
    let mut limits = || -> Vec<u64> {
        let own = files.sample(false, &mut buffer);
        let levels = files.levels(&own, &mut buffer).unwrap();
        levels.limits.iter().map(|one| one.limit).collect()
    };
    set_limits("4400", "5000");
    assert_eq!(limits(), [4000, 4400, 5000]);
    set_limits("4400", "6000");
    assert_eq!(
        limits(),
        [4000, 4400, 5000],
        "no usage exceeds a known limit"
    );
    tree.write("", &[("memory.usage_in_bytes", "5001")]);
    assert_eq!(limits(), [4000, 4400, 6000]);
    set_limits("5500", "6000");
    assert_eq!(limits(), [4000, 5500, 6000]);
}

#[test]
fn the_path_of_an_ancestor_ends_at_the_root() {
    assert_eq!(ancestor("/a/b/c", 0), "/a/b/c");
    assert_eq!(ancestor("/a/b/c", 2), "/a");
    assert_eq!(ancestor("/a/b/c", 3), "/");
    assert_eq!(ancestor("/", 1), "/");
    assert_eq!(ancestor("/", 0), "/");
}
