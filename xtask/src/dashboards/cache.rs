//! The program cache: is it too small, and what does that cost?

use super::dashboard::{CLUSTER, Dashboard, INSTANCE, JOB, Section};
use super::panel::{Panel, bars, lines, stat};

pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        uid: "faultline-cache",
        title: "Program cache",
        about: "Misses, reloads and evictions, the time they cost per slot, and the water level against the capacity.",
        since: "now-6h",
        variables: vec![JOB, CLUSTER, INSTANCE],
        sections: vec![verdict(), events(), time(), level(), more()],
    }
}

/// Something per replayed slot.
fn per_slot(counter: &str) -> String {
    format!(
        "rate({counter}{{@}}[$__rate_interval]) / on (job, instance) \
         (rate(agave_replay_slot_seconds_count{{@, part=\"total\"}}[$__rate_interval]) > 0)"
    )
}

fn reloads() -> Panel {
    stat("Reloads per slot")
        .ask(
            "rate(agave_program_cache_reloads_total{@}[5m]) / on (job, instance) \
             (rate(agave_replay_slot_seconds_count{@, part=\"total\"}[5m]) > 0)",
            "",
        )
        .unit("none")
        .decimals(2)
        .steps("green", &[(1.0, "orange"), (3.0, "red")])
        .nothing("no slot replayed")
        .says(
            "Programs compiled again after an eviction, per replayed slot.",
            "Steadily above 1: the cache is too small. The capacity is a constant of the binary.",
        )
        .runbook("AgaveCacheThrash")
}

fn time_p95() -> Panel {
    stat("Cache time per slot, p95")
        .ask("histogram_quantile(0.95, sum by (le) (rate(agave_program_cache_time_seconds_bucket{@}[5m])))", "")
        .unit("s")
        .decimals(1)
        .steps("green", &[(0.05, "orange"), (0.2, "red")])
        .nothing("no slot replayed")
        .says(
            "Time that replay threads spend in the program cache for one slot; a slot has 400 ms.",
            "Tens of milliseconds with reloads: the cache is too small. Without reloads: new programs, it passes.",
        )
        .runbook("AgaveCacheThrash")
}

fn share() -> Panel {
    stat("Share of replay work")
        .ask(
            "sum by (instance) (rate(agave_replay_slot_seconds_sum{@, part=\"program_cache\"}[5m])) / \
             sum by (instance) (rate(agave_replay_slot_seconds_sum{@, part=~\"load|execute|store|program_cache\"}[5m]))",
            "",
        )
        .unit("percentunit")
        .decimals(1)
        .steps("green", &[(0.1, "orange"), (0.3, "red")])
        .nothing("no slot replayed")
        .says(
            "Program cache time as a share of all the time that threads spend on replay.",
            "Above 10 %: a larger cache would give that time back.",
        )
        .runbook("AgaveCacheThrash")
}

fn verdict() -> Section {
    let panels = vec![
        reloads(),
        time_p95(),
        share(),
        stat("Water level")
            .ask("agave_program_cache_loaded_entries{@}", "")
            .unit("none")
            .colour("text")
            .nothing("never evicted")
            .says(
                "Compiled programs in the cache at the last eviction pass.",
                "`never evicted` is the best answer: everything in use fits.",
            ),
        stat("Capacity, configured")
            .ask("agave_program_cache_capacity_entries{@, kind=\"configured\"}", "")
            .unit("none")
            .colour("text")
            .nothing("version not known")
            .says(
                "The capacity that this version has, or that the configuration names.",
                "It differs from the observed one: set target.program_cache_entries, or a build is not what you think.",
            ),
        stat("Capacity, observed")
            .ask("agave_program_cache_capacity_entries{@, kind=\"observed\"}", "")
            .unit("none")
            .colour("text")
            .nothing("never evicted")
            .says(
                "The capacity as evictions show it: an eviction pass begins above 90 % of it.",
                "Nothing to do. It appears with the first eviction.",
            ),
    ];
    Section { title: "Is it too small?", panels }
}

