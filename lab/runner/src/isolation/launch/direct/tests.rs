use super::{parent::Unified, program_cgroup::ProgramCgroup, *};
use crate::isolation::{CgroupName, CgroupState, launch::v2};
use std::{fs, path::Path};

/// A host with these files below `proc` and `sys/fs/cgroup`.
fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, DirectLauncherPaths) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(
            path,
            text.replace("ROOT", &folder.path().display().to_string()),
        )
        .unwrap();
    }
    let paths = DirectLauncherPaths {
        host: HostRoot::below(folder.path()),
        ..DirectLauncherPaths::default()
    };
    (folder, paths)
}

fn own(file: &str) -> String {
    format!("proc/{}/{file}", std::process::id())
}

const V2: &str = "25 1 0:22 / ROOT/sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
const V1: &str = "26 1 0:23 / ROOT/sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                  27 1 0:24 / ROOT/sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n\
                  25 1 0:22 / ROOT/sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

#[test]
fn on_a_hybrid_host_groups_use_the_memory_hierarchy() {
    let (folder, paths) = host(&[
        ("proc/self/mountinfo", V1),
        (
            "sys/fs/cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712\n",
        ),
        ("sys/fs/cgroup/blkio/blkio.throttle.read_bps_device", ""),
    ]);
    let direct = DirectLauncher::new(&paths).unwrap();
    assert_eq!(direct.name(), "cgroup v1");
    let Cgroups::V1 { folders, .. } = &direct.parents else {
        panic!("{direct:?}")
    };
    assert_eq!(
        (folders.memory.as_path(), &folders.cpuset),
        (folder.path().join("sys/fs/cgroup/memory").as_path(), &None)
    );
    let expected = LauncherAbilities {
        io: true,
        ..LauncherAbilities::default()
    };
    assert_eq!(
        direct.abilities(),
        &expected,
        "without accounting for swap there is no file for it"
    );
}

#[test]
fn cgroup_v2_uses_the_own_or_the_configured_parent() {
    let (folder, mut paths) = host(&[
        ("proc/self/mountinfo", V2),
        (&own("cgroup"), "0::/a.slice/b.service\n"),
        (
            "sys/fs/cgroup/a.slice/b.service/cgroup.controllers",
            "cpuset memory\n",
        ),
        ("sys/fs/cgroup/a.slice/b.service/memory.max", "max\n"),
        ("sys/fs/cgroup/a.slice/b.service/memory.swap.max", "max\n"),
        ("sys/fs/cgroup/given/cgroup.controllers", "memory io\n"),
    ]);
    let direct = DirectLauncher::new(&paths).unwrap();
    assert_eq!(direct.name(), "cgroup v2");
    let expected = LauncherAbilities {
        memory_high: true,
        swap_max: true,
        cpus: true,
        ..LauncherAbilities::default()
    };
    assert_eq!(direct.abilities(), &expected);
    paths.delegated = Some(folder.path().join("sys/fs/cgroup/given"));
    let direct = DirectLauncher::new(&paths).unwrap();
    assert!(
        direct.abilities().io && !direct.abilities().cpus,
        "{direct:?}"
    );
}

#[test]
fn a_missing_memory_controller_is_reported_with_a_remedy() {
    let (_folder, paths) = host(&[
        ("proc/self/mountinfo", V2),
        (&own("cgroup"), "0::/a.slice\n"),
        ("sys/fs/cgroup/a.slice/cgroup.controllers", "cpu pids\n"),
    ]);
    let error = DirectLauncher::new(&paths).unwrap_err().to_string();
    assert!(
        error.contains("no memory controller") && error.contains("cpu pids"),
        "{error}"
    );
}

