use std::collections::BTreeSet;

use super::HardwareReader;
use crate::{
    cpus::is_cpu,
    parse::{cpuinfo, number},
    text::only_line,
};

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Processors {
    pub model: Option<String>,
    pub sockets: Option<u64>,
    pub cores: Option<u64>,
    pub threads: Option<u64>,
    /// From the driver, else from the model's name.
    pub base_mhz: Option<u64>,
    pub max_mhz: Option<u64>,
    /// Distinct and sorted; empty without frequency scaling, as in most virtual machines.
    pub governors: Vec<String>,
}

pub fn read(reader: &mut HardwareReader<'_>) -> Processors {
    let info = reader.proc("cpuinfo", cpuinfo::parse);
    let mut first =
        |file: &str| reader.sys(&format!("devices/system/cpu/cpu0/{file}"), number::parse);
    let base = first("cpufreq/base_frequency")
        .map(|khz| khz / 1000)
        .or_else(|| first("acpi_cppc/nominal_freq"));
    let max_mhz = first("cpufreq/cpuinfo_max_freq").map(|khz| khz / 1000);
    let governors = governors(reader);
    let info = info.unwrap_or_default();
    // The driver may report 0 for unknown.
    let base_mhz = base
        .filter(|mhz| *mhz > 0)
        .or_else(|| mhz_in_model_name(info.model.as_deref()?));
    Processors {
        base_mhz,
        max_mhz,
        governors,
        sockets: info.sockets,
        cores: info.cores,
        threads: (info.threads > 0).then_some(info.threads),
        model: info.model,
    }
}

fn governors(reader: &mut HardwareReader<'_>) -> Vec<String> {
    let mut all = BTreeSet::new();
    for cpu in reader.names("devices/system/cpu") {
        if is_cpu(&cpu) {
            let file = format!("devices/system/cpu/{cpu}/cpufreq/scaling_governor");
            all.extend(reader.sys(&file, only_line));
        }
    }
    all.into_iter().collect()
}

/// Intel appends it to the name: `... CPU @ 2.40GHz`.
fn mhz_in_model_name(model: &str) -> Option<u64> {
    let (_, speed) = model.rsplit_once('@')?;
    let ghz: f64 = speed.trim().strip_suffix("GHz")?.trim().parse().ok()?;
    // The range makes the cast defined and exact enough.
    (0.01..100.0)
        .contains(&ghz)
        .then(|| (ghz * 1000.0).round() as u64)
}
