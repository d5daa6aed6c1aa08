//! Checks files, programs and options that a run needs. A validator exits at once if it does not
//! know an option.

use super::{Findings, HostFacts, TextPresence, TextPresences};
use crate::{
    host::KNOWN_VALIDATORS,
    plan::{Arm, Lane, PageCache, Plan, Severity, WorkloadKind, expand},
};
use faultline_agave::identify::Program;
use faultline_common::files::open_regular;
use memchr::memmem;
use std::{
    io::{self, Read},
    path::{Path, PathBuf},
};

const FINCORE: &str = "fincore";
const SETPRIV: &str = "setpriv";
/// Programs of util-linux.
pub const TOOLS: [&str; 2] = [FINCORE, SETPRIV];

/// An option of the accounts database, the releases from 2.0.25 to 4.4.0 that have it, and the
/// remedy for other releases.
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

pub fn check(plan: &Plan, facts: &HostFacts, findings: &mut Findings) {
    for (name, program) in &facts.programs {
        if let Err(why) = program
            && !is_unusable(facts, Path::new(name))
        {
            findings.refuse(
                format!("the command begins with {name}: {why}"),
                "name the program's file in workload.command",
            );
        }
    }
    if let (Some(user), Err(why)) = (&plan.workload.user, &facts.user) {
        // systemd also finds users that are not in /etc/passwd.
        let severity = if facts.uses_systemd() {
            Severity::Warn
        } else {
            Severity::Refuse
        };
        let remedy = "name a user of this host in workload.user, or make it (useradd)";
        findings.add(severity, format!("user {user:?}: {why}"), remedy);
    }
    if let Err(why) = &facts.recorder_program {
        findings.refuse(
            format!("there is no recorder: {why}"),
            "put faultlined into the folder of this program or into PATH, or set recorder.program",
        );
    }
    if let (Some(config), Some(Err(why))) = (&plan.recorder.config, &facts.recorder_config) {
        findings.refuse(
            format!("recorder.config {}: {why}", config.display()),
            "fix it: `faultlined check-config --config FILE` lists the errors",
        );
    }
    for (file, usable) in &facts.path_checks {
        if let Err(why) = usable {
            findings.refuse(
                format!("{}: {why}", file.display()),
                "correct the path in the plan, or create the file or folder",
            );
        }
    }
    check_tools(plan, facts, findings);
    check_cache_variable(plan, facts, findings);
    check_program_files(plan, facts, findings);
}

fn is_unusable(facts: &HostFacts, file: &Path) -> bool {
    facts.path_checks.get(file).is_some_and(Result::is_err)
}

fn check_tools(plan: &Plan, facts: &HostFacts, findings: &mut Findings) {
    if plan.page_cache != PageCache::Leave && !facts.tools.contains(FINCORE) {
        findings.warn(
            "fincore is not in PATH: a cold start cannot be verified, and every run will be marked unproven",
            "install util-linux (Debian: util-linux-extra)",
        );
    }
    if facts.runs_as_other_user && !facts.uses_systemd() && !facts.tools.contains(SETPRIV) {
        findings.refuse(
            "workload.user is another user, and setpriv, which switches to that user, is not in PATH",
            "install util-linux",
        );
    }
    if let (Some(requested), Ok(launcher)) = (plan.workload.open_files, &facts.launcher)
        && let Some(max) = launcher.abilities.open_files
        && requested > max
    {
        findings.refuse(
            format!("workload.open_files is {requested}, and this host permits at most {max}"),
            "raise the hard limit of the user who runs this (`ulimit -Hn`, LimitNOFILE=) or fs.nr_open, or lower workload.open_files",
        );
    }
}

