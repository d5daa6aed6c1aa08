//! Checks that the validator of each arm knows the accounts options of its command. An unknown
//! option ends a validator at once.

use super::{
    Findings, HostFacts, OptionPresence, Options,
    programs::{command_of, program_of},
};
use crate::plan::{Arm, Plan};
use memchr::memmem;
use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

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

const ELF: &[u8] = b"\x7fELF";
const CHUNK_BYTES: usize = 1 << 18;

/// Searches a program file for `name`, which `excluded_suffix` must not follow.
fn search(file: &Path, name: &str, excluded_suffix: &str) -> OptionPresence {
    let opened = std::fs::metadata(file).and_then(|meta| match meta.is_file() {
        true => File::open(file),
        false => Err(io::Error::other("is no file")),
    });
    let searched = opened.and_then(|mut file| {
        let mut start = Vec::new();
        file.by_ref()
            .take(ELF.len() as u64)
            .read_to_end(&mut start)?;
        if start != ELF {
            return Ok(OptionPresence::Script);
        }
        Ok(
            if contains(&mut file, name.as_bytes(), excluded_suffix.as_bytes())? {
                OptionPresence::Present
            } else {
                OptionPresence::Missing
            },
        )
    });
    searched.unwrap_or_else(|error| OptionPresence::Unreadable(error.to_string()))
}

/// Uses constant memory.
fn contains(file: &mut impl Read, wanted: &[u8], excluded_suffix: &[u8]) -> io::Result<bool> {
    if wanted.is_empty() {
        return Ok(true);
    }
    let mut buffer: Vec<u8> = Vec::new();
    loop {
        let read = file
            .by_ref()
            .take(CHUNK_BYTES as u64)
            .read_to_end(&mut buffer)?;
        // A match at the end of this piece is decided with the next one.
        let is_last = read == 0;
        let decided = buffer
            .len()
            .saturating_sub(if is_last { 0 } else { excluded_suffix.len() });
        if has_match(&buffer, decided, wanted, excluded_suffix) {
            return Ok(true);
        }
        if is_last {
            return Ok(false);
        }
        buffer.drain(..decided.saturating_sub(wanted.len() - 1));
    }
}

fn has_match(text: &[u8], decided: usize, wanted: &[u8], excluded_suffix: &[u8]) -> bool {
    let decided = text.get(..decided).unwrap_or_default();
    memmem::find_iter(decided, wanted).any(|at| {
        let rest = text.get(at + wanted.len()..).unwrap_or_default();
        excluded_suffix.is_empty() || !rest.starts_with(excluded_suffix)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn scripts_and_programs_with_or_without_the_option_are_distinguished() {
        let folder = tempfile::tempdir().unwrap();
        let searched = |content: &[u8]| {
            let file = folder.path().join("program");
            std::fs::write(&file, content).unwrap();
            search(&file, "AGAVE_PROGRAM_CACHE_ENTRIES", "")
        };
        let mut program = b"\x7fELF".to_vec();
        program.resize(CHUNK_BYTES * 2 - 10, b'A');
        assert_eq!(searched(&program), OptionPresence::Missing);
        // Over the border of two pieces.
        program.extend(b"AGAVE_PROGRAM_CACHE_ENTRIES and more");
        assert_eq!(searched(&program), OptionPresence::Present);
        assert_eq!(
            searched(b"#!/bin/sh\nAGAVE_PROGRAM_CACHE_ENTRIES=1 exec v"),
            OptionPresence::Script
        );
        assert_eq!(searched(b""), OptionPresence::Script);
        for unreadable in [folder.path().to_owned(), folder.path().join("none")] {
            assert!(matches!(
                search(&unreadable, "A", ""),
                OptionPresence::Unreadable(_)
            ));
        }
    }

    #[test]
    fn an_option_is_not_matched_inside_a_longer_one_across_chunks() {
        for before in CHUNK_BYTES - 40..CHUNK_BYTES + 4 {
            let file = |text: &str| [vec![b'x'; before], text.into()].concat();
            let there = |text: &str| {
                contains(&mut file(text).as_slice(), b"read-cache-limit", b"-mb").unwrap()
            };
            assert!(!there("read-cache-limit-mb and more"), "{before}");
            assert!(there("read-cache-limit-mbread-cache-limit"), "{before}");
            assert!(there("read-cache-limit-m"), "{before}");
        }
    }

    proptest! {
        #[test]
        fn the_chunked_option_search_equals_a_substring_search(text in "[ab]{0,40}", wanted in "[ab]{1,6}") {
            prop_assert_eq!(has_match(text.as_bytes(), text.len(), wanted.as_bytes(), b""), text.contains(&wanted));
        }
    }
}
