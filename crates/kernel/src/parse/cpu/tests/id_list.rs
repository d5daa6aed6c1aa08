use super::super::*;

#[test]
fn ranges_and_numbers_become_one_ascending_list() {
    assert_eq!(id_list(b"0\n"), Ok(vec![0]));
    assert_eq!(id_list(b"8,0-2,1\n"), Ok(vec![0, 1, 2, 8]));
    assert_eq!(id_list(b"\n"), Ok(vec![]));
    for bad in [&b"0-"[..], b"x", b"1,,2", b"0-99999", b"-1"] {
        assert!(id_list(bad).is_err(), "{bad:?}");
    }
}
