use crate::isolation::launch::{IoLimit, Limits, cgroup::write, unified};
use anyhow::Result;
use std::path::Path;

pub fn limit(folder: &Path, limits: &Limits, io: &[(String, IoLimit)]) -> Result<()> {
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
    for (disk, limit) in io {
        let values = unified::IO_KEYS
            .iter()
            .zip(limit.amounts())
            .filter_map(|(key, value)| Some(format!(" {key}={}", value?)));
        let values: String = values.collect();
        if !values.is_empty() {
            write(folder, "io.max", format!("{disk}{values}"))?;
        }
    }
    Ok(())
}

pub fn set_memory_limit(folder: &Path, bytes: Option<u64>) -> Result<Option<u64>> {
    let text = bytes.map_or("max".to_owned(), |bytes| bytes.to_string());
    write(folder, "memory.high", text)?;
    unified::memory_high(folder)
}

/// Effective limits: the strictest from `folder` up to `top`.
pub fn limits(folder: &Path, top: &Path, requested: &[IoLimit]) -> Result<Limits> {
    let mut limits = unified::limits(folder, requested)?;
    for above in folder
        .ancestors()
        .skip(1)
        .take_while(|above| above.starts_with(top))
    {
        let above = unified::limits(above, &[])?;
        limits.memory_max = stricter(limits.memory_max, above.memory_max);
        limits.memory_high = stricter(limits.memory_high, above.memory_high);
        limits.swap_max = stricter(limits.swap_max, above.swap_max);
    }
    Ok(limits)
}

fn stricter(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).min()
}