/// `cache_entries` sets the capacity of the program cache by this variable. A binary that does not
/// read the variable keeps its own capacity.
fn check_cache_variable(plan: &Plan, facts: &HostFacts, findings: &mut Findings) {
    let variable = &plan.workload.program_cache_variable;
    for arm in plan
        .arms
        .iter()
        .filter(|arm| arm.program_cache_entries.is_some())
    {
        let Some(file) = program_of(plan, arm, facts).filter(|file| !is_unusable(facts, file))
        else {
            continue;
        };
        let (name, file_text) = (&arm.name, file.display());
        let (what, remedy) = match facts.text_presences.get(&(file.clone(), variable.clone())) {
            Some(TextPresence::Present) | None => continue,
            Some(TextPresence::Missing) => (
                format!("but {variable} is not in {file_text}, which would ignore it silently"),
                "use a binary that reads this variable, as scripts/install-agave builds it",
            ),
            Some(TextPresence::Script) => (
                format!("and {file_text} is a script: which program it starts is not known"),
                "name the program that it starts with workload.binary (or binary of the arm), and start {binary} or \
                 $FAULTLINE_BINARY in the script",
            ),
            Some(TextPresence::Unreadable(why)) => (
                format!("and {file_text} cannot be read: {why}"),
                "name a program file that can be read",
            ),
        };
        findings.refuse(format!("arm {name:?} sets cache_entries, {what}"), remedy);
    }
}

fn check_program_files(plan: &Plan, facts: &HostFacts, findings: &mut Findings) {
    for arm in &plan.arms {
        let Some(file) = program_of(plan, arm, facts) else {
            continue;
        };
        let (name, file_text) = (&arm.name, file.display());
        let file_name = file.file_name().unwrap_or_default().to_string_lossy();
        // The kernel truncates the name of a process.
        let comm = file_name.get(..15).unwrap_or(&file_name);
        if plan.workload.kind == WorkloadKind::Validator && Program::of_comm(comm).is_none() {
            findings.warn(
                format!("faultlined does not know {file_text} as a validator: it records no transactions unless this file starts a program that it knows"),
                format!("rename or link the program to {KNOWN_VALIDATORS}; a script that starts one of them needs no change"),
            );
        }
        for (option, releases, remedy) in accounts_options(plan, arm) {
            match facts.text_presences.get(&(file.clone(), option.to_owned())) {
                Some(TextPresence::Missing) => findings.refuse(
                    format!(
                        "arm {name:?} gives {option}, which {file_text} does not have (Agave has it {releases}): no run would start"
                    ),
                    remedy,
                ),
                Some(TextPresence::Script) => findings.warn(
                    format!(
                        "arm {name:?} gives {option}, and {file_text} is a script: whether its program has the option is not known"
                    ),
                    "name the program that it starts with workload.binary (or binary of the arm)",
                ),
                Some(TextPresence::Present | TextPresence::Unreadable(_)) | None => {}
            }
        }
    }
}

fn accounts_options(
    plan: &Plan,
    arm: &Arm,
) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let command = command_of(plan, arm);
    ACCOUNTS_OPTIONS.into_iter().filter(move |(option, ..)| {
        command
            .iter()
            .any(|word| word.split('=').next() == Some(option))
    })
}

fn program_of(plan: &Plan, arm: &Arm, facts: &HostFacts) -> Option<PathBuf> {
    let of_command = || {
        let program = facts.programs.get(command_of(plan, arm).first()?)?;
        program.clone().ok()
    };
    arm.binary
        .clone()
        .or_else(|| plan.workload.binary.clone())
        .or_else(of_command)
}

/// Fills in the first lane's values; empty if a placeholder has no value. A lane has the
/// folders, ports and CPUs of one run.
pub fn command_of(plan: &Plan, arm: &Arm) -> Vec<String> {
    let lane = Lane::default();
    let lane = plan.lanes.first().unwrap_or(&lane);
    expand(plan, arm, lane, Path::new("/"), 1)
        .map_or_else(|_| Vec::new(), |expanded| expanded.command)
}

