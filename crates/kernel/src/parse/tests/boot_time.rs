use super::super::*;

#[test]
fn the_boot_time_is_found_among_other_lines() {
    let text =
        b"cpu  1 2 3\nintr 114930548 113199788 3\nctxt 1990473\nbtime 1062191376\nprocesses 2915\n";
    assert_eq!(boot_time(text), Ok(1_062_191_376));
    // Some counters of the file have 32 bits and a sign.
    assert_eq!(boot_time(b"processes -1948031333\nbtime 7\n"), Ok(7));
    assert_eq!(
        boot_time(b"cpu 1\n").unwrap_err().what,
        "expected a btime line"
    );
    assert_eq!(boot_time(b"cpu 1\nbtime soon\n").unwrap_err().line, 2);
}
