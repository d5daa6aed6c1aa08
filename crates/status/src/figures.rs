//! Single numbers by name.

use faultline_metrics::metrics::{cgroup, daemon, host, memory, process as p, validator as v};
use faultline_metrics::{Kind, Metric, Reading, Source, Tick};
use serde::de::IntoDeserializer;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

macro_rules! figures {
    ($($figure:ident = $source:ident, $metric:expr, [$($label:literal),*];)*) => {
        /// A level, or a counter's total.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Figure {
            $($figure,)*
        }

        impl Figure {
            pub const ALL: &[Figure] = &[$(Figure::$figure,)*];

            pub fn source(self) -> Source {
                match self {
                    $(Figure::$figure => Source::$source,)*
                }
            }

            /// The metric, and the values of its first labels. The figure is the sum of all series that have them.
            fn series(self) -> (&'static Metric, &'static [&'static str]) {
                match self {
                    $(Figure::$figure => (&$metric, &[$($label),*]),)*
                }
            }
        }
    };
}

figures! {
    ProcessStart = Process, p::START_TIME, [];
    Anon = Process, p::RESIDENT, ["anon"];
    File = Process, p::RESIDENT, ["file"];
    Shared = Process, p::RESIDENT, ["shmem"];
    Swap = Process, p::SWAP, [];
    MajorFaults = Process, p::PAGE_FAULTS, ["major"];
    MinorFaults = Process, p::PAGE_FAULTS, ["minor"];
    Cpu = Process, p::CPU, [];
    ReadBytes = Process, p::IO_BYTES, ["read"];
    WrittenBytes = Process, p::IO_BYTES, ["write"];
    Threads = Process, p::THREADS, [];
    Unreclaimable = Cgroup, memory::UNRECLAIMABLE, [];
    MemoryLimit = Cgroup, memory::EFFECTIVE_LIMIT, [];
    PageCache = Cgroup, cgroup::STAT, ["file"];
    Refaults = Cgroup, cgroup::REFAULTS, ["file"];
    StalledSome = Cgroup, cgroup::PRESSURE, ["memory", "some"];
    StalledFull = Cgroup, cgroup::PRESSURE, ["memory", "full"];
    OomKills = Cgroup, cgroup::EVENTS, ["oom_kill"];
    HostMemory = Host, host::MEMORY, ["total"];
    HostAvailable = Host, host::MEMORY, ["available"];
    HostSwap = Host, host::MEMORY, ["swap_total"];
    HostSwapFree = Host, host::MEMORY, ["swap_free"];
    Slot = Conclusions, v::SLOT, ["processed"];
    SlotsBehind = Conclusions, v::SLOTS_BEHIND, [];
    Transactions = Rpc, v::TRANSACTIONS, [];
    BlockTransactions = Datapoints, v::BLOCK_TRANSACTIONS, [];
    CacheHits = Datapoints, v::CACHE_HITS, [];
    CacheMisses = Datapoints, v::CACHE_MISSES, [];
    CacheReloads = Datapoints, v::CACHE_RELOADS, [];
    CacheEvictions = Datapoints, v::CACHE_EVICTIONS, [];
    DaemonStart = Daemon, daemon::SELF_START_TIME, [];
    DaemonCpu = Daemon, daemon::SELF_CPU, [];
    DaemonResident = Daemon, daemon::SELF_RESIDENT, [];
}

/// Figures of the last minute. A row is a tick, the newest one last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastMinute {
    /// Seconds before the newest row, falling.
    pub ages: Vec<f64>,
    /// For each row a level, or a counter's rate per second.
    #[serde(deserialize_with = "known")]
    pub values: BTreeMap<Figure, Vec<Option<f64>>>,
}

/// Ignores figures of a newer release.
pub(crate) fn known<'de, D: Deserializer<'de>, V: Deserialize<'de>>(
    deserializer: D,
) -> Result<BTreeMap<Figure, V>, D::Error> {
    let all = BTreeMap::<String, V>::deserialize(deserializer)?;
    let known = all.into_iter().filter_map(|(name, value)| {
        let name: serde::de::value::StringDeserializer<serde::de::value::Error> =
            name.into_deserializer();
        Some((Figure::deserialize(name).ok()?, value))
    });
    Ok(known.collect())
}

impl Figure {
    pub fn metric(self) -> &'static Metric {
        self.series().0
    }

    pub fn is_counter(self) -> bool {
        self.metric().kind == Kind::Counter
    }

    /// Absent if no series has it.
    pub fn of(self, tick: &Tick) -> Option<f64> {
        self.of_readings(tick.readings())
    }

    pub fn of_readings<'a>(self, readings: impl Iterator<Item = &'a Reading>) -> Option<f64> {
        let (metric, labels) = self.series();
        let series = readings.filter(|reading| {
            let mut own = reading.labels.iter().zip(labels);
            std::ptr::eq(reading.metric, metric) && own.all(|(own, label)| own.as_str() == *label)
        });
        let sum = series
            .filter_map(|reading| reading.value.number())
            .reduce(|sum, number| sum + number);
        sum.filter(|sum| sum.is_finite())
    }
}

pub(crate) fn figures(tick: &Tick) -> BTreeMap<Figure, f64> {
    let known = { Figure::ALL.iter() }.filter_map(|figure| Some((*figure, figure.of(tick)?)));
    known.collect()
}
