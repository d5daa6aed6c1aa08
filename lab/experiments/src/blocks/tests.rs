use super::*;
use crate::journal::{Entry, Journal, JournalLine, Planned};
use std::path::Path;

const PLAN: &str = "name = \"b\"\nfolder = \"/f\"\nreplicates = 4\n[workload]\ncommand = [\"v\"]\nledger = \"/l\"\n\
                    [begin]\nhow = \"as-is\"\n[[arm]]\nname = \"x\"\n[[arm]]\nname = \"y\"\n";

fn plan() -> Plan {
    crate::plan::parse(PLAN, Path::new("/plan.toml")).unwrap()
}

fn host_block(replicate: u32) -> HostBlock {
    HostBlock {
        replicate: Some(replicate),
        how_to_resume: String::new(),
        last_end_unix_ns: None,
    }
}

#[test]
fn a_block_has_every_arm_once_in_the_order_and_with_the_numbers_of_the_plan() {
    let mut merged: Vec<Turn> = (1..=4)
        .flat_map(|replicate| host_block(replicate).turns(&plan()))
        .collect();
    merged.sort_by_key(|turn| turn.number);
    assert_eq!(merged, schedule(&plan()));
    let second = host_block(2).turns(&plan());
    let arms: Vec<_> = second
        .iter()
        .map(|turn| (turn.number, turn.runs[0].arm.as_str()))
        .collect();
    assert_eq!(arms, [(3, "y"), (4, "x")]);
}

/// Writes a block attempt at block 1 with these outcomes. `None` is a run without an end.
fn write(folder: &ExperimentFolder, name: &str, host: &str, outcomes: &[Option<Outcome>]) {
    let path = folder.host_block(1).join(name);
    fs::create_dir_all(&path).unwrap();
    let turns = host_block(1).turns(&plan());
    let mut entries = vec![
        Entry::Planned(Planned::new(&plan(), "direct".to_owned(), turns.clone())),
        Entry::Runner {
            pid: 1,
            boot: String::new(),
            host: host.to_owned(),
        },
    ];
    for (turn, outcome) in turns.iter().zip(outcomes) {
        let run = turn.runs[0].run;
        entries.push(Entry::TurnBegun {
            turn: turn.number,
            attempt: 1,
        });
        let step = journal::Step::Watch;
        entries.push(Entry::Step {
            run,
            attempt: 1,
            step,
        });
        entries.extend(outcome.clone().map(|outcome| Entry::RunEnded {
            run,
            attempt: 1,
            ending: Box::new(Ending::new(outcome)),
        }));
    }
    let mut journal = Journal::create(&ExperimentFolder::new(&path).journal()).unwrap();
    for entry in entries {
        journal.append(&JournalLine { unix_ns: 1, entry }).unwrap();
    }
}

fn merged(folder: &ExperimentFolder) -> JournalState {
    try_merged(folder).unwrap()
}

fn try_merged(folder: &ExperimentFolder) -> Result<JournalState> {
    let planned = Entry::Planned(Planned::new(&plan(), String::new(), schedule(&plan())));
    let mut state = JournalState::of(&[JournalLine {
        unix_ns: 0,
        entry: planned,
    }]);
    merge_host_blocks(folder, &mut state)?;
    Ok(state)
}

#[test]
fn the_first_attempt_with_all_results_counts_whatever_they_are() {
    let root = tempfile::tempdir().unwrap();
    let folder = ExperimentFolder::new(root.path());
    let done = || Some(Outcome::Completed);
    write(&folder, "n1-0", "n1", &[done(), None]);
    write(&folder, "n2-2", "n2", &[Some(Outcome::OutOfMemory), done()]);
    write(&folder, "n3-10", "n3", &[done(), done()]);
    let state = merged(&folder);
    let counted = state.completed_runs();
    let outcomes: Vec<_> = counted.iter().map(|one| &one.ending.outcome).collect();
    assert_eq!(outcomes, [&Outcome::OutOfMemory, &Outcome::Completed]);
    let path = state.run_folder(&folder, counted[0].scheduled, counted[0].attempt);
    assert!(
        path.starts_with(folder.host_block(1).join("n2-2")),
        "{path:?}"
    );
    // The run without an end gets one, and no result of its block attempt counts.
    let first = &state.attempts[&1][0];
    assert_eq!(first.host, "n1");
    assert!(
        first.runs[&1]
            .void_reason
            .as_ref()
            .is_some_and(|why| why.contains("n2-2"))
    );
    assert_eq!(
        state.attempts[&2][0].runs[&2]
            .ended
            .as_ref()
            .unwrap()
            .0
            .outcome,
        Outcome::runner_killed()
    );
    assert!(
        !state.finished
            && state
                .planned
                .is_some_and(|planned| planned.launcher == "direct")
    );
}

