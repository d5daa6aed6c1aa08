//! Free memory of each level that limits a process, assuming reclaim without swap.
//!
//! A level is a cgroup with a limit, the allowed NUMA nodes, or the machine. The level with the
//! least headroom binds. Unreclaimable memory is the kernel's usage counter minus droppable memory,
//! so unknown kinds of memory are included.

pub(crate) mod numa;

use std::{fmt, sync::Arc};

use crate::{
    Limit,
    parse::{cgroup::MemoryStat, memory::Meminfo},
};

/// A bound on the memory of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// 0 is the process's own cgroup, 1 its parent. Displayed as this number.
    Cgroup(usize),
    /// Memory and swap together, a limit of v1. Displayed as in `0_swap`.
    MemoryAndSwap(usize),
    /// A cgroup above the visible ones, from `hierarchical_memory_limit` of v1. Its other members
    /// are not visible, so its headroom is an upper bound.
    Above,
    Numa,
    Machine,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cgroup(levels_up) => write!(f, "{levels_up}"),
            Self::MemoryAndSwap(levels_up) => write!(f, "{levels_up}_swap"),
            Self::Above => f.write_str("above"),
            Self::Numa => f.write_str("numa"),
            Self::Machine => f.write_str("machine"),
        }
    }
}

/// Memory within one bound, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelMemory {
    pub id: Level,
    /// The cgroup's path, or the list of nodes; empty for the machine.
    pub path: Arc<str>,
    /// Where the kernel kills, or throttles for `memory.high`.
    pub limit: u64,
    pub unreclaimable: u64,
    /// Droppable memory that must be written first. `None` if unknown.
    pub dirty: Option<u64>,
}

impl LevelMemory {
    pub fn headroom(&self) -> u64 {
        self.limit.saturating_sub(self.unreclaimable)
    }

    /// From `MemAvailable`, which includes the `protected` bytes. `None` before Linux 3.14.
    pub fn of_machine(memory: &Meminfo, protected: u64) -> Option<Self> {
        let limit = memory.total?;
        let available = memory.available?.saturating_sub(protected);
        Some(Self {
            id: Level::Machine,
            path: Arc::from(""),
            limit,
            unreclaimable: limit.saturating_sub(available),
            dirty: memory.dirty,
        })
    }
}

pub fn binding_level(levels: &[LevelMemory]) -> Option<&LevelMemory> {
    levels.iter().min_by_key(|level| level.headroom())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CgroupUsage {
    /// `memory.current` (v1: `memory.usage_in_bytes`).
    pub usage: u64,
    /// [`MemoryStat::droppable_bytes`].
    pub droppable: u64,
    pub dirty: Option<u64>,
}

impl CgroupUsage {
    /// `None` if `memory.stat` lacks the droppable parts.
    pub fn new(usage: u64, stat: &MemoryStat) -> Option<Self> {
        Some(Self {
            usage,
            droppable: stat.droppable_bytes()?,
            dirty: stat.file_dirty,
        })
    }

    pub fn unreclaimable(&self) -> u64 {
        self.usage.saturating_sub(self.droppable)
    }

    /// Droppable memory that `memory.min` protects from reclaim at the parent's level.
    pub fn protected(&self, min: Limit) -> u64 {
        let min = min.bytes().unwrap_or(u64::MAX);
        min.min(self.usage).saturating_sub(self.unreclaimable())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn level(level: Level, limit: u64, unreclaimable: u64) -> LevelMemory {
        LevelMemory {
            id: level,
            path: Arc::from(""),
            limit,
            unreclaimable,
            dirty: None,
        }
    }

    #[test]
    fn the_level_with_the_least_headroom_binds_regardless_of_its_limit() {
        let levels = [
            level(Level::Cgroup(0), 500 * GIB, 301 * GIB),
            level(Level::Cgroup(1), 512 * GIB, 507 * GIB),
            level(Level::Machine, 1024 * GIB, 424 * GIB),
        ];
        let found = binding_level(&levels).unwrap();
        assert_eq!((found.id, found.headroom()), (Level::Cgroup(1), 5 * GIB));
        assert_eq!(binding_level(&[]), None);
    }

    #[test]
    fn a_level_over_its_limit_has_zero_headroom_and_the_nearest_binds() {
        let levels = [level(Level::Cgroup(0), 4, 5), level(Level::Cgroup(1), 5, 5)];
        let found = binding_level(&levels).unwrap();
        assert_eq!((found.id, found.headroom()), (Level::Cgroup(0), 0));
    }

    #[test]
    fn host_headroom_is_the_kernels_available_memory() {
        let memory = Meminfo {
            total: Some(512 * GIB),
            available: Some(20 * GIB),
            ..Meminfo::default()
        };
        assert_eq!(
            LevelMemory::of_machine(&memory, 0).unwrap().headroom(),
            20 * GIB
        );
        let protected = LevelMemory::of_machine(&memory, GIB).unwrap();
        assert_eq!(protected.headroom(), 19 * GIB);
        assert_eq!(LevelMemory::of_machine(&Meminfo::default(), 0), None);
    }

    #[test]
    fn a_protected_cache_is_not_droppable_by_the_parent() {
        let own = CgroupUsage {
            usage: 10 * GIB,
            droppable: 6 * GIB,
            dirty: None,
        };
        assert_eq!(own.unreclaimable(), 4 * GIB);
        for (min, protected) in [(0, 0), (3, 0), (5, GIB), (10, 6 * GIB), (99, 6 * GIB)] {
            assert_eq!(own.protected(Limit::Bytes(min * GIB)), protected, "{min}");
        }
        assert_eq!(own.protected(Limit::Max), 6 * GIB);
    }

    #[test]
    fn memory_levels_are_formatted_as_labels() {
        let all = [
            Level::Cgroup(2),
            Level::MemoryAndSwap(0),
            Level::Above,
            Level::Numa,
            Level::Machine,
        ];
        let text = all.map(|level| level.to_string()).join(" ");
        assert_eq!(text, "2 0_swap above numa machine");
    }
}
