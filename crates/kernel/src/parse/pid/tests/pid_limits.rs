use super::super::*;

#[test]
fn the_captured_limit_of_open_files_is_found_among_the_others() {
    let limit = max_open_files(include_bytes!(
        "../../../../tests/text/linux-6.18/pid_limits"
    ))
    .unwrap();
    assert_eq!(limit, Some(20000));
}

#[test]
fn an_unlimited_process_limit_is_none() {
    let text = b"Max open files            unlimited            unlimited            files     \n";
    assert_eq!(max_open_files(text), Ok(None));
    assert!(max_open_files(b"Max open files            1024\n").is_err());
    assert!(max_open_files(b"Max cpu time 1 2\n").is_err());
}

#[test]
fn every_captured_limit_has_its_name() {
    let list = limits(include_bytes!(
        "../../../../tests/text/linux-6.18/pid_limits"
    ))
    .unwrap();
    assert_eq!(list.len(), 16);
    let core = ProcessLimit {
        name: "core file size".to_owned(),
        soft: Some(0),
        hard: None,
    };
    assert!(list.contains(&core), "{list:?}");
    assert_eq!(limits(b"Limit\nMax cpu time 1\n").unwrap_err().line, 2);
}
