use crate::tick::SourceOutput;
use faultline_core::clock::Clock;
use faultline_kernel::{
    HostRoot,
    block::BlockDevice,
    parse::{
        cgroup::Device,
        diskstats::{self, DiskIo},
    },
};
use faultline_metrics::{AddReadings, LabelText, Problem, Reading, metrics::resources as m};
use itertools::Itertools;
use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

/// Below one file system.
pub const MAX_DISKS: usize = 64;
/// Of all disks of a machine. Further disks are left out.
const MAX_SERIES: usize = 90;

#[derive(Clone, Copy, PartialEq)]
enum DiskRole {
    /// Directly below a file system: all series.
    Direct,
    /// A physical member: no bytes and no weighted time.
    Member,
    /// An array or volume between the two others: only its type and its missing members.
    Intermediate,
}

impl DiskRole {
    fn of(disk: &BlockDevice, is_direct: bool) -> Self {
        match disk.kind.as_str() {
            _ if is_direct => Self::Direct,
            "nvme" | "disk" => Self::Member,
            _ => Self::Intermediate,
        }
    }

    /// A disk has a series of its wear or of its missing members, never both.
    fn max_series(self) -> usize {
        match self {
            Self::Direct => 11,
            Self::Member => 8,
            Self::Intermediate => 2,
        }
    }
}

/// Busy time of each disk at the last poll, and the uptime of that poll.
#[derive(Default)]
pub struct BusyTimes(HashMap<Device, (Duration, Duration)>);

impl BusyTimes {
    fn update_utilisation(&mut self, io: &DiskIo, uptime: Duration) -> Option<f64> {
        let (last_busy, last_uptime) = self.0.insert(io.device, (io.busy, uptime))?;
        let passed = uptime
            .checked_sub(last_uptime)
            .filter(|passed| !passed.is_zero())?;
        Some((io.busy.checked_sub(last_busy)?.as_secs_f64() / passed.as_secs_f64()).min(1.0))
    }
}

/// Returns the disks that get series, and the disks that would exceed [`MAX_SERIES`].
fn select(
    disks_by_file_system: &[Vec<BlockDevice>],
) -> (Vec<(&BlockDevice, DiskRole)>, Vec<&BlockDevice>) {
    let (mut selected, mut left_out) = (Vec::new(), Vec::new());
    let mut remaining = MAX_SERIES;
    let mut known = HashSet::new();
    // Disks directly below a file system come first, then their members level by level.
    let direct = disks_by_file_system
        .iter()
        .filter_map(|disks| disks.first());
    let members = disks_by_file_system
        .iter()
        .flat_map(|disks| disks.iter().skip(1));
    let direct = direct.map(|disk| (disk, true));
    for (disk, is_direct) in direct.chain(members.map(|disk| (disk, false))) {
        if !known.insert(disk.device) {
            continue;
        }
        let role = DiskRole::of(disk, is_direct);
        if let Some(rest) = remaining.checked_sub(role.max_series()) {
            remaining = rest;
            selected.push((disk, role));
        } else {
            left_out.push(disk);
        }
    }
    (selected, left_out)
}

pub fn add_readings(
    root: &HostRoot,
    disks_by_file_system: &[Vec<BlockDevice>],
    busy_times: &mut BusyTimes,
    clock: Clock,
    output: &mut SourceOutput,
) {
    let (disks, left_out) = select(disks_by_file_system);
    output.problems.extend(left_out_problem(&left_out));
    if disks.is_empty() {
        return;
    }
    for (disk, _) in &disks {
        add_disk_readings(disk, &mut output.readings);
    }
    let Some(io_counts) = output.value_or_problem(root.read_proc("diskstats", diskstats::parse))
    else {
        return;
    };
    let uptime = clock.now().uptime;
    for (disk, role) in disks {
        let io = io_counts.iter().find(|io| io.device == disk.device);
        if let Some(io) = io
            && role != DiskRole::Intermediate
        {
            let device = LabelText::from(disk.name.clone());
            add_io_readings(&device, io, role, &mut output.readings);
            let utilisation = busy_times.update_utilisation(io, uptime);
            output
                .readings
                .real(&m::DISK_UTILISATION, [device], utilisation);
        }
    }
}