#[test]
fn a_non_empty_parent_cgroup_is_refused_immediately() {
    let (folder, paths) = host(&[
        ("proc/self/mountinfo", V2),
        (&own("cgroup"), "0::/a.scope\n"),
        ("sys/fs/cgroup/a.scope/cgroup.controllers", "memory\n"),
        ("sys/fs/cgroup/a.scope/cgroup.type", "domain\n"),
        ("sys/fs/cgroup/a.scope/cgroup.subtree_control", "\n"),
        ("sys/fs/cgroup/a.scope/cgroup.procs", "1\n"),
    ]);
    let error = DirectLauncher::new(&paths).unwrap_err().to_string();
    assert!(
        error.contains("a.scope") && error.contains("Delegate=yes"),
        "{error}"
    );
    let procs = folder.path().join("sys/fs/cgroup/a.scope/cgroup.procs");
    fs::write(procs, format!("{}\n", std::process::id())).unwrap();
    DirectLauncher::new(&paths).unwrap();
}

#[test]
fn leftover_groups_are_found_by_their_full_experiment_name() {
    let (_folder, paths) = host(&[
        ("proc/self/mountinfo", V2),
        (&own("cgroup"), "0::/a.slice\n"),
        ("sys/fs/cgroup/a.slice/cgroup.controllers", "memory\n"),
        (
            "sys/fs/cgroup/a.slice/faultline.x.r001_a1.validator/cgroup.procs",
            "",
        ),
        (
            "sys/fs/cgroup/other/deep/faultline.x.r001_a1.recorder/inner/cgroup.procs",
            "",
        ),
        (
            "sys/fs/cgroup/faultline.x_y.r001_a1.validator/cgroup.procs",
            "",
        ),
        ("sys/fs/cgroup/faultline.own/cgroup.procs", ""),
    ]);
    let mut found = DirectLauncher::new(&paths).unwrap().leftovers("x").unwrap();
    found.sort();
    assert_eq!(
        found,
        [
            "faultline.x.r001_a1.recorder",
            "faultline.x.r001_a1.validator"
        ]
    );
}

#[test]
fn a_stricter_parent_limit_is_the_effective_one() {
    let (folder, _) = host(&[
        ("top/memory.max", "max\n"),
        ("top/unit/memory.max", "1000\n"),
        ("top/unit/memory.swap.max", "max\n"),
        ("top/unit/cgroup/memory.max", "2000\n"),
        ("top/unit/cgroup/memory.high", "500\n"),
        ("top/unit/cgroup/memory.swap.max", "0\n"),
        ("top/unit/cgroup/cpuset.cpus", "0-7\n"),
        ("top/unit/cgroup/cpuset.cpus.effective", "0-1\n"),
    ]);
    let top = folder.path().join("top");
    let limits = v2::effective_limits(&top.join("unit/cgroup"), &top, &[]).unwrap();
    assert_eq!(
        (limits.memory_max, limits.memory_high, limits.swap_max),
        (Some(1000), Some(500), Some(0))
    );
    assert_eq!(limits.cpus.unwrap().to_string(), "0-1");
}

#[test]
fn v1_cgroup_state_contains_only_values_of_its_files() {
    let (folder, _) = host(&[
        ("memory/memory.usage_in_bytes", "7\n"),
        (
            "memory/memory.stat",
            "cache 1\nrss 2\ntotal_cache 3\ntotal_rss 4\n",
        ),
        (
            "memory/memory.oom_control",
            "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
        ),
    ]);
    let memory = folder.path().join("memory");
    let cgroup_state = v1::cgroup_state(&memory, None).unwrap();
    let expected = CgroupState {
        memory_current: Some(7),
        file: Some(3),
        anon: Some(4),
        memory_events: [("oom_kill".to_owned(), 2)].into(),
        ..CgroupState::default()
    };
    assert_eq!(
        cgroup_state, expected,
        "no peak and no count of failures in these files"
    );
    let write =
        |file: &str, number: u64| fs::write(memory.join(file), format!("{number}\n")).unwrap();
    write("memory.failcnt", 5);
    write("memory.memsw.failcnt", 0);
    write("memory.limit_in_bytes", 100);
    let met = |memory: &Path| v1::cgroup_state(memory, None).unwrap().memory_events;
    write("memory.memsw.limit_in_bytes", 200);
    assert_eq!(
        met(&memory),
        [("oom_kill".to_owned(), 2), ("failcnt".to_owned(), 5)].into()
    );
    write("memory.memsw.limit_in_bytes", 100);
    assert_eq!(
        met(&memory),
        [("oom_kill".to_owned(), 2)].into(),
        "its own limit is never met then"
    );
    write("memory.memsw.failcnt", 9);
    assert_eq!(
        met(&memory),
        [("oom_kill".to_owned(), 2), ("memsw_failcnt".to_owned(), 9)].into()
    );
    fs::write(memory.join("memory.usage_in_bytes"), "much\n").unwrap();
    let error = v1::cgroup_state(&memory, None).unwrap_err().to_string();
    assert!(error.contains("memory.usage_in_bytes"), "{error}");
    assert!(v1::cgroup_state(Path::new("/nonexistent/cgroup"), None).is_err());
}

