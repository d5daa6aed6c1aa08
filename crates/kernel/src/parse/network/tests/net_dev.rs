use super::super::*;

#[test]
fn captured_interfaces_are_read() {
    let list = interfaces(include_bytes!("../../../../tests/text/linux-6.18/net_dev")).unwrap();
    let names: Vec<&str> = list.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["eth0", "ifb0", "ifb1", "lo"]);
    assert_eq!(
        (list[0].received_bytes, list[0].sent_bytes),
        (10_847_279_109, 24_978_252)
    );
}

#[test]
fn a_truncated_network_line_is_an_error() {
    assert!(interfaces(b"a\nb\n  eth0: 1 2 3\n").is_err());
}
