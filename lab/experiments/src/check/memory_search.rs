//! A memory search tries headrooms: what a limit leaves above unreclaimable memory. A dwell is the
//! time for which the search keeps one headroom.

use super::{Findings, HostFacts, LauncherFacts};
use crate::plan::Plan;
use faultline_text::{duration, size};
use std::time::Duration;

/// In a shorter dwell, a validator replays too few slots and sends too few metrics (every 10 s).
const MIN_DWELL: Duration = Duration::from_secs(60);

/// A search lifts its limit after 8 s without a sample.
const MAX_SAMPLING_INTERVAL: Duration = Duration::from_secs(2);

/// With this option, the validator reports the tip on every request.
const FULL_API: &str = "--full-rpc-api";

pub fn check(plan: &Plan, facts: &HostFacts, findings: &mut Findings) {
    let Some(memory_search) = &plan.memory_search else {
        return;
    };
    if let Ok(launcher) = &facts.launcher {
        check_launcher(launcher, findings);
    }
    if facts.swap != Some(0) {
        findings.refuse(
            "swap is on, or its state is unknown: with swap, anonymous memory is reclaimable too, so the search has no unreclaimable \
             memory to which it could add a headroom",
            "switch swap off (swapoff -a)",
        );
    }
    if let Some(ram) = facts.ram
        && memory_search.first_headroom >= ram
    {
        let (headroom, ram) = (size(memory_search.first_headroom), size(ram));
        findings.refuse(
            format!(
                "search.from is {headroom}, and this host has {ram}: the first limit would limit nothing"
            ),
            "lower search.from to a headroom that the page cache of the validator fills; half of the host's memory is more than enough",
        );
    }
    if memory_search.dwell < MIN_DWELL || memory_search.settle_time < MIN_DWELL / 2 {
        let (settle, dwell) = (
            duration(memory_search.settle_time),
            duration(memory_search.dwell),
        );
        findings.warn(
            format!(
                "search.settle is {settle} and search.dwell {dwell}: a validator replays too few slots for a verdict in so short a time"
            ),
            "settle = \"2m\", dwell = \"8m\"",
        );
    }
    check_interval(plan, findings);
    check_api(plan, findings);
    let min_duration = memory_search.min_duration();
    if min_duration > memory_search.max_duration {
        let (max_duration, min_duration) =
            (duration(memory_search.max_duration), duration(min_duration));
        findings.warn(
            format!(
                "search.most is {max_duration}, and a search takes {min_duration} even if few dwells are enough"
            ),
            "a longer search.most, or a shorter search.dwell or search.settle",
        );
    }
    findings.note(
        "the search begins when the validator is at the tip, so it does not find the least memory for a start: its answer names the \
         highest unreclaimable memory during the start, and a start needs at least this much",
        "confirm the answer with an arm that has it as memory_max from the beginning",
    );
    findings.note(
        "the answer does not cover events that the search did not meet, such as a full snapshot, an epoch boundary or the load of \
         another day",
        "search again on another day, or with replicates = 3",
    );
}

fn check_launcher(launcher: &LauncherFacts, findings: &mut Findings) {
    let LauncherFacts { name, abilities } = launcher;
    if !abilities.memory_high {
        findings.warn(
            format!(
                "{name} has only a hard limit, and none that slows a cgroup down: at a full cgroup the kernel kills nothing, but a \
                 write fails with ENOMEM, and the validator then exits"
            ),
            "use a host with cgroup version 2; here the search tries no headroom below twice the largest rise of unreclaimable memory within a second",
        );
    }
    if !abilities.pressure {
        findings.warn(
            format!(
                "{name} does not report how long a cgroup waits for memory, so a long wait cannot end a dwell early"
            ),
            "use a host with cgroup version 2 mounted, and pressure (psi=1)",
        );
    }
}

fn check_api(plan: &Plan, findings: &mut Findings) {
    let command = &plan.workload.command;
    // A script may add the option.
    let is_script =
        plan.workload.binary.is_none() && !command.iter().any(|word| word.starts_with("--"));
    if !is_script
        && !command
            .iter()
            .chain(plan.arms.iter().flat_map(|arm| &arm.arguments))
            .any(|word| word == FULL_API)
    {
        findings.warn(
            format!(
                "the command has no {FULL_API}: only metrics that the validator pushes have the distance to the tip, up to 25 s late"
            ),
            format!("add {FULL_API} to workload.command, and keep --private-rpc"),
        );
    }
}

fn check_interval(plan: &Plan, findings: &mut Findings) {
    if plan.recorder.interval > MAX_SAMPLING_INTERVAL {
        let interval = duration(plan.recorder.interval);
        findings.refuse(
            format!(
                "recorder.interval is {interval}: a search needs the distance to the tip more often"
            ),
            "recorder.interval = \"1s\", which is the default",
        );
    }
}
