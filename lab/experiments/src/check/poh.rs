//! Finds the CPU of the proof-of-history thread. It spins, so anything else on its CPU delays
//! slots.

use crate::plan::{Arm, Kind, Lane, Plan, expand};
use faultline_runner::isolation::CpuSet;
use itertools::Itertools;
use std::collections::BTreeSet;

/// Since Agave 4.2 the value is the number of the CPU; before it was an index into those that the
/// process may use.
const OPTIONS: [&str; 2] = [
    "--poh-pinned-cpu-core",
    "--experimental-poh-pinned-cpu-core",
];
const DEFAULT_CORE: u32 = 0;

/// The recorder's CPUs, the same in every run: those of the plan, or all except the
/// proof-of-history CPUs of every arm and lane. `None` for all.
pub fn recorder_cpus(plan: &Plan, allowed: &[u32]) -> Option<CpuSet> {
    if plan.recorder.cpus.is_some() {
        return plan.recorder.cpus.clone();
    }
    // A replay has no such thread.
    if plan.workload.kind == Kind::Replay {
        return None;
    }
    let poh_cpus = poh_cpus(plan, allowed);
    let other_cpus: Vec<&u32> = allowed
        .iter()
        .filter(|cpu| !poh_cpus.contains(cpu))
        .collect();
    if other_cpus.is_empty() || other_cpus.len() == allowed.len() {
        None
    } else {
        CpuSet::parse(&other_cpus.iter().join(",")).ok()
    }
}

fn poh_cpus(plan: &Plan, allowed: &[u32]) -> BTreeSet<u32> {
    let mut poh_cpus = BTreeSet::new();
    for arm in &plan.arms {
        for lane in &plan.lanes {
            let mut numbers = cores_of_command(plan, arm, lane);
            if numbers.is_empty() {
                numbers.insert(DEFAULT_CORE);
            }
            let run_cpus = arm.limits(lane).cpus;
            let group_cpus = run_cpus.as_ref().map_or(allowed, CpuSet::numbers);
            for number in numbers {
                // The version is not known, so both are left out.
                poh_cpus.insert(number);
                poh_cpus.extend(
                    usize::try_from(number)
                        .ok()
                        .and_then(|number| group_cpus.get(number)),
                );
            }
        }
    }
    poh_cpus
}

fn cores_of_command(plan: &Plan, arm: &Arm, lane: &Lane) -> BTreeSet<u32> {
    let Ok(expanded) = expand(plan, arm, lane, &plan.folder, 1) else {
        return BTreeSet::new();
    };
    let options = expanded
        .environment
        .values()
        .map(|value| cores_named_in(value))
        .chain([cores_named_in(&expanded.command.join(" "))]);
    options.flatten().collect()
}

/// The text may be shell code.
fn cores_named_in(text: &str) -> BTreeSet<u32> {
    let separates = |c: char| c.is_whitespace() || "\"'=;,()[]".contains(c);
    let mut words = text.split(separates).filter(|word| !word.is_empty());
    let mut found = BTreeSet::new();
    while let Some(word) = words.next() {
        if OPTIONS.contains(&word) {
            found.extend(words.next().and_then(|value| value.parse::<u32>().ok()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::parse;
    use proptest::prelude::*;
    use std::path::Path;

    fn cpus(folder: &Path, words: &str, rest: &str) -> Option<String> {
        let text = format!(
            "name = \"p\"\nfolder = \"state\"\n[begin]\nhow = \"as-is\"\n[workload]\nledger = \"ledger\"\n{words}\n\
             {rest}\n[[arm]]\nname = \"a\"\n[[arm]]\nname = \"b\"\n"
        );
        let plan = parse(&text, &folder.join("plan.toml")).unwrap();
        recorder_cpus(&plan, &[0, 1, 2, 3]).map(|cpus| cpus.to_string())
    }

    #[test]
    fn the_recorder_avoids_the_commands_poh_core_or_cpu_0() {
        let folder = tempfile::tempdir().unwrap();
        let of = |words: &str| cpus(folder.path(), words, "");
        assert_eq!(of("command = [\"v\"]").unwrap(), "1-3");
        assert_eq!(
            of("command = [\"v\", \"--experimental-poh-pinned-cpu-core\", \"2\"]").unwrap(),
            "0-1,3"
        );
        assert_eq!(
            of("command = [\"v\", \"--poh-pinned-cpu-core=3\", \"--x\"]").unwrap(),
            "0-2"
        );
        assert_eq!(of("kind = \"replay\"\ncommand = [\"v\"]"), None);
        // Counted among the CPUs of the group.
        assert_eq!(of("command = [\"v\"]\ncpus = \"2-3\"").unwrap(), "1,3");
        assert_eq!(
            cpus(
                folder.path(),
                "command = [\"v\"]",
                "[recorder]\ncpus = \"0\""
            )
            .unwrap(),
            "0"
        );
    }

    #[test]
    fn recorder_cpus_exclude_every_arms_poh_core_unless_none_remain() {
        let text = "name = \"p\"\nfolder = \"state\"\n[begin]\nhow = \"as-is\"\n[workload]\ncommand = [\"v\"]\nledger = \"l\"\n\
                    [[arm]]\nname = \"a\"\ncpus = \"0-3\"\n[[arm]]\nname = \"b\"\ncpus = \"4-7\"\n";
        let plan = parse(text, Path::new("/nonexistent/plan.toml")).unwrap();
        let of = |allowed: &[u32]| recorder_cpus(&plan, allowed).map(|cpus| cpus.to_string());
        assert_eq!(of(&[0, 1, 2, 3, 4, 5, 6, 7]).unwrap(), "1-3,5-7");
        assert_eq!(of(&[0, 4]), None);
        assert_eq!(of(&[0]), None);
        assert_eq!(of(&[1, 2]), None, "it may use no CPU of these anyway");
    }

    proptest! {
        #[test]
        fn any_command_text_is_parsed_without_panic(text in "(?s)(--poh-pinned-cpu-core|[ =\\n\\\\0-9\"#])*.{0,40}") {
            drop(cores_named_in(&text));
        }
    }
}
