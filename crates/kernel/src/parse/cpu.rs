//! CPUs of the host: lists of numbers, times since boot, and `/proc/cpuinfo`.

use std::collections::BTreeSet;

use procfs::{CpuInfo, FromRead};

use crate::{
    ParseError, Parsed,
    text::{count_or_underflow, lines, number, words},
};

const MAX_NUMBER: u32 = 65_535;

/// Numbers of CPUs or NUMA nodes, ascending and distinct.
pub fn id_list(text: &[u8]) -> Parsed<Vec<u32>> {
    let text = text.trim_ascii();
    if text.is_empty() {
        return Ok(Vec::new());
    }
    id_ranges(text).ok_or_else(|| ParseError::new(1, text, "expected a list such as 0-3,8"))
}

pub(super) fn id_ranges(text: &[u8]) -> Option<Vec<u32>> {
    let mut all = BTreeSet::new();
    for part in text.split(|&byte| byte == b',') {
        let mut ends = part.splitn(2, |&byte| byte == b'-').map(bounded);
        let first = ends.next()??;
        all.extend(first..=ends.next().unwrap_or(Some(first))?);
    }
    Some(all.into_iter().collect())
}

fn bounded(digits: &[u8]) -> Option<u32> {
    number(digits).filter(|number| *number <= MAX_NUMBER)
}

/// User, guest and kernel time of `/proc/stat` in clock ticks (`USER_HZ`), summed over all CPUs.
/// `None` if a part went below zero.
pub fn busy_ticks(text: &[u8]) -> Parsed<Option<u64>> {
    let line = lines(text)
        .find(|line| words(line.text).next() == Some(b"cpu"))
        .ok_or_else(|| ParseError::new(1, text, "expected a cpu line"))?;
    let mut ticks = words(line.text).skip(1).map(count_or_underflow);
    let mut next = || {
        let ticks = ticks.next().flatten();
        ticks.ok_or_else(|| line.error("expected clock ticks"))
    };
    // `user` and `nice` include guests.
    let [user, nice, system, _idle, _iowait] = [next()?, next()?, next()?, next()?, next()?];
    let [irq, softirq] = [next()?, next()?];
    Ok([user, nice, system, irq, softirq]
        .into_iter()
        .try_fold(0, |sum: u64, part| sum.checked_add(part?)))
}

/// x86 reports everything, arm64 only `threads`.
#[derive(Debug, PartialEq, Default)]
pub struct CpuTopology {
    pub model: Option<String>,
    /// With at least one online CPU.
    pub sockets: Option<u64>,
    /// With at least one online CPU.
    pub cores: Option<u64>,
    /// Online.
    pub threads: u64,
}

impl CpuTopology {
    pub fn parse(text: &[u8]) -> Parsed<Self> {
        let expected = || ParseError::new(1, text, "expected a processor line");
        let info = CpuInfo::from_read(text).map_err(|_| expected())?;
        let field_number =
            |cpu: usize, field: &str| info.get_field(cpu, field)?.parse::<u64>().ok();
        let cpus: Vec<usize> = (0..info.num_cores())
            .filter(|cpu| field_number(*cpu, "processor").is_some())
            .collect();
        if cpus.is_empty() {
            return Err(expected());
        }
        let socket = |cpu: &usize| field_number(*cpu, "physical id");
        // Core ids repeat in each socket.
        let core = |cpu: &usize| Some((socket(cpu), field_number(*cpu, "core id")?));
        let sockets: BTreeSet<_> = cpus.iter().filter_map(socket).collect();
        let cores: BTreeSet<_> = cpus.iter().filter_map(core).collect();
        let known = |count: usize| (count > 0).then_some(count as u64);
        Ok(Self {
            model: info.model_name(0).map(str::to_owned),
            sockets: known(sockets.len()),
            cores: known(cores.len()),
            threads: cpus.len() as u64,
        })
    }
}

#[cfg(test)]
mod tests;
