use super::{
    CgroupState, CpuSet, IoLimit, Limits, Pressure, WithPath,
    cgroup::{parse_optional, read_optional, write},
    limits::{device_path, disk_node},
};
use anyhow::{Result, anyhow};
use faultline_kernel::parse::{
    cgroup::{Limit, MemoryStat},
    pressure,
};
use std::{collections::BTreeMap, path::Path, time::Duration};

/// Limits of `folder`. A device in `requested` has the same path in the result. A missing file is
/// no limit.
pub fn limits(folder: &Path, requested: &[IoLimit]) -> Result<Limits> {
    check_exists(folder)?;
    Ok(Limits {
        memory_max: bytes_or_max(folder, "memory.max")?,
        memory_high: bytes_or_max(folder, "memory.high")?,
        swap_max: bytes_or_max(folder, "memory.swap.max")?,
        cpus: allowed_cpus(folder)?,
        io: io_limits(folder, requested)?,
    })
}

pub fn memory_high(folder: &Path) -> Result<Option<u64>> {
    check_exists(folder)?;
    bytes_or_max(folder, "memory.high")
}

/// Without `end` and `result`, which a cgroup's files do not contain.
pub fn cgroup_state(folder: &Path) -> Result<CgroupState> {
    check_exists(folder)?;
    let stat = parse_optional(folder, "memory.stat", MemoryStat::parse)?.unwrap_or_default();
    Ok(CgroupState {
        memory_events: counts(folder, "memory.events")?,
        memory_peak: bytes_or_max(folder, "memory.peak")?,
        memory_current: bytes_or_max(folder, "memory.current")?,
        file: stat.file,
        anon: stat.anon,
        pressure: read_pressure(folder)?,
        ..CgroupState::default()
    })
}

/// By resource. A resource is left out if the kernel does not report both `some` and `full`.
pub fn read_pressure(folder: &Path) -> Result<BTreeMap<String, Pressure>> {
    let mut by_resource = BTreeMap::new();
    for resource in ["cpu", "memory", "io"] {
        let total = parse_optional(folder, &format!("{resource}.pressure"), pressure::parse)?;
        if let Some((some, full)) = total.and_then(|total| total.some.zip(total.full)) {
            let stall = Pressure {
                some_us: micros(some),
                full_us: micros(full),
            };
            by_resource.insert(resource.to_owned(), stall);
        }
    }
    Ok(by_resource)
}

/// Whether the cgroup and those below it have no process.
pub fn is_empty(folder: &Path) -> Result<bool> {
    check_exists(folder)?;
    let file = "cgroup.events";
    let events = counts(folder, file)?;
    let populated = events
        .get("populated")
        .ok_or_else(|| invalid_file(folder, file, "it has no line `populated`"))?;
    Ok(*populated == 0)
}

fn check_exists(folder: &Path) -> Result<()> {
    std::fs::metadata(folder).map(drop).with_path(folder)
}

pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn counts(folder: &Path, name: &str) -> Result<BTreeMap<String, u64>> {
    Ok(read_optional(folder, name)?
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, count)| Some((name.to_owned(), count.trim().parse().ok()?)))
        .collect())
}

fn invalid_file(folder: &Path, name: &str, reason: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("{}: {reason}", folder.join(name).display())
}

/// `None` for `max`, and without the file.
fn bytes_or_max(folder: &Path, name: &str) -> Result<Option<u64>> {
    Ok(parse_optional(folder, name, Limit::parse)?.and_then(Limit::bytes))
}

/// The CPUs that the kernel allows. `cpuset.cpus` would return what was written, effective or not.
fn allowed_cpus(folder: &Path) -> Result<Option<CpuSet>> {
    if read_optional(folder, "cpuset.cpus")?.is_none_or(|text| text.trim().is_empty()) {
        return Ok(None);
    }
    cpu_set(folder, "cpuset.cpus.effective").map(Some)
}

