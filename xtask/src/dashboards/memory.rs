//! Memory by type against its limits, and who waits for pages.

mod accounts;

use super::dashboard::{CLUSTER, Dashboard, INSTANCE, JOB, Section};
use super::overview::{exhaustion, headroom, own_limit_counts, predicted, taken, used};
use super::panel::{Panel, bars, lines, stat};

pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        uid: "faultline-memory",
        title: "Memory and faults",
        about: "What the validator's memory is made of, how far it is from its limits, and which threads wait for pages.",
        since: "now-6h",
        variables: vec![JOB, CLUSTER, INSTANCE],
        sections: vec![room(), kinds(), accounts::section(), faults(), pressure(), disks()],
    }
}

fn against_limits() -> Panel {
    lines("Against its limits")
        .ask("agave_memory_effective_limit_bytes{@}", "effective limit")
        .ask("agave_cgroup_memory_limit_bytes{@}", "its own memory.{{limit}}")
        .ask(&format!("agave_cgroup_memory_peak_bytes{{@}} {}", own_limit_counts()), "most ever used")
        .ask(&used(), "used, page cache included")
        .ask("agave_memory_unreclaimable_bytes{@}", "unreclaimable")
        .unit("bytes")
        .zero_based()
        .limit("effective limit", "red")
        .limit("most ever used", "purple")
        .paint("used, page cache included", "blue")
        .paint("unreclaimable", "green")
        .says(
            "What is used and what of it cannot be dropped, where the effective limit applies: in its own cgroup, or on the \
             whole machine, then including other processes. The usage of a parent cgroup is not read. Page cache fills up to the \
             limit by design; unreclaimable memory must not.",
            "Unreclaimable memory near the limit: the alert OOM ahead.",
        )
        .runbook("AgaveOomAhead")
}

fn where_it_goes() -> Panel {
    lines("Where it goes")
        .ask("agave_memory_effective_limit_bytes{@}", "limit")
        .ask("agave_memory_unreclaimable_bytes{@}", "unreclaimable")
        .ask(&predicted(7200), "in two hours")
        .ask(&predicted(86400), "in a day")
        .unit("bytes")
        .zero_based()
        .limit("limit", "red")
        .limit("in two hours", "orange")
        .limit("in a day", "purple")
        .paint("unreclaimable", "green")
        .says(
            "Unreclaimable memory and the straight line through its last 30 minutes.",
            "In two hours above the limit: act now. In a day: plan a restart. Steep right after a start: wait.",
        )
        .runbook("AgaveOomAhead")
}

fn room() -> Section {
    let panels = vec![
        stat("Effective limit")
            .ask("agave_memory_effective_limit_bytes{@}", "")
            .unit("bytes")
            .colour("text")
            .says(
                "The smallest limit over its cgroup's ancestors, and the machine's memory.",
                "Not what you configured: a parent slice has a smaller limit, or a drop-in was not read.",
            ),
        taken(),
        headroom(),
        exhaustion(),
        stat("Out-of-memory kills")
            .ask("sum by (instance) (increase(agave_cgroup_memory_events_total{@, event=\"oom_kill\"}[$__range]))", "")
            .unit("none")
            .decimals(0)
            .steps("green", &[(0.5, "red")])
            .nothing("not reported here")
            .says("Processes of its cgroup that the kernel killed in the time shown.", "Any: the runbook.")
            .runbook("AgaveOomHappened"),
        stat("Limit met")
            .ask(
                "sum by (instance) (rate(agave_cgroup_memory_events_total{@, event=~\"max|high\"}[$__rate_interval]))",
                "",
            )
            .unit("suffix:/s")
            .decimals(1)
            .steps("green", &[(100.0, "orange")])
            .nothing("not reported here")
            .says(
                "Times per second an allocation met memory.max or memory.high and something had to be dropped first.",
                "Many, with refaults: the limit is below the working set. Many without: page cache at its limit, harmless.",
            )
            .runbook("AgaveMemoryPressure"),
        against_limits(),
        where_it_goes(),
    ];
    Section { title: "Limits and headroom", panels }
}

fn resident() -> Panel {
    lines("Resident memory by type")
        .ask("agave_process_resident_memory_bytes{@}", "{{type}}")
        .unit("bytes")
        .size(8, 8)
        .zero_based()
        .stacked()
        .says(
            "RSS of the process: anon is demand, file is page cache that it maps (large before Agave 2.2), shmem is tmpfs.",
            "anon that grows for days without a plateau is a leak or an index: compare versions in Fleet.",
        )
        .runbook("AgaveOomAhead")
}

fn of_cgroup() -> Panel {
    lines("cgroup memory by type")
        .ask("agave_cgroup_memory_stat_bytes{@, type=~\"anon|file|kernel\"}", "{{type}}")
        .unit("bytes")
        .size(8, 8)
        .zero_based()
        .stacked()
        .says(
            "What is charged to its cgroup; file is page cache, shmem included. From Agave 2.2 on this is where account \
             reads show, no more in RSS.",
            "file squeezed thin under a limit while refaults rise: the working set does not fit.",
        )
        .runbook("AgaveMemoryPressure")
}

