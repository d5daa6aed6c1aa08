mod cpu_list;
mod cpu_times;
mod cpuinfo;
