use super::folder::{read, write};
use crate::isolation::launch::compare::in_pages;
use crate::isolation::launch::{CpuSet, Evidence, IoLimit, Limits, at, unified};
use anyhow::{Result, anyhow, bail};
use faultline_kernel::Limit;
use faultline_kernel::parse::{cgroup_limit, cgroup_memory_stat, number};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct Folders {
    pub(super) memory: PathBuf,
    pub(super) cpuset: Option<PathBuf>,
    pub(super) blkio: Option<PathBuf>,
    pub(super) stalls: Option<PathBuf>,
}

impl Folders {
    pub(super) fn all(&self) -> Vec<&Path> {
        [
            Some(&self.memory),
            self.cpuset.as_ref(),
            self.blkio.as_ref(),
            self.stalls.as_ref(),
        ]
        .into_iter()
        .flatten()
        .map(PathBuf::as_path)
        .collect()
    }
}

const MEMORY_LIMIT: &str = "memory.limit_in_bytes";
const MEMSW_LIMIT: &str = "memory.memsw.limit_in_bytes";
const OOM_CONTROL: &str = "memory.oom_control";

pub(super) fn limit(folders: &Folders, limits: &Limits, io: &[(String, IoLimit)]) -> Result<()> {
    if let Some(bytes) = limits.memory_max {
        write(&folders.memory.join(MEMORY_LIMIT), &bytes.to_string())?;
    }
    if let Some(swap) = limits.swap_max {
        let Some(memory) = limits.memory_max else {
            bail!("swap_max needs memory_max: cgroup version 1 limits both together");
        };
        write(
            &folders.memory.join(MEMSW_LIMIT),
            &in_pages(memory).saturating_add(in_pages(swap)).to_string(),
        )?;
    }
    if let (Some(cpus), Some(folder)) = (&limits.cpus, &folders.cpuset) {
        write(&folder.join("cpuset.cpus"), &cpus.to_string())?;
        // A cpuset without memory nodes accepts no process.
        let all = folder.parent().unwrap_or(folder).join("cpuset.mems");
        let nodes = read(&all)?;
        write(&folder.join("cpuset.mems"), nodes.trim())?;
    }
    let Some(folder) = &folders.blkio else {
        return Ok(());
    };
    for (disk, limit) in io {
        for (file, value) in THROTTLES.iter().zip(limit.amounts()) {
            if let Some(value) = value {
                write(&folder.join(file), &format!("{disk} {value}"))?;
            }
        }
    }
    Ok(())
}

/// Changes the hard limit. Processes of a full group then wait instead of being killed.
pub(super) fn set_memory_limit(memory: &Path, bytes: Option<u64>) -> Result<Option<u64>> {
    write(&memory.join(OOM_CONTROL), "1")?;
    let text = bytes.map_or("-1".to_owned(), |bytes| bytes.to_string());
    let (path, memory_and_swap) = (memory.join(MEMORY_LIMIT), memory.join(MEMSW_LIMIT));
    // The limit of memory and swap must not be below that of memory.
    let with_swap = fs::read_to_string(&memory_and_swap)
        .ok()
        .and_then(|text| text.trim().parse::<u64>().ok());
    if bytes.is_none_or(|bytes| with_swap.is_some_and(|with_swap| with_swap < bytes))
        && with_swap.is_some()
    {
        write(&memory_and_swap, &text)?;
    }
    match fs::write(&path, text) {
        // The memory could not be reclaimed: the previous limit stays.
        Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {}
        written => written.map_err(at(&path))?,
    }
    bytes_of(&path, read(&path)?.trim())
}

pub(super) fn waits_when_full(memory: &Path) -> bool {
    let text = fs::read_to_string(memory.join(OOM_CONTROL)).unwrap_or_default();
    text.lines().any(|line| line.trim() == "oom_kill_disable 1")
}

const THROTTLES: [&str; 4] = [
    "blkio.throttle.read_bps_device",
    "blkio.throttle.write_bps_device",
    "blkio.throttle.read_iops_device",
    "blkio.throttle.write_iops_device",
];

fn value_of<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let value = |line: &'t str| line.strip_prefix(key)?.strip_prefix(' ');
    text.lines().find_map(value)
}