fn kept() -> Panel {
    lines("What the validator keeps")
        .ask("agave_accounts_index_bytes{@}", "accounts index")
        .ask("agave_read_cache_bytes{@}", "read cache")
        .ask("agave_write_cache_bytes{@}", "write cache")
        .unit("bytes")
        .size(8, 8)
        .slow()
        .zero_based()
        .stacked()
        .says(
            "What Agave says of its own tables; the index as an estimate.",
            "The index dominates from 3.1 on, where it is in memory: --enable-accounts-disk-index or a limit bounds it.",
        )
}

fn kinds() -> Section {
    let panels = vec![
        resident(),
        of_cgroup(),
        kept(),
        lines("Heap by its allocator")
            .ask("agave_heap_bytes{@}", "{{kind}}")
            .unit("bytes")
            .size(6, 7)
            .slow()
            .zero_based()
            .nothing("reported since Agave 4")
            .says(
                "jemalloc's view: allocated is in use, active and resident are what it holds (Agave 4.x).",
                "resident far above allocated is fragmentation; it comes back with a restart.",
            ),
        lines("Address space")
            .ask("agave_process_virtual_memory_bytes{@}", "virtual memory (VSZ)")
            .unit("bytes")
            .size(6, 7)
            .zero_based()
            .says(
                "Address space, not memory: terabytes are normal on mmap versions.",
                "Nothing to do. A jump is a new table or a new set of mappings.",
            ),
        lines("Page tables and swap")
            .ask("agave_process_page_table_bytes{@}", "page tables")
            .ask("agave_process_swap_bytes{@}", "swapped out")
            .unit("bytes")
            .size(6, 7)
            .zero_based()
            .steps("transparent", &[(67_108_864.0, "orange")])
            .says(
                "What the process's memory costs the kernel, and what of it is swapped out.",
                "Swap above 64 MiB: switch swap off. Page tables of many gigabytes: mappings without end, an mmap version.",
            )
            .runbook("AgaveSwapInUse"),
        lines("The machine's memory")
            .ask("agave_host_memory_bytes{@, kind=~\"total|available|cached|free\"}", "{{kind}}")
            .unit("bytes")
            .size(6, 7)
            .zero_based()
            .limit("total", "red")
            .says("The whole machine.", "available low while the validator's headroom is large: find the neighbour."),
    ];
    Section { title: "What it is made of", panels }
}

fn by_pool(title: &'static str, kind: &str) -> Panel {
    let faults = format!("agave_thread_pool_page_faults_total{{@, type=\"{kind}\"}}");
    lines(title)
        .ask(
            &format!(
                "sum by (pool) (rate({faults}[$__rate_interval])) \
                 and topk(8, sum by (pool) (increase({faults}[$__range] @ end())))"
            ),
            "{{pool}}",
        )
        .unit("suffix:/s")
        .decimals(2)
        .size(12, 9)
        .zero_based()
        .with_numbers()
}

fn faults() -> Section {
    let panels = vec![
        lines("Major faults")
            .ask("rate(agave_process_page_faults_total{@, type=\"major\"}[$__rate_interval])", "major")
            .unit("suffix:/s")
            .size(6, 8)
            .zero_based()
            .colour("red")
            .steps("transparent", &[(1000.0, "red")])
            .says(
                "Pages for which a thread of the process waited for a disk. From Agave 2.2 on account reads are file reads \
                 and fault no more: see disks below.",
                "More than 1,000 a second after the start: the alert major-fault storm.",
            )
            .runbook("AgaveMajorFaultStorm"),
        lines("Minor faults")
            .ask("rate(agave_process_page_faults_total{@, type=\"minor\"}[$__rate_interval])", "minor")
            .unit("suffix:/s")
            .size(6, 8)
            .zero_based()
            .colour("blue")
            .says(
                "Pages that were in memory and not yet mapped, or touched for the first time.",
                "They cost microseconds. A doubling after an upgrade: the allocator gives memory back too eagerly.",
            ),
        lines("Pages read back soon after they were dropped")
            .ask("rate(agave_cgroup_memory_refaults_total{@}[$__rate_interval])", "refaults, {{type}}")
            .unit("suffix:/s")
            .size(12, 8)
            .zero_based()
            .says(
                "Refaults: the surest sign that the working set does not fit.",
                "file: page cache is too small, give the cgroup more. anon: it swaps, switch swap off.",
            )
            .runbook("AgaveMemoryPressure"),
        by_pool("Who waits for a disk: major faults by thread pool", "major")
            .says(
                "The eight pools with most major faults in the time shown.",
                "Replay (solScHandler, solReplay) at the top costs throughput. Index flushers and hashing are background.",
            )
            .runbook("AgaveMajorFaultStorm"),
        by_pool("Who touches new memory: minor faults by thread pool", "minor").says(
            "The eight pools with most minor faults in the time shown: first touches of heap, and mapped page cache.",
            "A pool that faults steadily without growing gives memory back and takes it again: allocator settings.",
        ),
    ];
    Section { title: "Who is faulting", panels }
}

