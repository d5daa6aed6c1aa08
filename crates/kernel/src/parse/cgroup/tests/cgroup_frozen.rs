use super::super::*;

#[test]
fn v2_freezer_state_is_a_number_since_linux_5_2() {
    assert_eq!(frozen_v2(b"populated 1\nfrozen 0\n"), Ok(Some(false)));
    assert_eq!(frozen_v2(b"populated 1\nfrozen 1\n"), Ok(Some(true)));
    assert_eq!(frozen_v2(b"populated 1\n"), Ok(None));
    assert!(frozen_v2(b"frozen yes\n").is_err() && frozen_v2(b"").is_err());
}

#[test]
fn v1_freezer_state_is_a_word() {
    assert_eq!(
        [&b"THAWED\n"[..], b"FREEZING\n", b"FROZEN\n"].map(frozen_v1),
        [Ok(Some(false)), Ok(Some(false)), Ok(Some(true))]
    );
    assert!(frozen_v1(b"").is_err() && frozen_v1(b"frozen\n").is_err());
}
