mod net_dev;
mod udp_counters;
mod udp_sockets;
