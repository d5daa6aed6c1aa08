//! `/proc/diskstats` (Documentation/admin-guide/iostats.rst).

use std::time::Duration;

use procfs::DiskStat;

use super::cgroup_io::Device;
use crate::ParseError;
use crate::text::lines;

/// The kernel counts sectors of 512 bytes, whatever the device's own are.
const SECTOR: u64 = 512;

/// What a block device has done since it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskIo {
    /// The device.
    pub device: Device,
    /// Reads.
    pub read: Requests,
    /// Writes.
    pub write: Requests,
    /// Time in which at least one request was under way (`io_ticks`).
    pub busy: Duration,
    /// The same, times the requests that were under way.
    pub weighted: Duration,
}

/// Requests of one direction that are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requests {
    /// How many.
    pub done: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The time that they took, waiting included, in sum.
    pub took: Duration,
}

/// # Errors
/// A line without the fields that each kernel since 2.6.25 writes.
pub fn parse(text: &[u8]) -> Result<Vec<DiskIo>, ParseError> {
    let one = |line: &[u8]| disk(&DiskStat::from_line(str::from_utf8(line).ok()?).ok()?);
    lines(text)
        .map(|line| one(line.text).ok_or_else(|| line.error("expected a block device's counters")))
        .collect()
}

fn disk(stat: &DiskStat) -> Option<DiskIo> {
    let requests = |done, sectors: u64, ms| {
        let bytes = sectors.saturating_mul(SECTOR);
        Requests {
            done,
            bytes,
            took: Duration::from_millis(ms),
        }
    };
    Some(DiskIo {
        device: Device {
            major: u32::try_from(stat.major).ok()?,
            minor: u32::try_from(stat.minor).ok()?,
        },
        read: requests(stat.reads, stat.sectors_read, stat.time_reading),
        write: requests(stat.writes, stat.sectors_written, stat.time_writing),
        busy: Duration::from_millis(stat.time_in_progress),
        weighted: Duration::from_millis(stat.weighted_time_in_progress),
    })
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
            (vda.write.done, vda.write.took),
            (4_719_931, Duration::from_millis(9_002_930))
        );
        assert_eq!(
            (vda.busy.as_millis(), vda.weighted.as_millis()),
            (2_596_120, 84_318_314)
        );
        assert_eq!(disks.len(), 10);
    }

    #[test]
    fn the_eleven_counters_of_an_older_kernel_are_enough_and_fewer_are_an_error() {
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
}