#[test]
fn in_v1_the_limit_with_swap_follows_the_memory_limit() {
    let (folder, _) = host(&[("memory/memory.oom_control", "")]);
    let memory = folder.path().join("memory");
    let number = |file: &str| {
        let text = fs::read_to_string(memory.join(file)).unwrap();
        text.trim().parse::<i64>().unwrap()
    };
    let set = |pages: Option<u64>, swap_pages: Option<u64>| {
        let [bytes, swap] = [pages, swap_pages].map(|pages| pages.map(|pages| pages << 16));
        let result = v1::set_memory_limit(&memory, bytes, swap);
        // The kernel replaces -1 with a large number, which can be read back.
        assert!(result.is_ok() || bytes.is_none(), "{result:?}");
        ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"].map(|file| number(file) >> 16)
    };
    for file in ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"] {
        fs::write(memory.join(file), (10_u64 << 16).to_string()).unwrap();
    }
    assert_eq!(set(Some(8), Some(0)), [8, 8], "no swap");
    assert_eq!(set(Some(12), Some(0)), [12, 12]);
    assert_eq!(set(Some(6), Some(3)), [6, 9]);
    assert_eq!(set(None, Some(3)), [-1, -1]);
    fs::write(
        memory.join("memory.memsw.limit_in_bytes"),
        (1_u64 << 40).to_string(),
    )
    .unwrap();
    assert_eq!(set(Some(4), None), [4, 1 << 24], "any swap");
}

#[test]
fn a_v1_group_works_without_unavailable_pressure_files() {
    let (folder, _) = host(&[("memory/x", ""), ("stalls/x", "")]);
    let at = |name: &str| folder.path().join(name);
    let make = |pressure_cgroup: &str, run: &str| {
        let pressure_cgroup = Some(Unified {
            folder: at(pressure_cgroup),
            top: at(pressure_cgroup),
        });
        let folders = v1::Folders {
            memory: at("memory"),
            cpuset: None,
            blkio: None,
        };
        let parents = Cgroups::V1 {
            folders,
            pressure_cgroup,
        };
        let name = CgroupName {
            experiment: "x".to_owned(),
            run: run.to_owned(),
            role: "validator".to_owned(),
        };
        ProgramCgroup::create(&parents, &name, &Limits::default(), Vec::new()).unwrap()
    };
    let entered =
        |run: &str| at(&format!("memory/faultline.x.{run}.validator/cgroup.procs")).exists();
    // A number that no process has.
    make("missing", "r001_a1").enter(0).unwrap();
    assert!(entered("r001_a1"));
    let mut cgroup = make("stalls", "r002_a1");
    let pressure_cgroup = at("stalls/faultline.x.r002_a1.validator");
    fs::create_dir(pressure_cgroup.join("cgroup.procs")).unwrap();
    cgroup.enter(0).unwrap();
    assert!(entered("r002_a1"));
}
