use super::{
    CpuSet, Evidence, IoLimit, Limits, Pressure, at,
    cgroup::{read_optional, value},
    device,
};
use anyhow::{Result, anyhow};
use faultline_kernel::parse::{
    cgroup::{Limit, MemoryStat},
    pressure,
};
use std::{collections::BTreeMap, path::Path, time::Duration};

/// Limits of `folder`. Devices that occur in `requested` get their name there. A missing file means
/// no limit.
pub fn limits(folder: &Path, requested: &[IoLimit]) -> Result<Limits> {
    check_exists(folder)?;
    Ok(Limits {
        memory_max: bytes(folder, "memory.max")?,
        memory_high: bytes(folder, "memory.high")?,
        swap_max: bytes(folder, "memory.swap.max")?,
        cpus: cpus(folder)?,
        io: io(folder, requested)?,
    })
}

pub fn memory_high(folder: &Path) -> Result<Option<u64>> {
    check_exists(folder)?;
    bytes(folder, "memory.high")
}

/// Evidence without the process's end, which these files do not have.
pub fn evidence(folder: &Path) -> Result<Evidence> {
    check_exists(folder)?;
    let stat = value(folder, "memory.stat", MemoryStat::parse)?.unwrap_or_default();
    Ok(Evidence {
        end: None,
        result: None,
        memory_events: counts(folder, "memory.events")?,
        memory_peak: bytes(folder, "memory.peak")?,
        memory_current: bytes(folder, "memory.current")?,
        file: stat.file,
        anon: stat.anon,
        pressure: stalls(folder)?,
    })
}

/// By resource. Empty if the kernel counts no stalls.
pub fn stalls(folder: &Path) -> Result<BTreeMap<String, Pressure>> {
    let mut stalls = BTreeMap::new();
    for resource in ["cpu", "memory", "io"] {
        let total = value(folder, &format!("{resource}.pressure"), pressure::parse)?;
        if let Some((some, full)) = total.and_then(|total| total.some.zip(total.full)) {
            let stall = Pressure {
                some_us: micros(some),
                full_us: micros(full),
            };
            stalls.insert(resource.to_owned(), stall);
        }
    }
    Ok(stalls)
}

/// Whether the cgroup and those below it have no process.
pub fn is_empty(folder: &Path) -> Result<bool> {
    check_exists(folder)?;
    let name = "cgroup.events";
    let events = counts(folder, name)?;
    let populated = events
        .get("populated")
        .ok_or_else(|| invalid_file(folder, name, "it does not say whether it is populated"))?;
    Ok(*populated == 0)
}

fn check_exists(folder: &Path) -> Result<()> {
    std::fs::metadata(folder).map(drop).map_err(at(folder))
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn counts(folder: &Path, name: &str) -> Result<BTreeMap<String, u64>> {
    let text = read_optional(folder, name)?.unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    Ok(pairs
        .filter_map(|(name, count)| Some((name.to_owned(), count.trim().parse().ok()?)))
        .collect())
}

fn invalid_file(folder: &Path, name: &str, what: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("{}: {what}", folder.join(name).display())
}

fn bytes(folder: &Path, name: &str) -> Result<Option<u64>> {
    Ok(value(folder, name, Limit::parse)?.and_then(Limit::bytes))
}

/// Effective CPUs: `cpuset.cpus` keeps the written value even if it is not effective.
fn cpus(folder: &Path) -> Result<Option<CpuSet>> {
    let set = read_optional(folder, "cpuset.cpus")?;
    if set.is_none_or(|text| text.trim().is_empty()) {
        return Ok(None);
    }
    cpu_set(folder, "cpuset.cpus.effective").map(Some)
}

pub fn cpu_set(folder: &Path, name: &str) -> Result<CpuSet> {
    let text = read_optional(folder, name)?.unwrap_or_default();
    CpuSet::parse(&text).map_err(|error| invalid_file(folder, name, error))
}

fn io(folder: &Path, requested: &[IoLimit]) -> Result<Vec<IoLimit>> {
    let text = read_optional(folder, "io.max")?.unwrap_or_default();
    let mut limits = Vec::new();
    for line in text.lines() {
        let Some(mut limit) = io_line(line) else {
            return Err(invalid_file(folder, "io.max", format!("{line:?}")));
        };
        // The caller's name for the device, so that both can be compared.
        let kernel_device = limit.device.clone();
        if let Some(same) = requested
            .iter()
            .find(|one| device::node(&one.device).is_ok_and(|node| node == kernel_device))
        {
            limit.device.clone_from(&same.device);
        }
        limits.push(limit);
    }
    limits.sort_by_key(|limit| {
        requested
            .iter()
            .position(|one| one.device == limit.device)
            .unwrap_or(usize::MAX)
    });
    Ok(limits)
}

/// In the order of [`IoLimit::amounts`].
pub const IO_KEYS: [&str; 4] = ["rbps", "wbps", "riops", "wiops"];

fn io_line(line: &str) -> Option<IoLimit> {
    let mut words = line.split_whitespace();
    let (major, minor) = words.next()?.split_once(':')?;
    let device = device::path(major.parse().ok()?, minor.parse().ok()?);
    let mut amounts = [None; 4];
    for word in words {
        let (name, value) = word.split_once('=')?;
        let value = if value == "max" {
            None
        } else {
            Some(value.parse().ok()?)
        };
        if let Some(at) = IO_KEYS.iter().position(|key| *key == name) {
            amounts[at] = value;
        }
    }
    Some(IoLimit::new(device, amounts))
}

#[cfg(test)]
mod tests;
