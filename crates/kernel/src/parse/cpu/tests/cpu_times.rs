use super::super::*;

#[test]
fn time_that_was_idle_or_stolen_is_not_busy() {
    let text = b"cpu  100 10 50 9000 700 3 2 7 60 0\ncpu0 1 1 1 1 1 1 1 1 1 1\nbtime 1062191376\n";
    assert_eq!(busy_ticks(text), Ok(Some(165)));
    assert_eq!(
        busy_ticks(b"btime 1\n").unwrap_err().what,
        "expected a cpu line"
    );
    assert_eq!(
        busy_ticks(b"cpu  1 2 3\n").unwrap_err().what,
        "expected clock ticks"
    );
    assert_eq!(
        busy_ticks(b"cpu  1 1 1 1 -1 1 1 18446744073709547520\n"),
        Ok(Some(5))
    );
    assert_eq!(busy_ticks(b"cpu  -1 1 1 1 1 1 1 7\n"), Ok(None));
}
