use super::super::*;

#[test]
fn both_cgroup_versions_report_oom_kills() {
    let v2 = MemoryEvents::parse(b"low 0\nhigh 5\nmax 17\noom 2\noom_kill 1\noom_group_kill 0\n")
        .unwrap();
    assert_eq!(
        (v2.high, v2.max, v2.oom, v2.oom_kill),
        (Some(5), Some(17), Some(2), Some(1))
    );
    let v1 = MemoryEvents::parse(b"oom_kill_disable 0\nunder_oom 0\noom_kill 3\n").unwrap();
    assert_eq!((v1.oom_kill, v1.oom), (Some(3), None));
    assert_eq!(
        MemoryEvents::parse(b"oom_kill_disable 0\nunder_oom 0\n")
            .unwrap()
            .oom_kill,
        None
    );
}
