use super::fields::{Datapoint, FieldValue, FromField, datapoint};

datapoint! {
    /// The read cache of accounts. Hits, misses and evicts are deltas; entries and size are levels.
    ReadCache {
        entries: u64 = "read_only_accounts_cache_entries",
        data_size_bytes: u64 = "read_only_accounts_cache_data_size",
        hits: u64 = "read_only_accounts_cache_hits",
        misses: u64 = "read_only_accounts_cache_misses",
        evicts: u64 = "read_only_accounts_cache_evicts",
        /// Delta: lookups, successful or not. Until 4.4.
        load_us: u64 = "read_only_accounts_cache_load_us",
        /// Since 4.5.
        load_ns: u64 = "read_only_accounts_cache_load_ns",
        /// Delta: insertions. Until 4.4.
        store_us: u64 = "read_only_accounts_cache_store_us",
        /// Since 4.5.
        store_ns: u64 = "read_only_accounts_cache_store_ns",
        /// Delta: evictions, in a separate thread.
        evict_us: u64 = "read_only_accounts_cache_evict_us",
    }
}

datapoint! {
    AccountsCacheSize {
        num_roots: u64 = "num_roots",
        num_slots: u64 = "num_slots",
        total_size_bytes: u64 = "total_size",
    }
}

datapoint! {
    AccountsIndex {
        count: u64 = "count",
        count_in_mem: u64 = "count_in_mem",
        /// Entries times entry size. Since 3.1: capacity of the maps times entry size, plus what is
        /// in use.
        estimate_mem_bytes: u64 = "estimate_mem_bytes",
        /// Entry capacity in memory. Since 3.1.
        capacity_in_mem: u64 = "capacity_in_mem",
        /// Delta: accesses by lookups and stores that memory answered; since 4.1 also by
        /// write-through to disk.
        gets_from_mem: u64 = "gets_from_mem",
        gets_missing: u64 = "gets_missing",
        /// Deltas: entries found in the bucket map on disk, entries not found there, and the times
        /// of both. These and all following fields are absent if the whole index is in memory.
        disk_found: u64 = "load_disk_found_count",
        disk_found_us: u64 = "load_disk_found_us",
        disk_missing: u64 = "load_disk_missing_count",
        disk_missing_us: u64 = "load_disk_missing_us",
        /// Size of the bucket map's index files. The second name since 4.0.
        disk_index_bytes: u64 = "disk_index_index_file_size" | "disk_index_file_size",
        /// Size of its data files, which hold accounts with several versions. The second name since 4.0.
        disk_data_bytes: u64 = "disk_index_data_file_size" | "disk_data_file_size",
        /// Delta: bins scanned for entries to evict by age.
        bins_scanned: u64 = "buckets_scanned",
        /// Delta: time of these scans, summed over threads. The second name since 4.3.
        scan_us: u64 = "flush_scan_us" | "evict_scan_us",
    }
}

datapoint! {
    /// Loaded accounts by source: deltas, once a second. Since 4.1.
    AccountsLoads {
        from_write_cache: u64 = "num_loaded_from_write_cache",
        /// From the write cache, via the index. Only in 4.1.
        from_index_cache: u64 = "num_loaded_from_index_cache",
        from_read_cache: u64 = "num_loaded_from_read_cache",
        from_storage: u64 = "num_loaded_from_index_storage",
    }
}

datapoint! {
    /// Sent when a background job begins or ends: running jobs of its kind. One field a point.
    AccountsActive {
        clean: u64 = "clean",
        shrink: u64 = "shrink",
        squash_ancient: u64 = "squash_ancient",
        flush: u64 = "flush",
        /// Accounts hash. Until 2.3.
        hash: u64 = "hash",
    }
}

datapoint! {
    WriteCacheFlush {
        /// Time for rooted slots only; extra flushes because of cache size are not included.
        elapsed_us: u64 = "flush_roots_elapsed",
        /// Since 2.3; the second name since 4.3.
        flushed_bytes: u64 = "account_bytes_flushed" | "account_bytes_stored",
    }
}

datapoint! {
    /// Account storage files: roughly one mapping (mmap mode) or descriptor (file mode) each.
    AccountsDbStores {
        total_count: u64 = "total_count",
        total_bytes: u64 = "total_bytes",
        total_alive_bytes: u64 = "total_alive_bytes",
        /// 0 to 1. Broken when there are no files.
        total_alive_ratio: f64 = "total_alive_ratio",
    }
}
