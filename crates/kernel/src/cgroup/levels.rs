use std::{path::Path, sync::Arc};

use super::{
    cgroup_file::CgroupFile,
    locate::{CgroupFolder, CgroupVersion},
};
use crate::{
    ErrorKind, ReadError, Result,
    headroom::{CgroupUsage, Level, LevelMemory},
    if_present,
    parse::{
        cgroup::{Limit, MemoryStat},
        number,
    },
};

#[derive(Debug, PartialEq, Default)]
pub struct CgroupLevels {
    /// Levels with a limit, the process's own first. On v1, memory with swap is a separate level.
    pub limits: Vec<LevelMemory>,
    /// Levels with a `memory.high` (v2) as their `limit`: above it the kernel throttles.
    pub high: Vec<LevelMemory>,
    /// Least `memory.swap.max` minus `memory.swap.current` of a level. `Max` if no level limits
    /// swap, as always on v1. `None` if one of these files cannot be read.
    pub swap: Option<Limit>,
    /// Droppable memory that `memory.min` of the top cgroup protects from global reclaim. If it has
    /// neither `memory.min` nor a limit, `memory.min` of its children protects.
    pub protected_bytes: u64,
    /// Of the process's own cgroup. `None` if its usage is unknown, or if this cgroup is the top
    /// one: the whole machine or container.
    pub own_unreclaimable: Option<u64>,
    /// Read errors of levels. With any of them, the least headroom is unknown.
    pub errors: Vec<ReadError>,
}

#[derive(Debug)]
pub struct Ancestry {
    own: CgroupFolder,
    /// The own cgroup first.
    levels: Vec<LevelFiles>,
    /// A limit of invisible cgroups, from v1 only.
    limit_above: Option<u64>,
}

#[derive(Debug)]
struct LevelFiles {
    folder: Arc<Path>,
    path: Arc<str>,
    max: CgroupFile,
    high: CgroupFile,
    min: CgroupFile,
    swap_max: CgroupFile,
    memory_and_swap_max: CgroupFile,
    // Opened only if a limit is set.
    current: CgroupFile,
    stat: CgroupFile,
    swap_current: CgroupFile,
    memory_and_swap_current: CgroupFile,
    settings: MemorySettings,
    /// Children with `memory.min` that do not contain the process.
    protected_children: Vec<ProtectedChild>,
}

/// A cgroup whose `memory.min` protects its cache from reclaim at its parent's level.
#[derive(Debug)]
struct ProtectedChild {
    min: Limit,
    current: CgroupFile,
    stat: CgroupFile,
}

#[derive(Debug)]
struct MemorySettings {
    /// The first read error of a limit other than `high` and swap.
    error: Option<ReadError>,
    max: Limit,
    high: Limit,
    min: Limit,
    swap: Option<Limit>,
    memory_and_swap: Limit,
}

impl Default for MemorySettings {
    fn default() -> Self {
        Self {
            error: None,
            max: Limit::Max,
            high: Limit::Max,
            min: Limit::Bytes(0),
            swap: Some(Limit::Max),
            memory_and_swap: Limit::Max,
        }
    }
}

impl Ancestry {
    pub fn new(own: &CgroupFolder) -> Self {
        let levels = own.with_ancestors().enumerate().map(|(levels_up, folder)| {
            let level = CgroupFolder {
                folder: Arc::from(folder),
                ..own.clone()
            };
            let file = |v2, v1| CgroupFile::in_folder(&level, v2, v1);
            LevelFiles {
                path: Arc::from(ancestor(&own.path, levels_up)),
                max: file(Some("memory.max"), Some("memory.limit_in_bytes")),
                high: file(Some("memory.high"), None),
                min: file(Some("memory.min"), None),
                swap_max: file(Some("memory.swap.max"), None),
                memory_and_swap_max: file(None, Some("memory.memsw.limit_in_bytes")),
                current: file(Some("memory.current"), Some("memory.usage_in_bytes")),
                stat: file(Some("memory.stat"), Some("memory.stat")),
                swap_current: file(Some("memory.swap.current"), None),
                memory_and_swap_current: file(None, Some("memory.memsw.usage_in_bytes")),
                settings: MemorySettings::default(),
                protected_children: Vec::new(),
                folder: level.folder,
            }
        });
        Self {
            levels: levels.collect(),
            limit_above: None,
            own: own.clone(),
        }
    }

