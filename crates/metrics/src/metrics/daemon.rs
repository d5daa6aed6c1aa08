use crate::{LATENESS_BOUNDS, metric::section};

section! {
    "The daemon itself",
    "The daemon's cost and punctuality, and everything that it could not read.";
    BUILD_INFO = Info, Flag, "faultline_build_info" ["version"]
        "The daemon's version."
        from "the build";
    DEMO = Gauge, Flag, "faultline_demo" []
        "1 if the target is the simulated validator of --demo; absent otherwise."
        from "--demo";
    SOURCE_UP = Gauge, Flag, "faultline_source_up" ["source"]
        "1 if the source worked at its last sampling; absent if it is disabled."
        from "every source";
    SOURCE_DURATION = Gauge, Seconds, "faultline_source_duration_seconds" ["source"]
        "How long the source's last sampling took within the tick."
        from "the monotonic clock";
    SOURCE_LAST_SUCCESS = Gauge, Seconds, "faultline_source_last_success_timestamp_seconds" ["source"]
        "When the source last worked, in seconds since 1970; absent before the first success."
        from "the wall clock";
    SOURCE_PROBLEMS = Counter, Count, "faultline_source_problems_total" ["source", "kind"]
        "Things a source could not read: absent (not offered here), forbidden (no right), gone (vanished), broken (not understood)."
        from "every source";
    TICKS = Counter, Count, "faultline_ticks_total" []
        "Ticks taken since the daemon started."
        from "the schedule";
    MISSED_TICKS = Counter, Count, "faultline_missed_ticks_total" []
        "Ticks left out because the previous tick took too long or the machine was paused."
        from "the schedule, which a late tick does not shift";
    CLOCK_STEPS = Counter, Count, "faultline_clock_steps_total" []
        "Times the system's wall clock was set, by more than a second, since the daemon started. A clock that is slewed or a machine that was suspended does not count."
        from "the wall clock against the monotonic one, from tick to tick";
    LATENESS = Histogram(&LATENESS_BOUNDS), Seconds, "faultline_tick_lateness_seconds" []
        "How much later than planned a tick began. Missed ticks do not count."
        from "the schedule";
    INGEST_LINES = Counter, Count, "faultline_ingest_lines_total" ["result"]
        "Datapoint lines: used, ignored (no metric uses them), bad (broken, truncated or not in nanoseconds), foreign (another validator's or tool's), duplicate (seen before), implausible (with a slot that cannot be true)."
        from "pushes and the log";
    INGEST_LINES_PENDING = Gauge, Count, "faultline_ingest_lines_pending" []
        "Datapoint lines that wait until it is known whether their sender is the followed validator. Then faultline_ingest_lines_total counts them."
        from "pushes";
    ASSUMED_IDENTITY_CHANGES = Counter, Count, "faultline_identity_revisions_total" []
        "How often the daemon changed the identity that it assumes for a validator that reports none."
        from "pushes";
    INGEST_REQUESTS = Counter, Count, "faultline_ingest_requests_total" ["code"]
        "Pushes by the HTTP status of the response. cut: the body broke off. user: refused with 403, because the sender's user is unknown or not the validator's."
        from "the ingest listener";
    INGEST_BYTES = Counter, Bytes, "faultline_ingest_bytes_total" []
        "Bytes of pushes, as parsed (after decompression)."
        from "the ingest listener";
    INGEST_CONNECTIONS = Gauge, Count, "faultline_ingest_connections" []
        "Open connections to the ingest listener."
        from "the ingest listener";
    AUTH_FAILURES = Counter, Count, "faultline_auth_failures_total" ["listener"]
        "Requests with a wrong user or password. metrics: requests for the web page and /metrics, including those refused unchecked after too many failures. ingest: pushes, including those without credentials."
        from "the listeners";
    LAST_PUSH = Gauge, Seconds, "faultline_last_push_timestamp_seconds" []
        "When the followed validator's last push arrived, or the last datapoint in its log was read, in seconds since 1970; absent before the first."
        from "the ingest listener, or the validator's log";
    PUSHES_MISSED = Counter, Count, "faultline_pushes_missed_total" []
        "Pushes of the followed validator that never arrived. Pushes missed while the daemon was down count after its restart if it follows the same process and continues the earlier recording or flight recorder ring. Pushes before the daemon's first run do not count."
        from "gaps between two points of the datapoint metrics that are longer than secs_since_last_write of the later point; by the monotonic clock if the wall clock was set";
    POINTS_LOST = Counter, Count, "faultline_points_lost_total" []
        "Datapoints that the validator dropped before the push because there were too many."
        from "points_lost of the datapoint metrics";
    PUSHES_FILTERED = Gauge, Flag, "faultline_pushes_filtered" []
        "1 if pushes arrive without program cache points although JSON-RPC's slot advances: the validator's RUST_LOG filters them."
        from "pushes against slots";
    FORWARD_BYTES = Counter, Bytes, "faultline_forward_bytes_total" ["result"]
        "Bytes of pushes for the upstream Influx server, by result: sent, lost (the queue was full, or they became too old), refused (the server rejected them)."
        from "the forwarder";
    FORWARD_REQUESTS = Counter, Count, "faultline_forward_requests_total" ["result"]
        "Pushes for the upstream Influx server, by result."
        from "the forwarder";
    FORWARD_QUEUE = Gauge, Bytes, "faultline_forward_queue_bytes" []
        "Bytes of pushes that wait for the upstream Influx server."
        from "the forwarder";
    DATAPOINT_OVERFLOW = Counter, Count, "faultline_datapoint_overflow_total" []
        "Values of allowed datapoints that were left out because datapoints.max_series was reached."
        from "datapoints.max_series in the configuration";
    SERIES_DROPPED = Counter, Count, "faultline_series_dropped_total" ["metric"]
        "Series left out of /metrics because they have a duplicate label or duplicate another series: a scraper would reject the response. Absent until there is one."
        from "the check before a response is encoded";
    POOLS_FOLDED = Gauge, Count, "faultline_thread_pools_folded" []
        "Thread names that the pool other includes, because there are more than 150 pools."
        from "the threads source";
    RECORDER_ROWS = Counter, Count, "faultline_recorder_rows_total" ["recorder"]
        "Rows written to the recording (record) or to the flight recorder's ring (flight); absent if it is disabled."
        from "the recorder, after each transaction";
    RECORDER_DROPPED = Counter, Count, "faultline_recorder_dropped_total" ["recorder"]
        "Ticks, datapoints and events that were not recorded: the disk was full, writing failed, or the recorder did not keep up."
        from "the recorder";
    MARKS = Counter, Count, "faultline_marks_total" ["kind"]
        "Marks set in the recording, by kind: a verdict of a memory search of faultline experiment (kept_up, failed, void, reference), a kind that a request names, or other (without a kind, or beyond 16 kinds). Absent until there is one."
        from "POST /mark";
    FLIGHT_SAVES = Counter, Count, "faultline_flight_saves_total" ["reason"]
        "Recordings saved by the flight recorder, by reason: the validator was OOM-killed (oom_kill), exited (exit), fell behind (behind) or stalled at the tip (stall), or a save was requested (request). Absent if the flight recorder is disabled."
        from "the flight recorder";
    FLIGHT_LAST_SAVE = Gauge, Seconds, "faultline_flight_last_save_timestamp_seconds" []
        "When the newest saved recording in the flight recorder's folder was written, in seconds since 1970; absent until there is one."
        from "the folder when the daemon starts, then each save";
    FLIGHT_FAILURES = Counter, Count, "faultline_flight_save_failures_total" []
        "Saves of the flight recorder that failed, or were refused because the allowed space is full."
        from "the flight recorder";
    SELF_CPU = Counter, Seconds, "process_cpu_seconds_total" []
        "CPU time of the daemon."
        from "/proc/self/stat";
    SELF_RESIDENT = Gauge, Bytes, "process_resident_memory_bytes" []
        "Resident memory of the daemon."
        from "/proc/self/status";
    SELF_VIRTUAL = Gauge, Bytes, "process_virtual_memory_bytes" []
        "Virtual memory of the daemon."
        from "/proc/self/stat";
    SELF_START_TIME = Gauge, Seconds, "process_start_time_seconds" []
        "When the daemon started, in seconds since 1970."
        from "/proc/self/stat, /proc/stat";
    SELF_OPEN_FDS = Gauge, Count, "process_open_fds" []
        "Open file descriptors of the daemon."
        from "st_size of /proc/self/fd (Linux 6.2)";
    SELF_MAX_FDS = Gauge, Count, "process_max_fds" []
        "The daemon's limit of open file descriptors."
        from "/proc/self/limits";
}
