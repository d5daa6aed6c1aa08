//! Which columns of a recording the analysis reads.

use faultline_catalog::Metric;
use faultline_catalog::metrics::{cgroup, daemon, host, memory, process, recorded, validator};

macro_rules! signals {
    ($($(#[$doc:meta])* $name:ident = $metric:expr, [$($label:literal),*];)*) => {
        /// What is read at every tick. Bytes, seconds, or counts; counters as totals.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Signal {
            $($(#[$doc])* $name,)*
        }

        impl Signal {
            /// Every signal, in the order of [`Run::signals`](super::Run::signals).
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
    /// Resident page cache mapped by the process.
    RssFile = process::RESIDENT, ["file"];
    RssShmem = process::RESIDENT, ["shmem"];
    Virtual = process::VIRTUAL, [];
    /// Anonymous memory that is swapped out.
    Swap = process::SWAP, [];
    /// Major faults, a counter.
    Major = process::PAGE_FAULTS, ["major"];
    /// Minor faults, a counter.
    Minor = process::PAGE_FAULTS, ["minor"];
    /// CPU seconds in user mode, a counter.
    CpuUser = process::CPU, ["user"];
    /// CPU seconds in the kernel, a counter.
    CpuSystem = process::CPU, ["system"];
    /// The limit of the level with the least headroom. By the old rule: the smallest limit.
    Limit = memory::EFFECTIVE_LIMIT, [];
    /// Memory that cannot be dropped at that level.
    Unreclaimable = memory::UNRECLAIMABLE, [];
    /// Unreclaimable memory of the parent cgroup that is not of the validator's own.
    OthersParent = memory::LEVEL_OTHERS, ["1"];
    /// Unreclaimable memory of the machine that is not of the validator's own cgroup.
    OthersMachine = memory::LEVEL_OTHERS, ["machine"];
    /// Page cache of the validator's cgroup, shared memory included.
    CgroupFile = cgroup::STAT, ["file"];
    /// Shared memory of the validator's cgroup.
    CgroupShmem = cgroup::STAT, ["shmem"];
    /// Refaults of anonymous pages, a counter.
    RefaultAnon = cgroup::REFAULTS, ["anon"];
    /// Refaults of file pages, a counter.
    RefaultFile = cgroup::REFAULTS, ["file"];
    /// Seconds in which some task waited for memory, a counter.
    MemorySome = cgroup::PRESSURE, ["memory", "some"];
    /// Seconds in which all tasks waited for memory, a counter.
    MemoryFull = cgroup::PRESSURE, ["memory", "full"];
    /// Seconds in which some task waited for I/O, a counter.
    IoSome = cgroup::PRESSURE, ["io", "some"];
    /// Seconds in which all tasks waited for I/O, a counter.
    IoFull = cgroup::PRESSURE, ["io", "full"];
    /// Seconds in which some task of the machine waited for memory, a counter.
    HostMemorySome = host::PRESSURE, ["memory", "some"];
    /// Seconds in which some task of the machine waited for I/O, a counter.
    HostIoSome = host::PRESSURE, ["io", "some"];
    /// Slots behind the tip.
    Behind = validator::SLOTS_BEHIND, [];
    /// The newest slot that was processed.
    Processed = validator::SLOT, ["processed"];
    /// The processed slot, where a source reported it since the tick before.
    EvidenceSlot = recorded::PHASE_EVIDENCE, ["slot"];
    /// The tip, likewise.
    EvidenceTip = recorded::PHASE_EVIDENCE, ["tip"];
    /// Whether the process was stopped or frozen; absent in recordings of versions that kept no evidence.
    EvidenceStopped = recorded::PHASE_EVIDENCE, ["stopped"];
    /// Whether JSON-RPC answered.
    RpcUp = daemon::SOURCE_UP, ["rpc"];
    /// Seconds whose points arrived and carry no transaction, a counter.
    ZeroTps = validator::ZERO_TPS, [];
    /// Seconds of which no points arrived, a counter.
    UnknownTps = validator::TPS_UNKNOWN, [];
    /// Accounts found in the read cache, a counter.
    ReadCacheHits = validator::READ_CACHE_HITS, [];
    /// Accounts not found in it, a counter.
    ReadCacheMisses = validator::READ_CACHE_MISSES, [];
    /// Accounts evicted from it, a counter.
    ReadCacheEvictions = validator::READ_CACHE_EVICTIONS, [];
    /// Seconds in which it was searched, a counter.
    ReadCacheLoad = validator::READ_CACHE_TIME, ["load"];
    ReadCacheEntries = validator::READ_CACHE_ENTRIES, [];
    ReadCacheBytes = validator::READ_CACHE_BYTES, [];
    /// Accounts loaded from the write cache, a counter.
    LoadedWriteCache = validator::ACCOUNTS_LOADED, ["write_cache"];
    /// Accounts loaded from the read cache, a counter.
    LoadedReadCache = validator::ACCOUNTS_LOADED, ["read_cache"];
    /// Accounts loaded from files, a counter.
    LoadedStorage = validator::ACCOUNTS_LOADED, ["storage"];
    /// Size of the write cache.
    WriteCacheBytes = validator::WRITE_CACHE_BYTES, [];
    /// Flushes of the write cache, a counter.
    Flushes = validator::WRITE_CACHE_FLUSHES, [];
    /// Seconds of these, a counter.
    FlushTime = validator::WRITE_CACHE_FLUSH_TIME, [];
    /// Bytes of these, a counter.
    FlushedBytes = validator::WRITE_CACHE_FLUSHED, [];
    /// Accounts in the index.
    IndexEntries = validator::INDEX_ENTRIES, [];
    IndexInMemory = validator::INDEX_IN_MEMORY, [];
    /// Memory of the index.
    IndexBytes = validator::INDEX_BYTES, [];
    /// Accesses to the index, by lookups and stores, that memory answered, a counter.
    IndexFound = validator::INDEX_LOOKUPS, ["found"];
    /// Accesses to the index that memory did not answer, a counter.
    IndexMissing = validator::INDEX_LOOKUPS, ["missing"];
    /// Entries of the index found on disk, a counter.
    DiskFound = validator::INDEX_DISK_LOOKUPS, ["found"];
    /// Seconds of these, a counter.
    DiskFoundTime = validator::INDEX_DISK_TIME, ["found"];
    /// Size of the index on disk.
    IndexDiskIndex = validator::INDEX_DISK_BYTES, ["index"];
    /// Size of what it holds of accounts with several versions.
    IndexDiskData = validator::INDEX_DISK_BYTES, ["data"];
    /// Seconds in which the index was scanned for old entries, a counter.
    IndexScanTime = validator::INDEX_SCAN_TIME, [];
    /// Seconds of cleaning, a counter.
    JobClean = validator::ACCOUNTS_JOB_TIME, ["clean"];
    /// Seconds of shrinking, a counter.
    JobShrink = validator::ACCOUNTS_JOB_TIME, ["shrink"];
    /// Seconds of squashing, a counter.
    JobSquash = validator::ACCOUNTS_JOB_TIME, ["squash_ancient"];
    /// Seconds of flushing, a counter.
    JobFlush = validator::ACCOUNTS_JOB_TIME, ["flush"];
    /// Capacity of the program cache, by version or configuration.
    CapacityConfigured = validator::CACHE_CAPACITY, ["configured"];
    /// Capacity of the program cache, by what it did.
    CapacityObserved = validator::CACHE_CAPACITY, ["observed"];
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
            assert_eq!(labels.len(), metric.labels.len(), "{}", metric.name);
            assert_eq!(*signal as usize, index);
        }
    }
}
