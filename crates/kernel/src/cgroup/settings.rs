//! Settings of a process's cgroups and of their ancestors. They are read once.

use std::{path::Path, sync::Arc};

use super::locate::{CgroupVersion, ProcessCgroups};
use crate::{
    ErrorKind, ReadError, Result,
    file::{FileOwner, OpenFile, ReadUntil},
    parse::cgroup::Limit,
};

/// So many settings at the start of [`MEMORY`] are amounts of bytes. All others are texts.
const AMOUNT_COUNT: usize = 11;

const MEMORY: [&str; 14] = [
    "memory.max",
    "memory.high",
    "memory.low",
    "memory.min",
    "memory.swap.max",
    "memory.swap.high",
    "memory.zswap.max",
    "memory.limit_in_bytes",
    "memory.soft_limit_in_bytes",
    "memory.memsw.limit_in_bytes",
    "memory.kmem.limit_in_bytes",
    "memory.oom.group",
    "memory.swappiness",
    "memory.use_hierarchy",
];
const CPU: [&str; 8] = [
    "cpu.max",
    "cpu.weight",
    "cpu.shares",
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
    "cpuset.cpus",
    "cpuset.cpus.effective",
    "cpuset.mems",
];
const IO: [&str; 4] = [
    "io.max",
    "io.weight",
    "blkio.throttle.read_bps_device",
    "blkio.throttle.write_bps_device",
];

/// A longer text is cut: some settings have a line for each disk.
const MAX_TEXT_BYTES: usize = 1024;

#[derive(Debug)]
pub struct CgroupSettings {
    /// Relative to the topmost visible cgroup, which is `/`.
    pub path: String,
    pub version: CgroupVersion,
    pub settings: Vec<(&'static str, Setting)>,
}

#[derive(Debug, PartialEq)]
pub enum Setting {
    Amount(Limit),
    /// The kernel's text, never empty.
    Text(String),
}

impl ProcessCgroups {
    /// Each controller's own cgroup, then its ancestors; and the read errors. Settings that do not
    /// exist are no errors.
    pub fn settings(&self) -> (Vec<CgroupSettings>, Vec<ReadError>) {
        let mut levels: Vec<CgroupSettings> = Vec::new();
        let mut problems = Vec::new();
        let controllers: [(_, &[&'static str], _); 3] = [
            (&self.memory, &MEMORY, AMOUNT_COUNT),
            (&self.cpu, &CPU, 0),
            (&self.io, &IO, 0),
        ];
        for (cgroup, names, amount_count) in controllers {
            let Ok(cgroup) = cgroup else { continue };
            // In v2 the controllers share their folders.
            for folder in cgroup.with_ancestors() {
                let settings = read_settings(folder, names, amount_count, &mut problems);
                let path = relative_path(folder, &cgroup.mount_point);
                match levels
                    .iter_mut()
                    .find(|level| level.path == path && level.version == cgroup.version)
                {
                    Some(level) => level.settings.extend(settings),
                    None => levels.push(CgroupSettings {
                        path,
                        version: cgroup.version,
                        settings,
                    }),
                }
            }
        }
        (levels, problems)
    }
}

fn relative_path(folder: &Path, top: &Path) -> String {
    let below = folder.strip_prefix(top).unwrap_or(Path::new(""));
    format!("/{}", below.display())
}

fn read_settings(
    folder: &Path,
    names: &[&'static str],
    amount_count: usize,
    problems: &mut Vec<ReadError>,
) -> Vec<(&'static str, Setting)> {
    let mut settings = Vec::new();
    for (index, name) in names.iter().enumerate() {
        match read_setting(&folder.join(name), index < amount_count) {
            Ok(Setting::Text(text)) if text.is_empty() => {}
            Ok(setting) => settings.push((*name, setting)),
            Err(error) if error.kind() == ErrorKind::Absent => {}
            Err(error) => problems.push(error),
        }
    }
    settings
}

fn read_setting(path: &Path, is_amount: bool) -> Result<Setting> {
    let file = OpenFile::open(FileOwner::Host, Arc::from(path), ReadUntil::EmptyRead)?;
    if is_amount {
        return file
            .parse(&mut Vec::new(), Limit::parse)
            .map(Setting::Amount);
    }
    file.parse(&mut Vec::new(), |text| {
        let text = text.trim_ascii();
        let shortened = text.get(..MAX_TEXT_BYTES).unwrap_or(text);
        Ok(Setting::Text(
            String::from_utf8_lossy(shortened).into_owned(),
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HostRoot, locate_cgroups};

    fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, HostRoot) {
        let host = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = host.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let root = HostRoot::below(host.path());
        (host, root)
    }

    #[test]
    fn every_v2_level_is_listed_once_with_all_controllers() {
        let (_host, root) = host(&[
            ("proc/7/cgroup", "0::/validator.slice/sol.service\n"),
            (
                "sys/fs/cgroup/validator.slice/sol.service/memory.max",
                "68719476736\n",
            ),
            (
                "sys/fs/cgroup/validator.slice/sol.service/cpu.max",
                "max 100000\n",
            ),
            ("sys/fs/cgroup/validator.slice/memory.high", "max\n"),
            ("sys/fs/cgroup/validator.slice/cpuset.cpus", "\n"),
        ]);
        let (levels, problems) = locate_cgroups(&root, 7).unwrap().settings();
        assert!(problems.is_empty(), "{problems:?}");
        let paths: Vec<&str> = levels.iter().map(|level| level.path.as_str()).collect();
        assert_eq!(
            paths,
            ["/validator.slice/sol.service", "/validator.slice", "/"]
        );
        let own = [
            ("memory.max", Setting::Amount(Limit::Bytes(68_719_476_736))),
            ("cpu.max", Setting::Text("max 100000".to_owned())),
        ];
        assert_eq!(levels[0].settings, own);
        assert_eq!(
            levels[1].settings,
            [("memory.high", Setting::Amount(Limit::Max))]
        );
    }

    #[test]
    fn the_controllers_of_version_1_may_have_paths_of_their_own() {
        let (_host, root) = host(&[
            ("proc/7/cgroup", "4:memory:/sol\n2:cpu,cpuacct:/\n"),
            (
                "sys/fs/cgroup/memory/sol/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            ("sys/fs/cgroup/cpu/cpu.shares", "1024\n"),
        ]);
        let (levels, problems) = locate_cgroups(&root, 7).unwrap().settings();
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(
            levels[0].settings,
            [("memory.limit_in_bytes", Setting::Amount(Limit::Max))]
        );
        assert_eq!(
            (levels[1].path.as_str(), &levels[1].settings[..]),
            ("/", &[("cpu.shares", Setting::Text("1024".into()))][..])
        );
    }
}
