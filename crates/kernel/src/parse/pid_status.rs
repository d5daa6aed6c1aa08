//! `/proc/PID/status` and `/proc/PID/task/TID/status` (proc_pid_status(5)).

use procfs::process::Status;

use super::upstream::{WantedLines, unless_placeholder};
use crate::ParseError;
use crate::text::fill;

/// Sizes in bytes. A field is `None` if the kernel does not write it: kernel threads and zombies
/// have no memory lines, older kernels lack some.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PidStatus {
    /// Since Linux 4.5.
    pub rss_anon: Option<u64>,
    /// Since Linux 4.5.
    pub rss_file: Option<u64>,
    /// System V, tmpfs and shared anonymous memory. Since Linux 4.5.
    pub rss_shmem: Option<u64>,
    /// Without shared memory.
    pub vm_swap: Option<u64>,
    pub vm_pte: Option<u64>,
    pub vm_size: Option<u64>,
    /// Sum of the three parts.
    pub vm_rss: Option<u64>,
    pub threads: Option<u64>,
    pub uid: Option<u32>,
    pub effective_uid: Option<u32>,
}

const WANTED: WantedLines = WantedLines {
    separator: b':',
    keys: &[
        b"Uid",
        b"RssAnon",
        b"RssFile",
        b"RssShmem",
        b"VmSwap",
        b"VmPTE",
        b"VmSize",
        b"VmRSS",
        b"Threads",
    ],
    // -1 is no user's id.
    required_lines: "Name:\t\nState:\t\nTgid:\t0\nPid:\t0\nPPid:\t0\nTracerPid:\t0\n\
        Uid:\t4294967295\t4294967295\t4294967295\t4294967295\nGid:\t0\t0\t0\t0\nFDSize:\t0\nGroups:\t\n\
        Threads:\t18446744073709551615\nSigQ:\t0/0\nSigPnd:\t0\nShdPnd:\t0\nSigBlk:\t0\nSigIgn:\t0\nSigCgt:\t0\n\
        CapInh:\t0\nCapPrm:\t0\nCapEff:\t0\n",
    value: "expected numbers",
};

pub fn parse(text: &[u8]) -> Result<PidStatus, ParseError> {
    let status = WANTED.read::<Status>(text)?;
    let bytes = |kib: Option<u64>| kib?.checked_mul(1024);
    let user = |uid: u32| (uid != u32::MAX).then_some(uid);
    Ok(PidStatus {
        rss_anon: bytes(status.rssanon),
        rss_file: bytes(status.rssfile),
        rss_shmem: bytes(status.rssshmem),
        vm_swap: bytes(status.vmswap),
        vm_pte: bytes(status.vmpte),
        vm_size: bytes(status.vmsize),
        vm_rss: bytes(status.vmrss),
        threads: unless_placeholder(status.threads),
        uid: user(status.ruid),
        effective_uid: user(status.euid),
    })
}

/// Voluntary and involuntary context switches of one task.
pub type Switches = [Option<u64>; 2];

/// Not parsed by procfs-core, which takes ten times as long. With hundreds of threads that would be
/// most of the cost (decision 1).
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
            threads: Some(1),
            uid: Some(0),
            effective_uid: Some(0),
        };
        assert_eq!(status, expected);
    }

    #[test]
    fn a_kernel_threads_memory_is_unknown_not_zero() {
        let status = parse(
            b"Name:\tkthreadd\nUid:\t0\t0\t0\t0\nThreads:\t1\nvoluntary_ctxt_switches:\t183\n",
        )
        .unwrap();
        assert_eq!(
            (status.rss_anon, status.vm_swap, status.threads),
            (None, None, Some(1))
        );
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
        let status = parse(b"Uid:\t1000\t0\t1000\t1000\n").unwrap();
        assert_eq!((status.uid, status.effective_uid), (Some(1000), Some(0)));
    }

    #[test]
    fn a_known_line_without_a_number_is_an_error_with_its_line() {
        assert_eq!(parse(b"Name:\tx\nVmSwap:\tlots kB\n").unwrap_err().line, 2);
    }
}
