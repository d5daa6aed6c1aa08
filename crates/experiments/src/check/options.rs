//! Whether the validator of each arm has the options for the accounts caches that the arm sets. A validator refuses an
//! option that it does not know at each start, after its snapshot was loaded into place.

use super::Findings;
use super::cache::program_of;
use super::facts::{HostFacts, Options, Switch};
use super::switch::look;
use crate::plan::{Arm, Lane, Plan, expand};
use std::path::Path;

/// Options of agave-validator for the accounts caches, which releases from 2.0.25 to 4.4.0 have them, and what the others have.
const OPTIONS: &[(&str, &str, &str)] = &[
    ("--accounts-db-read-cache-limit-mb", "until 3.1", "--accounts-db-read-cache-limit LOW,HIGH (in bytes, since 3.0)"),
    ("--accounts-db-read-cache-limit", "since 3.0", "--accounts-db-read-cache-limit-mb LOW,HIGH (in MiB, until 3.1)"),
    ("--accounts-db-cache-limit-mb", "in all, deprecated since 4.2", "--accounts-db-write-cache-limit (since 4.2)"),
    ("--accounts-db-write-cache-limit", "since 4.2", "--accounts-db-cache-limit-mb (in MB)"),
    (
        "--accounts-index-limit",
        "since 4.0",
        "--enable-accounts-disk-index (3.1), or none: until 3.0 the index is on disk",
    ),
    ("--enable-accounts-disk-index", "since 3.1, deprecated since 4.0", "none: until 3.0 the index is on disk"),
    ("--disable-accounts-disk-index", "until 3.1", "none: since 3.1 the index is in memory"),
    ("--accounts-index-memory-limit-mb", "until 2.3", "--accounts-index-limit (since 4.0)"),
    ("--accounts-index-bins", "in all", "no other option"),
];

/// Which of the options an arm's command has.
fn given(plan: &Plan, arm: &Arm) -> Vec<&'static str> {
    let lane = Lane::default();
    let lane = plan.lanes.first().unwrap_or(&lane);
    let Ok(expanded) = expand(plan, arm, lane, Path::new("/"), 1) else { return Vec::new() };
    let names = expanded.command.iter().map(|word| word.split_once('=').map_or(word.as_str(), |(name, _)| name));
    let names: Vec<&str> = names.collect();
    OPTIONS.iter().map(|(option, ..)| *option).filter(|option| names.contains(option)).collect()
}

/// Looks for the options in the programs of the arms.
pub(super) fn gather(plan: &Plan, facts: &HostFacts) -> Options {
    let mut found = Options::new();
    for arm in &plan.arms {
        let Some(file) = program_of(plan, arm, facts) else { continue };
        let of_file = found.entry(file.clone()).or_default();
        for option in given(plan, arm) {
            // The name of one is the beginning of another's.
            of_file.entry(option).or_insert_with(|| look(&file, option.trim_start_matches('-'), "-mb"));
        }
    }
    found
}

pub(super) fn check(plan: &Plan, facts: &HostFacts, found: &mut Findings) {
    for arm in &plan.arms {
        let Some(file) = program_of(plan, arm, facts) else { continue };
        let looked = facts.options.get(&file);
        for option in given(plan, arm) {
            let (name, shown) = (&arm.name, file.display());
            let Some((_, releases, instead)) = OPTIONS.iter().find(|(one, ..)| *one == option) else { continue };
            match looked.and_then(|options| options.get(option)) {
                Some(Switch::Missing) => found.refuse(
                    format!(
                        "arm {name:?} gives {option}, which {shown} does not have (Agave has it {releases}): it would not start"
                    ),
                    format!("other releases have {instead}"),
                ),
                Some(Switch::Script) => found.warn(
                    format!("arm {name:?} gives {option}, and {shown} is a script: whether its program has the option is not known"),
                    "name the program that it starts with workload.binary (or binary of the arm)",
                ),
                // That it cannot be read is said already where it matters.
                Some(Switch::There | Switch::Unreadable(_)) | None => {}
            }
        }
    }
}