/// Searches for the options and the variable that each arm sets.
pub fn search_program_files(plan: &Plan, facts: &HostFacts) -> TextPresences {
    let mut presences = TextPresences::new();
    for arm in &plan.arms {
        let Some(file) = program_of(plan, arm, facts) else {
            continue;
        };
        let mut search = |name: &str, excluded_suffix: &str| {
            presences
                .entry((file.clone(), name.to_owned()))
                .or_insert_with(|| {
                    search_program_file(&file, name.trim_start_matches('-'), excluded_suffix)
                });
        };
        for (option, ..) in accounts_options(plan, arm) {
            // The name of another option is this name followed by `-mb`.
            search(option, "-mb");
        }
        if arm.program_cache_entries.is_some() {
            search(&plan.workload.program_cache_variable, "");
        }
    }
    presences
}

const ELF: &[u8] = b"\x7fELF";
const CHUNK_BYTES: usize = 1 << 18;

/// `excluded_suffix` must not follow `name`.
fn search_program_file(file: &Path, name: &str, excluded_suffix: &str) -> TextPresence {
    let search = || {
        let mut program = open_regular(file)?;
        let mut start = Vec::new();
        program
            .by_ref()
            .take(ELF.len() as u64)
            .read_to_end(&mut start)?;
        Ok(if start != ELF {
            TextPresence::Script
        } else if contains(&mut program, name.as_bytes(), excluded_suffix.as_bytes())? {
            TextPresence::Present
        } else {
            TextPresence::Missing
        })
    };
    search().unwrap_or_else(|error: io::Error| TextPresence::Unreadable(error.to_string()))
}

/// Reads in chunks: memory does not grow with the file.
fn contains(file: &mut impl Read, needle: &[u8], excluded_suffix: &[u8]) -> io::Result<bool> {
    let mut buffer = Vec::new();
    loop {
        let read = file
            .by_ref()
            .take(CHUNK_BYTES as u64)
            .read_to_end(&mut buffer)?;
        // The next chunk may begin with the excluded suffix of a match at the end of this one.
        let is_last = read == 0;
        let end = buffer
            .len()
            .saturating_sub(if is_last { 0 } else { excluded_suffix.len() });
        if has_match(&buffer, end, needle, excluded_suffix) {
            return Ok(true);
        }
        if is_last {
            return Ok(false);
        }
        buffer.drain(..end.saturating_sub(needle.len()));
    }
}

/// Whether a match ends in the first `end` bytes.
fn has_match(text: &[u8], end: usize, needle: &[u8], excluded_suffix: &[u8]) -> bool {
    let searched = text.get(..end).unwrap_or_default();
    memmem::find_iter(searched, needle).any(|start| {
        let rest = text.get(start + needle.len()..).unwrap_or_default();
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
            search_program_file(&file, "AGAVE_PROGRAM_CACHE_ENTRIES", "")
        };
        let mut program = b"\x7fELF".to_vec();
        program.resize(CHUNK_BYTES * 2 - 10, b'A');
        assert_eq!(searched(&program), TextPresence::Missing);
        // The name crosses the boundary of two chunks.
        program.extend(b"AGAVE_PROGRAM_CACHE_ENTRIES and more");
        assert_eq!(searched(&program), TextPresence::Present);
        assert_eq!(
            searched(b"#!/bin/sh\nAGAVE_PROGRAM_CACHE_ENTRIES=1 exec v"),
            TextPresence::Script
        );
        assert_eq!(searched(b""), TextPresence::Script);
        for unreadable in [folder.path().to_owned(), folder.path().join("none")] {
            assert!(matches!(
                search_program_file(&unreadable, "A", ""),
                TextPresence::Unreadable(_)
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
        fn the_chunked_option_search_equals_a_substring_search(text in "[ab]{0,40}", needle in "[ab]{1,6}") {
            prop_assert_eq!(has_match(text.as_bytes(), text.len(), needle.as_bytes(), b""), text.contains(&needle));
        }
    }
}
