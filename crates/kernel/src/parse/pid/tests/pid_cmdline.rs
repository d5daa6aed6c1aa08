use super::super::*;

#[test]
fn arguments_are_split_at_nul_and_empty_ones_are_kept() {
    assert_eq!(
        cmdline(b"agave-validator\0--ledger\0\0/l\0").unwrap(),
        ["agave-validator", "--ledger", "", "/l"]
    );
    assert!(cmdline(b"").unwrap().is_empty());
    assert_eq!(
        cmdline(b"overwritten title").unwrap(),
        ["overwritten title"]
    );
}
