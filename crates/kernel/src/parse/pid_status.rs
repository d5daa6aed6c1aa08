//! `/proc/PID/status` and `/proc/PID/task/TID/status` (proc_pid_status(5)).

use crate::ParseError;
use crate::text::{counters, fill, lines, number, words};

counters! {
    /// In bytes. A field is `None` if the kernel does not write it: kernel threads and zombies have
    /// none, older kernels lack some.
    PidStatus {
        /// Since Linux 4.5.
        rss_anon: b"RssAnon",
        /// Since Linux 4.5.
        rss_file: b"RssFile",
        /// System V, tmpfs and shared anonymous memory. Since Linux 4.5.
        rss_shmem: b"RssShmem",
        /// Without shared memory.
        vm_swap: b"VmSwap",
        vm_pte: b"VmPTE",
        vm_size: b"VmSize",
        /// Sum of the three parts.
        vm_rss: b"VmRSS",
    }
}

pub fn parse(text: &[u8]) -> Result<PidStatus, ParseError> {
    fill(text, b':', PidStatus::counter)
}

/// The second id of the line `Uid`.
pub fn effective_uid(text: &[u8]) -> Result<Option<u32>, ParseError> {
    let Some(line) = lines(text).find(|line| line.text.starts_with(b"Uid:")) else {
        return Ok(None);
    };
    let id = words(line.text).nth(2).and_then(number);
    let id = id.and_then(|id| u32::try_from(id).ok());
    id.map(Some)
        .ok_or_else(|| line.error("expected the numbers of users"))
}

/// Voluntary and involuntary context switches of one task.
pub type Switches = [Option<u64>; 2];

pub fn switches(text: &[u8]) -> Result<Switches, ParseError> {
    fill(
        text,
        b':',
        |[voluntary, involuntary]: &mut Switches, key| match key {
            b"voluntary_ctxt_switches" => Some(voluntary),
            b"nonvoluntary_ctxt_switches" => Some(involuntary),
            _ => None,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_captured_status_gives_bytes_and_numbers() {
        let status = parse(include_bytes!("../../tests/text/linux-6.18/pid_status")).unwrap();
        let expected = PidStatus {
            rss_anon: Some(116 * 1024),
            rss_file: Some(1560 * 1024),
            rss_shmem: Some(0),
            vm_swap: Some(0),
            vm_pte: Some(44 * 1024),
            vm_size: Some(3060 * 1024),
            vm_rss: Some(1676 * 1024),
        };
        assert_eq!(status, expected);
    }

    #[test]
    fn a_kernel_threads_memory_is_unknown_not_zero() {
        let status = parse(
            b"Name:\tkthreadd\nUid:\t0\t0\t0\t0\nThreads:\t1\nvoluntary_ctxt_switches:\t183\n",
        )
        .unwrap();
        assert_eq!((status.rss_anon, status.vm_swap), (None, None));
    }

    #[test]
    fn context_switches_are_parsed_where_the_kernel_reports_them() {
        assert_eq!(
            switches(include_bytes!("../../tests/text/linux-6.18/pid_status")),
            Ok([Some(0), Some(0)])
        );
        assert_eq!(
            switches(b"Name:\ta:b\nvoluntary_ctxt_switches:\t183\n"),
            Ok([Some(183), None])
        );
        assert_eq!(
            switches(b"Name:\tx\nnonvoluntary_ctxt_switches:\tx\n")
                .unwrap_err()
                .line,
            2
        );
        assert!(switches(b"").is_err());
    }

    #[test]
    fn the_effective_uid_is_the_second_value() {
        assert_eq!(effective_uid(b"Uid:\t1000\t0\t1000\t1000\n"), Ok(Some(0)));
        assert_eq!(effective_uid(b"Name:\tx\n"), Ok(None));
        assert_eq!(
            effective_uid(b"Name:\tx\nUid:\t1000\n").unwrap_err().line,
            2
        );
    }

    #[test]
    fn a_known_line_without_a_number_is_an_error_with_its_line() {
        assert_eq!(parse(b"Name:\tx\nVmSwap:\tlots kB\n").unwrap_err().line, 2);
    }
}