#[test]
fn results_of_a_cut_block_do_not_count_once_another_host_has_begun_it() {
    let root = tempfile::tempdir().unwrap();
    let folder = ExperimentFolder::new(root.path());
    fs::create_dir_all(folder.host_blocks()).unwrap();
    assert_eq!(
        merged(&folder).stopped.as_deref(),
        Some("no block has begun")
    );
    write(&folder, "n1-0", "n1", &[Some(Outcome::Completed), None]);
    assert_eq!(merged(&folder).completed_runs().len(), 1);
    write(&folder, "n2-1", "n2", &[None]);
    let state = merged(&folder);
    assert_eq!(state.completed_runs().len(), 0);
    assert_eq!(state.next_attempt().map(|next| next.turn.number), Some(1));

    // The block returns to its first host.
    let journal = ExperimentFolder::new(&folder.host_block(1).join("n1-0")).journal();
    let (mut journal, _) = Journal::open(&journal).unwrap();
    let entry = Entry::Runner {
        pid: 1,
        boot: String::new(),
        host: "n1".to_owned(),
    };
    journal.append(&JournalLine { unix_ns: 2, entry }).unwrap();
    assert_eq!(merged(&folder).completed_runs().len(), 1);
}

#[test]
fn unreadable_journals_are_named_and_other_attempts_count() {
    let root = tempfile::tempdir().unwrap();
    let folder = ExperimentFolder::new(root.path());
    let done = || Some(Outcome::Completed);
    for name in ["n1-0", "n2-1", "n3-2", "n4-3"] {
        write(&folder, name, "n1", &[done(), done()]);
    }
    let journal = |name: &str| ExperimentFolder::new(&folder.host_block(1).join(name)).journal();
    let lines = fs::read_to_string(journal("n1-0")).unwrap();
    fs::write(journal("n1-0"), format!("broken\n{lines}")).unwrap();
    let digest = crate::folder::digest(PLAN);
    fs::write(journal("n2-1"), lines.replace(&digest, "another")).unwrap();
    fs::write(journal("n3-2"), "not a journal\n").unwrap();
    // The runner was killed at its first line.
    write(&folder, "n5-4", "n5", &[None]);
    fs::write(journal("n5-4"), r#"{"unix_ns":1,"#).unwrap();
    // Block 2 is a file.
    fs::write(folder.host_block(2), "").unwrap();
    let state = merged(&folder);
    let counted = state.completed_runs();
    assert_eq!(counted.len(), 2);
    let path = state.run_folder(&folder, counted[0].scheduled, counted[0].attempt);
    assert!(
        path.starts_with(folder.host_block(1).join("n4-3")),
        "{path:?}"
    );
    let expected = [
        "n1-0/journal.jsonl:1: this is no line of a journal",
        "n2-1/journal.jsonl: this is the journal of another plan",
        "n3-2/journal.jsonl: this is no journal",
        "blocks/002: Not a directory",
    ];
    let unreadable = &state.unreadable_journals;
    assert_eq!(unreadable.len(), expected.len(), "{unreadable:#?}");
    for expected in expected {
        let named = unreadable.iter().any(|problem| problem.contains(expected));
        assert!(named, "{expected}: {unreadable:#?}");
    }
    assert_eq!(
        read_block_attempts(&folder, &digest, 1, Some("n1"))
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn an_entry_of_a_newer_version_in_a_host_block_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let folder = ExperimentFolder::new(root.path());
    write(&folder, "n1-0", "n1", &[Some(Outcome::Completed), None]);
    let journal = ExperimentFolder::new(&folder.host_block(1).join("n1-0")).journal();
    let lines = fs::read_to_string(&journal).unwrap();
    let newer = "{\"unix_ns\":2,\"entry\":\"void_newer\",\"run\":1}\n";
    for text in [format!("{lines}{newer}"), format!("{newer}{lines}")] {
        fs::write(&journal, text).unwrap();
        let digest = crate::folder::digest(PLAN);
        let read = read_block_attempts(&folder, &digest, 1, Some("n1"));
        for error in [read.err(), try_merged(&folder).err()] {
            let error = format!("{:#}", error.unwrap());
            assert!(
                error.contains("/blocks/001/n1-0/journal.jsonl:")
                    && error.contains("; if a newer faultline wrote it, use that one: unknown"),
                "{error}"
            );
        }
    }
}
