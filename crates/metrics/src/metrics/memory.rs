use crate::metric::section;

section! {
    "Memory headroom",
    "Memory that is left at each level that limits the validator. The validator reaches the limit of the level with the least headroom first: this level binds. Levels are the cgroups with a limit (0 is the validator's own, 1 its parent), their memory and swap together (0_swap, cgroup version 1), a limit above the visible cgroups (above, cgroup version 1; an upper bound, since other members are not visible), the allowed NUMA nodes if not all (numa) and the machine. Usage that can be dropped without swap is active and inactive page cache and reclaimable kernel objects; version 1 does not count these objects apart, so they are unreclaimable there. Version 2 shows no limit above a cgroup namespace. Limits of cgroups, memory.min and the list of allowed nodes may be up to 15 s old; agave_memory_level_limit_bytes says when limits are read earlier.";
    HEADROOM = Gauge, Bytes, "agave_memory_headroom_bytes" ["level"]
        "Memory that can still be allocated at this level without swap before the kernel kills a process."
        from "limit minus unreclaimable memory of the level; for the machine, MemAvailable of /proc/meminfo (Linux 3.14) minus cache that memory.min protects";
    LEVEL_LIMIT = Gauge, Bytes, "agave_memory_level_limit_bytes" ["level"]
        "The limit of the level."
        from "memory.max of the cgroup; v1 memory.limit_in_bytes, memory.memsw.limit_in_bytes, hierarchical_memory_limit of memory.stat; MemTotal of the nodes or the machine; limits of cgroups are read every 15 s, those of one cgroup at each tick while its usage is above its known limit or memory.high, and those of v1 when hierarchical_memory_limit or hierarchical_memsw_limit changes";
    LEVEL_UNRECLAIMABLE = Gauge, Bytes, "agave_memory_level_unreclaimable_bytes" ["level"]
        "Usage of the level that cannot be dropped without swap, cache that memory.min protects included."
        from "memory.current minus active_file, inactive_file and slab_reclaimable of memory.stat (v1: memory.usage_in_bytes minus total_active_file and total_inactive_file); MemTotal minus MemFree, file cache and reclaimable kernel memory of nodeN/meminfo, plus the min watermarks of /proc/zoneinfo; MemTotal minus MemAvailable. For a cgroup and the machine, cache that memory.min protects is added";
    LEVEL_OTHERS = Gauge, Bytes, "agave_memory_level_others_bytes" ["level"]
        "Unreclaimable memory of the level outside the validator's own cgroup."
        from "the level's unreclaimable memory minus that of level 0";
    LEVEL_DIRTY = Gauge, Bytes, "agave_memory_level_dirty_bytes" ["level"]
        "Page cache of the level that must be written before it can be dropped. It is not counted as unreclaimable."
        from "file_dirty of memory.stat (v1: total_dirty); Dirty of meminfo";
    LEVEL_INFO = Info, Flag, "agave_memory_level_info" ["level", "path"]
        "What the level is: the path of the cgroup, or the list of nodes."
        from "/proc/PID/cgroup, Mems_allowed_list of /proc/PID/status";
    BINDING = Gauge, Flag, "agave_memory_binding_level" ["level"]
        "1 for the level with the least headroom, 0 for the others. Absent while a level cannot be read."
        from "agave_memory_headroom_bytes";
    EFFECTIVE_LIMIT = Gauge, Bytes, "agave_memory_effective_limit_bytes" []
        "The limit of the binding level."
        from "agave_memory_level_limit_bytes";
    UNRECLAIMABLE = Gauge, Bytes, "agave_memory_unreclaimable_bytes" []
        "Unreclaimable memory of the binding level. The effective limit minus this is the headroom."
        from "agave_memory_level_unreclaimable_bytes";
    HIGH_HEADROOM = Gauge, Bytes, "agave_memory_high_headroom_bytes" ["level"]
        "Memory that can still be allocated before memory.high stalls the validator. Nothing is killed there."
        from "memory.high minus unreclaimable memory of the level (version 2)";
    SWAP_HEADROOM = Gauge, Bytes, "agave_memory_swap_headroom_bytes" []
        "Swap that the validator can still use. It is not part of the headroom."
        from "SwapFree of /proc/meminfo, at most memory.swap.max minus memory.swap.current of the cgroup and its ancestors (version 2)";
    COMMIT_HEADROOM = Gauge, Bytes, "agave_memory_commit_headroom_bytes" []
        "Memory that can still be committed before allocations fail. Absent unless vm.overcommit_memory is 2."
        from "CommitLimit minus Committed_AS of /proc/meminfo";
    OOMD = Gauge, Flag, "agave_memory_oomd_running" []
        "1 if systemd-oomd runs. In a unit or slice with ManagedOOMMemoryPressure= or ManagedOOMSwap=, it kills by memory pressure or swap use before the kernel does."
        from "cgroup.procs of system.slice/systemd-oomd.service, every 15 s";
}
