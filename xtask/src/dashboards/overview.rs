//! Is it healthy, and will it run out?

use super::dashboard::{CLUSTER, Dashboard, INSTANCE, JOB, Section};
use super::panel::{Panel, bars, lines, painted, stat, table};

pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        uid: "faultline-overview",
        title: "Overview",
        about: "One validator: is it healthy, and will it run out of memory? Every panel says what to do.",
        since: "now-6h",
        variables: vec![JOB, CLUSTER, INSTANCE],
        sections: vec![healthy(), runs_out(), suffers(), known()],
    }
}

/// The colours of phases by name, for panels that have one series for each.
pub(super) fn phases(mut panel: Panel) -> Panel {
    let colours = [
        ("absent", "#6e7077"),
        ("initializing", "#8ab8ff"),
        ("searching", "#5794f2"),
        ("downloading", "#3274d9"),
        ("unpacking", "#1f60c4"),
        ("replaying", "#b877d9"),
        ("starting", "#ca95e5"),
        ("waiting_for_supermajority", "#7c2ea3"),
        ("halted", "#ad0317"),
        ("catching_up", "#ff9830"),
        ("at_tip", "#56a64b"),
        ("behind", "#f2495c"),
        ("gone", "#c4162a"),
    ];
    for (phase, colour) in colours {
        panel = panel.paint(phase, colour);
    }
    panel
}

/// Whether the phase is one in which a validator serves.
pub(super) fn phase_now() -> Panel {
    phases(stat("Phase").ask("agave_phase{@} == 1", "{{phase}}"))
        .unit("none")
        .names_only()
        .nothing("not known")
        .says(
            "What the validator is doing, from its admin socket, its RPC and its distance to the tip.",
            "`catching_up` for hours or `behind`: see Throughput and catch-up. A start phase that lasts: the runbook. \
             `not known` while it runs: it has reported nothing for 60 s.",
        )
        .runbook("AgaveStuckInStartPhase")
        .more("faultline-throughput")
}

/// How far it is from the tip of the cluster.
pub(super) fn slots_behind() -> Panel {
    stat("Slots behind")
        .ask("agave_slots_behind{@}", "slots")
        .unit("none")
        .steps("green", &[(32.0, "orange"), (128.0, "red")])
        .nothing("not known")
        .says(
            "Slots between the tip of the cluster and this validator.",
            "Above 128 after the start: find what it waits for below (major faults, pressure, cache), then the runbook.",
        )
        .runbook("AgaveFallingBehind")
        .more("faultline-throughput")
}

/// Only from ten minutes after a start on: before, memory grows steeply and a line through it means nothing.
const SETTLED: &str = "and on (job, instance) (time() - agave_process_start_time_seconds{@} > 600)";

/// Unreclaimable memory so many seconds from now, as a line through the last half hour has it. Beyond twice the limit it is
/// not drawn: what matters is that it meets the limit.
pub(super) fn predicted(seconds: u32) -> String {
    format!(
        "(predict_linear(agave_memory_unreclaimable_bytes{{@}}[30m], {seconds}) > 0 \
         < 2 * agave_memory_effective_limit_bytes{{@}}) {SETTLED}"
    )
}

/// Memory that is used where the limit that counts applies, page cache included, so that it can stand beside that limit and
/// what is unreclaimable there: of its own cgroup, or of the machine. Of a parent's cgroup nobody tells it.
pub(super) fn used() -> String {
    let own = own_limit_counts();
    format!(
        "(agave_cgroup_memory_usage_bytes{{@}} {own}) or on (job, instance) \
         (sum without (kind) (agave_host_memory_bytes{{@, kind=\"total\"}} - ignoring (kind) \
         agave_host_memory_bytes{{@, kind=\"free\"}}) and on (job, instance) (agave_memory_effective_limit_bytes{{@}} \
         == on (job, instance) sum without (kind) (agave_host_memory_bytes{{@, kind=\"total\"}})))"
    )
}

/// Only where the limit of its own cgroup is the one that counts.
pub(super) fn own_limit_counts() -> String {
    "and on (job, instance) (agave_memory_effective_limit_bytes{@} == on (job, instance) \
     sum without (limit) (agave_cgroup_memory_limit_bytes{@, limit=\"max\"}))"
        .to_owned()
}

/// Time until unreclaimable memory meets the limit, if it goes on as in the last half hour.
pub(super) fn exhaustion() -> Panel {
    let left = "(agave_memory_effective_limit_bytes{@} - agave_memory_unreclaimable_bytes{@}) \
        / (deriv(agave_memory_unreclaimable_bytes{@}[30m]) > 0)";
    stat("Time to exhaustion")
        .ask(&format!("({left}) {SETTLED}"), "")
        .unit("s")
        .decimals(1)
        // Nothing at all has the colour of what is below 0.
        .steps("green", &[(0.0, "red"), (7200.0, "orange"), (86400.0, "green")])
        .nothing("none in sight")
        .says(
            "When unreclaimable memory meets the limit if it grows as in the last 30 minutes; absent in the first ten \
             minutes after a start.",
            "Below two hours with less than 20 % left: restart at a moment of your choice, before the kernel chooses.",
        )
        .runbook("AgaveOomAhead")
        .more("faultline-memory")
}

