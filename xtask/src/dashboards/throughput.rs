//! Throughput, distance to the tip, and the phases of a start.

use super::dashboard::{CLUSTER, Dashboard, INSTANCE, JOB, Section};
use super::overview::{phase_now, phases, slots_behind};
use super::panel::{Panel, bars, lines, stat};

/// Phases before a validator serves.
const BEFORE: &str =
    "initializing|searching|downloading|unpacking|replaying|starting|waiting_for_supermajority|halted|catching_up";

pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        uid: "faultline-throughput",
        title: "Throughput and catch-up",
        about: "Transactions per second, slots behind the tip, the phases of a start, and which threads do the work.",
        since: "now-6h",
        variables: vec![JOB, CLUSTER, INSTANCE],
        sections: vec![now(), throughput(), catch_up(), shreds(), threads()],
    }
}

fn now() -> Section {
    let seconds_before = format!("sum by (instance) (agave_phase_seconds_total{{@, phase=~\"{BEFORE}\"}})");
    let panels = vec![
        phase_now(),
        slots_behind(),
        stat("Caught up in")
            .ask(
                "agave_slots_behind{@} / on (job, instance) (-1 * deriv(agave_slots_behind{@}[5m]) > 0) \
                 and on (job, instance) agave_phase{@, phase=~\"catching_up|behind\"} == 1",
                "",
            )
            .unit("s")
            .decimals(1)
            .colour("text")
            .nothing("at the tip, or no nearer")
            .says(
                "Time to reach the tip at the rate of the last five minutes.",
                "Catching up and no estimate: it falls behind further. See what it waits for in Memory and faults.",
            )
            .runbook("AgaveFallingBehind"),
        stat("Starts have taken")
            .ask(&seconds_before, "")
            .unit("s")
            .decimals(1)
            .colour("text")
            .says(
                "Time from process to tip, all starts since the daemon began together.",
                "An hour or two on mainnet is usual, the download included. Longer: the bars below say which phase.",
            )
            .runbook("AgaveStuckInStartPhase"),
        stat("Time at 0 TPS")
            .ask("agave_zero_tps_seconds_total{@}", "")
            .unit("s")
            .decimals(1)
            .colour("text")
            .nothing("not reported")
            .says(
                "Seconds since the first execution whose datapoints carry no transaction.",
                "Grows while it runs: replay is stalled. Nearly all of it is catch-up on a healthy validator.",
            ),
        stat("Own slots")
            .ask("increase(agave_own_slots_total{@}[$__range])", "")
            .unit("none")
            .decimals(0)
            .colour("text")
            .nothing("not reported")
            .says(
                "Slots that it led in the time shown; they are in no replay histogram.",
                "0 on a staked validator: it missed its leader slots.",
            ),
    ];
    Section { title: "Now", panels }
}

fn throughput() -> Section {
    let replay = |q: &str| {
        format!(
            "histogram_quantile({q}, sum by (le) (rate(agave_replay_slot_seconds_bucket{{@, part=\"total\"}}[$__rate_interval])))"
        )
    };
    let panels = vec![
        lines("Transactions per second")
            .ask("rate(agave_transactions_total{@}[$__rate_interval])", "processed (RPC)")
            .ask("rate(agave_replayed_transactions_total{@}[$__rate_interval])", "replayed")
            .ask("rate(agave_rooted_transactions_total{@}[$__rate_interval])", "rooted")
            .ask(
                "sum by (leader) (rate(agave_block_transactions_total{@}[$__rate_interval]))",
                "in frozen banks, leader {{leader}}",
            )
            .unit("suffix:TPS")
            .slow()
            .size(12, 9)
            .zero_based()
            .with_numbers()
            .says(
                "The same work seen at four places; forks count more than once in frozen banks. While it catches up it is \
                 faster than the cluster.",
                "Below the cluster's rate while behind: it never gets there. Compare in Fleet.",
            )
            .runbook("AgaveFallingBehind"),
        lines("Time to replay a slot")
            .ask(&replay("0.5"), "half of all slots")
            .ask(&replay("0.95"), "p95")
            .ask(&replay("0.99"), "p99")
            .unit("s")
            .slow()
            .size(6, 9)
            .zero_based()
            .steps("transparent", &[(0.4, "red")])
            .says(
                "Wall time per replayed slot; the cluster makes one every 400 ms.",
                "Half of all above 400 ms: it falls behind.",
            )
            .runbook("AgaveFallingBehind"),
        lines("What replay spends it on")
            .ask(
                "sum by (part) (rate(agave_replay_slot_seconds_sum{@, part!=\"total\"}[$__rate_interval])) / \
                 ignoring (part) group_left sum(rate(agave_replay_slot_seconds_count{@, part=\"total\"}[$__rate_interval]) > 0)",
                "{{part}}",
            )
            .unit("s")
            .slow()
            .size(6, 9)
            .zero_based()
            .stacked()
            .says(
                "Mean per slot, summed over threads.",
                "load: disks and memory. execute: CPU. program_cache: see there. store: the write cache.",
            )
            .more("faultline-cache"),
    ];
    Section { title: "Throughput", panels }
}

