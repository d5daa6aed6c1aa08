//! Checks that the validator of each arm knows the accounts options of its command. An unknown
//! option ends a validator at once.

use super::{
    Findings, HostFacts, OptionPresence, Options,
    programs::{command_of, program_of},
    switch::search,
};
use crate::plan::{Arm, Plan};

/// Name, releases from 2.0.25 to 4.4.0 that have it, and the remedy for others.
const ACCOUNTS_OPTIONS: [(&str, &str, &str); 9] = [
    (
        "--accounts-db-read-cache-limit-mb",
        "until 3.1",
        "since 3.0 the option is --accounts-db-read-cache-limit LOW,HIGH (in bytes)",
    ),
    (
        "--accounts-db-read-cache-limit",
        "since 3.0",
        "until 3.1 there is --accounts-db-read-cache-limit-mb LOW,HIGH (in MiB)",
    ),
    (
        "--accounts-db-cache-limit-mb",
        "in all, deprecated since 4.2",
        "since 4.2 the option is --accounts-db-write-cache-limit",
    ),
    (
        "--accounts-db-write-cache-limit",
        "since 4.2",
        "until 4.1 the option is --accounts-db-cache-limit-mb (in MB)",
    ),
    (
        "--accounts-index-limit",
        "since 4.0",
        "3.1 has --enable-accounts-disk-index; until 3.0 the index is on disk",
    ),
    (
        "--enable-accounts-disk-index",
        "since 3.1, deprecated since 4.0",
        "leave it out: until 3.0 the index is on disk",
    ),
    (
        "--disable-accounts-disk-index",
        "until 3.1",
        "leave it out: since 3.1 the index is in memory",
    ),
    (
        "--accounts-index-memory-limit-mb",
        "until 2.3",
        "since 4.0 the option is --accounts-index-limit",
    ),
    (
        "--accounts-index-bins",
        "in all",
        "check that the binary is an agave-validator",
    ),
];

fn known_options_of(plan: &Plan, arm: &Arm) -> Vec<(&'static str, &'static str, &'static str)> {
    let command = command_of(plan, arm);
    let has = |option: &str| {
        command
            .iter()
            .any(|word| word.split('=').next() == Some(option))
    };
    ACCOUNTS_OPTIONS
        .into_iter()
        .filter(|(option, ..)| has(option))
        .collect()
}

pub fn search_programs(plan: &Plan, facts: &HostFacts) -> Options {
    let mut found = Options::new();
    for arm in &plan.arms {
        let Some(file) = program_of(plan, arm, facts) else {
            continue;
        };
        let mut search = |name: &str, excluded_suffix: &str| {
            found
                .entry((file.clone(), name.to_owned()))
                .or_insert_with(|| search(&file, name.trim_start_matches('-'), excluded_suffix));
        };
        for (option, ..) in known_options_of(plan, arm) {
            // Another option begins with this one and continues with `-mb`.
            search(option, "-mb");
        }
        if arm.cache_entries.is_some() {
            search(&plan.workload.cache_variable, "");
        }
    }
    found
}

pub fn check(plan: &Plan, facts: &HostFacts, found: &mut Findings) {
    for arm in &plan.arms {
        let Some(file) = program_of(plan, arm, facts) else {
            continue;
        };
        for (option, releases, remedy) in known_options_of(plan, arm) {
            let (name, shown) = (&arm.name, file.display());
            match facts.options.get(&(file.clone(), option.to_owned())) {
                Some(OptionPresence::Missing) => found.refuse(
                    format!(
                        "arm {name:?} gives {option}, which {shown} does not have (Agave has it {releases}): it would not start"
                    ),
                    remedy,
                ),
                Some(OptionPresence::Script) => found.warn(
                    format!("arm {name:?} gives {option}, and {shown} is a script: whether its program has the option is not known"),
                    "name the program that it starts with workload.binary (or binary of the arm)",
                ),
                Some(OptionPresence::Present | OptionPresence::Unreadable(_)) | None => {}
            }
        }
    }
}
