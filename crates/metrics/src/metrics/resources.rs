use crate::metric::section;

section! {
    "What the node may run out of",
    "The file systems that hold the validator's ledger, accounts, snapshots and log, the disks under them, its UDP sockets and the processors; polled every 15 s (`[host]` in the configuration), on a separate thread. No right is needed. Only root and the validator's user may enter `/proc/PID/root`. A daemon of another user finds a folder behind a link only if it can follow the link. A folder below one that the daemon may not search is `forbidden` and left out. Open files are in the chapter Process.";
    FILESYSTEM = Info, Flag, "agave_filesystem_info" ["mountpoint", "holds", "fstype", "device"]
        "A file system that holds folders of the validator: accounts, ledger, log, snapshots, joined by commas; and the disk under it, empty where there is none (overlay, tmpfs, NFS, ZFS)."
        from "the validator's arguments, /proc/PID/mountinfo, /sys/dev/block; at most 5 file systems. These series stay when the process ends, until another process is followed";
    FILESYSTEM_SIZE = Gauge, Bytes, "agave_filesystem_size_bytes" ["mountpoint", "holds"]
        "Size of the file system."
        from "f_blocks of statvfs";
    FILESYSTEM_AVAIL = Gauge, Bytes, "agave_filesystem_avail_bytes" ["mountpoint", "holds"]
        "Bytes that users other than root can still write to the file system."
        from "f_bavail of statvfs";
    FILESYSTEM_UNTIL_FULL = Gauge, Seconds, "agave_filesystem_until_full_seconds" ["mountpoint", "holds"]
        "Time until nothing is left of the file system if it continues to fill at the recent pace."
        from "agave_filesystem_avail_bytes now, and the line through its values of the last six hours (1,440 polls); values before a deletion of more than a tenth of the size do not count. Absent until the file system has filled for 10 minutes and 20 polls, while it does not fill, and if the time exceeds a year";
    FILESYSTEM_INODES = Gauge, Count, "agave_filesystem_inodes" ["mountpoint", "holds"]
        "Files and folders that the file system can have."
        from "f_files of statvfs; absent where there is no such number (btrfs)";
    FILESYSTEM_INODES_FREE = Gauge, Count, "agave_filesystem_inodes_free" ["mountpoint", "holds"]
        "Files and folders that users other than root can still add."
        from "f_favail of statvfs; absent where there is no such number (btrfs)";
    FILESYSTEM_READ_ONLY = Gauge, Flag, "agave_filesystem_readonly" ["mountpoint", "holds"]
        "1 if the validator cannot write: mounted read-only, or made so by the kernel after errors of the disk."
        from "options of /proc/PID/mountinfo, also after the process has ended, and current options of the file system; absent if the process's mounts are not known";
    FILESYSTEM_AGE = Gauge, Seconds, "agave_filesystem_answer_age_seconds" ["mountpoint", "holds"]
        "Age of the file system's last answer. It grows while the file system hangs, such as a dead mount; after three polls without an answer the other values are absent."
        from "statvfs, at each poll if the last call is back";
    DISK = Info, Flag, "agave_disk_info" ["device", "kind", "name"]
        "A disk under one of these file systems, never a partition: nvme, disk, lvm, crypt, device_mapper, or an array by its level (raid0); the members of an array or volume are listed too. Only a mapped device has a name."
        from "/sys/dev/block; disks right under a file system first, then their members, up to 90 series in all (enough for an array of eight); a problem of the source names the disks left out";
    DISK_OPERATIONS = Counter, Count, "agave_disk_operations_total" ["device", "direction"]
        "Reads and writes that the disk has completed, of all processes."
        from "/proc/diskstats";
    DISK_BYTES = Counter, Bytes, "agave_disk_bytes_total" ["device", "direction"]
        "Bytes that the disk has read and written; only of disks right under a file system."
        from "sectors of 512 bytes of /proc/diskstats";
    DISK_TIME = Counter, Seconds, "agave_disk_operation_seconds_total" ["device", "direction"]
        "Time that the disk's reads and writes took, waiting included: divided by their number it is the mean latency."
        from "/proc/diskstats";
    DISK_BUSY = Counter, Seconds, "agave_disk_io_time_seconds_total" ["device"]
        "Time in which the disk had at least one request: its rate is the utilisation. A disk that serves many requests at the same time may do more at 100 %."
        from "io_ticks of /proc/diskstats";
    DISK_WEIGHTED = Counter, Seconds, "agave_disk_io_time_weighted_seconds_total" ["device"]
        "Time in which the disk had requests, multiplied by their number: its rate is the mean length of the queue. Only of disks right under a file system."
        from "/proc/diskstats";
    DISK_UTILISATION = Gauge, Ratio, "agave_disk_utilisation_ratio" ["device"]
        "Share of the time between the last two polls in which the disk had at least one request."
        from "io_ticks of /proc/diskstats; absent at the first poll";
    DISK_WEAR = Gauge, Ratio, "agave_disk_wear_ratio" ["device"]
        "Share of the disk's life that is used up, rounded up in steps of 0.1."
        from "life_time of eMMC, life_time_estimation of UFS; absent for NVMe and SATA, which report it only to root (SMART)";
    DISK_MISSING = Gauge, Count, "agave_disk_array_missing_members" ["device"]
        "Disks that are missing from an array."
        from "md/degraded of sysfs; absent for other devices, and for raid0, which does not work without all its disks";
    UDP_SOCKETS = Gauge, Count, "agave_udp_sockets" []
        "UDP sockets of the validator."
        from "/proc/PID/net/udp and udp6: those of its user on ports of --dynamic-port-range (8000 to 9999 if not given) or --gossip-port; its descriptors are never listed. Two validators of one user with the same ports are not distinguished";
    UDP_QUEUE = Gauge, Bytes, "agave_udp_receive_queue_bytes" ["of"]
        "Kernel memory with datagrams that the validator has not read yet: of all its sockets, and of the fullest one."
        from "rx_queue of /proc/PID/net/udp and udp6";
    UDP_DROPS = Counter, Count, "agave_udp_drops_total" []
        "Datagrams that the validator's sockets dropped, mostly because their buffer was full: it reads too slowly, or net.core.rmem_max is too small."
        from "drops of /proc/PID/net/udp and udp6, summed over the sockets that were seen. The count begins at 0 with the daemon's first poll of the process, and ends with the process";
    UDP_DATAGRAMS = Counter, Count, "agave_udp_datagrams_total" ["direction"]
        "IPv4 datagrams of all processes in the validator's network namespace: handed to a process, and sent without XDP."
        from "InDatagrams and OutDatagrams of /proc/PID/net/snmp (IPv4)";
    UDP_ERRORS = Counter, Count, "agave_udp_errors_total" ["type"]
        "IPv4 datagrams of all processes in the validator's network namespace that were lost: receive (for any reason), receive_buffer (the part of receive for which a socket buffer was full), send_buffer, no_port (no process listens)."
        from "InErrors, RcvbufErrors, SndbufErrors and NoPorts of /proc/PID/net/snmp (IPv4)";
    NETWORK_BYTES = Counter, Bytes, "agave_network_bytes_total" ["interface", "direction"]
        "Bytes over the machine's network interfaces."
        from "/proc/PID/net/dev; only interfaces with a device in /sys/class/net, and of these the 4 with the most bytes when the process was first seen. Absent in a network namespace without such an interface";
    NETWORK_DROPS = Counter, Count, "agave_network_drops_total" ["interface", "direction"]
        "Packets that an interface dropped."
        from "/proc/PID/net/dev";
    CPU_FREQUENCY = Gauge, Hertz, "agave_cpu_frequency_hertz" ["of"]
        "How fast the processors run now: the slowest, the mean, the fastest."
        from "scaling_cur_freq of /sys/devices/system/cpu, every fourth poll (1 minute); absent in most virtual machines";
    CPU_GOVERNOR = Info, Flag, "agave_cpu_governor_info" ["governor"]
        "Policy that chooses the frequency of the processors; mixed if they have several."
        from "scaling_governor of /sys/devices/system/cpu; absent in most virtual machines. powersave is normal with the drivers intel_pstate and amd-pstate-epp";
    CPU_THROTTLES = Counter, Count, "agave_cpu_throttles_total" ["of"]
        "How often cores and packages were slowed down by heat."
        from "core_throttle_count and package_throttle_count of /sys/devices/system/cpu; absent where sysfs does not have them (AMD)";
}
