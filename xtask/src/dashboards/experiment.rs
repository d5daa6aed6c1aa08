//! An experiment's arms over each other: by experiment, arm and run.

use super::dashboard::{Choices, Dashboard, JOB, Section, Variable};
use super::panel::{Panel, bars, lines, painted, table};

const EXPERIMENT: Variable = Variable {
    name: "experiment",
    label: "Experiment",
    choices: Choices::Labels {
        of: r#"agave_target_info{job=~"$job", experiment!=""}"#,
        label: "experiment",
        many: false,
    },
};

const CLUSTER: Variable = Variable {
    name: "cluster",
    label: "Cluster",
    choices: Choices::Labels {
        of: r#"agave_target_info{job=~"$job", experiment=~"$experiment"}"#,
        label: "cluster",
        many: true,
    },
};

const ARM: Variable = Variable {
    name: "arm",
    label: "Arms",
    choices: Choices::Labels {
        of: r#"agave_target_info{job=~"$job", cluster=~"$cluster", experiment=~"$experiment"}"#,
        label: "arm",
        many: true,
    },
};

const RUN: Variable = Variable {
    name: "run",
    label: "Runs",
    choices: Choices::Labels {
        of: r#"agave_target_info{job=~"$job", cluster=~"$cluster", experiment=~"$experiment", arm=~"$arm"}"#,
        label: "run",
        many: true,
    },
};

const INSTANCE: Variable = Variable {
    name: "instance",
    label: "Validators",
    choices: Choices::Labels {
        of: r#"agave_target_info{job=~"$job", cluster=~"$cluster", experiment=~"$experiment", arm=~"$arm", run=~"$run"}"#,
        label: "instance",
        many: true,
    },
};

/// How much earlier the other run began: runs that follow one another come to lie over each other.
const EARLIER: Variable = Variable {
    name: "earlier",
    label: "Laid over what was",
    choices: Choices::These(&["12h", "1h", "2h", "4h", "6h", "13h", "24h", "25h", "36h", "48h", "72h", "7d"]),
};

/// The labels that a run has, beside a series of its validator.
const JOINED: &str = "* on (job, instance) group_left (arm, run) max by (job, instance, arm, run) (agave_target_info{@, \
    cluster=~\"$cluster\", experiment=~\"$experiment\", arm=~\"$arm\", run=~\"$run\"}OFFSET)";

pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        uid: "faultline-experiment",
        title: "Experiment",
        about: "The arms of an experiment over each other. The labels experiment, arm and run come from the file of targets \
            that the lab's runner writes, or from [labels] of a daemon's configuration. What decides is the lab's report; this \
            shows how it goes.",
        since: "now-12h",
        variables: vec![JOB, EXPERIMENT, CLUSTER, ARM, RUN, INSTANCE, EARLIER],
        sections: vec![tables(), arms(), over(), laid()],
    }
}

/// With the labels of its run; `OFFSET` in the expression is where a look back goes.
fn of_run(expression: &str, back: &str) -> String {
    format!("({expression} {JOINED})").replace("OFFSET", back)
}

/// An aggregation over the time shown of something sampled every 15 s, by run; `call` is the function up to its last
/// argument.
fn over_time(call: &str, expression: &str) -> String {
    format!("max by (arm, run) ({call}{}[$__range:15s]))", of_run(expression, ""))
}

/// What a counter of the daemon grew by in the time shown, by run.
fn grown(counter: &str) -> String {
    let inside = format!("{}[$__range:15s]", of_run(counter, ""));
    format!("sum by (arm, run) (max_over_time({inside}) - min_over_time({inside}))")
}

/// What a counter of the kernel grew by: it begins anew with each process, which a rate sees.
fn grown_anew(counter: &str) -> String {
    let inside = format!("{}[$__range:15s]", of_run(&format!("rate({counter}[1m])"), ""));
    format!("sum by (arm, run) (sum_over_time({inside}) * 15)")
}

fn by_run(title: &'static str) -> Panel {
    table(title).label("arm", "Arm").label("run", "Run").unit("none").decimals(1)
}

fn throughput_by_run() -> Panel {
    let tps = "rate(agave_transactions_total{@}[1m])";
    by_run("Throughput by run")
        .column("TPS, mean", "suffix:TPS", &over_time("avg_over_time(", tps))
        .column("p5", "suffix:TPS", &over_time("quantile_over_time(0.05, ", tps))
        .column("median", "suffix:TPS", &over_time("quantile_over_time(0.5, ", tps))
        .column("p95", "suffix:TPS", &over_time("quantile_over_time(0.95, ", tps))
        .column("highest", "suffix:TPS", &over_time("max_over_time(", tps))
        .column("At 0 TPS", "s", &grown("agave_zero_tps_seconds_total{@}"))
        .column(
            "Until the tip",
            "s",
            &grown("sum without (phase) (agave_phase_seconds_total{@, phase!~\"at_tip|behind|gone|absent\"})"),
        )
        .column("At the tip", "s", &grown("sum without (phase) (agave_phase_seconds_total{@, phase=\"at_tip\"})"))
        .size(24, 7)
        .says(
            "What the study calls throughput, over the time shown: choose the time of the runs.",
            "Runs of one arm differ more than arms: the experiment needs more runs. How a run ended, a OOM kill \
             above all, is in the lab's report: its recorder ends with it.",
        )
        .runbook("AgaveOomHappened")
}

