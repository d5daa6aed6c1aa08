//! Checks that this host can give each run its limits.
//!
//! With `concurrent`, one run of each arm and a second run of the repeated arm execute at the same
//! time. Each of them has a lane: its own folders, ports and CPUs.

use super::{Findings, HostFacts, LauncherFacts};
use crate::plan::{Arm, Lane, Plan, Severity, WorkloadKind};
use faultline_kernel::Level;
use faultline_runner::isolation::CpuSet;
use faultline_text::{bytes, size};
use std::collections::BTreeSet;

/// A launcher that makes cgroups of version 1 itself.
const CGROUP_V1: &str = "cgroup v1";
/// The rest of the host keeps a twentieth of the RAM, but within these bounds.
const RESERVE_BOUNDS: (u64, u64) = (512 << 20, 8 << 30);

pub fn check(plan: &Plan, facts: &HostFacts, findings: &mut Findings) {
    match &facts.launcher {
        Ok(launcher) => {
            for arm in &plan.arms {
                check_abilities(plan, arm, launcher, facts, findings);
            }
        }
        Err(why) => findings.refuse(
            format!("no cgroup can be made here: {why}"),
            "run as root, on a host with systemd or with cgroups that may be written",
        ),
    }
    for arm in &plan.arms {
        check_memory_limit(arm, facts, findings);
    }
    if let Some(search) = &plan.memory_search {
        check_outer_limits("search.from is", search.first_headroom, facts, findings);
    }
    check_cpus(plan, facts, findings);
    if plan.concurrent.is_some() {
        check_concurrent(plan, facts, findings);
    }
}

fn check_abilities(
    plan: &Plan,
    arm: &Arm,
    launcher: &LauncherFacts,
    facts: &HostFacts,
    findings: &mut Findings,
) {
    let (name, abilities, launcher_name) = (&arm.name, &launcher.abilities, &launcher.name);
    if arm.memory_high.is_some() && !abilities.memory_high {
        findings.refuse(
            format!("arm {name:?} sets memory_high, which {launcher_name} does not have"),
            "use a host with cgroup version 2, or leave memory_high out",
        );
    }
    if arm.swap_max.is_some() && arm.memory_max.is_none() && launcher_name == CGROUP_V1 {
        findings.refuse(
            format!(
                "arm {name:?} sets swap_max without memory_max, and {launcher_name} can only limit memory and swap together"
            ),
            "give this arm a memory_max as well, or leave swap_max out",
        );
    }
    match arm.swap_max {
        Some(swap_max) if swap_max > 0 && !abilities.swap_max => findings.refuse(
            format!("arm {name:?} sets swap_max, and {launcher_name} cannot limit swap here"),
            "leave swap_max out and switch swap off (swapoff -a)",
        ),
        // Without swap, no limit is needed.
        Some(0) if !abilities.swap_max && facts.swap != Some(0) => findings.refuse(
            format!("arm {name:?} must not swap, and {launcher_name} cannot limit swap here"),
            "switch swap off (swapoff -a)",
        ),
        _ => {}
    }
    let needs_cpus = arm.cpus.is_some() || plan.lanes.iter().any(|lane| lane.cpus.is_some());
    if needs_cpus && !abilities.cpus {
        findings.refuse(
            format!("arm {name:?} or a lane sets cpus, which {launcher_name} cannot give here"),
            "enable the cpuset controller, or leave cpus out",
        );
    }
    if !arm.io.is_empty() && !abilities.io {
        findings.refuse(
            format!("arm {name:?} limits devices, which {launcher_name} cannot do here"),
            "enable the io (version 1: blkio) controller, or leave io out",
        );
    }
    for limit in &arm.io {
        if let Some(Err(why)) = facts.io_device_numbers.get(&limit.device) {
            findings.refuse(
                format!("io of arm {name:?}: {}: {why}", limit.device.display()),
                "name a block device, or a file on one",
            );
        }
    }
}

fn check_outer_limits(
    subject_and_verb: &str,
    max: u64,
    facts: &HostFacts,
    findings: &mut Findings,
) {
    let max_text = size(max);
    if let Err(why) = &facts.outer_limits {
        findings.warn(
            format!("{subject_and_verb} {max_text}, and a limit around it cannot be read: {why}"),
            "make sure that no cgroup above it has a lower limit",
        );
    }
    for limit in facts
        .outer_limits
        .iter()
        .flatten()
        .filter(|limit| limit.headroom() < max)
    {
        let (name, severity) = match limit.id {
            Level::Machine => ("this machine".to_owned(), Severity::Warn),
            _ => (format!("cgroup {} around it", limit.path), Severity::Refuse),
        };
        let what = format!(
            "{subject_and_verb} {max_text}, and {name} has {} of {} left",
            bytes(limit.headroom()),
            bytes(limit.limit),
        );
        let remedy =
            "a run reaches that limit first: free memory there, or set lower values in the plan";
        findings.add(severity, what, remedy);
    }
}

