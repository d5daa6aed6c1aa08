//! `/proc/PID/io` (proc_pid_io(5)); readable by root and by the same user with the same
//! capabilities.

use procfs::process::Io;

use super::upstream::{WantedLines, absent, unless_default};
use crate::ParseError;

/// Includes all threads, dead ones too. `None` if the kernel does not write the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PidIo {
    /// Includes reads from the page cache.
    pub rchar: Option<u64>,
    pub wchar: Option<u64>,
    pub syscr: Option<u64>,
    pub syscw: Option<u64>,
    /// Bytes from storage, page faults included.
    pub read_bytes: Option<u64>,
    /// Counted when a page is dirtied.
    pub write_bytes: Option<u64>,
    /// Bytes counted as written whose pages were dropped before.
    pub cancelled_write_bytes: Option<u64>,
}

const WANTED: WantedLines = WantedLines {
    separator: b':',
    keys: &[
        b"rchar",
        b"wchar",
        b"syscr",
        b"syscw",
        b"read_bytes",
        b"write_bytes",
        b"cancelled_write_bytes",
    ],
    required_lines: absent!("rchar" "wchar" "syscr" "syscw" "read_bytes" "write_bytes" "cancelled_write_bytes"),
    value: "expected a number",
};

pub fn parse(text: &[u8]) -> Result<PidIo, ParseError> {
    let io = WANTED.read::<Io>(text)?;
    Ok(PidIo {
        rchar: unless_default(io.rchar),
        wchar: unless_default(io.wchar),
        syscr: unless_default(io.syscr),
        syscw: unless_default(io.syscw),
        read_bytes: unless_default(io.read_bytes),
        write_bytes: unless_default(io.write_bytes),
        cancelled_write_bytes: unless_default(io.cancelled_write_bytes),
    })
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