fn memory_by_run() -> Panel {
    let rss = "sum without (type) (agave_process_resident_memory_bytes{@})";
    by_run("Memory and faults by run")
        .column("RSS, mean", "bytes", &over_time("avg_over_time(", rss))
        .column("RSS, highest", "bytes", &over_time("max_over_time(", rss))
        .column("VSZ, highest", "bytes", &over_time("max_over_time(", "agave_process_virtual_memory_bytes{@}"))
        .column("Limit", "bytes", &over_time("max_over_time(", "agave_memory_effective_limit_bytes{@}"))
        .column("Unreclaimable", "bytes", &over_time("max_over_time(", "agave_memory_unreclaimable_bytes{@}"))
        .coloured(
            "Of the limit",
            &over_time(
                "max_over_time(",
                "agave_memory_unreclaimable_bytes{@} / on (job, instance) agave_memory_effective_limit_bytes{@}",
            ),
            &painted("percentunit", "transparent", &[(0.8, "orange"), (0.95, "red")]),
        )
        .column("Major faults", "short", &grown_anew("agave_process_page_faults_total{@, type=\"major\"}"))
        .column("Minor faults", "short", &grown_anew("agave_process_page_faults_total{@, type=\"minor\"}"))
        .column("File refaults", "short", &grown_anew("agave_cgroup_memory_refaults_total{@, type=\"file\"}"))
        .column("Read from disk", "bytes", &grown_anew("agave_process_io_bytes_total{@, direction=\"read\"}"))
        .size(24, 7)
        .says(
            "Memory that the runs had and used, what of it could not be dropped, and the faults this cost them.",
            "Above 95 % of the limit: the arm is at its end. A limit that is not the arm's was not applied: discard its runs.",
        )
        .runbook("AgaveMemoryPressure")
}

fn cache_by_run() -> Panel {
    let time = "sum without (path) (agave_program_cache_time_seconds_sum{@})";
    let slots = "sum without (path) (agave_program_cache_time_seconds_count{@})";
    by_run("Program cache by run")
        .column("Misses", "short", &grown("agave_program_cache_misses_total{@}"))
        .column("Reloads", "short", &grown("agave_program_cache_reloads_total{@}"))
        .column("Evictions", "short", &grown("agave_program_cache_evictions_total{@}"))
        .column("Cache time", "s", &grown(time))
        .column("Slots replayed", "short", &grown(slots))
        .column("Time/slot", "s", &format!("{} / ({} > 0)", grown(time), grown(slots)))
        .column(
            "Misses/slot",
            "none",
            &format!("{} / ({} > 0)", grown("agave_program_cache_misses_total{@}"), grown(slots)),
        )
        .coloured(
            "Reloads/slot",
            &format!("{} / ({} > 0)", grown("agave_program_cache_reloads_total{@}"), grown(slots)),
            &painted("none", "transparent", &[(1.0, "orange")]),
        )
        .count(
            "Capacity",
            &over_time(
                "max_over_time(",
                "max without (kind) (agave_program_cache_capacity_entries{@, kind=\"configured\"})",
            ),
        )
        .size(24, 7)
        .says(
            "The study's table of the program cache, over the time shown. The capacity is that of the version, unless \
                 target.program_cache_entries says otherwise.",
            "No difference in reloads between capacities: the workload does not fill the smaller one.",
        )
        .runbook("AgaveCacheThrash")
        .more("faultline-cache")
}

fn tables() -> Section {
    let panels = vec![throughput_by_run(), memory_by_run(), cache_by_run()];
    Section { title: "Run by run, over the time shown", panels }
}

/// The mean over an arm's runs.
fn by_arm(title: &'static str, expression: &str) -> Panel {
    bars(title).ask(&format!("avg by (arm) ({expression})"), "{{arm}}").size(6, 6).colour("blue")
}

