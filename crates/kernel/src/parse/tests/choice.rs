use super::super::*;

#[test]
fn the_selected_option_is_in_brackets_or_the_only_one() {
    assert_eq!(
        selected_word(b"always [madvise] never\n").as_deref(),
        Ok("madvise")
    );
    assert_eq!(
        selected_word(b"[none] mq-deadline kyber\n").as_deref(),
        Ok("none")
    );
    assert_eq!(selected_word(b"none\n").as_deref(), Ok("none"));
    assert!(selected_word(b"always never\n").is_err() && selected_word(b"\n").is_err());
}