fn events() -> Section {
    let panels = vec![
        lines("Per replayed slot")
            .ask(&per_slot("agave_program_cache_misses_total"), "misses")
            .ask(&per_slot("agave_program_cache_reloads_total"), "reloads")
            .ask(&per_slot("agave_program_cache_evictions_total"), "evictions")
            .ask(&per_slot("agave_program_cache_insertions_total"), "insertions")
            .unit("none")
            .slow()
            .zero_based()
            .with_numbers()
            .says(
                "Misses count once for every thread that missed; reloads are programs compiled again after an eviction.",
                "Reloads follow evictions: too small. Misses without reloads: programs seen for the first time.",
            )
            .runbook("AgaveCacheThrash"),
        lines("Per second")
            .ask("rate(agave_program_cache_misses_total{@}[$__rate_interval])", "misses")
            .ask("rate(agave_program_cache_reloads_total{@}[$__rate_interval])", "reloads")
            .ask("rate(agave_program_cache_evictions_total{@}[$__rate_interval])", "evictions")
            .ask("rate(agave_program_cache_insertions_total{@}[$__rate_interval])", "insertions")
            .unit("suffix:/s")
            .slow()
            .zero_based()
            .with_numbers()
            .says(
                "The same per second, which does not depend on slots arriving evenly.",
                "A burst after a start is the cache filling. A burst every epoch is the runtime's environment changing.",
            )
            .runbook("AgaveCacheThrash"),
    ];
    Section { title: "Misses, reloads, evictions", panels }
}

fn quantile(q: &str, of: &str) -> String {
    format!("histogram_quantile({q}, sum by (le) (rate({of}[$__rate_interval])))")
}

fn shares() -> Panel {
    lines("Share of replay work and of slot time")
        .ask(
            "sum by (instance) (rate(agave_replay_slot_seconds_sum{@, part=\"program_cache\"}[$__rate_interval])) / \
             (sum by (instance) (rate(agave_replay_slot_seconds_sum{@, part=~\"load|execute|store|program_cache\"}[$__rate_interval])) > 0)",
            "of all threads' work",
        )
        .ask(
            "sum by (instance) (rate(agave_replay_slot_seconds_sum{@, part=\"program_cache\"}[$__rate_interval])) / \
             (sum by (instance) (rate(agave_replay_slot_seconds_sum{@, part=\"total\"}[$__rate_interval])) > 0)",
            "against the slot's wall time",
        )
        .unit("percentunit")
        .slow()
        .size(8, 9)
        .zero_based()
        .steps("transparent", &[(0.1, "orange")])
        .says(
            "What part of replay goes to the cache. The second can exceed 100 %: threads add up.",
            "Above 10 % of the work: a larger cache pays.",
        )
        .runbook("AgaveCacheThrash")
}

fn time() -> Section {
    let cache = "agave_program_cache_time_seconds_bucket{@}";
    let spread = |q: &str| {
        format!(
            "histogram_quantile({q}, sum by (le) (increase(agave_program_cache_time_seconds_bucket{{@}}[$__range])))"
        )
    };
    let panels = vec![
        lines("Program cache time per slot")
            .ask(&quantile("0.5", cache), "half of all slots")
            .ask(&quantile("0.95", cache), "p95")
            .ask(&quantile("0.99", cache), "p99")
            .ask(
                "sum by (instance) (rate(agave_program_cache_time_seconds_sum{@}[$__rate_interval])) / \
                 (sum by (instance) (rate(agave_program_cache_time_seconds_count{@}[$__rate_interval])) > 0)",
                "mean",
            )
            .unit("s")
            .slow()
            .size(10, 9)
            .zero_based()
            .steps("transparent", &[(0.05, "orange")])
            .says(
                "Summed over the threads that replay a slot: it can exceed the slot's wall time.",
                "p95 above 50 ms for long: set it against reloads; if both rise the cache is too small.",
            )
            .runbook("AgaveCacheThrash"),
        bars("Its distribution over the time shown")
            .ask(&spread("0.25"), "p25")
            .ask(&spread("0.5"), "p50")
            .ask(&spread("0.75"), "p75")
            .ask(&spread("0.9"), "p90")
            .ask(&spread("0.95"), "p95")
            .ask(&spread("0.99"), "p99")
            .unit("s")
            .decimals(1)
            .size(6, 9)
            .steps("green", &[(0.05, "orange"), (0.2, "red")])
            .says(
                "Within what time so many percent of the slots were through with the cache.",
                "A long tail over a small median: few slots pay for all misses, the leader's neighbours among them.",
            )
            .runbook("AgaveCacheThrash"),
        shares(),
    ];
    Section { title: "What it costs", panels }
}

