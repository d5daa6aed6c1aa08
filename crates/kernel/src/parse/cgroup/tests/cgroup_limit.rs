use super::super::*;

#[test]
fn max_and_the_huge_numbers_of_v1_mean_no_limit() {
    for text in [
        "max\n",
        "9223372036854771712\n",
        "9223372036854710272\n",
        "18446744073709551615\n",
    ] {
        assert_eq!(Limit::parse(text.as_bytes()), Ok(Limit::Max), "{text}");
    }
    assert_eq!(
        Limit::parse(b"68719476736\n"),
        Ok(Limit::Bytes(68_719_476_736))
    );
    assert_eq!(Limit::parse(b"0\n"), Ok(Limit::Bytes(0)));
    assert!(Limit::parse(b"maximum\n").is_err());
}

#[test]
fn the_strictest_limit_is_the_smallest() {
    assert_eq!(
        [Limit::Max, Limit::Bytes(2), Limit::Bytes(1)].iter().min(),
        Some(&Limit::Bytes(1))
    );
    assert_eq!(Limit::Max.bytes(), None);
}
