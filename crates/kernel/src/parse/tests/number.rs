use super::super::*;

#[test]
fn a_single_number_file_may_end_with_only_a_newline() {
    assert_eq!(number(b"65530\n"), Ok(65530));
    assert_eq!(signed_number(b"-1000\n"), Ok(-1000));
    assert!(number(b"").is_err());
    assert!(number(b"-1\n").is_err());
    assert!(
        number(b"18446744073709547520\n").is_err(),
        "counted below zero"
    );
    assert!(number(b"1 2\n").is_err());
}
