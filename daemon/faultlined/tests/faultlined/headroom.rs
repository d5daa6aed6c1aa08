//! Memory headroom with fake hosts: the binding level, and its headroom.
#![allow(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use crate::support::fake_daemon::FakeDaemon;
use faultline_core::config::Config;
use faultline_metrics::{Tick, metrics::memory as m};
use std::fs;

const GIB: u64 = 1 << 30;
const V2: &str = "linux-6.8-v2";
const V1: &str = "linux-5.15-v1";
const SLICE: &str = "sys/fs/cgroup/validator.slice";
const OWN: &str = "sys/fs/cgroup/validator.slice/sol.service";

/// Replaces lines of a file by their key, or adds them.
fn set(host: &FakeDaemon, path: &str, separator: &str, values: &[(&str, String)]) {
    let old = fs::read_to_string(host.host.path(path)).unwrap_or_default();
    let key_of = |line: &str| line.split([':', ' ']).next().unwrap_or_default().to_owned();
    let mut lines: Vec<String> = old
        .lines()
        .filter(|line| values.iter().all(|(key, _)| key_of(line) != *key))
        .map(str::to_owned)
        .collect();
    lines.extend(
        values
            .iter()
            .map(|(key, value)| format!("{key}{separator}{value}")),
    );
    host.host.write(path, lines.join("\n") + "\n").unwrap();
}

fn meminfo(host: &FakeDaemon, gib: &[(&str, f64)]) {
    let values: Vec<(&str, String)> = gib
        .iter()
        .map(|(key, gib)| (*key, format!("{} kB", (gib * 1024.0 * 1024.0) as u64)))
        .collect();
    set(host, "proc/meminfo", ": ", &values);
}

/// A cgroup of version 2. Limit, usage and the reclaimable part of the usage are in GiB.
fn cgroup(host: &FakeDaemon, folder: &str, limit: Option<f64>, usage: f64, droppable: f64) {
    let bytes = |gib: f64| ((gib * GIB as f64) as u64).to_string();
    let write = |file: &str, text: String| {
        host.host.write(&format!("{folder}/{file}"), text).unwrap();
    };
    write("memory.max", limit.map_or("max".to_owned(), bytes));
    write("memory.current", bytes(usage));
    let stat = [
        ("active_file", "0".to_owned()),
        ("inactive_file", bytes(droppable)),
        ("slab_reclaimable", "0".to_owned()),
    ];
    set(host, &format!("{folder}/memory.stat"), " ", &stat);
}

fn binding(tick: &Tick) -> Option<(String, f64)> {
    let level = tick
        .readings()
        .find(|reading| {
            std::ptr::eq(reading.metric, &raw const m::BINDING)
                && reading.value.number() == Some(1.0)
        })?
        .label_values
        .first()?
        .as_str()
        .to_owned();
    let headroom = tick.value_of(&m::HEADROOM, &[&level])? / GIB as f64;
    let limit = tick.value_of(&m::EFFECTIVE_LIMIT, &[])?;
    let unreclaimable = tick.value_of(&m::UNRECLAIMABLE, &[])?;
    assert_eq!(
        (limit - unreclaimable).max(0.0) / GIB as f64,
        headroom,
        "both ways to ask agree"
    );
    Some((level, headroom))
}

