use super::filesystems::FileSystemUsage;
use faultline_core::clock::Clock;
use faultline_kernel::block::{self, BlockDevice};
use faultline_kernel::parse::cgroup_io::Device;
use faultline_kernel::parse::diskstats::{self, DiskIo};
use faultline_kernel::parse::mountinfo::Mount;
use faultline_kernel::{HostRoot, ReadError};
use faultline_metrics::metrics::resources as m;
use faultline_metrics::{Problem, Reading, ReadingList, Status, Text};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Maximum disks below one file system.
const MAX_DISKS: usize = 64;
/// Maximum series of all disks of a machine. Further disks are left out.
const MAX_SERIES: usize = 90;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiskRole {
    /// Directly below a file system: all series.
    Direct,
    /// A physical member: no bytes and no weighted time.
    Member,
    /// An array or volume in between: only its type and missing members.
    Intermediate,
}

impl DiskRole {
    fn of(disk: &BlockDevice, is_direct: bool) -> Self {
        match disk.kind.as_str() {
            _ if is_direct => DiskRole::Direct,
            "nvme" | "disk" => DiskRole::Member,
            _ => DiskRole::Intermediate,
        }
    }

    /// Maximum series: an array has no wear, and only arrays lack members.
    fn series(self) -> usize {
        match self {
            DiskRole::Direct => 11,
            DiskRole::Member => 8,
            DiskRole::Intermediate => 2,
        }
    }
}

/// Busy time of each disk at the last poll, and the uptime of that poll.
#[derive(Debug, Default)]
pub(super) struct BusyTimes(HashMap<Device, (Duration, Duration)>);

impl BusyTimes {
    fn share(&mut self, io: &DiskIo, uptime: Duration) -> Option<f64> {
        let (before, then) = self.0.insert(io.device, (io.busy, uptime))?;
        let passed = uptime
            .checked_sub(then)
            .filter(|passed| !passed.is_zero())?;
        Some((io.busy.checked_sub(before)?.as_secs_f64() / passed.as_secs_f64()).min(1.0))
    }
}

#[derive(Debug, Default)]
pub(super) struct Disks {
    /// The disks below each mount, the direct one first.
    under: Vec<(Mount, Vec<BlockDevice>)>,
}

impl Disks {
    pub(super) fn under(root: &HostRoot, usages: &[FileSystemUsage]) -> Self {
        let mounts = usages.iter().map(|usage| usage.system.mount.clone());
        Disks {
            under: mounts
                .map(|mount| (mount.clone(), block::under(root, &mount, MAX_DISKS)))
                .collect(),
        }
    }

    pub(super) fn of(&self, mount: &Mount) -> Option<String> {
        let (_, disks) = self
            .under
            .iter()
            .find(|(under, _)| under.device == mount.device)?;
        disks.first().map(|disk| disk.name.clone())
    }

    fn selected(&self) -> (Vec<(&BlockDevice, DiskRole)>, Vec<&BlockDevice>) {
        let (mut selected, mut left_out): (Vec<(&BlockDevice, DiskRole)>, Vec<&BlockDevice>) =
            Default::default();
        let mut remaining = MAX_SERIES;
        // Disks directly below a file system come first, then their members level by level.
        let direct = self
            .under
            .iter()
            .filter_map(|(_, disks)| disks.first())
            .map(|disk| (disk, true));
        let below = self
            .under
            .iter()
            .flat_map(|(_, disks)| disks.iter().skip(1))
            .map(|disk| (disk, false));
        for (disk, is_direct) in direct.chain(below) {
            let known = selected.iter().map(|(known, _)| known).chain(&left_out);
            if known.into_iter().any(|known| known.device == disk.device) {
                continue;
            }
            let role = DiskRole::of(disk, is_direct);
            match remaining.checked_sub(role.series()) {
                Some(rest) => {
                    remaining = rest;
                    selected.push((disk, role));
                }
                None => left_out.push(disk),
            }
        }
        (selected, left_out)
    }

    pub(super) fn problem(&self) -> Option<Problem> {
        let (_, left_out) = self.selected();
        let names: Vec<&str> = left_out.iter().map(|disk| disk.name.as_str()).collect();
        let why = || {
            format!(
                "{}: left out: all disks together have at most {MAX_SERIES} series",
                names.join(", ")
            )
        };
        (!names.is_empty()).then(|| Problem::new(Status::Absent, why()))
    }

