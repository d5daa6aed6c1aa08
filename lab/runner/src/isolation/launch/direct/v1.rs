use crate::isolation::launch::{
    CgroupState, IoLimit, Limits, WithPath,
    cgroup::{parse_optional, read, write},
    limits::page_aligned,
    v2,
};
use anyhow::{Result, bail};
use faultline_kernel::parse::{
    cgroup::{Limit, MemoryStat},
    number,
};
use std::{
    collections::BTreeMap,
    fs,
    iter::zip,
    path::{Path, PathBuf},
};

#[derive(Debug)]
pub struct Folders {
    pub memory: PathBuf,
    pub cpuset: Option<PathBuf>,
    pub blkio: Option<PathBuf>,
}

impl Folders {
    /// Folders of the cgroup `name`: of memory, and of each controller that `limits` needs.
    pub fn below(&self, name: &str, limits: &Limits) -> Self {
        let cpuset = self.cpuset.as_ref().filter(|_| limits.cpus.is_some());
        let blkio = self.blkio.as_ref().filter(|_| !limits.io.is_empty());
        Self {
            memory: self.memory.join(name),
            cpuset: cpuset.map(|root| root.join(name)),
            blkio: blkio.map(|root| root.join(name)),
        }
    }

    pub fn all(&self) -> Vec<PathBuf> {
        [&self.memory]
            .into_iter()
            .chain(&self.cpuset)
            .chain(&self.blkio)
            .cloned()
            .collect()
    }
}

const MEMORY_LIMIT: &str = "memory.limit_in_bytes";
const MEMSW_LIMIT: &str = "memory.memsw.limit_in_bytes";
const OOM_CONTROL: &str = "memory.oom_control";

pub fn set_limits(folders: &Folders, limits: &Limits, io: &[(String, IoLimit)]) -> Result<()> {
    if let Some(bytes) = limits.memory_max {
        write(&folders.memory, MEMORY_LIMIT, bytes)?;
    }
    if let Some(swap) = limits.swap_max {
        let Some(memory) = limits.memory_max else {
            bail!("swap_max needs memory_max: cgroup version 1 limits both together");
        };
        let sum = page_aligned(memory).saturating_add(page_aligned(swap));
        write(&folders.memory, MEMSW_LIMIT, sum)?;
    }
    if let (Some(cpus), Some(folder)) = (&limits.cpus, &folders.cpuset) {
        write(folder, "cpuset.cpus", cpus)?;
        // A cpuset without memory nodes accepts no process.
        let nodes = read(folder.parent().unwrap_or(folder), "cpuset.mems")?;
        write(folder, "cpuset.mems", nodes.trim())?;
    }
    let Some(folder) = &folders.blkio else {
        return Ok(());
    };
    for (disk_number, limit) in io {
        for (file, value) in zip(THROTTLES, limit.amounts()) {
            if let Some(value) = value {
                write(folder, file, format!("{disk_number} {value}"))?;
            }
        }
    }
    Ok(())
}

/// Changes the hard limit, and lets `swap_max` bytes be swapped (`None`: any number). Processes of a
/// full cgroup then wait instead of being killed.
pub fn set_memory_limit(
    memory: &Path,
    bytes: Option<u64>,
    swap_max: Option<u64>,
) -> Result<Option<u64>> {
    write(memory, OOM_CONTROL, "1")?;
    let text = bytes.map_or("-1".to_owned(), |bytes| bytes.to_string());
    // The limit of memory and swap must not be below that of memory.
    let with_swap = parse_optional(memory, MEMSW_LIMIT, number).ok().flatten();
    if with_swap.is_some_and(|with_swap| bytes.is_none_or(|bytes| with_swap < bytes)) {
        write(memory, MEMSW_LIMIT, &text)?;
    }
    let path = memory.join(MEMORY_LIMIT);
    match fs::write(&path, text) {
        // The memory could not be reclaimed: the previous limit stays.
        Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {}
        written => written.with_path(&path)?,
    }
    if let Some((bytes, swap)) = bytes.zip(swap_max) {
        let sum = page_aligned(bytes).saturating_add(page_aligned(swap));
        // Fails while memory or swap cannot be reclaimed.
        let _ = write(memory, MEMSW_LIMIT, sum);
    }
    parse_limit(&path, &read(memory, MEMORY_LIMIT)?)
}