    pub fn read_memory_settings(&mut self, buffer: &mut Vec<u8>) {
        let top = self.levels.len().saturating_sub(1);
        let mut level_below: Option<Arc<Path>> = None;
        for (levels_up, files) in self.levels.iter_mut().enumerate() {
            files.read_memory_settings(buffer);
            let can_reclaim = levels_up == top || files.needs_usage();
            files.protected_children = match &level_below {
                Some(level_below) if can_reclaim && self.own.version == CgroupVersion::V2 => {
                    protected_children(&self.own, &files.folder, level_below, buffer)
                }
                _ => Vec::new(),
            };
            level_below = Some(Arc::clone(&files.folder));
        }
        self.limit_above = self
            .levels
            .last_mut()
            .filter(|_| self.own.version == CgroupVersion::V1)
            .and_then(|top| {
                let stat = top.stat.parse(buffer, MemoryStat::parse_v1);
                let limit = stat.ok()?.hierarchical_limit?;
                (Limit::of_number(limit) < top.settings.max).then_some(limit)
            });
    }

    /// Takes the own usage from the last sample. Reads a limit below the usage again.
    pub fn levels(
        &mut self,
        own_usage: &Result<u64>,
        own_stat: &Result<MemoryStat>,
        buffer: &mut Vec<u8>,
    ) -> CgroupLevels {
        let mut levels = CgroupLevels {
            swap: Some(Limit::Max),
            ..CgroupLevels::default()
        };
        let top = self.levels.len().saturating_sub(1);
        // What `memory.min` of this level's children protects from reclaim at this level.
        let mut protected = 0;
        for (levels_up, files) in self.levels.iter_mut().enumerate() {
            protected = files
                .protected_by_children(buffer)
                .saturating_add(protected);
            let usage = match levels_up {
                0 => usage_of(own_usage, own_stat),
                _ if files.needs_usage() => files.usage(self.own.version, buffer),
                _ => Ok(None),
            };
            if let Ok(Some(usage)) = &usage
                && Limit::Bytes(usage.usage) > files.settings.max.min(files.settings.high)
            {
                files.read_memory_settings(buffer);
            }
            levels.errors.extend(files.settings.error.clone());
            match usage {
                Ok(Some(usage)) => {
                    if levels_up == 0 && top > 0 {
                        levels.own_unreclaimable = Some(usage.unreclaimable());
                    }
                    files.add_levels(levels_up, usage, protected, buffer, &mut levels);
                    protected = usage.protected(files.settings.min);
                }
                Ok(None) if files.needs_usage() => levels.errors.push(files.missing_usage()),
                // Without `memory.min` a level passes no protection on to its parent. The top
                // level has no parent, so its children's protection remains.
                Ok(None) if levels_up < top => protected = 0,
                Ok(None) => {}
                Err(error) => levels.errors.push(error),
            }
            let swap = levels.swap.zip(files.free_swap(buffer));
            levels.swap = swap.map(|(smallest, free)| smallest.min(free));
        }
        levels.protected_bytes = protected;
        if let (Some(limit), Some(top)) = (self.limit_above, self.levels.last_mut()) {
            let usage = top.usage(self.own.version, buffer);
            let level = |usage| level_memory(Level::Above, &top.path, limit, usage, 0);
            match usage {
                Ok(usage) => levels.limits.extend(usage.map(level)),
                Err(error) => levels.errors.push(error),
            }
        }
        levels
    }
}

impl LevelFiles {
    fn read_memory_settings(&mut self, buffer: &mut Vec<u8>) {
        let mut error = None;
        // The top cgroup of v2 and cgroups without memory controller have no limits.
        let mut limit = |file: &mut CgroupFile, absent| {
            file.parse(buffer, Limit::parse)
                .unwrap_or_else(|read_error| {
                    if read_error.kind() != ErrorKind::Absent {
                        error.get_or_insert(read_error);
                    }
                    absent
                })
        };
        self.settings = MemorySettings {
            max: limit(&mut self.max, Limit::Max),
            min: limit(&mut self.min, Limit::Bytes(0)),
            memory_and_swap: limit(&mut self.memory_and_swap_max, Limit::Max),
            // Read errors do not matter, because the kernel does not kill at this limit.
            high: { self.high.parse(buffer, Limit::parse) }.unwrap_or(Limit::Max),
            // Absent without swap accounting, and on v1.
            swap: if_present(self.swap_max.parse(buffer, Limit::parse))
                .map(|limit| limit.unwrap_or(Limit::Max))
                .ok(),
            error,
        };
    }