fn phase_seconds() -> Panel {
    bars("Time in each phase")
        .ask("sort_desc(agave_phase_seconds_total{@} > 0)", "{{phase}}")
        .unit("s")
        .decimals(1)
        .size(8, 9)
        .colour("blue")
        .says(
            "Since the daemon began.",
            "downloading long: the network or a slow peer. replaying, catching_up long: disks or memory.",
        )
        .runbook("AgaveStuckInStartPhase")
}

fn without_transactions() -> Panel {
    lines("Seconds without transactions")
        .ask("rate(agave_zero_tps_seconds_total{@}[$__rate_interval])", "at 0 TPS")
        .ask("rate(agave_tps_unknown_seconds_total{@}[$__rate_interval])", "not known")
        .unit("percentunit")
        .slow()
        .size(12, 7)
        .zero_based()
        .says("Share of the time.", "not known: pushes are missing, see faultlined itself.")
        .runbook("FaultlinePushStopped")
        .more("faultline-daemon")
}

fn catch_up() -> Section {
    let panels = vec![
        phases(
            lines("Phases over time")
                .ask("agave_phase{@} == 1", "{{phase}}")
                .unit("none")
                .size(16, 9)
                .range(0.0, 1.0)
                .stacked()
                .stepped(),
        )
        .says(
            "The phase it was in; a gap is a phase that was not known.",
            "A band that lasts longer than at the last start: the runbook.",
        )
        .runbook("AgaveStuckInStartPhase"),
        phase_seconds(),
        lines("Slots behind, over time")
            .ask("agave_slots_behind{@}", "slots behind")
            .unit("none")
            .size(8, 7)
            .zero_based()
            .steps("transparent", &[(128.0, "red")])
            .says("Distance to the tip.", "A straight fall is a healthy catch-up; a plateau is not.")
            .runbook("AgaveFallingBehind"),
        lines("Slots per second, by kind")
            .ask("deriv(agave_slot{@}[5m]) >= 0", "{{kind}}")
            .unit("suffix:/s")
            .size(8, 7)
            .says(
                "How fast each kind of slot advances; the cluster makes 2.5 a second.",
                "shred advances and processed does not: replay is stalled. Neither: the network.",
            )
            .runbook("AgaveFallingBehind"),
        lines("Restarts, by reason")
            .ask("increase(agave_process_restarts_total{@}[$__rate_interval])", "{{reason}}")
            .unit("none")
            .size(8, 7)
            .zero_based()
            .paint("oom_kill", "red")
            .says("Restarts, with the reason.", "oom_kill: the runbook. exit in a row: its log has the reason.")
            .runbook("AgaveRestartLoop"),
        without_transactions(),
        lines("Accounts in the index")
            .ask("agave_accounts_index_entries{@}", "entries")
            .unit("short")
            .slow()
            .size(12, 7)
            .zero_based()
            .says("How much state it holds.", "It grows with the cluster; a jump at a start is the snapshot."),
    ];
    Section { title: "Catching up", panels }
}

