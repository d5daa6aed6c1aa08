//! `/proc/PID/io` (proc_pid_io(5)); readable by root and by the same user with the same
//! capabilities.

use super::upstream::{WantedLines, absent, number_fields, unless_placeholder};
use crate::ParseError;

number_fields! {
    /// Includes all threads, dead ones too. `None` if the kernel does not write the line.
    PidIo of procfs::process::Io, requires "rchar" "wchar" "syscr" "syscw" "read_bytes"
        "write_bytes" "cancelled_write_bytes";
    /// Includes reads from the page cache.
    rchar: rchar "rchar",
    wchar: wchar "wchar",
    syscr: syscr "syscr",
    syscw: syscw "syscw",
    /// Bytes from storage, page faults included.
    read_bytes: read_bytes "read_bytes",
    /// Counted when a page is dirtied.
    write_bytes: write_bytes "write_bytes",
    /// Bytes counted as written whose pages were dropped before.
    cancelled_write_bytes: cancelled_write_bytes "cancelled_write_bytes",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_counters_are_read() {
        let io = parse(include_bytes!("../../tests/text/linux-6.18/pid_io")).unwrap();
        let expected = PidIo {
            rchar: Some(8688),
            wchar: Some(1712),
            syscr: Some(14),
            syscw: Some(2),
            read_bytes: Some(0),
            write_bytes: Some(4096),
            cancelled_write_bytes: Some(0),
        };
        assert_eq!(io, expected);
    }

    #[test]
    fn a_missing_counter_is_none() {
        assert_eq!(parse(b"rchar: 1\n").unwrap().read_bytes, None);
    }
}
