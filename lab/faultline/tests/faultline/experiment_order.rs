//! What a runner does and in which order, in a pretended world: a plan and what happens in, the log out.
//!
//! A case is a folder in `tests/faultline/experiment_order/cases`: `plan.toml`, `happens.txt` (see `experiment_order/script.rs`) and
//! `expected.log`. Lines with `>` are in the journal, the others are done to the world; each line of the journal comes before
//! what it is about. After a change that is meant, renew the logs with
//! `FAULTLINE_RENEW=1 cargo test -p faultline --test faultline experiment_order` and read the difference.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot prepare its scene fails"
)]

mod pretended;
mod script;

use faultline_experiments::{
    folder::ExperimentFolder,
    journal::{self, Entry, JournalLine, JournalState, Planned},
    plan::{Plan, load},
    runner::{ExperimentEnd, Runner},
    schedule::schedule,
};
use pretended::Pretended;
use proptest::prelude::*;
use script::Script;
use std::{
    fs,
    path::{Path, PathBuf},
};

fn folder_of_cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faultline/experiment_order/cases")
}

/// A case's plan in a folder of its own.
fn plan(case: &Path) -> (tempfile::TempDir, Plan) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.toml");
    fs::copy(case.join("plan.toml"), &file).unwrap();
    let plan = load(&file).unwrap_or_else(|mistakes| panic!("{}: {mistakes:?}", case.display()));
    fs::create_dir_all(&plan.folder).unwrap();
    (folder, plan)
}

fn script(case: &Path) -> Script {
    Script::parse(&fs::read_to_string(case.join("happens.txt")).unwrap_or_default())
}

/// Runs a case to its end, resuming it as often as it stops, at most so often.
fn run(plan: &Plan, script: &Script, resumes: usize) -> String {
    let mut world = Pretended::new(&ExperimentFolder::new(&plan.folder), script.clone());
    for life in 0..=resumes {
        let runner = if life == 0 && !ExperimentFolder::new(&plan.folder).journal().exists() {
            Runner::begin(plan.clone(), schedule(plan), &mut world)
        } else {
            Runner::resume(plan.clone(), &mut world)
        };
        let over = runner.and_then(Runner::run);
        let finished = matches!(over, Ok(ExperimentEnd::Finished));
        world.log(&match over {
            Ok(ExperimentEnd::Finished) => "finished".to_owned(),
            Ok(
                ExperimentEnd::Stopped(why)
                | ExperimentEnd::GaveUp(why)
                | ExperimentEnd::UnfitHost(why),
            ) => {
                format!("stopped: {}", why.split(';').next().unwrap_or_default())
            }
            Err(error) => format!("error: {error:#}"),
        });
        if finished {
            break;
        }
        world.rest();
    }
    world.words()
}