fn reclaim() -> Panel {
    lines("Reclaim")
        .ask("rate(agave_cgroup_memory_reclaim_pages_total{@}[$__rate_interval])", "{{op}} by {{by}}")
        .unit("suffix:pages/s")
        .size(8, 8)
        .zero_based()
        .nothing("cgroup version 2 only")
        .says(
            "Pages looked at (scan) and dropped (steal), by kswapd or by the allocating thread itself (direct).",
            "direct: the validator's own threads clean up before they go on. More headroom spares them that.",
        )
        .runbook("AgaveMemoryPressure")
}

fn against_counts() -> Panel {
    lines("Mappings and files against their limits")
        .ask("agave_accounts_storages{@} / on (job, instance) agave_host_max_maps{@}", "storages, of vm.max_map_count")
        .ask("agave_process_open_fds{@} / agave_process_max_fds{@}", "open files, of their limit")
        .unit("percentunit")
        .size(8, 7)
        .zero_based()
        .steps("transparent", &[(0.8, "red")])
        .says(
            "Before Agave 2.2 each storage is about one mapping, afterwards one open file. Mappings are never counted.",
            "Storages above 80 % on such a version: raise vm.max_map_count, or it aborts.",
        )
        .runbook("AgaveMaxMapCount")
}

fn pressure() -> Section {
    let panels = vec![
        lines("Pressure of its cgroup")
            .ask("rate(agave_cgroup_pressure_stalled_seconds_total{@}[$__rate_interval])", "{{resource}}, {{kind}}")
            .unit("percentunit")
            .size(8, 8)
            .zero_based()
            .steps("transparent", &[(0.1, "red")])
            .nothing("cgroup version 2 with PSI only")
            .says(
                "Share of time in which some or all (full) tasks were stalled waiting for the resource (cgroup v2 with PSI).",
                "memory above 10 %: more memory. io with memory: the same. io alone: the disk.",
            )
            .runbook("AgaveMemoryPressure"),
        lines("Pressure of the machine")
            .ask("rate(agave_host_pressure_stalled_seconds_total{@}[$__rate_interval])", "{{resource}}, {{kind}}")
            .unit("percentunit")
            .size(8, 8)
            .zero_based()
            .nothing("no PSI here")
            .says("The same over the whole machine.", "High here and low above: a neighbour suffers, not the validator.")
            .runbook("AgaveMemoryPressure"),
        reclaim(),
        lines("Limits met")
            .ask("increase(agave_cgroup_memory_events_total{@}[$__rate_interval])", "{{event}}")
            .unit("none")
            .size(8, 7)
            .zero_based()
            .says(
                "Times memory.high and memory.max were met, allocations failed (oom) and processes were killed (oom_kill).",
                "max alone is reclaim at work. oom_kill: the runbook.",
            )
            .runbook("AgaveOomHappened"),
        lines("Swap on the whole machine")
            .ask("rate(agave_host_swap_pages_total{@}[$__rate_interval])", "{{direction}}")
            .unit("suffix:pages/s")
            .size(8, 7)
            .zero_based()
            .says("Pages swapped in and out.", "Any steady rate in: switch swap off, or the validator waits for it.")
            .runbook("AgaveSwapInUse"),
        against_counts(),
    ];
    Section { title: "Pressure", panels }
}

fn disks() -> Section {
    let panels = vec![
        lines("Disk traffic of the process")
            .ask("rate(agave_process_io_bytes_total{@}[$__rate_interval])", "{{direction}}")
            .unit("Bps")
            .size(8, 8)
            .zero_based()
            .nothing("needs the validator's user")
            .says(
                "What it caused to be read from and written to disks. Reads that page cache answers are not in it.",
                "Reads that rise while memory is squeezed are the price of the missing memory.",
            ),
        lines("Disk traffic of its cgroup, by device")
            .ask("rate(agave_cgroup_io_bytes_total{@}[$__rate_interval])", "{{device}} {{direction}}")
            .unit("Bps")
            .size(8, 8)
            .zero_based()
            .says("By device.", "Ledger and accounts on one disk, and it is the busiest: move one of them."),
        bars("Who waits for disks, over the time shown")
            .ask(
                "topk(8, sum by (pool) (rate(agave_thread_pool_block_io_delay_seconds_total{@}[$__range])))",
                "{{pool}}",
            )
            .unit("suffix:s/s")
            .decimals(3)
            .size(8, 8)
            .colour("blue")
            .nothing("kernel.task_delayacct is off")
            .says(
                "Seconds per second that the pools' threads waited for block I/O; needs kernel.task_delayacct=1 before the \
                 validator starts.",
                "Replay pools at the top: faster disks or more memory for page cache.",
            ),
    ];
    Section { title: "Disks", panels }
}
