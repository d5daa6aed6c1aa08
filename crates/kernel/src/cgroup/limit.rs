//! The limit that holds: the smallest over a cgroup and all its ancestors.

use std::path::Path;
use std::sync::Arc;

use super::locate::{CgroupFolder, CgroupVersion};
use super::source::{Source, memory_stat};
use crate::parse::cgroup_memory_stat::MemoryStat;
use crate::parse::{cgroup_limit, number};
use crate::{Limit, ReadError};

/// The limit of memory that a process meets first.
#[derive(Debug, Clone, PartialEq)]
pub struct EffectiveLimit {
    /// The smallest `memory.max` (v1: `memory.limit_in_bytes`) of the cgroup and all visible ancestors. The host's
    /// memory is not considered, nor are limits above a cgroup namespace.
    pub limit: Limit,
    /// Where it is set, the nearest one if several have it; `None` without a limit.
    pub limiting: Option<LimitingCgroup>,
}

/// The cgroup whose limit it is. Its usage and composition, not those of the process's own cgroup, tell how near the
/// limit is.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitingCgroup {
    /// Its folder.
    pub folder: Arc<Path>,
    /// 0 for the process's own cgroup, 1 for its parent, and so on.
    pub levels_up: usize,
    /// `memory.current` (v1: `memory.usage_in_bytes`), in bytes.
    pub memory_usage: Result<u64, ReadError>,
    /// `memory.stat`; [`MemoryStat::unreclaimable_bytes`] is what cannot be freed under this limit.
    pub memory_stat: Result<MemoryStat, ReadError>,
}

/// What a sample has already read of the process's own cgroup.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnMemory<'a> {
    pub(super) max: &'a Result<Limit, ReadError>,
    pub(super) usage: &'a Result<u64, ReadError>,
    pub(super) stat: &'a Result<MemoryStat, ReadError>,
}

/// A cgroup and those above it, with their limits held open.
#[derive(Debug)]
pub(super) struct Ancestry {
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    version: CgroupVersion,
    folder: Arc<Path>,
    max: Source,
    /// The last value of `max`; unused for the process's own cgroup, whose limit comes from the sample.
    limit: Result<Limit, ReadError>,
    // The rest is opened only once this level is the limiting one. Of the process's own cgroup the sample has them all.
    current: Source,
    stat: Source,
    kernel: Source,
}

impl Level {
    fn composition(
        &mut self,
        buffer: &mut Vec<u8>,
    ) -> (Result<u64, ReadError>, Result<MemoryStat, ReadError>) {
        let usage = self.current.parse(buffer, number::parse);
        (
            usage,
            memory_stat(self.version, &mut self.stat, &mut self.kernel, buffer),
        )
    }
}

impl Ancestry {
    pub(super) fn new(own: &CgroupFolder) -> Self {
        let levels = own.with_ancestors().map(|folder| {
            let here = CgroupFolder {
                folder: Arc::from(folder),
                ..own.clone()
            };
            let source = |v2, v1| Source::in_folder(&here, v2, v1);
            Level {
                version: own.version,
                max: source(Some("memory.max"), Some("memory.limit_in_bytes")),
                current: source(Some("memory.current"), Some("memory.usage_in_bytes")),
                stat: source(Some("memory.stat"), Some("memory.stat")),
                kernel: source(None, Some("memory.kmem.usage_in_bytes")),
                limit: Ok(Limit::Max),
                folder: here.folder,
            }
        });
        Self {
            levels: levels.collect(),
        }
    }

    pub(super) fn read_limits(&mut self, buffer: &mut Vec<u8>) {
        for level in self.levels.iter_mut().skip(1) {
            level.limit = level.max.parse(buffer, cgroup_limit::parse);
        }
    }

    pub(super) fn effective_limit(
        &mut self,
        own: OwnMemory<'_>,
        buffer: &mut Vec<u8>,
    ) -> Result<EffectiveLimit, ReadError> {
        let mut smallest = (Limit::Max, 0);
        for (levels_up, level) in self.levels.iter().enumerate() {
            let limit = match levels_up {
                0 => own.max.clone(),
                _ => level.limit.clone(),
            };
            match limit {
                Ok(limit) if limit < smallest.0 => smallest = (limit, levels_up),
                // The topmost cgroup of v2 has no such file, nor has one whose memory controller is not enabled:
                // neither can limit.
                Ok(_) | Err(ReadError::Absent { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let (limit, levels_up) = smallest;
        let limiting = match (limit, self.levels.get_mut(levels_up)) {
            (Limit::Bytes(_), Some(level)) => {
                let (memory_usage, memory_stat) = match levels_up {
                    0 => (own.usage.clone(), own.stat.clone()),
                    _ => level.composition(buffer),
                };
                let folder = Arc::clone(&level.folder);
                Some(LimitingCgroup {
                    folder,
                    levels_up,
                    memory_usage,
                    memory_stat,
                })
            }
            _ => None,
        };
        Ok(EffectiveLimit { limit, limiting })
    }
}
