use super::*;
use crate::{
    journal::{Attempt, RunAttempt},
    outcome::Ending,
    schedule::schedule,
};
use std::path::Path;

fn plan() -> Plan {
    let text = "name = \"p\"\nfolder = \"state\"\nreplicates = 4\n[begin]\nhow = \"as-is\"\n[workload]\ncommand = [\"v\"]\n\
                ledger = \"l\"\n[stop]\nduration = \"1h\"\n[host]\ncool_down = \"0s\"\n[[arm]]\nname = \"a\"\n";
    crate::plan::parse(text, Path::new("/x/plan.toml")).unwrap()
}

/// Two host blocks, each with a turn that began at 1000 s.
fn two_running_turns(plan: &Plan) -> JournalState {
    let turns = schedule(plan);
    let attempt = || Attempt {
        number: 1,
        unix_ns: 1_000_000_000_000,
        ..Attempt::default()
    };
    let running = turns.iter().skip(1).take(2);
    JournalState {
        attempts: running.map(|turn| (turn.number, vec![attempt()])).collect(),
        turns,
        running_host_blocks: 2,
        ..JournalState::default()
    }
}

#[test]
fn every_running_turn_counts_for_progress_and_remaining_time() {
    let plan = plan();
    let journal_state = two_running_turns(&plan);
    let status = |now| {
        let folder = ExperimentFolder::new(&plan.folder);
        let now = Duration::from_secs(now);
        Status::of(&plan, &journal_state, &folder, Holder::Process(None), now)
    };
    // Four turns of an hour each.
    let half = status(1000 + 1800);
    assert_eq!((half.percent, half.seconds_left), (25.0, Some(5400)));
    // A turn that takes longer does not shorten the others.
    let overdue = status(1000 + 7200);
    assert_eq!(overdue.seconds_left, Some(3600));
}

#[test]
fn the_length_of_a_turn_is_estimated_from_the_turns_of_its_arm() {
    let mut plan = plan();
    plan.arms.push(crate::plan::Arm {
        name: "b".to_owned(),
        ..plan.arms[0].clone()
    });
    // A B B A A B B A; the first run of A was OOM-killed after 4 s.
    let turns = schedule(&plan);
    let ended = RunAttempt {
        ended: Some((Ending::new(Outcome::OutOfMemory), 4_000_000_000)),
        ..RunAttempt::default()
    };
    let first = Attempt {
        number: 1,
        runs: [(1, ended)].into(),
        ..Attempt::default()
    };
    let journal_state = JournalState {
        attempts: [(1, vec![first])].into(),
        turns,
        ..JournalState::default()
    };
    let folder = ExperimentFolder::new(&plan.folder);
    let now = Duration::from_secs(4);
    let status = Status::of(&plan, &journal_state, &folder, Holder::Process(None), now);
    assert_eq!(status.seconds_left, Some(3 * 4 + 4 * 3600));
}
