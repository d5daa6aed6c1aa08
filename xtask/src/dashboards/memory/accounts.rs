//! The caches and the index of accounts, and the background work on them.

use super::super::dashboard::Section;
use super::super::panel::{Panel, lines};

pub(super) fn section() -> Section {
    let panels = vec![
        lines("Where accounts are found")
            .ask("rate(agave_accounts_loaded_total{@}[$__rate_interval])", "{{from}}")
            .unit("suffix:/s")
            .slow()
            .size(8, 8)
            .zero_based()
            .stacked()
            .nothing("reported since Agave 4.1")
            .says(
                "Accounts loaded per second, by where they were: in the write cache, in the read cache, in files.",
                "storage grows and read_cache does not: the read cache is too small, or page cache is short of memory.",
            )
            .runbook("AgaveMemoryPressure"),
        lines("Accounts held in memory")
            .ask("agave_read_cache_entries{@}", "read cache")
            .ask("agave_accounts_index_in_memory_entries{@}", "index, in memory")
            .ask("agave_accounts_index_capacity_entries{@}", "index, capacity in memory")
            .ask("agave_accounts_index_entries{@}", "index, all")
            .unit("short")
            .slow()
            .size(8, 8)
            .zero_based()
            .says(
                "Entries of the read cache and of the accounts index; the index reports its capacity since Agave 3.1.",
                "Capacity that doubles within seconds is the index growing its maps: RSS rises with it.",
            ),
        lines("Background work on accounts")
            .ask("rate(agave_accounts_job_seconds_total{@}[$__rate_interval])", "{{job}}")
            .unit("percentunit")
            .slow()
            .size(8, 8)
            .zero_based()
            .says(
                "Share of the time in which each kind of job ran; a job counts when it ends.",
                "Faults or slow replay at the same time: this job takes the disk or pushes pages out of memory.",
            ),
        written(),
        flush_time(),
    ];
    Section { title: "Accounts: caches, index, background work", panels }
}

fn written() -> Panel {
    lines("Written from the write cache to files")
        .ask("rate(agave_write_cache_flushed_bytes_total{@}[$__rate_interval])", "flushed")
        .unit("Bps")
        .slow()
        .size(12, 7)
        .zero_based()
        .nothing("reported since Agave 2.3")
        .says(
            "Bytes of accounts that flushes of the write cache wrote.",
            "It comes in bursts. Disk writes far above it come from elsewhere: snapshots, the ledger.",
        )
}

fn flush_time() -> Panel {
    lines("Time of a flush of the write cache")
        .ask(
            "rate(agave_write_cache_flush_seconds_total{@}[$__rate_interval]) / \
             (rate(agave_write_cache_flushes_total{@}[$__rate_interval]) > 0)",
            "mean",
        )
        .unit("s")
        .slow()
        .size(12, 7)
        .zero_based()
        .says(
            "How long a flush took, on average; validators flush about once in a hundred slots.",
            "It grows while the bytes do not: the disk is slow or busy.",
        )
}