fn left_out_problem(left_out: &[&BlockDevice]) -> Option<Problem> {
    let names = left_out.iter().map(|disk| &disk.name).join(", ");
    let message = format!("{names}: left out: all disks together have at most {MAX_SERIES} series");
    (!left_out.is_empty()).then(|| Problem::absent_data(message))
}

fn add_disk_readings(disk: &BlockDevice, out: &mut Vec<Reading>) {
    let device = LabelText::from(disk.name.clone());
    let mapped = disk.device_mapper_name.clone().unwrap_or_default();
    let labels = [device.clone(), disk.kind.clone().into(), mapped.into()];
    out.flag(&m::DISK, labels, true);
    let wear_ratio = disk.used_tenths_of_life.map(|tenths| tenths as f64 / 10.0);
    out.real(&m::DISK_WEAR, [device.clone()], wear_ratio);
    out.integer(&m::DISK_MISSING, [device], disk.missing_members);
}

fn add_io_readings(device: &LabelText, io: &DiskIo, role: DiskRole, out: &mut Vec<Reading>) {
    for (direction, requests) in [("read", io.read), ("write", io.write)] {
        let labels = || [device.clone(), direction.into()];
        out.integer(&m::DISK_OPERATIONS, labels(), requests.done);
        if role == DiskRole::Direct {
            out.integer(&m::DISK_BYTES, labels(), requests.bytes);
        }
        out.real(
            &m::DISK_TIME,
            labels(),
            requests.total_duration.as_secs_f64(),
        );
    }
    out.real(&m::DISK_BUSY, [device.clone()], io.busy.as_secs_f64());
    if role == DiskRole::Direct {
        let weighted = io.weighted.as_secs_f64();
        out.real(&m::DISK_WEIGHTED, [device.clone()], weighted);
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
            total_duration: Duration::ZERO,
        };
        let io = |minor, ms| DiskIo {
            device: Device { major: 259, minor },
            read: none,
            write: none,
            busy: Duration::from_millis(ms),
            weighted: Duration::ZERO,
        };
        let (mut busy, at) = (BusyTimes::default(), Duration::from_secs);
        assert_eq!(
            busy.update_utilisation(&io(0, 5_000), at(15)),
            None,
            "not known yet"
        );
        assert_eq!(busy.update_utilisation(&io(1, 9_000), at(15)), None);
        assert_eq!(busy.update_utilisation(&io(0, 8_000), at(30)), Some(0.2));
        assert_eq!(
            busy.update_utilisation(&io(0, 8_000), at(30)),
            None,
            "no time has passed"
        );
        assert_eq!(
            busy.update_utilisation(&io(0, 99_000), at(40)),
            Some(1.0),
            "the kernel counts in steps of its own"
        );
        assert_eq!(
            busy.update_utilisation(&io(0, 10), at(50)),
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
            device_mapper_name: None,
            used_tenths_of_life: None,
            missing_members: None,
        };
        let array = |members: u32| {
            let members = (2..members + 2).map(|minor| device(minor, "nvme"));
            let all = [device(0, "lvm"), device(1, "raid0")];
            [all.into_iter().chain(members).collect()]
        };
        let disks = array(8);
        let (selected, left_out) = select(&disks);
        let of = |wanted| selected.iter().filter(|(_, role)| *role == wanted).count();
        assert_eq!(
            [DiskRole::Direct, DiskRole::Intermediate, DiskRole::Member].map(of),
            [1, 1, 8]
        );
        assert_eq!(left_out_problem(&left_out), None);
        let disks = array(11);
        let problem = left_out_problem(&select(&disks).1).unwrap();
        assert!(
            problem.what.starts_with("nvme11, nvme12: "),
            "{}",
            problem.what
        );
    }
}
