//! Who else knows: the raw lines that were pushed, added up as `awk` would, and the kernel, without a line of the product.

use std::{
    collections::BTreeSet,
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

/// What the lines of one name and sender say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum {
    /// Lines.
    pub lines: u64,
    /// The field, added up.
    pub total: u64,
}

/// The lines of one name and sender that were made within `times`, in nanoseconds since 1970.
pub fn sum(bodies: &[Vec<u8>], name: &str, sender: &str, field: &str, times: &Range<u128>) -> Sum {
    let (head, key) = (format!("{name},host_id={sender} "), format!("{field}="));
    let mut sum = Sum::default();
    for line in bodies
        .iter()
        .flat_map(|body| body.split(|byte| *byte == b'\n'))
    {
        let Some((fields, time)) = std::str::from_utf8(line)
            .ok()
            .and_then(|line| line.strip_prefix(&head)?.rsplit_once(' '))
        else {
            continue;
        };
        if time.parse::<u128>().is_ok_and(|time| times.contains(&time)) {
            let values = fields
                .split(',')
                .filter_map(|pair| pair.strip_prefix(&key)?.strip_suffix('i'));
            sum.lines += 1;
            sum.total += values
                .filter_map(|value| value.parse::<u64>().ok())
                .sum::<u64>();
        }
    }
    sum
}

/// A process that was seen, and what the kernel says holds for its group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LimitedProcess {
    /// `comm`.
    pub program: String,
    /// Its group of memory, below the mount.
    pub group: PathBuf,
    /// The least of the group's own memory limit and those above it, in bytes; `None`: no limit.
    pub limit: Option<u64>,
}

/// The processes whose command line names one of these paths or something below it.
pub fn processes_naming(paths: &[&Path]) -> BTreeSet<LimitedProcess> {
    let names: Vec<&[u8]> = paths
        .iter()
        .map(|path| path.as_os_str().as_encoded_bytes())
        .collect();
    let processes = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let ours = processes.filter(|process| {
        let words = fs::read(process.join("cmdline")).unwrap_or_default();
        names
            .iter()
            .any(|name| words.windows(name.len()).any(|window| window == *name))
    });
    ours.filter_map(|process| read_process(&process)).collect()
}

fn read_process(process: &Path) -> Option<LimitedProcess> {
    let program = fs::read_to_string(process.join("comm"))
        .ok()?
        .trim_end()
        .to_owned();
    let text = fs::read_to_string(process.join("cgroup")).ok()?;
    let group = |wanted: fn(&str) -> bool| {
        let mut lines = text
            .lines()
            .filter_map(|line| line.split_once(':')?.1.split_once(':'));
        lines
            .find(|(controllers, _)| wanted(controllers))
            .map(|(_, group)| PathBuf::from(group.trim_start_matches('/')))
    };
    let first = group(|controllers| controllers.split(',').any(|name| name == "memory"));
    let (root, file, group) = match first {
        Some(group) => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", group),
        None => ("/sys/fs/cgroup", "memory.max", group(str::is_empty)?),
    };
    let limits = group.ancestors().filter_map(|above| {
        let text = fs::read_to_string(Path::new(root).join(above).join(file)).ok()?;
        // What version 1 says when there is no limit is a number of its own: the largest whole number of pages.
        text.trim()
            .parse()
            .ok()
            .filter(|bytes: &u64| *bytes < 1 << 62)
    });
    Some(LimitedProcess {
        program,
        limit: limits.min(),
        group,
    })
}

/// Processes that the kernel has OOM-killed since it started, in all groups.
pub fn killed_for_memory() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").expect("the kernel's counters");
    let count = text
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok());
    count.expect("a count of processes OOM-killed")
}