pub(super) fn limits(folders: &Folders, requested: &[(String, IoLimit)]) -> Result<Limits> {
    // Includes the limits of the ancestors.
    let path = folders.memory.join("memory.stat");
    let text = read(&path)?;
    let limit = |key| {
        let value = value_of(&text, key).map(|value| bytes_of(&path, value));
        value.transpose().map(Option::flatten)
    };
    let memory_max = limit("hierarchical_memory_limit")?;
    let memory_and_swap = limit("hierarchical_memsw_limit")?;
    let cpus = folders
        .cpuset
        .as_ref()
        .map(|folder| cpus(&folder.join("cpuset.effective_cpus")))
        .transpose()?;
    let mut io = Vec::new();
    if let Some(folder) = &folders.blkio {
        for (disk, limit) in requested {
            let mut amounts = [None; 4];
            for (file, amount) in THROTTLES.iter().zip(&mut amounts) {
                let text = read(&folder.join(file))?;
                *amount = value_of(&text, disk).and_then(|value| value.trim().parse().ok());
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

fn bytes_of(path: &Path, value: &str) -> Result<Option<u64>> {
    let limit = cgroup_limit::parse(value.as_bytes())
        .map_err(|error| anyhow!(error.at(path).to_string()))?;
    Ok(Limit::bytes(limit))
}

fn cpus(path: &Path) -> Result<CpuSet> {
    CpuSet::parse(&read(path)?).map_err(|error| anyhow!("{}: {error}", path.display()))
}

pub(super) fn evidence(memory: &Path, stalls: Option<&Path>) -> Result<Evidence> {
    let mut evidence = Evidence {
        pressure: stalls.map_or_else(|| Ok(BTreeMap::new()), unified::stalls)?,
        memory_peak: count(&memory.join("memory.max_usage_in_bytes"))?,
        memory_current: count(&memory.join("memory.usage_in_bytes"))?,
        ..Evidence::default()
    };
    let stat = memory.join("memory.stat");
    let text = fs::read(&stat).map_err(at(&stat))?;
    let stat =
        cgroup_memory_stat::parse_v1(&text).map_err(|error| anyhow!(error.at(stat).to_string()))?;
    (evidence.file, evidence.anon) = (stat.file, stat.anon);
    let control = memory.join(OOM_CONTROL);
    let text = read(&control)?;
    let count = |name| value_of(&text, name).and_then(|count| count.trim().parse().ok());
    let waits = count("under_oom").filter(|waits: &u64| *waits > 0);
    for (name, count) in [("oom_kill", count("oom_kill")), ("under_oom", waits)]
        .into_iter()
        .chain(failures(memory)?)
    {
        evidence
            .memory_events
            .extend(count.map(|count| (name.to_owned(), count)));
    }
    Ok(evidence)
}

/// Hits of the limits; meaningless zeros are left out.
fn failures(memory: &Path) -> Result<[(&'static str, Option<u64>); 2]> {
    let [limit, memory_and_swap] =
        [MEMORY_LIMIT, MEMSW_LIMIT].map(|file| count(&memory.join(file)));
    // Memory and swap are charged together first: if swap is not allowed, the limit of memory alone
    // is never hit.
    let can_be_hit = memory_and_swap?
        .zip(limit?)
        .is_none_or(|(memory_and_swap, memory)| memory_and_swap > memory);
    let memory_failures = count(&memory.join("memory.failcnt"))?.filter(|_| can_be_hit);
    // Newer kernels (6.18) have the file but do not count.
    let memsw_failures = count(&memory.join("memory.memsw.failcnt"))?.filter(|count| *count > 0);
    Ok([
        ("failcnt", memory_failures),
        ("memsw_failcnt", memsw_failures),
    ])
}

fn count(path: &Path) -> Result<Option<u64>> {
    match fs::read(path) {
        Ok(text) => number::parse(&text)
            .map(Some)
            .map_err(|error| anyhow!(error.at(path).to_string())),
        Err(error)
            if error.kind() == std::io::ErrorKind::NotFound
                && path.parent().is_some_and(Path::is_dir) =>
        {
            Ok(None)
        }
        Err(error) => Err(at(path)(error)),
    }
}