fn shreds() -> Section {
    let panels = vec![
        lines("Repair requests")
            .ask("rate(agave_repair_requests_total{@}[$__rate_interval])", "{{kind}}")
            .unit("suffix:/s")
            .slow()
            .size(8, 8)
            .zero_based()
            .steps("transparent", &[(100.0, "orange")])
            .says(
                "Requests for shreds that did not arrive. Many are normal while it catches up, few at the tip.",
                "More than 100 a second at the tip: shreds are dropped or read too late. See the buffer errors, then \
                 CPU and memory: a starved validator asks for repair.",
            )
            .runbook("AgaveFallingBehind"),
        lines("Shreds that did not arrive by themselves")
            .ask("rate(agave_shreds_repaired_total{@}[$__rate_interval])", "by repair")
            .ask("rate(agave_shreds_recovered_total{@}[$__rate_interval])", "by erasure coding")
            .unit("suffix:/s")
            .slow()
            .size(8, 8)
            .zero_based()
            .says(
                "Data shreds that repair brought, and those that were computed from others.",
                "by erasure coding grows: the network loses datagrams. by repair grows too: it loses more than coding mends.",
            )
            .runbook("AgaveFallingBehind"),
        lines("UDP buffer errors")
            .ask("rate(agave_udp_buffer_errors_total{@}[$__rate_interval])", "{{buffer}}")
            .unit("suffix:/s")
            .slow()
            .size(8, 8)
            .zero_based()
            .says(
                "Datagrams that the kernel dropped because the buffer of a socket was full, in the validator's whole \
                 network namespace.",
                "receive: its threads read too slowly, for lack of CPU or memory, or net.core.rmem_max is below what Agave asks \
                 for.",
            )
            .runbook("AgaveFallingBehind"),
    ];
    Section { title: "Shreds and repair", panels }
}

fn by_pool(title: &'static str, metric: &str) -> Panel {
    lines(title)
        .ask(
            &format!(
                "sum by (pool) (rate({metric}{{@}}[$__rate_interval])) \
                 and topk(8, sum by (pool) (increase({metric}{{@}}[$__range] @ end())))"
            ),
            "{{pool}}",
        )
        .unit("suffix:s/s")
        .decimals(3)
        .size(12, 9)
        .zero_based()
        .with_numbers()
}

fn threads() -> Section {
    let panels = vec![
        by_pool("Who works: CPU by thread pool", "agave_thread_pool_cpu_seconds_total").says(
            "CPU seconds per second; 1 is a core.",
            "A pool pinned at its number of threads is the bottleneck; solPohTickProd at 1 is as it should be.",
        ),
        by_pool("Who waits for a CPU: run queue by thread pool", "agave_thread_pool_run_queue_seconds_total").says(
            "Time threads were ready and had no core.",
            "Replay or PoH here: too few cores, or a neighbour. Keep other work off the validator's cores.",
        ),
        lines("CPU of the process")
            .ask("rate(agave_process_cpu_seconds_total{@}[$__rate_interval])", "{{mode}}")
            .unit("suffix:cores")
            .size(8, 7)
            .zero_based()
            .stacked()
            .says("User and system.", "system above user for long: page faults, reclaim or the network."),
        lines("Context switches")
            .ask("rate(agave_process_context_switches_total{@}[5m])", "{{type}}")
            .unit("suffix:/s")
            .size(8, 7)
            .zero_based()
            .says(
                "voluntary waits for something, involuntary was pushed off a core.",
                "involuntary high: cores are short.",
            ),
        lines("Read cache of accounts")
            .ask("rate(agave_read_cache_hits_total{@}[$__rate_interval])", "hits")
            .ask("rate(agave_read_cache_misses_total{@}[$__rate_interval])", "misses")
            .ask("rate(agave_read_cache_evictions_total{@}[$__rate_interval])", "evictions")
            .unit("suffix:/s")
            .slow()
            .size(8, 7)
            .zero_based()
            .says(
                "Accounts found and not found in the read cache.",
                "Misses with evictions: a larger --accounts-db-read-cache-limit spares disk reads.",
            ),
    ];
    Section { title: "Who works, who waits", panels }
}