pub fn cpu_set(folder: &Path, name: &str) -> Result<CpuSet> {
    let text = read_optional(folder, name)?.unwrap_or_default();
    CpuSet::parse(&text).map_err(|error| invalid_file(folder, name, error))
}

fn io_limits(folder: &Path, requested: &[IoLimit]) -> Result<Vec<IoLimit>> {
    let text = read_optional(folder, "io.max")?.unwrap_or_default();
    let mut limits = Vec::new();
    for line in text.lines() {
        let Some(mut limit) = parse_io_limit(line) else {
            return Err(invalid_file(
                folder,
                "io.max",
                format!("not understood: {line:?}"),
            ));
        };
        // With the caller's name for the device, both lists of limits can be compared.
        let kernel_device = limit.device.clone();
        if let Some(same) = requested
            .iter()
            .find(|other| disk_node(&other.device).is_ok_and(|node| node == kernel_device))
        {
            limit.device.clone_from(&same.device);
        }
        limits.push(limit);
    }
    limits.sort_by_key(|limit| {
        requested
            .iter()
            .position(|other| other.device == limit.device)
            .unwrap_or(usize::MAX)
    });
    Ok(limits)
}

/// In the order of [`IoLimit::amounts`].
pub const IO_KEYS: [&str; 4] = ["rbps", "wbps", "riops", "wiops"];

fn parse_io_limit(line: &str) -> Option<IoLimit> {
    let mut words = line.split_whitespace();
    let (major, minor) = words.next()?.split_once(':')?;
    let device = device_path(major.parse().ok()?, minor.parse().ok()?);
    let mut amounts = [None; 4];
    for word in words {
        let (name, value) = word.split_once('=')?;
        let value = if value == "max" {
            None
        } else {
            Some(value.parse().ok()?)
        };
        if let Some(index) = IO_KEYS.iter().position(|key| *key == name) {
            amounts[index] = value;
        }
    }
    Some(IoLimit::new(device, amounts))
}

pub fn set_limits(folder: &Path, limits: &Limits, io: &[(String, IoLimit)]) -> Result<()> {
    let amounts = [
        ("memory.max", limits.memory_max),
        ("memory.high", limits.memory_high),
        ("memory.swap.max", limits.swap_max),
    ];
    for (file, bytes) in amounts {
        if let Some(bytes) = bytes {
            write(folder, file, bytes)?;
        }
    }
    if let Some(cpus) = &limits.cpus {
        write(folder, "cpuset.cpus", cpus)?;
    }
    for (disk_number, limit) in io {
        let values: String = IO_KEYS
            .iter()
            .zip(limit.amounts())
            .filter_map(|(key, value)| Some(format!(" {key}={}", value?)))
            .collect();
        if !values.is_empty() {
            write(folder, "io.max", format!("{disk_number}{values}"))?;
        }
    }
    Ok(())
}

pub fn set_memory_high(folder: &Path, bytes: Option<u64>) -> Result<Option<u64>> {
    let text = bytes.map_or("max".to_owned(), |bytes| bytes.to_string());
    write(folder, "memory.high", text)?;
    memory_high(folder)
}

/// Limits of `folder`; for memory and swap the strictest one from `folder` up to `top`.
pub fn effective_limits(folder: &Path, top: &Path, requested: &[IoLimit]) -> Result<Limits> {
    let mut effective = limits(folder, requested)?;
    for ancestor in folder
        .ancestors()
        .skip(1)
        .take_while(|ancestor| ancestor.starts_with(top))
    {
        let above = limits(ancestor, &[])?;
        effective.memory_max = stricter(effective.memory_max, above.memory_max);
        effective.memory_high = stricter(effective.memory_high, above.memory_high);
        effective.swap_max = stricter(effective.swap_max, above.swap_max);
    }
    Ok(effective)
}

fn stricter(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).min()
}

#[cfg(test)]
mod tests;
