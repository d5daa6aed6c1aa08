use super::super::*;

#[test]
fn captured_counters_are_read() {
    let io = PidIo::parse(include_bytes!("../../../../tests/text/linux-6.18/pid_io")).unwrap();
    let expected = PidIo {
        read_bytes: Some(0),
        write_bytes: Some(4096),
    };
    assert_eq!(io, expected);
}

#[test]
fn a_missing_counter_is_none() {
    assert_eq!(PidIo::parse(b"rchar: 1\n").unwrap().read_bytes, None);
}