struct Case {
    name: &'static str,
    fixture: &'static str,
    change: fn(&FakeDaemon),
    /// The binding level, and its headroom in GiB.
    right: Option<(&'static str, f64)>,
}

/// Cases that users of other monitoring tools reported.
const CASES: &[Case] = &[
    Case {
        name: "200 GiB of huge pages are reserved, without a limit",
        fixture: V2,
        change: |host| {
            meminfo(
                host,
                &[
                    ("MemTotal", 512.0),
                    ("MemAvailable", 20.0),
                    ("Hugetlb", 200.0),
                ],
            );
            cgroup(host, SLICE, None, 291.0, 10.0);
        },
        right: Some(("machine", 20.0)),
    },
    Case {
        name: "the same under a limit of 400 GiB",
        fixture: V2,
        change: |host| {
            meminfo(
                host,
                &[
                    ("MemTotal", 512.0),
                    ("MemAvailable", 20.0),
                    ("Hugetlb", 200.0),
                ],
            );
            cgroup(host, SLICE, Some(400.0), 291.0, 10.0);
        },
        right: Some(("machine", 20.0)),
    },
    Case {
        name: "a slice with a larger limit and other units",
        fixture: V2,
        change: |host| {
            meminfo(host, &[("MemTotal", 1024.0), ("MemAvailable", 600.0)]);
            cgroup(host, OWN, Some(500.0), 310.0, 9.0);
            cgroup(host, SLICE, Some(512.0), 511.0, 4.0);
        },
        right: Some(("1", 5.0)),
    },
    Case {
        name: "a limit near the size of the machine",
        fixture: V2,
        change: |host| {
            meminfo(host, &[("MemTotal", 512.0), ("MemAvailable", 5.0)]);
            cgroup(host, OWN, Some(500.0), 310.0, 9.0);
            cgroup(host, SLICE, None, 310.0, 9.0);
        },
        right: Some(("machine", 5.0)),
    },
    Case {
        name: "huge pages that are charged to the limit",
        fixture: V2,
        change: |host| {
            meminfo(host, &[("MemTotal", 512.0), ("MemAvailable", 300.0)]);
            cgroup(host, OWN, None, 91.0, 0.0);
            cgroup(host, SLICE, Some(100.0), 91.0, 0.0);
            set(
                host,
                &format!("{SLICE}/memory.stat"),
                " ",
                &[("hugetlb", (80 * GIB).to_string())],
            );
        },
        right: Some(("1", 9.0)),
    },
    Case {
        name: "lxcfs, whose MemTotal is the limit and whose other lines are the host's",
        fixture: V2,
        change: |host| {
            meminfo(host, &[("MemTotal", 0.5), ("MemAvailable", 0.125)]);
            cgroup(host, SLICE, Some(0.5), 0.46875, 0.03125);
        },
        right: Some(("1", 0.0625)),
    },
    Case {
        name: "zram, which no line of meminfo counts",
        fixture: V2,
        change: |host| {
            meminfo(
                host,
                &[
                    ("MemTotal", 512.0),
                    ("MemAvailable", 8.0),
                    ("SwapTotal", 300.0),
                    ("SwapFree", 20.0),
                ],
            );
            cgroup(host, SLICE, None, 380.0, 0.0);
        },
        right: Some(("machine", 8.0)),
    },
    Case {
        name: "a limit above all memory of the machine",
        fixture: V2,
        change: |host| {
            meminfo(host, &[("MemTotal", 512.0), ("MemAvailable", 100.0)]);
            cgroup(host, SLICE, Some(900.0), 300.0, 10.0);
        },
        right: Some(("machine", 100.0)),
    },
    Case {
        name: "a kernel without tmpfs, which writes no shmem",
        fixture: V2,
        change: |host| {
            meminfo(host, &[("MemTotal", 512.0), ("MemAvailable", 300.0)]);
            cgroup(host, SLICE, Some(100.0), 60.0, 10.0);
            let path = format!("{SLICE}/memory.stat");
            let text = fs::read_to_string(host.host.path(&path)).unwrap();
            let kept: Vec<&str> = text
                .lines()
                .filter(|line| !line.starts_with("shmem"))
                .collect();
            host.host.write(&path, kept.join("\n") + "\n").unwrap();
        },
        right: Some(("1", 50.0)),
    },
    Case {
        name: "one of two NUMA nodes is allowed",
        fixture: V2,
        change: |host| {
            meminfo(host, &[("MemTotal", 512.0), ("MemAvailable", 300.0)]);
            cgroup(host, SLICE, None, 250.0, 10.0);
            set(
                host,
                "proc/4242/status",
                ":\t",
                &[("Mems_allowed_list", "1".to_owned())],
            );
            host.host
                .write(
                    "proc/zoneinfo",
                    "Node 0, zone Normal\n        min 9\nNode 1, zone Normal\n        min 262144\n",
                )
                .unwrap();
            host.host
                .write("sys/devices/system/node/has_memory", "0-1\n")
                .unwrap();
            let node = "Node 1 MemTotal: 268435456 kB\nNode 1 MemFree: 3145728 kB\nNode 1 Active(file): 1048576 kB\n\
                Node 1 Inactive(file): 0 kB\nNode 1 KReclaimable: 0 kB\n";
            host.host
                .write("sys/devices/system/node/node1/meminfo", node)
                .unwrap();
        },
        right: Some(("numa", 3.0)),
    },
    Case {
        name: "a container of version 1, whose limit is outside",
        fixture: V1,
        change: |host| {
            meminfo(host, &[("MemTotal", 512.0), ("MemAvailable", 300.0)]);
            let own = "sys/fs/cgroup/memory/system.slice/sol.service";
            let write = |file: &str, text: String| {
                host.host.write(&format!("{own}/{file}"), text).unwrap();
            };
            let none = "9223372036854771712\n";
            write("memory.limit_in_bytes", none.to_owned());
            write("memory.memsw.limit_in_bytes", none.to_owned());
            for folder in [own, "sys/fs/cgroup/memory"] {
                let stat = [
                    ("hierarchical_memory_limit", (64 * GIB).to_string()),
                    ("total_active_file", GIB.to_string()),
                    ("total_inactive_file", "0".to_owned()),
                ];
                set(host, &format!("{folder}/memory.stat"), " ", &stat);
                host.host
                    .write(
                        &format!("{folder}/memory.usage_in_bytes"),
                        (61 * GIB).to_string(),
                    )
                    .unwrap();
            }
        },
        right: Some(("above", 4.0)),
    },
    Case {
        name: "a cgroup outside of the daemon's namespace",
        fixture: V2,
        change: |host| {
            meminfo(host, &[("MemTotal", 512.0), ("MemAvailable", 300.0)]);
            host.host
                .write("proc/4242/cgroup", "0::/../sol.service\n")
                .unwrap();
        },
        right: None,
    },
    Case {
        name: "a limit of the slice that cannot be read",
        fixture: V2,
        change: |host| {
            host.host
                .write(&format!("{SLICE}/memory.max"), "lots\n")
                .unwrap();
        },
        right: None,
    },
];

#[test]
fn the_level_reached_first_binds_with_its_remaining_headroom() {
    for case in CASES {
        let mut host = FakeDaemon::new(case.fixture, &Config::default());
        (case.change)(&host);
        host.find();
        let tick = host.tick();
        let right = case.right.map(|(level, gib)| (level.to_owned(), gib));
        let found = binding(&tick);
        let rounded = found.map(|(level, gib)| (level, (gib * 1e4).round() / 1e4));
        assert_eq!(rounded, right, "{}", case.name);
        assert!(
            tick.value_of(&m::HEADROOM, &["machine"]).is_some(),
            "{}: the machine is known",
            case.name
        );
    }
}

#[test]
fn systemd_oomd_and_the_commit_limit_are_recognized() {
    let mut host = FakeDaemon::new(V2, &Config::default());
    host.host
        .write("proc/sys/vm/overcommit_memory", "2\n")
        .unwrap();
    meminfo(&host, &[("CommitLimit", 10.0), ("Committed_AS", 7.0)]);
    let unit = "sys/fs/cgroup/system.slice/systemd-oomd.service/cgroup.procs";
    host.host.write(unit, "712\n").unwrap();
    host.find();
    let tick = host.tick();
    assert_eq!(
        tick.value_of(&m::COMMIT_HEADROOM, &[]),
        Some(3.0 * GIB as f64)
    );
    assert_eq!(tick.value_of(&m::OOMD, &[]), Some(1.0));
}