    /// # Errors
    /// `/proc/diskstats` is unreadable, unless there is no disk.
    pub(super) fn readings(
        &self,
        root: &HostRoot,
        (busy, clock): (&mut BusyTimes, Clock),
        out: &mut Vec<Reading>,
    ) -> Result<(), ReadError> {
        let (disks, _) = self.selected();
        if disks.is_empty() {
            return Ok(());
        }
        for (disk, _) in &disks {
            describe(disk, out);
        }
        let counted = root.read_proc("diskstats", diskstats::parse)?;
        let uptime = clock.now().uptime;
        for (disk, role) in disks {
            let counted = counted.iter().find(|io| io.device == disk.device);
            let Some(io) = counted.filter(|_| role != DiskRole::Intermediate) else {
                continue;
            };
            count(&disk.name, io, role, out);
            let share = busy.share(io, uptime);
            out.real(&m::DISK_UTILISATION, [disk.name.clone().into()], share);
        }
        Ok(())
    }
}

fn describe(disk: &BlockDevice, out: &mut Vec<Reading>) {
    let name: Text = disk.name.clone().into();
    let mapped = disk.mapped_name.clone().unwrap_or_default();
    out.flag(
        &m::DISK,
        [name.clone(), disk.kind.clone().into(), mapped.into()],
        true,
    );
    let wear_ratio = disk.wear_tenths.map(|tenths| tenths as f64 / 10.0);
    out.real(&m::DISK_WEAR, [name.clone()], wear_ratio);
    out.whole(&m::DISK_MISSING, [name.clone()], disk.missing_members);
}

fn count(name: &str, io: &DiskIo, role: DiskRole, out: &mut Vec<Reading>) {
    let name: Arc<str> = name.into();
    let device = || Text::Shared(Arc::clone(&name));
    for (direction, requests) in [("read", io.read), ("write", io.write)] {
        let labels = || [device(), direction.into()];
        out.counter(&m::DISK_OPERATIONS, labels(), requests.done);
        if role == DiskRole::Direct {
            out.counter(&m::DISK_BYTES, labels(), requests.bytes);
        }
        out.real(&m::DISK_TIME, labels(), requests.took.as_secs_f64());
    }
    out.real(&m::DISK_BUSY, [device()], io.busy.as_secs_f64());
    if role == DiskRole::Direct {
        out.real(&m::DISK_WEIGHTED, [device()], io.weighted.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_kernel::parse::diskstats::Requests;

    #[test]
    fn a_disk_busy_share_covers_one_poll_interval_of_that_disk() {
        let none = Requests {
            done: 0,
            bytes: 0,
            took: Duration::ZERO,
        };
        let io = |minor, ms| DiskIo {
            device: Device { major: 259, minor },
            read: none,
            write: none,
            busy: Duration::from_millis(ms),
            weighted: Duration::ZERO,
        };
        let (mut busy, at) = (BusyTimes::default(), Duration::from_secs);
        assert_eq!(busy.share(&io(0, 5_000), at(15)), None, "not known yet");
        assert_eq!(busy.share(&io(1, 9_000), at(15)), None);
        assert_eq!(busy.share(&io(0, 8_000), at(30)), Some(0.2));
        assert_eq!(
            busy.share(&io(0, 8_000), at(30)),
            None,
            "no time has passed"
        );
        assert_eq!(
            busy.share(&io(0, 99_000), at(40)),
            Some(1.0),
            "the kernel counts in steps of its own"
        );
        assert_eq!(
            busy.share(&io(0, 10), at(50)),
            None,
            "the disk was taken out and put in again"
        );
    }
    #[test]
    fn raid_members_have_their_own_series_limit_and_omitted_ones_are_named() {
        let device = |minor, kind: &str| BlockDevice {
            name: format!("{kind}{minor}"),
            device: Device { major: 259, minor },
            kind: kind.to_owned(),
            mapped_name: None,
            wear_tenths: None,
            missing_members: None,
        };
        let line = b"1 0 9:127 / / rw - ext4 /dev/md127 rw\n";
        let mount = faultline_kernel::parse::mountinfo::parse(line)
            .unwrap()
            .remove(0);
        let array = |members: u32| {
            let members = (2..members + 2).map(|minor| device(minor, "nvme"));
            let all = [device(0, "lvm"), device(1, "raid0")]
                .into_iter()
                .chain(members);
            Disks {
                under: vec![(mount.clone(), all.collect())],
            }
        };
        let disks = array(8);
        let (selected, _) = disks.selected();
        let of = |wanted| selected.iter().filter(|(_, role)| *role == wanted).count();
        assert_eq!(
            [DiskRole::Direct, DiskRole::Intermediate, DiskRole::Member].map(of),
            [1, 1, 8]
        );
        assert_eq!(disks.problem(), None);
        let problem = array(11).problem().unwrap();
        assert!(
            problem.what.starts_with("nvme11, nvme12: "),
            "{}",
            problem.what
        );
    }
}
