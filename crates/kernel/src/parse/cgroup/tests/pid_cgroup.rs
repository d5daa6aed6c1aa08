use super::super::*;

#[test]
fn a_hybrid_host_lists_v1_hierarchies_and_the_unified_one() {
    let list =
        memberships(b"9:name=systemd:/\n4:memory:/validator\n2:cpu,cpuacct:/a:b\n0::/v\n").unwrap();
    assert_eq!(list[1].controllers, ["memory"]);
    assert_eq!(
        (list[2].controllers.len(), list[2].path.as_str()),
        (2, "/a:b")
    );
    assert!(list[3].is_unified && list[3].controllers.is_empty());
    assert!(!list[0].is_unified);
}

#[test]
fn a_removed_cgroup_is_recognised_by_its_deleted_suffix() {
    let list = memberships(b"0::/sol.service (deleted)\n").unwrap();
    assert_eq!(
        (list[0].path.as_str(), list[0].is_deleted),
        ("/sol.service", true)
    );
}

#[test]
fn a_line_with_two_fields_is_an_error() {
    assert_eq!(memberships(b"0::/\n4:memory\n").unwrap_err().line, 2);
}
