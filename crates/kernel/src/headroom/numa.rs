use std::sync::Arc;

use super::{Level, LevelMemory};
use crate::{
    HostRoot, ReadError, Result,
    file::{FileOwner, LazyFile, ReadUntil},
    if_present,
    parse::{
        cpu,
        memory::{self, NodeMeminfo},
        pid_status,
    },
};

/// The `meminfo` of each allowed node, if a cpuset excludes some nodes with memory.
/// `numactl --membind` is not detected.
#[derive(Debug)]
pub struct NumaFiles {
    label: Arc<str>,
    meminfo_files: Vec<LazyFile>,
    /// Sum of the `min` watermarks of the nodes' zones, in bytes.
    watermark: u64,
}

impl NumaFiles {
    /// `None` without NUMA or cpusets, and if the cpuset allows all or no nodes with memory.
    pub fn open(root: &HostRoot, pid: u32, page_size: u64) -> Result<Option<Self>> {
        let Some(allowed) = root.read_proc(&format!("{pid}/status"), pid_status::allowed_mems)?
        else {
            return Ok(None);
        };
        let nodes_with_memory = root.read_sys("devices/system/node/has_memory", cpu::id_list);
        let Some(nodes_with_memory) = if_present(nodes_with_memory)? else {
            return Ok(None);
        };
        let nodes: Vec<u32> = nodes_with_memory
            .iter()
            .copied()
            .filter(|node| allowed.contains(node))
            .collect();
        if nodes.is_empty() || nodes.len() == nodes_with_memory.len() {
            return Ok(None);
        }
        let watermarks = root.read_proc("zoneinfo", memory::zone_watermarks)?;
        let watermark_pages: u64 = watermarks
            .iter()
            .filter(|zone| nodes.contains(&zone.node))
            .map(|zone| zone.min)
            .fold(0, u64::saturating_add);
        let node_file = |node: &u32| {
            let path = root
                .sysfs
                .join(format!("devices/system/node/node{node}/meminfo"));
            LazyFile::new(FileOwner::Host, path, ReadUntil::ShortRead)
        };
        let numbers: Vec<String> = nodes.iter().map(u32::to_string).collect();
        Ok(Some(Self {
            label: Arc::from(format!("nodes {}", numbers.join(","))),
            meminfo_files: nodes.iter().map(node_file).collect(),
            watermark: watermark_pages.saturating_mul(page_size),
        }))
    }

    pub fn sample(&mut self, buffer: &mut Vec<u8>) -> Result<LevelMemory> {
        let (mut limit, mut available_sum) = (0_u64, 0_u64);
        let mut dirty = Some(0_u64);
        for file in &mut self.meminfo_files {
            let memory = file.parse(buffer, NodeMeminfo::parse)?;
            let Some((total, available)) = memory.total.zip(memory.available()) else {
                return Err(ReadError::absent(
                    Arc::clone(&file.path),
                    "a line of the node's memory is missing",
                ));
            };
            limit = limit.saturating_add(total);
            available_sum = available_sum.saturating_add(available);
            dirty = dirty
                .zip(memory.dirty)
                .map(|(sum, bytes)| sum.saturating_add(bytes));
        }
        Ok(LevelMemory {
            id: Level::Numa,
            path: Arc::clone(&self.label),
            limit,
            unreclaimable: limit.saturating_sub(available_sum.saturating_sub(self.watermark)),
            dirty,
        })
    }
}

impl NodeMeminfo {
    fn available(&self) -> Option<u64> {
        Some(
            self.free?
                .saturating_add(self.active_file?)
                .saturating_add(self.inactive_file?)
                .saturating_add(self.reclaimable.unwrap_or(0)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = "\
Node 1 MemTotal:       1000 kB
Node 1 MemFree:         200 kB
Node 1 Active(file):     30 kB
Node 1 Inactive(file):    4 kB
Node 1 Dirty:             2 kB
Node 1 KReclaimable:      6 kB
";

    fn host(mems_allowed: &str) -> (tempfile::TempDir, HostRoot) {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/7/status", &format!("Name:\tagave\n{mems_allowed}"));
        write(
            "proc/zoneinfo",
            "Node 0, zone DMA\n  pages free 9\n        min 5\n\
            Node 1, zone Normal\n  pages free 9\n        boost 0\n        min 7\n        low 8\n\
            Node 1, zone Movable\n        min 1\n",
        );
        write("sys/devices/system/node/has_memory", "0-1\n");
        write("sys/devices/system/node/node1/meminfo", NODE);
        let root = HostRoot::below(folder.path());
        (folder, root)
    }

    #[test]
    fn a_process_bound_to_one_numa_node_has_that_nodes_memory() {
        let (_folder, root) = host("Mems_allowed_list:\t1\n");
        let mut files = NumaFiles::open(&root, 7, 1024).unwrap().unwrap();
        let level = files.sample(&mut Vec::new()).unwrap();
        assert_eq!((level.id, &*level.path), (Level::Numa, "nodes 1"));
        assert_eq!(level.limit, 1000 << 10);
        assert_eq!(level.headroom(), (200 + 30 + 4 + 6 - 8) << 10);
        assert_eq!(level.dirty, Some(2 << 10));
    }

    #[test]
    fn a_numa_node_whose_meminfo_lacks_a_line_is_an_error() {
        let (folder, root) = host("Mems_allowed_list:\t1\n");
        let path = folder.path().join("sys/devices/system/node/node1/meminfo");
        std::fs::write(path, "Node 1 MemTotal: 1000 kB\n").unwrap();
        let mut files = NumaFiles::open(&root, 7, 1024).unwrap().unwrap();
        assert!(files.sample(&mut Vec::new()).is_err());
    }

    #[test]
    fn sums_over_numa_nodes_and_zones_do_not_overflow() {
        let (folder, root) = host("Mems_allowed_list:\t1-3\n");
        let write = |path: &str, text: &str| std::fs::write(folder.path().join(path), text);
        let nodes = folder.path().join("sys/devices/system/node");
        write("sys/devices/system/node/has_memory", "0-3\n").unwrap();
        let zone = format!("Node 1, zone Normal\n        min {}\n", u64::MAX);
        write("proc/zoneinfo", &zone.repeat(2)).unwrap();
        let large = NODE.replace("    2 kB", &format!("{} kB", i64::MAX >> 10));
        for node in 1..=3 {
            let folder = nodes.join(format!("node{node}"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("meminfo"), &large).unwrap();
        }
        let mut files = NumaFiles::open(&root, 7, 1024).unwrap().unwrap();
        let level = files.sample(&mut Vec::new()).unwrap();
        assert_eq!((level.headroom(), level.dirty), (0, Some(u64::MAX)));
    }

    #[test]
    fn an_unrestricted_process_or_a_host_without_numa_has_no_numa_level() {
        for allowed in ["Mems_allowed_list:\t0-1\n", "Mems_allowed_list:\t0-7\n", ""] {
            let (_folder, root) = host(allowed);
            assert!(
                NumaFiles::open(&root, 7, 1024).unwrap().is_none(),
                "{allowed}"
            );
        }
        let (folder, root) = host("Mems_allowed_list:\t1\n");
        std::fs::remove_dir_all(folder.path().join("sys")).unwrap();
        assert!(NumaFiles::open(&root, 7, 1024).unwrap().is_none());
    }
}
