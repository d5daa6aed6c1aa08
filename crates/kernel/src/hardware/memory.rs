use super::HardwareReader;
use crate::{
    parse::{
        choice, meminfo, node_meminfo, number,
        swaps::{self, Swap},
    },
    text::only_line,
};

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Memory {
    /// Bytes usable by the kernel: a little less than installed.
    pub total: Option<u64>,
    /// In bytes; 0 without swap.
    pub swap_total: Option<u64>,
    pub swaps: Vec<Swap>,
    pub swappiness: Option<u64>,
    pub max_map_count: Option<u64>,
    /// `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    /// `always`, `defer`, `defer+madvise`, `madvise` or `never`.
    pub huge_pages_defrag: Option<String>,
    pub nodes: Vec<NumaNode>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumaNode {
    pub number: u32,
    /// Such as `0-31,64-95`; empty for memory without CPUs.
    pub cpus: Option<String>,
    /// In bytes.
    pub memory: Option<u64>,
}

pub fn read(reader: &mut HardwareReader<'_>) -> Memory {
    let totals = reader.proc("meminfo", meminfo::parse).unwrap_or_default();
    Memory {
        total: totals.total,
        swap_total: totals.swap_total,
        swaps: reader.proc("swaps", swaps::parse).unwrap_or_default(),
        swappiness: reader.proc("sys/vm/swappiness", number::parse),
        max_map_count: reader.proc("sys/vm/max_map_count", number::parse),
        huge_pages: reader.sys("kernel/mm/transparent_hugepage/enabled", choice::parse),
        huge_pages_defrag: reader.sys("kernel/mm/transparent_hugepage/defrag", choice::parse),
        nodes: nodes(reader),
    }
}

fn nodes(reader: &mut HardwareReader<'_>) -> Vec<NumaNode> {
    let names = reader.names("devices/system/node");
    let mut numbers: Vec<u32> = names
        .iter()
        .filter_map(|name| name.strip_prefix("node")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    let node = |number: u32| NumaNode {
        number,
        cpus: reader.sys(
            &format!("devices/system/node/node{number}/cpulist"),
            only_line,
        ),
        memory: reader
            .sys(
                &format!("devices/system/node/node{number}/meminfo"),
                node_meminfo::parse,
            )
            .and_then(|memory| memory.total),
    };
    numbers.into_iter().map(node).collect()
}
