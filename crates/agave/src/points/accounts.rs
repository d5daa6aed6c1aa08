//! Datapoints of the accounts database: its caches, its index, its files and its background jobs.

use super::fields::{Datapoint, FieldValue, FromField, datapoint};

datapoint! {
    /// The read cache of accounts. Hits, misses and evicts are deltas, entries and size levels.
    ReadCache {
        entries: u64 = "read_only_accounts_cache_entries",
        data_size_bytes: u64 = "read_only_accounts_cache_data_size",
        hits: u64 = "read_only_accounts_cache_hits",
        misses: u64 = "read_only_accounts_cache_misses",
        evicts: u64 = "read_only_accounts_cache_evicts",
        /// Delta: looking accounts up, found or not. Until 4.4.
        load_us: u64 = "read_only_accounts_cache_load_us",
        /// The same since 4.5.
        load_ns: u64 = "read_only_accounts_cache_load_ns",
        /// Delta: putting accounts in. Until 4.4.
        store_us: u64 = "read_only_accounts_cache_store_us",
        /// The same since 4.5.
        store_ns: u64 = "read_only_accounts_cache_store_ns",
        /// Delta: evicting accounts, in a thread of its own.
        evict_us: u64 = "read_only_accounts_cache_evict_us",
    }
}

datapoint! {
    /// The write cache of accounts.
    AccountsCacheSize {
        /// Rooted slots in it.
        num_roots: u64 = "num_roots",
        num_slots: u64 = "num_slots",
        total_size_bytes: u64 = "total_size",
    }
}

datapoint! {
    AccountsIndex {
        count: u64 = "count",
        /// Of those, in memory.
        count_in_mem: u64 = "count_in_mem",
        /// Entries times their size; since 3.1 the capacity of the maps times the size of a place, and what is in use.
        estimate_mem_bytes: u64 = "estimate_mem_bytes",
        /// Entries there is room for in memory. Since 3.1.
        capacity_in_mem: u64 = "capacity_in_mem",
        /// Delta: accesses that memory answered, by lookups and by stores; since 4.1 also by writing through to disk.
        gets_from_mem: u64 = "gets_from_mem",
        /// Delta: accesses that memory did not answer.
        gets_missing: u64 = "gets_missing",
        /// Deltas: entries found in the bucket map on disk, lookups that it could not answer, and the times of both. Absent if the whole
        /// index is in memory, like all that follows.
        disk_found: u64 = "load_disk_found_count",
        /// See `disk_found`.
        disk_found_us: u64 = "load_disk_found_us",
        /// See `disk_found`.
        disk_missing: u64 = "load_disk_missing_count",
        /// See `disk_found`.
        disk_missing_us: u64 = "load_disk_missing_us",
        /// Size of the bucket map's index files. The second name since 4.0.
        disk_index_bytes: u64 = "disk_index_index_file_size" | "disk_index_file_size",
        /// Size of its data files, which hold accounts with several versions. The second name since 4.0.
        disk_data_bytes: u64 = "disk_index_data_file_size" | "disk_data_file_size",
        /// Delta: bins that were scanned for entries old enough to leave memory.
        bins_scanned: u64 = "buckets_scanned",
        /// Delta: the time of these scans, summed over threads. The second name since 4.3.
        scan_us: u64 = "flush_scan_us" | "evict_scan_us",
    }
}

datapoint! {
    /// Accounts that were loaded, by where they were found: deltas, once a second. Since 4.1.
    AccountsLoads {
        from_write_cache: u64 = "num_loaded_from_write_cache",
        /// In the write cache, by way of the index. Only in 4.1.
        from_index_cache: u64 = "num_loaded_from_index_cache",
        from_read_cache: u64 = "num_loaded_from_read_cache",
        /// In account files, by way of the index.
        from_storage: u64 = "num_loaded_from_index_storage",
    }
}

datapoint! {
    /// A background job of the accounts database began or ended: how many of its kind run now. One field a point.
    AccountsActive {
        /// Cleaning of old versions.
        clean: u64 = "clean",
        /// Shrinking of files that are mostly dead.
        shrink: u64 = "shrink",
        /// Squashing of old files into one.
        squash_ancient: u64 = "squash_ancient",
        /// Flushing of the write cache.
        flush: u64 = "flush",
        /// Calculation of the accounts hash. Until 2.3.
        hash: u64 = "hash",
    }
}

datapoint! {
    /// One flush of the write cache to files.
    WriteCacheFlush {
        /// How long rooted slots took; what is flushed beyond them, because the cache is too large, is not in it.
        elapsed_us: u64 = "flush_roots_elapsed",
        /// Bytes of accounts written. Since 2.3; the second name since 4.3.
        flushed_bytes: u64 = "account_bytes_flushed" | "account_bytes_stored",
    }
}

datapoint! {
    /// Account storage files: about as many mappings (mmap mode) or descriptors (file mode).
    AccountsDbStores {
        total_count: u64 = "total_count",
        /// Their bytes.
        total_bytes: u64 = "total_bytes",
        /// Bytes of live accounts.
        total_alive_bytes: u64 = "total_alive_bytes",
        /// Live share, 0 to 1. Broken when there are no files.
        total_alive_ratio: f64 = "total_alive_ratio",
    }
}