fn arms() -> Section {
    let cache_time = "sum without (path) (agave_program_cache_time_seconds_sum{@})";
    let slots = "sum without (path) (agave_program_cache_time_seconds_count{@})";
    let panels = vec![
        by_arm("Throughput, by arm", &over_time("avg_over_time(", "rate(agave_transactions_total{@}[1m])"))
            .unit("suffix:TPS")
            .decimals(0)
            .says("Mean of the arm's runs.", "Arms that ran at different times saw different traffic: prefer pairs."),
        by_arm(
            "Resident memory, highest, by arm",
            &over_time("max_over_time(", "sum without (type) (agave_process_resident_memory_bytes{@})"),
        )
        .unit("bytes")
        .says("Mean of the arm's runs.", "Equal to the limit in a small arm: it is squeezed, look at its faults."),
        by_arm("Major faults, by arm", &grown_anew("agave_process_page_faults_total{@, type=\"major\"}"))
            .unit("short")
            .says(
                "Mean of the arm's runs.",
                "More in the smaller arms is what memory buys. None anywhere: see file refaults.",
            )
            .runbook("AgaveMajorFaultStorm"),
        by_arm("Program cache time per slot, by arm", &format!("{} / ({} > 0)", grown(cache_time), grown(slots)))
            .unit("s")
            .decimals(1)
            .says("Mean of the arm's runs.", "This is what a larger cache is for; weigh it against memory.")
            .runbook("AgaveCacheThrash"),
    ];
    Section { title: "Arm by arm, over the time shown", panels }
}

fn by_time(title: &'static str, expression: &str) -> Panel {
    lines(title).ask(&of_run(expression, ""), "{{arm}}, run {{run}}").size(8, 8).zero_based()
}

const RELOADS: &str = "rate(agave_program_cache_reloads_total{@}OFFSET_RATE) / on (job, instance) \
    (sum without (part) (rate(agave_replay_slot_seconds_count{@, part=\"total\"}OFFSET_RATE)) > 0)";

fn over() -> Section {
    let reloads = RELOADS.replace("OFFSET_RATE", "[$__rate_interval]");
    let panels = vec![
        by_time("Throughput", "rate(agave_transactions_total{@}[$__rate_interval])")
            .unit("suffix:TPS")
            .slow()
            .says("Arms that run at the same time see the same traffic.", "They part: the arm below is at its limit."),
        by_time("Slots behind", "agave_slots_behind{@}")
            .unit("none")
            .steps("transparent", &[(128.0, "red")])
            .says("Distance to the tip.", "Above 128, or one arm behind and the others not: the arm, not the cluster.")
            .runbook("AgaveFallingBehind"),
        by_time("Program cache: reloads per slot", &reloads)
            .unit("none")
            .slow()
            .steps("transparent", &[(1.0, "orange")])
            .says(
                "Compiled again after an eviction.",
                "Above 1: too small. The smallest capacity without any is the one to take.",
            )
            .runbook("AgaveCacheThrash"),
        by_time("Resident memory", "sum without (type) (agave_process_resident_memory_bytes{@})")
            .unit("bytes")
            .says("RSS of each run.", "A plateau at the arm's limit: it is squeezed."),
        by_time(
            "Major faults",
            "sum without (type) (rate(agave_process_page_faults_total{@, type=\"major\"}[$__rate_interval]))",
        )
        .unit("suffix:/s")
        .says("Waits for a disk.", "High at the start only is warming up; the report leaves that out.")
        .runbook("AgaveMajorFaultStorm"),
        by_time(
            "Minor faults",
            "sum without (type) (rate(agave_process_page_faults_total{@, type=\"minor\"}[$__rate_interval]))",
        )
        .unit("suffix:/s")
        .says(
            "First touches and mapped page cache.",
            "Grows with work done: divide by throughput before you conclude.",
        ),
    ];
    Section { title: "Over time, runs that are under way together", panels }
}

/// The same now and `$earlier` ago.
fn twice(title: &'static str, expression: &str) -> Panel {
    let now = of_run(&expression.replace("BACK", ""), "");
    let before = of_run(&expression.replace("BACK", " offset $earlier"), " offset $earlier");
    lines(title)
        .ask(&now, "{{arm}}, run {{run}}")
        .ask(&before, "{{arm}}, run {{run}}, $earlier earlier")
        .size(8, 8)
        .zero_based()
}

fn laid() -> Section {
    let panels = vec![
        twice("Throughput, laid over", "rate(agave_transactions_total{@}[$__rate_interval]BACK)")
            .unit("suffix:TPS")
            .slow()
            .says(
                "Runs that followed one another: choose above how much earlier the other began.",
                "They never line up exactly: the lab's report counts from the first execution.",
            ),
        twice("Resident memory, laid over", "sum without (type) (agave_process_resident_memory_bytes{@}BACK)")
            .unit("bytes")
            .says("RSS now and earlier.", "Different slopes at the same age: the arms differ in what they keep."),
        twice(
            "Major faults, laid over",
            "sum without (type) (rate(agave_process_page_faults_total{@, type=\"major\"}[$__rate_interval]BACK))",
        )
        .unit("suffix:/s")
        .says(
            "Waits for a disk, now and earlier.",
            "The same at first and then apart: the smaller arm has filled its memory.",
        )
        .runbook("AgaveMajorFaultStorm"),
    ];
    Section { title: "Over time, runs one after another laid over each other", panels }
}