    fn protected_by_children(&mut self, buffer: &mut Vec<u8>) -> u64 {
        let protected = self.protected_children.iter_mut().map(|child| {
            let usage = child.current.parse(buffer, number);
            let stat = child.stat.parse(buffer, MemoryStat::parse);
            let usage = usage_of(&usage, &stat).ok().flatten();
            usage.map_or(0, |usage| usage.protected(child.min))
        });
        protected.fold(0, u64::saturating_add)
    }

    fn needs_usage(&self) -> bool {
        let limits = [
            self.settings.max,
            self.settings.high,
            self.settings.memory_and_swap,
        ];
        limits != [Limit::Max; 3] || self.settings.min != Limit::Bytes(0)
    }

    fn usage(
        &mut self,
        version: CgroupVersion,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<CgroupUsage>> {
        let usage = self.current.parse(buffer, number);
        let parse = match version {
            CgroupVersion::V2 => MemoryStat::parse,
            CgroupVersion::V1 => MemoryStat::parse_v1,
        };
        usage_of(&usage, &self.stat.parse(buffer, parse))
    }

    fn add_levels(
        &mut self,
        levels_up: usize,
        usage: CgroupUsage,
        protected: u64,
        buffer: &mut Vec<u8>,
        levels: &mut CgroupLevels,
    ) {
        let id = Level::Cgroup(levels_up);
        let level = |limit| level_memory(id, &self.path, limit, usage, protected);
        levels.limits.extend(self.settings.max.bytes().map(level));
        if let Limit::Bytes(limit) = self.settings.memory_and_swap {
            match self.memory_and_swap_current.parse(buffer, number) {
                Ok(memory_and_swap) => {
                    let usage = CgroupUsage {
                        usage: memory_and_swap,
                        ..usage
                    };
                    let memory_and_swap =
                        level_memory(Level::MemoryAndSwap(levels_up), &self.path, limit, usage, 0);
                    levels.limits.push(memory_and_swap);
                }
                Err(error) => levels.errors.push(error),
            }
        }
        levels.high.extend(self.settings.high.bytes().map(level));
    }

    fn missing_usage(&self) -> ReadError {
        ReadError::absent(
            Path::new(&*self.path),
            "the cgroup has a memory limit or memory.min, but its usage or page cache is missing",
        )
    }

    fn free_swap(&mut self, buffer: &mut Vec<u8>) -> Option<Limit> {
        let Limit::Bytes(limit) = self.settings.swap? else {
            return Some(Limit::Max);
        };
        let used = self.swap_current.parse(buffer, number).ok()?;
        Some(Limit::Bytes(limit.saturating_sub(used)))
    }
}

/// Children of `folder` with `memory.min`, except `level_below`. Unreadable ones count as
/// unprotected.
fn protected_children(
    own: &CgroupFolder,
    folder: &Path,
    level_below: &Path,
    buffer: &mut Vec<u8>,
) -> Vec<ProtectedChild> {
    let children = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let others = children.filter(|child| {
        child.path() != level_below && child.file_type().is_ok_and(|kind| kind.is_dir())
    });
    others
        .filter_map(|child| {
            let child_folder = CgroupFolder {
                folder: Arc::from(child.path()),
                ..own.clone()
            };
            let file = |name| CgroupFile::in_folder(&child_folder, Some(name), None);
            let min = file("memory.min").parse(buffer, Limit::parse).ok()?;
            (min != Limit::Bytes(0)).then(|| ProtectedChild {
                min,
                current: file("memory.current"),
                stat: file("memory.stat"),
            })
        })
        .collect()
}

fn level_memory(
    level: Level,
    path: &Arc<str>,
    limit: u64,
    usage: CgroupUsage,
    protected: u64,
) -> LevelMemory {
    LevelMemory {
        id: level,
        path: Arc::clone(path),
        limit,
        unreclaimable: usage.unreclaimable().saturating_add(protected),
        dirty: usage.dirty,
    }
}

/// `None` if the usage is absent (no memory controller, or the top cgroup), or `stat` does not
/// suffice.
fn usage_of(usage: &Result<u64>, stat: &Result<MemoryStat>) -> Result<Option<CgroupUsage>> {
    match (usage, stat) {
        (Ok(usage), Ok(stat)) => Ok(CgroupUsage::new(*usage, stat)),
        (Err(ReadError::Absent { .. }), _) => Ok(None),
        (Err(error), _) | (_, Err(error)) => Err(error.clone()),
    }
}

fn ancestor(path: &str, levels_up: usize) -> &str {
    let parent = (0..levels_up).fold(path, |path, _| {
        path.rsplit_once('/').map_or("", |(parent, _)| parent)
    });
    if parent.is_empty() { "/" } else { parent }
}

#[cfg(test)]
mod tests;
