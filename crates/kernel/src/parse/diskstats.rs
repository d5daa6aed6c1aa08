//! `/proc/diskstats` (Documentation/admin-guide/iostats.rst).

use std::time::Duration;

use super::cgroup::Device;
use crate::{
    Parsed,
    text::{count_or_underflow, number, rows_after_headings, words},
};

/// The kernel counts sectors of 512 bytes, whatever the sector size of the device is.
const SECTOR_BYTES: u64 = 512;

#[derive(Debug, Clone, Copy)]
pub struct DiskIo {
    pub device: Device,
    pub read: Requests,
    pub write: Requests,
    /// Time with at least one request in flight (`io_ticks`).
    pub busy: Duration,
    /// `busy`, weighted by the requests in flight.
    pub weighted: Duration,
}

#[derive(Debug, Clone, Copy)]
pub struct Requests {
    pub done: u64,
    pub bytes: u64,
    /// Sum of their durations, waiting included.
    pub total_duration: Duration,
}

pub fn parse(text: &[u8]) -> Parsed<Vec<DiskIo>> {
    rows_after_headings(text, 0, "expected a block device's counters", disk)
}

/// The inner `None` is a device with a counter that went below zero.
fn disk(line: &[u8]) -> Option<Option<DiskIo>> {
    let mut words = words(line);
    let mut next = || number(words.next()?);
    let device = Device {
        major: next()?,
        minor: next()?,
    };
    words.next()?;
    let mut counters = [None; 11];
    for counter in &mut counters {
        *counter = count_or_underflow(words.next()?)?;
    }
    // Requests in flight, the ninth, are skipped: with some drivers they underflow permanently.
    let [
        reads,
        _,
        sectors_read,
        read_ms,
        writes,
        _,
        sectors_written,
        write_ms,
        _,
        busy,
        weighted,
    ] = counters;
    let io = || {
        Some(DiskIo {
            device,
            read: requests(reads?, sectors_read?, read_ms?),
            write: requests(writes?, sectors_written?, write_ms?),
            busy: Duration::from_millis(busy?),
            weighted: Duration::from_millis(weighted?),
        })
    };
    Some(io())
}

fn requests(done: u64, sectors: u64, ms: u64) -> Requests {
    Requests {
        done,
        bytes: sectors.saturating_mul(SECTOR_BYTES),
        total_duration: Duration::from_millis(ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_counters_are_read_in_bytes_and_time() {
        let disks = parse(include_bytes!("../../tests/text/linux-6.18/diskstats")).unwrap();
        let vda = disks
            .iter()
            .find(|disk| {
                disk.device
                    == Device {
                        major: 254,
                        minor: 0,
                    }
            })
            .unwrap();
        assert_eq!(
            (vda.read.done, vda.read.bytes),
            (13_689_736, 628_269_602 * 512)
        );
        assert_eq!(
            (vda.write.done, vda.write.total_duration),
            (4_719_931, Duration::from_millis(9_002_930))
        );
        assert_eq!(
            (vda.busy.as_millis(), vda.weighted.as_millis()),
            (2_596_120, 84_318_314)
        );
        assert_eq!(disks.len(), 10);
    }

    #[test]
    fn diskstats_needs_the_eleven_counters_of_older_kernels() {
        let old = b"   8       0 sda 1 2 3 4 5 6 7 8 9 10 11\n";
        let disks = parse(old).unwrap();
        assert_eq!(
            (disks[0].read.bytes, disks[0].write.bytes),
            (3 * 512, 7 * 512)
        );
        let error = parse(b"   8       1 sda1 1 2 3 4\n").unwrap_err();
        assert_eq!(
            (error.line, error.what),
            (1, "expected a block device's counters")
        );
    }

    #[test]
    fn a_disk_with_a_negative_counter_is_skipped_ignoring_in_flight_requests() {
        let text = b"8 0 sda 1 2 -3 4 5 6 7 8 9 10 11\n8 1 sdb 1 2 3 4 5 6 7 8 -1 10 11\n\
            8 2 sdc 1 2 3 4 5 6 7 8 18446744073709551615 10 11\n";
        let minors: Vec<u32> = parse(text)
            .unwrap()
            .iter()
            .map(|disk| disk.device.minor)
            .collect();
        assert_eq!(minors, [1, 2]);
    }
}
