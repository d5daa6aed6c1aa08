//! `/proc/PID/status` and `/proc/PID/task/TID/status` (proc_pid_status(5)).

use super::cpu;
use crate::{
    ParseError, Parsed,
    text::{counters, fill_by_key, lines, number, words},
};

counters! {
    /// In bytes. A field is `None` if the kernel does not write it: kernel threads and zombies have
    /// none, older kernels lack some.
    PidStatus by b':' {
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
        /// Sum of the `rss_*`.
        vm_rss: b"VmRSS",
    }
}

fn value<T>(
    text: &[u8],
    key: &[u8],
    expected: &'static str,
    read: impl FnOnce(&[u8]) -> Option<T>,
) -> Parsed<Option<T>> {
    let entry = lines(text).find_map(|line| Some((line, line.text.strip_prefix(key)?)));
    let Some((line, value)) = entry else {
        return Ok(None);
    };
    let value = read(value.trim_ascii()).ok_or_else(|| line.error(expected))?;
    Ok(Some(value))
}

pub fn effective_uid(text: &[u8]) -> Parsed<Option<u32>> {
    value(text, b"Uid:", "expected user ids", |ids| {
        number(words(ids).nth(1)?)
    })
}

const EXPECTED_LIST: &str = "expected a list such as 0-3,8";

/// NUMA nodes. `None` if the kernel has no cpusets.
pub fn allowed_mems(text: &[u8]) -> Parsed<Option<Vec<u32>>> {
    value(text, b"Mems_allowed_list:", EXPECTED_LIST, cpu::id_ranges)
}

/// Includes offline CPUs.
pub fn allowed_cpus(text: &[u8]) -> Parsed<Option<Vec<u32>>> {
    value(text, b"Cpus_allowed_list:", EXPECTED_LIST, cpu::id_ranges)
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct IgnoredSignals(u64);

impl IgnoredSignals {
    pub fn contains(self, signal: i32) -> bool {
        let bit = u32::try_from(signal.saturating_sub(1)).ok();
        bit.and_then(|bit| self.0.checked_shr(bit))
            .is_some_and(|bits| bits & 1 == 1)
    }
}

pub fn ignored_signals(text: &[u8]) -> Parsed<IgnoredSignals> {
    let expected = "expected a hexadecimal number";
    let bits = value(text, b"SigIgn:", expected, |digits| {
        u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
    })?;
    bits.map(IgnoredSignals)
        .ok_or_else(|| ParseError::new(1, text, "expected a SigIgn line"))
}

/// Voluntary and involuntary context switches of one task.
pub type Switches = [Option<u64>; 2];

pub fn switches(text: &[u8]) -> Parsed<Switches> {
    fill_by_key(
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
        let status =
            PidStatus::parse(include_bytes!("../../tests/text/linux-6.18/pid_status")).unwrap();
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
        let status = PidStatus::parse(
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
        assert_eq!(
            PidStatus::parse(b"Name:\tx\nVmSwap:\tlots kB\n")
                .unwrap_err()
                .line,
            2
        );
    }

    #[test]
    fn a_captured_status_allows_node_0() {
        let text = include_bytes!("../../tests/text/linux-6.18/pid_status");
        assert_eq!(allowed_mems(text), Ok(Some(vec![0])));
        assert_eq!(allowed_mems(b"Name:\tx\n"), Ok(None));
        assert_eq!(
            allowed_mems(b"Mems_allowed_list:\tmany\n")
                .unwrap_err()
                .line,
            1
        );
        assert_eq!(
            allowed_cpus(b"Cpus_allowed_list:\t2,4-5\n"),
            Ok(Some(vec![2, 4, 5]))
        );
    }

    #[test]
    fn each_bit_is_a_signal_and_the_lowest_is_the_first() {
        let set = ignored_signals(b"SigBlk:\tf\nSigIgn:\t8000000000001007\nSigCgt:\tf\n").unwrap();
        let ignored: Vec<i32> = (-1..=70).filter(|signal| set.contains(*signal)).collect();
        assert_eq!(ignored, [1, 2, 3, 13, 64]);
    }

    #[test]
    fn a_text_without_the_line_or_its_number_is_an_error() {
        assert!(ignored_signals(b"SigCgt:\t0\n").is_err());
        let error = ignored_signals(b"Name:\tx\nSigIgn:\tgh\n").unwrap_err();
        assert_eq!(error.line, 2);
    }
}