/// Headroom before the kernel kills.
pub(super) fn headroom() -> Panel {
    stat("Headroom")
        .ask("agave_memory_effective_limit_bytes{@} - agave_memory_unreclaimable_bytes{@}", "")
        .unit("bytes")
        .colour("text")
        .says(
            "The memory that the validator can have at most, minus what cannot be dropped. Page cache is not in it: it \
             fills every limit by design.",
            "Judge it by the time to exhaustion. If it is small and steady, page cache is: look at refaults.",
        )
        .runbook("AgaveOomAhead")
        .more("faultline-memory")
}

/// Share of the limit that cannot be dropped.
pub(super) fn taken() -> Panel {
    stat("Unreclaimable memory")
        .ask("agave_memory_unreclaimable_bytes{@} / agave_memory_effective_limit_bytes{@}", "")
        .unit("percentunit")
        .decimals(1)
        .range(0.0, 1.0)
        .steps("green", &[(0.8, "orange"), (0.95, "red")])
        .says(
            "Share of the memory it can have that cannot be dropped: anon, shared memory, kernel.",
            "Above 80 % and growing: plan a restart or more memory. Above 95 %: it is about to be killed.",
        )
        .runbook("AgaveOomAhead")
        .more("faultline-memory")
}

fn healthy() -> Section {
    let panels = vec![
        phase_now(),
        slots_behind(),
        stat("Throughput")
            .ask("rate(agave_transactions_total{@}[1m])", "")
            .unit("suffix:TPS")
            .decimals(0)
            .colour("blue")
            .nothing("not known")
            .says(
                "Transactions per second in the processed bank, votes and failed ones included.",
                "Compare with other validators (Fleet): if all fall together it is the cluster.",
            )
            .more("faultline-throughput"),
        stat("Kept up")
            .ask("agave_kept_up{@}", "")
            .unit("none")
            .words(&[(1.0, "yes", "green"), (0.0, "no", "red")])
            .nothing("not yet known")
            .says(
                "Whether it was at the tip for 99 % of the time since this process was first there.",
                "`no`: the hardware or its limits do not carry it; see what it waited for in Memory and faults.",
            )
            .runbook("AgaveFallingBehind"),
        stat("Running for")
            .ask("time() - agave_process_start_time_seconds{@}", "")
            .unit("s")
            .decimals(1)
            .colour("text")
            .nothing("not running")
            .says("Age of the process.", "Shorter than you expect: look at the restarts and at what ended it.")
            .runbook("AgaveDown"),
        stat("Restarts")
            .ask("sum by (instance) (increase(agave_process_restarts_total{@}[$__range]))", "")
            .unit("none")
            .decimals(0)
            .steps("green", &[(0.5, "orange"), (2.5, "red")])
            .says(
                "Restarts in the time range.",
                "Any you did not make: look at the saved flight recording, and at the reason in Throughput and catch-up.",
            )
            .runbook("AgaveRestartLoop"),
    ];
    Section { title: "Is it healthy?", panels }
}

fn against_limit() -> Panel {
    lines("Memory against its limit, and where it goes")
        .ask("agave_memory_effective_limit_bytes{@}", "limit")
        .ask(&used(), "used, page cache included")
        .ask("agave_memory_unreclaimable_bytes{@}", "unreclaimable")
        .ask(&predicted(7200), "unreclaimable in two hours")
        .unit("bytes")
        .size(16, 9)
        .zero_based()
        .limit("limit", "red")
        .limit("unreclaimable in two hours", "orange")
        .paint("used, page cache included", "blue")
        .paint("unreclaimable", "green")
        .says(
            "All where the limit that counts applies: in its own cgroup, or on the whole machine, then including other processes. \
             Used near the limit is normal, unreclaimable near it is not. The usage of a parent cgroup is not read.",
            "The orange line crosses the red one: the alert OOM ahead comes, two hours before the kill.",
        )
        .runbook("AgaveOomAhead")
        .more("faultline-memory")
}

fn who_waits() -> Panel {
    bars("Who waits for a disk: major faults per second")
        .ask("topk(8, sum by (pool) (rate(agave_thread_pool_page_faults_total{@, type=\"major\"}[5m])))", "{{pool}}")
        .unit("suffix:/s")
        .decimals(2)
        .size(8, 9)
        .steps("green", &[(100.0, "orange"), (1000.0, "red")])
        .says(
            "Thread pools by pages they had to wait for, over five minutes.",
            "Replay pools (solScHandler, solReplay) at the top cost throughput; RPC pools cost latency.",
        )
        .runbook("AgaveMajorFaultStorm")
        .more("faultline-memory")
}