pub fn waits_when_full(memory: &Path) -> bool {
    fs::read_to_string(memory.join(OOM_CONTROL))
        .unwrap_or_default()
        .lines()
        .any(|line| line.trim() == "oom_kill_disable 1")
}

const THROTTLES: [&str; 4] = [
    "blkio.throttle.read_bps_device",
    "blkio.throttle.write_bps_device",
    "blkio.throttle.read_iops_device",
    "blkio.throttle.write_iops_device",
];

fn value_after<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))
}

pub fn limits(folders: &Folders, requested: &[(String, IoLimit)]) -> Result<Limits> {
    // These limits include those of the ancestors.
    let path = folders.memory.join("memory.stat");
    let text = read(&folders.memory, "memory.stat")?;
    let limit = |key| value_after(&text, key).map_or(Ok(None), |value| parse_limit(&path, value));
    let memory_max = limit("hierarchical_memory_limit")?;
    let memory_and_swap = limit("hierarchical_memsw_limit")?;
    let cpus = folders
        .cpuset
        .as_ref()
        .map(|folder| v2::cpu_set(folder, "cpuset.effective_cpus"))
        .transpose()?;
    let mut io = Vec::new();
    if let Some(folder) = &folders.blkio {
        for (disk_number, limit) in requested {
            let mut amounts = [None; 4];
            for (file, amount) in zip(THROTTLES, &mut amounts) {
                let text = read(folder, file)?;
                *amount =
                    value_after(&text, disk_number).and_then(|value| value.trim().parse().ok());
            }
            io.push(IoLimit::new(limit.device.clone(), amounts));
        }
    }
    let swap_max = memory_and_swap
        .zip(memory_max)
        .map(|(memory_and_swap, memory)| memory_and_swap.saturating_sub(memory));
    Ok(Limits {
        memory_max,
        memory_high: None,
        swap_max,
        cpus,
        io,
    })
}

fn parse_limit(path: &Path, value: &str) -> Result<Option<u64>> {
    let limit = Limit::parse(value.as_bytes()).map_err(|error| error.at(path))?;
    Ok(limit.bytes())
}

pub fn cgroup_state(memory: &Path, pressure_folder: Option<&Path>) -> Result<CgroupState> {
    // Fails if the cgroup is gone.
    let text = read(memory, OOM_CONTROL)?;
    let count = |name| value_after(&text, name).and_then(|count| count.trim().parse().ok());
    let under_oom = count("under_oom").filter(|count: &u64| *count > 0);
    let [memory_hits, memsw_hits] = limit_hits(memory)?;
    let events = [
        ("oom_kill", count("oom_kill")),
        ("under_oom", under_oom),
        ("failcnt", memory_hits),
        ("memsw_failcnt", memsw_hits),
    ];
    let stat = parse_optional(memory, "memory.stat", MemoryStat::parse_v1)?.unwrap_or_default();
    Ok(CgroupState {
        memory_events: events
            .into_iter()
            .filter_map(|(name, count)| Some((name.to_owned(), count?)))
            .collect(),
        memory_peak: parse_optional(memory, "memory.max_usage_in_bytes", number)?,
        memory_current: parse_optional(memory, "memory.usage_in_bytes", number)?,
        file: stat.file,
        anon: stat.anon,
        pressure: pressure_folder.map_or_else(|| Ok(BTreeMap::new()), v2::read_pressure)?,
        ..CgroupState::default()
    })
}

/// Hits of the limit of memory, and of the limit of memory and swap. `None` for a meaningless zero.
fn limit_hits(memory: &Path) -> Result<[Option<u64>; 2]> {
    let count = |file| parse_optional(memory, file, number);
    let [limit, memory_and_swap] = [MEMORY_LIMIT, MEMSW_LIMIT].map(count);
    // The kernel checks the limit of memory and swap before that of memory. If swap is not allowed,
    // both are equal, and the limit of memory is never hit.
    let can_be_hit = memory_and_swap?
        .zip(limit?)
        .is_none_or(|(memory_and_swap, memory)| memory_and_swap > memory);
    Ok([
        count("memory.failcnt")?.filter(|_| can_be_hit),
        // Newer kernels (6.18) have the file but do not count.
        count("memory.memsw.failcnt")?.filter(|count| *count > 0),
    ])
}
