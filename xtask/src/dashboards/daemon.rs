//! The daemon itself: what it costs, what it cannot see, what it lost.

use super::dashboard::{CLUSTER, Dashboard, INSTANCE, JOB, Section, Variable};
use super::panel::{lines, painted, stat, table};

const DAEMON: Variable = Variable { label: "Daemon", ..INSTANCE };

pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        uid: "faultline-daemon",
        title: "faultlined itself",
        about: "What the daemon costs, what it cannot see, and everything it could not take in, pass on or write down.",
        since: "now-6h",
        variables: vec![JOB, CLUSTER, DAEMON],
        sections: vec![well(), cost(), sees(), intake(), out()],
    }
}

fn well() -> Section {
    let panels = vec![
        stat("CPU")
            .ask("rate(process_cpu_seconds_total{@}[5m])", "")
            .unit("percentunit")
            .decimals(2)
            .steps("green", &[(0.02, "orange"), (0.05, "red")])
            .says("Of one core.", "The budget is 0.5 % with 1,000 threads. Above 5 %: the runbook.")
            .runbook("FaultlineOverBudget"),
        stat("Resident memory")
            .ask("process_resident_memory_bytes{@}", "")
            .unit("bytes")
            .steps("green", &[(33_554_432.0, "orange"), (67_108_864.0, "red")])
            .says("RSS of the daemon.", "The budget is 16 MiB idle, 64 MiB under any load. Above: the runbook.")
            .runbook("FaultlineOverBudget"),
        stat("Missed ticks")
            .ask("increase(faultline_missed_ticks_total{@}[$__range])", "")
            .unit("none")
            .decimals(0)
            .steps("green", &[(10.0, "orange")])
            .says("Ticks left out in the time shown.", "Many: the machine stalls, or a source is slow; see durations.")
            .runbook("FaultlineOverBudget"),
        stat("Sources down")
            .ask("count(faultline_source_up{@} == 0)", "")
            .unit("none")
            .decimals(0)
            .steps("green", &[(0.5, "red")])
            .nothing("none")
            .says("Sources that do not do their main job.", "The table below says which.")
            .runbook("FaultlineSourceDown"),
        stat("Last push")
            .ask("time() - faultline_last_push_timestamp_seconds{@}", "ago")
            .unit("s")
            .decimals(0)
            .steps("green", &[(30.0, "orange"), (120.0, "red")])
            .nothing("none yet")
            .says("Age of the validator's newest push; one comes every 10 s.", "Minutes while the validator runs: the runbook.")
            .runbook("FaultlinePushStopped"),
        stat("Series")
            .ask("scrape_samples_scraped{@}", "")
            .unit("none")
            .decimals(0)
            .steps("green", &[(1500.0, "orange")])
            .says(
                "Samples of one scrape.",
                "Above 1,500: datapoints.allow brings many, or threads have unusual names; see the pools that are folded.",
            ),
    ];
    Section { title: "Is the observer well?", panels }
}

fn cost() -> Section {
    let panels = vec![
        lines("CPU, over time")
            .ask("rate(process_cpu_seconds_total{@}[$__rate_interval])", "CPU, of one core")
            .unit("percentunit")
            .size(8, 7)
            .zero_based()
            .says("CPU of the daemon.", "Steps up with the number of threads: threads.interval makes it look less often.")
            .runbook("FaultlineOverBudget"),
        lines("Resident memory, over time")
            .ask("process_resident_memory_bytes{@}", "resident")
            .unit("bytes")
            .size(8, 7)
            .zero_based()
            .says("RSS of the daemon.", "Growth over days is a leak: report it, with this picture.")
            .runbook("FaultlineOverBudget"),
        lines("How late ticks begin")
            .ask("histogram_quantile(0.99, sum by (le) (rate(faultline_tick_lateness_seconds_bucket{@}[$__rate_interval])))", "p99")
            .ask("histogram_quantile(0.5, sum by (le) (rate(faultline_tick_lateness_seconds_bucket{@}[$__rate_interval])))", "half of all ticks")
            .unit("s")
            .size(8, 7)
            .zero_based()
            .says("Against the schedule.", "Tens of milliseconds: no core was free. CPUAffinity keeps one for it.")
            .runbook("FaultlineOverBudget"),
        lines("Clock steps")
            .ask("increase(faultline_clock_steps_total{@}[$__rate_interval])", "steps")
            .unit("none")
            .size(24, 5)
            .zero_based()
            .says(
                "Times the system's wall clock was set. Counters and rates are not affected.",
                "More than one after a boot: the time service and something else both set the clock.",
            ),
    ];
    Section { title: "What it costs", panels }
}

