mod cgroup_events;
mod cgroup_frozen;
mod cgroup_io;
mod cgroup_limit;
mod cgroup_memory_stat;
mod cpu_stat;
mod pid_cgroup;
