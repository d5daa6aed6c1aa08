use faultline_metrics::{
    Metric,
    metrics::{cgroup, daemon, host, memory, process, recorded, validator},
};

macro_rules! signals {
    ($($(#[$doc:meta])* $name:ident = $metric:expr, [$($label:literal),*];)*) => {
        /// A value that is read at every tick, in bytes or seconds or as a count. Counters are
        /// totals.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Signal {
            $($(#[$doc])* $name,)*
        }

        impl Signal {
            /// In the order of [`Run::signals`](super::Run::signals).
            pub const ALL: &[Signal] = &[$(Signal::$name,)*];

            /// The metric and its labels' values.
            pub fn metric(self) -> (&'static Metric, &'static [&'static str]) {
                match self {
                    $(Signal::$name => (&$metric, &[$($label),*]),)*
                }
            }
        }
    };
}

signals! {
    RssAnon = process::RESIDENT, ["anon"];
    RssFile = process::RESIDENT, ["file"];
    RssShmem = process::RESIDENT, ["shmem"];
    Virtual = process::VIRTUAL, [];
    Swap = process::SWAP, [];
    MajorFaults = process::PAGE_FAULTS, ["major"];
    MinorFaults = process::PAGE_FAULTS, ["minor"];
    CpuUser = process::CPU, ["user"];
    CpuSystem = process::CPU, ["system"];
    /// Limit of the cgroup, machine or NUMA nodes with the least headroom. In older recordings, the
    /// smallest limit.
    Limit = memory::EFFECTIVE_LIMIT, [];
    Unreclaimable = memory::UNRECLAIMABLE, [];
    /// Unreclaimable memory of the parent cgroup (level 1), outside the validator's cgroup.
    OthersParent = memory::LEVEL_OTHERS, ["1"];
    /// Likewise of the machine.
    OthersMachine = memory::LEVEL_OTHERS, ["machine"];
    /// Page cache, including shared memory.
    CgroupFile = cgroup::STAT, ["file"];
    CgroupShmem = cgroup::STAT, ["shmem"];
    RefaultAnon = cgroup::REFAULTS, ["anon"];
    RefaultFile = cgroup::REFAULTS, ["file"];
    MemorySome = cgroup::PRESSURE, ["memory", "some"];
    MemoryFull = cgroup::PRESSURE, ["memory", "full"];
    IoSome = cgroup::PRESSURE, ["io", "some"];
    IoFull = cgroup::PRESSURE, ["io", "full"];
    HostMemorySome = host::PRESSURE, ["memory", "some"];
    HostIoSome = host::PRESSURE, ["io", "some"];
    Behind = validator::SLOTS_BEHIND, [];
    Processed = validator::SLOT, ["processed"];
    /// The processed slot, if a source reported it since the previous tick.
    PhaseEvidenceSlot = recorded::PHASE_EVIDENCE, ["slot"];
    /// Likewise the tip.
    PhaseEvidenceTip = recorded::PHASE_EVIDENCE, ["tip"];
    /// 1 if the process was suspended. Older recordings lack the three signals of evidence.
    PhaseEvidenceStopped = recorded::PHASE_EVIDENCE, ["stopped"];
    RpcUp = daemon::SOURCE_UP, ["rpc"];
    /// Seconds that pushes or the log cover, without a transaction.
    ZeroTpsSeconds = validator::ZERO_TPS, [];
    /// Seconds that neither covers, or whose transactions the log's filter omits.
    UnknownTpsSeconds = validator::TPS_UNKNOWN, [];
    ReadCacheHits = validator::READ_CACHE_HITS, [];
    ReadCacheMisses = validator::READ_CACHE_MISSES, [];
    ReadCacheEvictions = validator::READ_CACHE_EVICTIONS, [];
    ReadCacheLookupTime = validator::READ_CACHE_TIME, ["load"];
    ReadCacheEntries = validator::READ_CACHE_ENTRIES, [];
    ReadCacheBytes = validator::READ_CACHE_BYTES, [];
    LoadedWriteCache = validator::ACCOUNTS_LOADED, ["write_cache"];
    LoadedReadCache = validator::ACCOUNTS_LOADED, ["read_cache"];
    LoadedStorage = validator::ACCOUNTS_LOADED, ["storage"];
    WriteCacheBytes = validator::WRITE_CACHE_BYTES, [];
    Flushes = validator::WRITE_CACHE_FLUSHES, [];
    FlushTime = validator::WRITE_CACHE_FLUSH_TIME, [];
    FlushedBytes = validator::WRITE_CACHE_FLUSHED, [];
    IndexEntries = validator::INDEX_ENTRIES, [];
    IndexInMemory = validator::INDEX_IN_MEMORY, [];
    IndexBytes = validator::INDEX_BYTES, [];
    /// Lookups and stores that memory answered. Since Agave 4.1 writes to disk count, too.
    IndexFoundInMemory = validator::INDEX_LOOKUPS, ["found"];
    /// Those of accounts that are on disk or do not exist.
    IndexNotInMemory = validator::INDEX_LOOKUPS, ["missing"];
    DiskFound = validator::INDEX_DISK_LOOKUPS, ["found"];
    DiskFoundTime = validator::INDEX_DISK_TIME, ["found"];
    IndexDiskIndex = validator::INDEX_DISK_BYTES, ["index"];
    /// Data of accounts with several versions.
    IndexDiskData = validator::INDEX_DISK_BYTES, ["data"];
    IndexScanTime = validator::INDEX_SCAN_TIME, [];
    JobClean = validator::ACCOUNTS_JOB_TIME, ["clean"];
    JobShrink = validator::ACCOUNTS_JOB_TIME, ["shrink"];
    JobSquash = validator::ACCOUNTS_JOB_TIME, ["squash_ancient"];
    JobFlush = validator::ACCOUNTS_JOB_TIME, ["flush"];
    /// From the version or the configuration.
    ProgramCacheCapacityConfigured = validator::CACHE_CAPACITY, ["configured"];
    /// From the number of entries at which evictions begin.
    ProgramCacheCapacityObserved = validator::CACHE_CAPACITY, ["observed"];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_is_a_column_of_recordings() {
        for signal in Signal::ALL {
            let (metric, labels) = signal.metric();
            assert!(
                faultline_recording::schema::column_of(metric, labels).is_some(),
                "{} {labels:?}",
                metric.name
            );
        }
    }

    #[test]
    fn every_signal_has_as_many_labels_as_its_metric() {
        for (index, signal) in Signal::ALL.iter().enumerate() {
            let (metric, labels) = signal.metric();
            assert_eq!(labels.len(), metric.label_names.len(), "{}", metric.name);
            assert_eq!(*signal as usize, index);
        }
    }
}
