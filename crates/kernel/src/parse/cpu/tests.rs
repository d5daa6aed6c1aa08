mod cpu_times;
mod cpuinfo;
mod id_list;
