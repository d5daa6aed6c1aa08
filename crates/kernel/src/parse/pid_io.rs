//! `/proc/PID/io` (proc_pid_io(5)); readable by root and by the same user with the same
//! capabilities.

use crate::{
    ParseError,
    text::{counters, fill},
};

counters! {
    /// Includes all threads, dead ones too. `None` if the kernel does not write the line.
    PidIo {
        /// Bytes from storage, page faults included.
        read_bytes: b"read_bytes",
        /// Counted when a page is dirtied.
        write_bytes: b"write_bytes",
    }
}

pub fn parse(text: &[u8]) -> Result<PidIo, ParseError> {
    fill(text, b':', PidIo::counter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_counters_are_read() {
        let io = parse(include_bytes!("../../tests/text/linux-6.18/pid_io")).unwrap();
        let expected = PidIo {
            read_bytes: Some(0),
            write_bytes: Some(4096),
        };
        assert_eq!(io, expected);
    }

    #[test]
    fn a_missing_counter_is_none() {
        assert_eq!(parse(b"rchar: 1\n").unwrap().read_bytes, None);
    }
}