fn level() -> Section {
    let panels = vec![
        lines("Water level against capacity")
            .ask("agave_program_cache_loaded_entries{@}", "loaded")
            .ask("agave_program_cache_capacity_entries{@}", "capacity, {{kind}}")
            .ask("agave_program_cache_shrink_target_entries{@}", "shrinks to, {{kind}}")
            .unit("none")
            .slow()
            .stepped()
            .zero_based()
            .limit("capacity, configured", "red")
            .limit("capacity, observed", "purple")
            .limit("shrinks to, configured", "orange")
            .limit("shrinks to, observed", "yellow")
            .says(
                "Entries at the last eviction pass. A pass shrinks the cache to 90 % of its capacity: that is what there is.",
                "At the target all the time, with reloads: too small.",
            )
            .runbook("AgaveCacheThrash"),
        lines("Compiling programs, by stage")
            .ask("rate(agave_program_load_seconds_total{@}[$__rate_interval])", "{{stage}}")
            .unit("suffix:s/s")
            .slow()
            .zero_based()
            .stacked()
            .says(
                "Seconds of threads' time per second spent loading programs in replay.",
                "verify and jit are what every reload pays again.",
            )
            .runbook("AgaveCacheThrash"),
    ];
    Section { title: "Level and compilation", panels }
}

fn more() -> Section {
    let panels = vec![
        lines("Entries removed otherwise")
            .ask("rate(agave_program_cache_prunes_orphan_total{@}[$__rate_interval])", "orphans, as the root moved")
            .ask("rate(agave_program_cache_prunes_environment_total{@}[$__rate_interval])", "new environment")
            .ask("rate(agave_program_cache_prunes_stale_total{@}[$__rate_interval])", "stale")
            .ask("rate(agave_program_cache_empty_entries_total{@}[$__rate_interval])", "left without a version")
            .unit("suffix:/s")
            .slow()
            .size(8, 8)
            .zero_based()
            .says(
                "Prunes; stale ones since Agave 4.4.",
                "Orphans in numbers are forks. A new environment is an epoch boundary: a burst of misses follows.",
            ),
        lines("Wasted and odd")
            .ask(
                "rate(agave_program_cache_one_hit_wonders_total{@}[$__rate_interval]) / \
                 (rate(agave_program_cache_evictions_total{@}[$__rate_interval]) > 0)",
                "one-hit wonders per eviction",
            )
            .ask("rate(agave_program_cache_lost_insertions_total{@}[$__rate_interval])", "lost insertions per second")
            .ask("rate(agave_program_cache_replacements_total{@}[$__rate_interval])", "replacements per second")
            .unit("none")
            .slow()
            .size(8, 8)
            .zero_based()
            .says(
                "One-hit wonders: evicted after a single use.",
                "Near 1: what is evicted is not missed, the cache is large enough. Any replacement: report a bug to Anza.",
            ),
        lines("Time of a prune, p95")
            .ask(&quantile("0.95", "agave_program_cache_prune_seconds_bucket{@}"), "p95")
            .unit("s")
            .slow()
            .size(8, 8)
            .zero_based()
            .nothing("reported by instrumented builds only")
            .says(
                "Only from an instrumented build: no released version reports it.",
                "Empty on a stock validator: nothing is wrong.",
            ),
    ];
    Section { title: "More of it", panels }
}