fn runs_out() -> Section {
    let panels = vec![
        taken(),
        headroom(),
        exhaustion(),
        stat("Killed for memory")
            .ask("sum by (instance) (increase(agave_process_ends_total{@, reason=\"oom_kill\"}[$__range]))", "")
            .unit("none")
            .decimals(0)
            .steps("green", &[(0.5, "red")])
            .says(
                "Times the kernel killed it in the time shown because memory ran out.",
                "Any: read the runbook before you start it again with the same limit.",
            )
            .runbook("AgaveOomHappened"),
        stat("Swapped out")
            .ask("agave_process_swap_bytes{@}", "")
            .unit("bytes")
            .steps("green", &[(67_108_864.0, "orange"), (1_073_741_824.0, "red")])
            .says("Memory of the process that is in swap.", "Above 64 MiB: switch swap off or give it memory.")
            .runbook("AgaveSwapInUse"),
        stat("Stalled for memory")
            .ask(
                "rate(agave_cgroup_pressure_stalled_seconds_total{@, resource=\"memory\", kind=\"some\"}[5m]) \
                 or on (job, instance) \
                 rate(agave_host_pressure_stalled_seconds_total{@, resource=\"memory\", kind=\"some\"}[5m])",
                "",
            )
            .unit("percentunit")
            .decimals(2)
            .steps("green", &[(0.02, "orange"), (0.1, "red")])
            .nothing("no PSI here")
            .says(
                "Share of time in which some task waited for memory: of the cgroup, else of the machine.",
                "Above 10 %: the working set does not fit. Add memory, raise the limit, or run less on the host.",
            )
            .runbook("AgaveMemoryPressure"),
        against_limit(),
        who_waits(),
    ];
    Section { title: "Will it run out?", panels }
}

fn suffers() -> Section {
    let panels = vec![
        lines("Slots behind, over time")
            .ask("agave_slots_behind{@}", "slots behind")
            .unit("none")
            .size(8, 7)
            .zero_based()
            .steps("transparent", &[(128.0, "red")])
            .says("Distance to the tip.", "A lasting rise: compare it with faults and cache at the same time.")
            .runbook("AgaveFallingBehind")
            .more("faultline-throughput"),
        lines("Major faults per second")
            .ask("rate(agave_process_page_faults_total{@, type=\"major\"}[$__rate_interval])", "major faults")
            .unit("suffix:/s")
            .size(8, 7)
            .zero_based()
            .says(
                "Pages for which a thread waited for the disk.",
                "High during a start is normal. High afterwards: the working set does not fit.",
            )
            .runbook("AgaveMajorFaultStorm")
            .more("faultline-memory"),
        lines("Program cache: reloads per slot")
            .ask(
                "rate(agave_program_cache_reloads_total{@}[$__rate_interval]) / on (job, instance) \
                 (rate(agave_replay_slot_seconds_count{@, part=\"total\"}[$__rate_interval]) > 0)",
                "reloads per replayed slot",
            )
            .unit("none")
            .slow()
            .size(8, 7)
            .zero_based()
            .steps("transparent", &[(1.0, "orange")])
            .says(
                "Programs compiled again after an eviction, per replayed slot.",
                "Steadily above 1: the cache is too small for the programs in use.",
            )
            .runbook("AgaveCacheThrash")
            .more("faultline-cache"),
    ];
    Section { title: "What does it suffer from?", panels }
}

fn known() -> Section {
    let panels = vec![
        table("Alerts that fire")
            .label("alertname", "Alert")
            .label("severity", "Severity")
            .labels_of("max by (alertname, severity, alertstate) (ALERTS{@})")
            .label("alertstate", "State")
            .unit("none")
            .size(12, 6)
            .nothing("no alert")
            .says("Alerts of this validator, pending ones too.", "Open the runbook of the same name.")
            .runbook("AgaveDown"),
        table("What the daemon cannot see")
            .label("source", "Source")
            .label("kind", "Problem")
            .coloured(
                "Times",
                "max by (source, kind) (faultline_source_problems_total{@} > 0)",
                &painted("none", "transparent", &[]),
            )
            .unit("none")
            .size(12, 6)
            .nothing("it sees everything")
            .says(
                "Things that could not be read since the daemon started: absent (not offered here), forbidden, gone, broken.",
                "What is forbidden needs the validator's user; the daemon's landing page has each in words.",
            )
            .runbook("FaultlineSourceDown")
            .more("faultline-daemon"),
    ];
    Section { title: "What else is known?", panels }
}