#[test]
fn every_case_gives_its_expected_log() {
    let mut cases: Vec<PathBuf> = fs::read_dir(folder_of_cases())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    cases.sort();
    assert!(cases.len() >= 8, "the cases are missing");
    let renew = std::env::var_os("FAULTLINE_RENEW").is_some();
    let mut wrong = Vec::new();
    for case in cases {
        let (_folder, plan) = plan(&case);
        let log = run(&plan, &script(&case), 1);
        let expected = case.join("expected.log");
        if renew {
            fs::write(&expected, &log).unwrap();
        } else if fs::read_to_string(&expected).unwrap_or_default() != log {
            wrong.push(format!("{}:\n{log}", case.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// By the lines alone: every run has one result in the newest attempt at its turn and none is done again after its turn.
fn assert_every_run_counts_once(lines: &[JournalLine]) {
    let Some(Entry::Planned(Planned { turns, .. })) = lines.first().map(|line| &line.entry) else {
        panic!("no plan")
    };
    for turn in turns {
        let begun = |line: &JournalLine| matches!(line.entry, Entry::TurnBegun { turn: number, .. } if number == turn.number);
        let newest = lines.iter().rposition(begun).expect("begun");
        for run in &turn.runs {
            let is_result = |line: &&JournalLine| match &line.entry {
                Entry::RunEnded {
                    run: number,
                    ending,
                    ..
                } => *number == run.run && ending.outcome.is_result(),
                _ => false,
            };
            assert_eq!(
                lines[newest..].iter().filter(is_result).count(),
                1,
                "run {}",
                run.run
            );
            if turn.runs.len() == 1 {
                assert_eq!(
                    lines[..newest].iter().filter(is_result).count(),
                    0,
                    "run {}",
                    run.run
                );
            }
        }
    }
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.entry == Entry::Finished)
            .count(),
        1
    );
}

/// The journal of a case that has everything in it: failures, an interruption, turns of several runs.
fn whole_journal() -> (tempfile::TempDir, Plan, Vec<u8>) {
    let case = folder_of_cases().join("concurrent");
    let (folder, plan) = plan(&case);
    run(&plan, &script(&case), 1);
    let bytes = fs::read(ExperimentFolder::new(&plan.folder).journal()).unwrap();
    (folder, plan, bytes)
}

#[test]
fn an_unfit_host_of_a_block_is_reported_for_simultaneous_runs() {
    let (_folder, plan) = plan(&folder_of_cases().join("concurrent"));
    let folder = ExperimentFolder::new(&plan.folder);
    let mut world = Pretended::new(&folder, Script::parse("busy until 1000"));
    let runner = Runner::begin(plan.clone(), schedule(&plan), &mut world).unwrap();
    let end = runner.in_host_block(Some(Default::default())).run();
    assert!(matches!(end, Ok(ExperimentEnd::UnfitHost(_))));
}

/// Executes a plan, and keeps only the first lines of its journal, as if the runner was killed then.
fn run_cut_off_after(plan: &Plan, lines: usize) {
    run(plan, &Script::default(), 0);
    let path = ExperimentFolder::new(&plan.folder).journal();
    let text = fs::read_to_string(&path).unwrap();
    let cut_off = text.lines().take(lines).map(|line| format!("{line}\n"));
    fs::write(&path, cut_off.collect::<String>()).unwrap();
}

#[test]
fn each_cut_off_run_of_a_turn_names_only_its_own_cgroups() {
    let (_folder, plan) = plan(&folder_of_cases().join("concurrent"));
    // The three runs of the first turn have been launched.
    run_cut_off_after(&plan, 15);
    let left = "run 1 attempt 1: abandoned\nrun 2 attempt 1: abandoned\nrun 9 attempt 1: abandoned";
    let log = run(&plan, &Script::parse(left), 0);
    let notes_of = |run: u32| {
        let line = log
            .lines()
            .find(|line| line.contains(&format!("run {run} ended: interrupted")));
        line.unwrap_or_else(|| panic!("{log}")).split('[').skip(1)
    };
    for run in [1, 2] {
        let notes: Vec<&str> = notes_of(run).collect();
        let cgroup = format!(".r{run:03}_a1.validator]");
        assert!(notes.len() == 1 && notes[0].ends_with(&cgroup), "{notes:?}");
    }
    assert_eq!(notes_of(3).count(), 0, "it left nothing behind");
    assert_eq!(log.matches("was left behind by a killed runner").count(), 1);
    assert!(log.contains(".r009_a1.validator was left behind"), "{log}");
}

#[test]
fn a_run_that_was_cut_off_is_repeated_after_the_cool_down() {
    let (_folder, plan) = plan(&folder_of_cases().join("left-behind"));
    run_cut_off_after(&plan, 6);
    let log = run(&plan, &Script::default(), 0);
    assert!(log.contains("   30.0  > run 1: Clear\n"), "{log}");
}

#[test]
fn a_cool_down_that_was_over_before_the_runner_began_is_not_repeated() {
    let (_folder, plan) = plan(&folder_of_cases().join("left-behind"));
    run(&plan, &Script::default(), 0);
    let path = ExperimentFolder::new(&plan.folder).journal();
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let end = lines.iter().position(|line| line.contains("run_ended"));
    lines.truncate(end.unwrap() + 1);
    // The pretended clock begins at 0 s.
    let ended_before = lines[end.unwrap()].replace("\"unix_ns\":", "\"unix_ns\":-");
    *lines.last_mut().unwrap() = &ended_before;
    fs::write(&path, lines.concat()).unwrap();
    let log = run(&plan, &Script::default(), 0);
    assert!(log.contains("    0.0  > run 2: Clear\n"), "{log}");
}

#[test]
fn from_any_journal_prefix_the_experiment_resumes_without_repetition() {
    let (folder, plan, bytes) = whole_journal();
    let path = ExperimentFolder::new(&plan.folder).journal();
    let first = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(96));
    // Every end of a line, then bytes anywhere.
    let ends: Vec<usize> = bytes
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(at, _)| at + 1)
        .collect();
    let check = |cut: usize, torn: &[u8]| {
        fs::write(&path, [&bytes[..cut], torn].concat()).unwrap();
        let before = journal::read(&path).unwrap();
        let done = JournalState::of(&before);
        run(&plan, &Script::default(), 0);
        let lines = journal::read(&path).unwrap();
        assert_eq!(lines[..before.len()], before[..], "cut at {cut}");
        assert_every_run_counts_once(&lines);
        let counted = |standing: &JournalState| {
            standing
                .completed_runs()
                .iter()
                .map(|counted| (counted.scheduled.run, counted.attempt))
                .collect::<Vec<_>>()
        };
        let after = counted(&JournalState::of(&lines));
        assert!(
            counted(&done).iter().all(|run| after.contains(run)),
            "cut at {cut}: a run that counted does no more"
        );
    };
    ends.iter().for_each(|end| check(*end, b""));
    let cuts = (first..bytes.len(), prop_oneof![Just(0usize), 1..40usize]);
    let done = runner.run(&cuts, |(cut, zeros)| {
        check(cut, &vec![0; zeros]);
        Ok(())
    });
    done.unwrap();
    drop(folder);
}

#[test]
fn a_bad_journal_line_is_reported_with_its_number() {
    let (_folder, plan, bytes) = whole_journal();
    let path = ExperimentFolder::new(&plan.folder).journal();
    let text = String::from_utf8(bytes).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines[3] = "{\"entry\":\"unheard of\"}";
    fs::write(&path, lines.join("\n")).unwrap();
    let error = journal::read(&path).unwrap_err().to_string();
    assert!(
        error.contains("journal.jsonl:4: this is no line of a journal"),
        "{error}"
    );
}