fn sees() -> Section {
    let panels = vec![
        table("Sources")
            .label("source", "Source")
            .coloured(
                "Up",
                "max by (source) (faultline_source_up{@})",
                &painted("bool_yes_no", "red", &[(1.0, "green")]),
            )
            .column(
                "Last success, ago",
                "s",
                "time() - max by (source) (faultline_source_last_success_timestamp_seconds{@})",
            )
            .column("Takes", "s", "max by (source) (faultline_source_duration_seconds{@})")
            .column("Absent", "none", "max by (source) (faultline_source_problems_total{@, kind=\"absent\"})")
            .column("Forbidden", "none", "max by (source) (faultline_source_problems_total{@, kind=\"forbidden\"})")
            .column("Gone", "none", "max by (source) (faultline_source_problems_total{@, kind=\"gone\"})")
            .column("Broken", "none", "max by (source) (faultline_source_problems_total{@, kind=\"broken\"})")
            .unit("none")
            .size(24, 15)
            .says(
                "Whether each source does its main job, and what it could not read since the daemon began.",
                "forbidden: give it the validator's user. broken: report it with the landing page's words.",
            )
            .runbook("FaultlineSourceDown"),
        lines("How long sources take")
            .ask("faultline_source_duration_seconds{@}", "{{source}}")
            .unit("s")
            .size(12, 8)
            .logarithmic()
            .says(
                "Each source's last look.",
                "threads grows with their number; rpc and admin_rpc wait for the validator and delay no tick.",
            ),
        lines("Problems")
            .ask("increase(faultline_source_problems_total{@}[$__rate_interval]) > 0", "{{source}}: {{kind}}")
            .unit("none")
            .size(12, 8)
            .zero_based()
            .nothing("none came up")
            .says("When they came up.", "gone at a restart is normal.")
            .runbook("FaultlineSourceDown"),
    ];
    Section { title: "What it sees", panels }
}

fn intake() -> Section {
    let panels = vec![
        lines("Lines of pushes, by result")
            .ask("rate(faultline_ingest_lines_total{@}[$__rate_interval])", "{{result}}")
            .unit("suffix:/s")
            .slow()
            .size(8, 7)
            .zero_based()
            .says(
                "used, ignored (not on the list), foreign (another validator's), duplicate, bad.",
                "Only foreign: the daemon follows another validator than the one that pushes. bad: report a line of it.",
            )
            .runbook("FaultlinePushesFiltered"),
        lines("Pushes, by answer")
            .ask("rate(faultline_ingest_requests_total{@}[$__rate_interval]) > 0", "{{code}}")
            .unit("suffix:/s")
            .slow()
            .size(8, 7)
            .zero_based()
            .says("204 is taken in; cut ended before its last byte.", "401: credentials. 413: a push beyond the limits.")
            .runbook("FaultlinePushStopped"),
        lines("Bytes of pushes")
            .ask("rate(faultline_ingest_bytes_total{@}[$__rate_interval])", "parsed")
            .unit("Bps")
            .slow()
            .size(8, 7)
            .zero_based()
            .says("After decompression.", "A step up after an upgrade: the version reports more."),
        lines("Lost on the way")
            .ask("increase(faultline_pushes_missed_total{@}[$__rate_interval])", "pushes that never arrived")
            .ask("increase(faultline_points_lost_total{@}[$__rate_interval])", "points the validator threw away")
            .ask("increase(faultline_datapoint_overflow_total{@}[$__rate_interval])", "beyond datapoints.max_series")
            .ask("faultline_pushes_filtered{@}", "pushes are filtered (0 or 1)")
            .unit("none")
            .slow()
            .size(8, 7)
            .zero_based()
            .says("What counters of the program cache lack.", "Points thrown away: the validator makes more than it may; raise its rate.")
            .runbook("FaultlinePointsLost"),
        lines("Connections and pools")
            .ask("faultline_ingest_connections{@}", "open connections of pushes")
            .ask("faultline_thread_pools_folded{@}", "thread pools folded into `other`")
            .unit("none")
            .size(8, 7)
            .zero_based()
            .says("What is bounded.", "Many connections: something else pushes here, or holds them open."),
        lines("Scrapes")
            .ask("scrape_duration_seconds{@}", "duration")
            .unit("s")
            .size(8, 7)
            .zero_based()
            .steps("transparent", &[(0.1, "orange")])
            .says("How long Prometheus waited for the page.", "Above 100 ms: the network, or a daemon without a core."),
    ];
    Section { title: "What comes in", panels }
}

fn out() -> Section {
    let panels = vec![
        lines("Passed on")
            .ask("rate(faultline_forward_bytes_total{@}[$__rate_interval])", "{{result}}")
            .unit("Bps")
            .slow()
            .size(6, 7)
            .zero_based()
            .nothing("no [forward] is configured")
            .says(
                "Bytes to the Influx server of before; empty without [forward].",
                "lost: the server is away or slow. refused: its credentials.",
            )
            .runbook("FaultlinePointsLost"),
        lines("Waiting to be sent")
            .ask("faultline_forward_queue_bytes{@}", "queue")
            .unit("bytes")
            .size(6, 7)
            .zero_based()
            .nothing("no [forward] is configured")
            .says("Bounded by forward.queue_bytes.", "Full: the oldest are dropped, and counted as lost."),
        lines("Recorder")
            .ask("rate(faultline_recorder_rows_total{@}[$__rate_interval])", "{{recorder}}: rows")
            .ask("rate(faultline_recorder_dropped_total{@}[$__rate_interval])", "{{recorder}}: dropped")
            .unit("suffix:/s")
            .size(6, 7)
            .zero_based()
            .nothing("nothing is recorded")
            .says(
                "Rows of the recording and of the flight recorder's ring per second.",
                "Anything dropped: its disk is full or slow.",
            )
            .runbook("FaultlineRecorderDropping"),
        lines("Flight recordings")
            .ask("increase(faultline_flight_saves_total{@}[$__rate_interval])", "{{reason}}")
            .ask("increase(faultline_flight_save_failures_total{@}[$__rate_interval])", "failed")
            .unit("none")
            .size(6, 7)
            .zero_based()
            .nothing("the flight recorder is disabled")
            .paint("failed", "red")
            .says(
                "Saves of the last minutes, by what made it happen.",
                "Fetch the file from the flight recorder's folder: `faultline report` reads it. failed: its disk.",
            )
            .runbook("FaultlineRecorderDropping"),
    ];
    Section { title: "What goes out", panels }
}