fn check_memory_limit(arm: &Arm, facts: &HostFacts, findings: &mut Findings) {
    let (key, max) = match (arm.memory_max, arm.memory_high) {
        // `memory_high` is at most `memory_max`.
        (Some(max), _) => ("memory_max", max),
        (None, Some(high)) => ("memory_high", high),
        (None, None) => return,
    };
    let subject = format!("{key} of arm {:?}", arm.name);
    check_outer_limits(&format!("{subject} is"), max, facts, findings);
    let Some(ram) = facts.ram else { return };
    let (max_text, ram_text) = (size(max), size(ram));
    // `ram` excludes what the kernel reserves: less than 5 % of the installed memory.
    if max > ram / 100 * 105 {
        findings.refuse(
            format!(
                "{subject} is {max_text}, and this host has {ram_text}: the arm would have less memory than its limit"
            ),
            format!(
                "leave the arm out; or leave its {key} out, so that it gets all memory of this host, and rename it accordingly"
            ),
        );
    } else if max >= ram / 100 * 95 {
        findings.warn(
            format!("{subject}, {max_text}, is 95 % or more of the host's {ram_text}"),
            format!(
                "the host runs out of memory before the arm reaches its limit: lower {key}, or treat the arm as one without a limit"
            ),
        );
    }
}

fn check_cpus(plan: &Plan, facts: &HostFacts, findings: &mut Findings) {
    let Some(host_cpus) = &facts.cpus else { return };
    let lanes = plan
        .lanes
        .iter()
        .map(|lane| (format!("lane {:?}", lane.name), &lane.cpus));
    let arms = plan
        .arms
        .iter()
        .map(|arm| (format!("arm {:?}", arm.name), &arm.cpus));
    let recorder = ("the recorder".to_owned(), &plan.recorder.cpus);
    for (subject, cpus) in lanes.chain(arms).chain([recorder]) {
        let mut cpus = cpus.iter().flat_map(CpuSet::numbers);
        if let Some(cpu) = cpus.find(|cpu| !host_cpus.numbers().contains(cpu)) {
            findings.refuse(
                format!("{subject} wants CPU {cpu}, and this host has {host_cpus}"),
                "name CPUs that this host has",
            );
        }
    }
}

fn check_concurrent(plan: &Plan, facts: &HostFacts, findings: &mut Findings) {
    // The A/A pair runs at the same time: its runs differ only by chance and lane.
    let repeated_arm = plan
        .concurrent
        .and_then(|concurrent| plan.arms.get(concurrent.repeated_arm));
    let subject = format!(
        "the limits of all arms and of the second run of arm {:?}",
        repeated_arm.map_or("", |arm| arm.name.as_str())
    );
    let mut sum = 0_u64;
    for arm in plan.arms.iter().chain(repeated_arm) {
        match arm.memory_max {
            Some(max) => sum = sum.saturating_add(max),
            None => findings.refuse(
                format!(
                    "arm {:?} has no memory_max, so it can take memory from the arms that run at the same time",
                    arm.name
                ),
                "give every arm of a concurrent plan a memory_max; if arms do not differ in memory, give all the same one",
            ),
        }
    }
    check_outer_limits(&format!("{subject} are"), sum, facts, findings);
    if let Some(ram) = facts.ram {
        let reserve = (ram / 20).clamp(RESERVE_BOUNDS.0, RESERVE_BOUNDS.1);
        if sum.saturating_add(reserve) > ram {
            let [sum, reserve, ram] = [sum, reserve, ram].map(size);
            findings.refuse(
                format!(
                    "{subject} are {sum}; with {reserve} for the rest of the host, that is more than its {ram}"
                ),
                "lower memory_max, or run the arms one after another (without [concurrent])",
            );
        }
    }
    if plan.lanes.iter().any(|lane| lane.cpus.is_none()) {
        findings.warn(
            "not every lane has CPUs of its own, so runs take CPU time from one another",
            "give each lane cpus, as in cpus = \"0-7\"",
        );
    }
    let has_ports = |lane: &Lane| {
        lane.rpc_port.is_some() && lane.gossip_port.is_some() && lane.port_range.is_some()
    };
    if plan.workload.kind == WorkloadKind::Validator && !plan.lanes.iter().all(has_ports) {
        findings.warn(
            "not every lane has all its ports, and validators that run at the same time must not share a port",
            "give each lane rpc_port, gossip_port and port_range, and use the placeholders {rpc_port} and so on in the command",
        );
    }
    check_shared_devices(plan, facts, findings);
}

fn check_shared_devices(plan: &Plan, facts: &HostFacts, findings: &mut Findings) {
    let devices_of = |lane: &Lane| -> BTreeSet<u64> {
        lane.folders()
            .filter_map(|folder| facts.folder(folder).device)
            .collect()
    };
    let limits_all_arms = plan.arms.iter().all(|arm| !arm.io.is_empty());
    let severity = plan
        .concurrent
        .map_or(Severity::Note, |rule| rule.shared_device_severity);
    if limits_all_arms || severity == Severity::Note {
        return;
    }
    for (index, lane) in plan.lanes.iter().enumerate() {
        let devices = devices_of(lane);
        for other in plan
            .lanes
            .iter()
            .take(index)
            .filter(|other| !devices_of(other).is_disjoint(&devices))
        {
            let what = format!(
                "lanes {:?} and {:?} are on the same device, and not every arm has an io limit",
                other.name, lane.name
            );
            let remedy = "put each lane on a device of its own, or give every arm the same io limits; if neither is \
                          possible, set concurrent.shared_device = \"warn\"";
            findings.add(severity, what, remedy);
        }
    }
}
