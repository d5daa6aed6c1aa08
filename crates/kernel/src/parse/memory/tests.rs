mod meminfo;
mod node_meminfo;
mod swaps;
mod vmstat;
mod zone_watermarks;
