//! Single numbers by name.

use faultline_metrics::{
    Kind, Metric, Reading, Source, Tick,
    metrics::{cgroup, daemon, host, memory, process as p, validator as v},
};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

macro_rules! figures {
    ($($source:ident { $($figure:ident = $section:ident::$metric:ident $($label:literal)*;)* })*) => {
        /// A gauge's value, or a counter's total.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Figure {
            $($($figure,)*)*
        }

        impl Figure {
            pub const ALL: &[Figure] = &[$($(Figure::$figure,)*)*];

            pub fn source(self) -> Source {
                match self {
                    $($(Figure::$figure)|* => Source::$source,)*
                }
            }

            /// The metric, and the values of its first labels. The figure is the sum of all series
            /// that have them.
            fn series(self) -> (&'static Metric, &'static [&'static str]) {
                match self {
                    $($(Figure::$figure => (&$section::$metric, &[$($label),*]),)*)*
                }
            }
        }
    };
}

figures! {
    Process {
        ProcessStart = p::START_TIME;
        Anon = p::RESIDENT "anon";
        File = p::RESIDENT "file";
        Shared = p::RESIDENT "shmem";
        Swap = p::SWAP;
        MajorFaults = p::PAGE_FAULTS "major";
        MinorFaults = p::PAGE_FAULTS "minor";
        Cpu = p::CPU;
        ReadBytes = p::IO_BYTES "read";
        WrittenBytes = p::IO_BYTES "write";
        Threads = p::THREADS;
    }
    Cgroup {
        Unreclaimable = memory::UNRECLAIMABLE;
        MemoryLimit = memory::EFFECTIVE_LIMIT;
        PageCache = cgroup::STAT "file";
        Refaults = cgroup::REFAULTS "file";
        StalledSome = cgroup::PRESSURE "memory" "some";
        StalledFull = cgroup::PRESSURE "memory" "full";
        OomKills = cgroup::EVENTS "oom_kill";
    }
    Host {
        HostMemory = host::MEMORY "total";
        HostAvailable = host::MEMORY "available";
        HostSwap = host::MEMORY "swap_total";
        HostSwapFree = host::MEMORY "swap_free";
    }
    Conclusions {
        Slot = v::SLOT "processed";
        SlotsBehind = v::SLOTS_BEHIND;
    }
    Rpc {
        Transactions = v::TRANSACTIONS;
    }
    Datapoints {
        BlockTransactions = v::BLOCK_TRANSACTIONS;
        CacheHits = v::CACHE_HITS;
        CacheMisses = v::CACHE_MISSES;
        CacheReloads = v::CACHE_RELOADS;
        CacheEvictions = v::CACHE_EVICTIONS;
    }
    Daemon {
        DaemonStart = daemon::SELF_START_TIME;
        DaemonCpu = daemon::SELF_CPU;
        DaemonResident = daemon::SELF_RESIDENT;
    }
}

/// Figures of the last minute. Each list has one value per tick, the newest one last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastMinute {
    /// Seconds before the newest tick, falling.
    pub ages: Vec<f64>,
    /// Values of a gauge, or rates per second of a counter.
    #[serde(deserialize_with = "deserialize_known")]
    pub values: BTreeMap<Figure, Vec<Option<f64>>>,
}

/// Ignores figures of a newer release.
pub fn deserialize_known<'de, D: Deserializer<'de>, V: Deserialize<'de>>(
    deserializer: D,
) -> Result<BTreeMap<Figure, V>, D::Error> {
    let values = BTreeMap::<String, V>::deserialize(deserializer)?;
    let figures = values
        .into_iter()
        .filter_map(|(name, value)| Some((serde_json::from_value(name.into()).ok()?, value)));
    Ok(figures.collect())
}

impl Figure {
    pub fn metric(self) -> &'static Metric {
        self.series().0
    }

    pub fn is_counter(self) -> bool {
        self.metric().kind == Kind::Counter
    }

    /// `None` if no series matches, or the sum is not finite.
    pub fn of(self, tick: &Tick) -> Option<f64> {
        self.of_readings(tick.readings())
    }

    pub fn of_readings<'a>(self, readings: impl Iterator<Item = &'a Reading>) -> Option<f64> {
        let (metric, first_label_values) = self.series();
        let series = readings.filter(|reading| {
            let mut pairs = reading.label_values.iter().zip(first_label_values);
            std::ptr::eq(reading.metric, metric)
                && pairs.all(|(value, expected)| value.as_str() == *expected)
        });
        let sum = series
            .filter_map(|reading| reading.value.number())
            .reduce(|sum, number| sum + number);
        sum.filter(|sum| sum.is_finite())
    }
}

pub fn values(tick: &Tick) -> BTreeMap<Figure, f64> {
    Figure::ALL
        .iter()
        .filter_map(|figure| Some((*figure, figure.of(tick)?)))
        .collect()
}
