//! CPU frequencies, governors and thermal throttling.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Add,
};

use crate::{HostRoot, parse::number, text::trimmed_text};

const MAX_CPUS: usize = 1024;

#[derive(Debug, PartialEq, Default)]
pub struct CpuSpeeds {
    /// Slowest, mean and fastest CPU in Hz. `None` if no CPU reports its frequency, as in most
    /// virtual machines.
    pub hertz: Option<Spread>,
    pub governors: BTreeSet<String>,
    /// Thermal throttle events of all cores. `None` if sysfs does not count them (AMD, ARM).
    pub core_throttles: Option<u64>,
    pub package_throttles: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub min: f64,
    pub mean: f64,
    pub max: f64,
}

impl CpuSpeeds {
    /// Reads up to six small files of each CPU: too slow for a tick.
    pub fn read(root: &HostRoot) -> Self {
        let names = root.list_sys("devices/system/cpu").unwrap_or_default();
        let mut speeds = Self::default();
        let mut hertz = Vec::new();
        // Each hyper-thread reports the count of its core.
        let (mut core_counts, mut package_counts) = (BTreeMap::new(), BTreeMap::new());
        for cpu in names.iter().filter(|name| is_cpu(name)).take(MAX_CPUS) {
            let file = |relative: &str| format!("devices/system/cpu/{cpu}/{relative}");
            let read = |relative: &str| root.read_sys(&file(relative), number).ok();
            hertz.extend(read("cpufreq/scaling_cur_freq").map(|khz| khz as f64 * 1000.0));
            speeds
                .governors
                .extend(root.read_sys(&file("cpufreq/scaling_governor"), trimmed_text));
            let Some(count) = read("thermal_throttle/core_throttle_count") else {
                continue;
            };
            let package = read("topology/physical_package_id");
            keep_largest(
                core_counts
                    .entry((package, read("topology/core_id")))
                    .or_default(),
                count,
            );
            if let Some(count) = read("thermal_throttle/package_throttle_count") {
                keep_largest(package_counts.entry(package).or_default(), count);
            }
        }
        speeds.hertz = spread(&hertz);
        speeds.core_throttles = core_counts.into_values().reduce(u64::add);
        speeds.package_throttles = package_counts.into_values().reduce(u64::add);
        speeds
    }
}

pub(crate) fn is_cpu(name: &str) -> bool {
    name.strip_prefix("cpu")
        .is_some_and(|number| number.parse::<u32>().is_ok())
}

fn keep_largest(largest: &mut u64, count: u64) {
    *largest = count.max(*largest);
}

fn spread(hertz: &[f64]) -> Option<Spread> {
    Some(Spread {
        min: hertz.iter().copied().reduce(f64::min)?,
        mean: hertz.iter().sum::<f64>() / hertz.len() as f64,
        max: hertz.iter().copied().reduce(f64::max)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn host(cpus: &[(&str, &str, u64, u64)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (at, (governor, khz, core, throttles)) in cpus.iter().enumerate() {
            let cpu = folder
                .path()
                .join(format!("sys/devices/system/cpu/cpu{at}"));
            let files = [
                ("cpufreq/scaling_governor", (*governor).to_owned()),
                ("cpufreq/scaling_cur_freq", (*khz).to_owned()),
                ("topology/core_id", core.to_string()),
                ("topology/physical_package_id", "0".to_owned()),
                (
                    "thermal_throttle/core_throttle_count",
                    throttles.to_string(),
                ),
                ("thermal_throttle/package_throttle_count", "9".to_owned()),
            ];
            for (name, text) in files {
                fs::create_dir_all(cpu.join(name).parent().unwrap()).unwrap();
                fs::write(cpu.join(name), format!("{text}\n")).unwrap();
            }
        }
        // Not a processor.
        fs::create_dir_all(folder.path().join("sys/devices/system/cpu/cpufreq")).unwrap();
        folder
    }

    #[test]
    fn cpu_frequency_is_summarized_and_sibling_throttling_counted_once() {
        let folder = host(&[
            ("performance", "3000000", 0, 5),
            ("performance", "2000000", 0, 5),
            ("powersave", "1000000", 1, 2),
        ]);
        let speeds = CpuSpeeds::read(&HostRoot::below(folder.path()));
        assert_eq!(
            speeds.hertz,
            Some(Spread {
                min: 1e9,
                mean: 2e9,
                max: 3e9
            })
        );
        assert_eq!(
            speeds
                .governors
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>(),
            ["performance", "powersave"]
        );
        assert_eq!(
            (speeds.core_throttles, speeds.package_throttles),
            (Some(7), Some(9))
        );
    }

    #[test]
    fn a_host_without_cpu_speed_files_gives_none_instead_of_zero() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(
            CpuSpeeds::read(&HostRoot::below(folder.path())),
            CpuSpeeds::default()
        );
        let unknown = host(&[("performance", "<unknown>", 0, 0)]);
        assert_eq!(
            CpuSpeeds::read(&HostRoot::below(unknown.path())).hertz,
            None
        );
    }
}
