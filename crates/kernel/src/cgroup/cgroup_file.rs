use std::sync::Arc;

use super::locate::{CgroupFolder, CgroupVersion};
use crate::{
    Parsed, ReadError, Result,
    file::{FileOwner, LazyFile, ReadUntil},
    parse::{cgroup::MemoryStat, number},
};

#[derive(Debug)]
pub enum CgroupFile {
    File(LazyFile),
    Missing(ReadError),
}

impl CgroupFile {
    pub fn in_folder(cgroup: &CgroupFolder, v2: Option<&str>, v1: Option<&str>) -> Self {
        let (name, other) = match cgroup.version {
            CgroupVersion::V2 => (v2, v1),
            CgroupVersion::V1 => (v1, v2),
        };
        match name {
            Some(name) => {
                let owner = FileOwner::Folder(Arc::clone(&cgroup.folder));
                Self::File(LazyFile::new(
                    owner,
                    cgroup.folder.join(name),
                    ReadUntil::ShortRead,
                ))
            }
            None => {
                let path = cgroup.folder.join(other.unwrap_or_default());
                Self::Missing(ReadError::absent(
                    path,
                    "this cgroup version has no such file",
                ))
            }
        }
    }

    pub fn parse<T>(
        &mut self,
        buffer: &mut Vec<u8>,
        parse: impl FnOnce(&[u8]) -> Parsed<T>,
    ) -> Result<T> {
        match self {
            Self::File(file) => file.parse(buffer, parse),
            Self::Missing(error) => Err(error.clone()),
        }
    }
}

/// `memory.stat` plus kernel memory, which v1 has in a separate file.
pub fn memory_stat(
    version: CgroupVersion,
    stat: &mut CgroupFile,
    kernel: &mut CgroupFile,
    buffer: &mut Vec<u8>,
) -> Result<MemoryStat> {
    match version {
        CgroupVersion::V2 => stat.parse(buffer, MemoryStat::parse),
        CgroupVersion::V1 => {
            let mut stat = stat.parse(buffer, MemoryStat::parse_v1)?;
            stat.kernel = kernel.parse(buffer, number).ok();
            Ok(stat)
        }
    }
}
