use super::*;
use std::collections::BTreeMap;

mod cache;
mod gaps;

fn stop() -> StopRules {
    StopRules {
        duration: Duration::from_secs(60),
        counted_from: crate::plan::CountedFrom::Start,
        first_transaction_within: None,
        no_progress_for: None,
        at_tip_within: None,
        grace: Duration::from_secs(5),
    }
}

fn cgroup_state(end: Option<End>, oom_kills: u64) -> CgroupState {
    CgroupState {
        end,
        memory_events: BTreeMap::from([("oom_kill".to_owned(), oom_kills)]),
        ..CgroupState::default()
    }
}

fn of(
    kind: WorkloadKind,
    why: Option<Outcome>,
    before: CgroupState,
    after: CgroupState,
) -> Outcome {
    outcome(
        kind,
        &stop(),
        &EndFacts {
            stop_reason: why,
            state_at_stop: before,
            final_state: after,
            has_survivors: false,
        },
    )
    .0
}

#[test]
fn an_oom_kill_is_the_outcome_regardless_of_the_exit_status() {
    for end in [
        Some(End::Signal(9)),
        Some(End::Code(137)),
        Some(End::Code(0)),
        Some(End::Signal(15)),
    ] {
        assert_eq!(
            of(
                WorkloadKind::Validator,
                None,
                CgroupState::default(),
                cgroup_state(end, 1)
            ),
            Outcome::OutOfMemory
        );
    }
    let result = Some("oom-kill".to_owned());
    let after = CgroupState {
        result,
        ..cgroup_state(Some(End::Signal(9)), 0)
    };
    assert_eq!(
        of(WorkloadKind::Validator, None, CgroupState::default(), after),
        Outcome::OutOfMemory
    );
}

#[test]
fn an_oom_kill_after_the_stop_decision_is_only_a_note() {
    let after = cgroup_state(Some(End::Signal(9)), 1);
    let facts = EndFacts {
        stop_reason: Some(Outcome::Completed),
        state_at_stop: cgroup_state(None, 0),
        final_state: after,
        has_survivors: false,
    };
    let (outcome, notes) = outcome(WorkloadKind::Validator, &stop(), &facts);
    assert_eq!((outcome, notes.len()), (Outcome::Completed, 1));
    let late = of(
        WorkloadKind::Validator,
        Some(Outcome::Completed),
        cgroup_state(None, 1),
        cgroup_state(Some(End::Signal(15)), 1),
    );
    assert_eq!(late, Outcome::OutOfMemory);
}

#[test]
fn self_initiated_exits_are_distinguished_from_stopped_ones() {
    let alone = |kind, end| of(kind, None, CgroupState::default(), cgroup_state(end, 0));
    assert_eq!(
        alone(WorkloadKind::Validator, Some(End::Code(0))),
        Outcome::Exited { code: 0 }
    );
    assert_eq!(
        alone(WorkloadKind::Replay, Some(End::Code(0))),
        Outcome::Completed
    );
    assert_eq!(
        alone(WorkloadKind::Replay, Some(End::Code(1))),
        Outcome::Exited { code: 1 }
    );
    assert_eq!(
        alone(WorkloadKind::Validator, Some(End::Signal(15))),
        Outcome::Killed { signal: 15 }
    );
    assert!(!alone(WorkloadKind::Validator, None).is_result());
    let ours = |kind, why| {
        of(
            kind,
            Some(why),
            cgroup_state(None, 0),
            cgroup_state(Some(End::Signal(15)), 0),
        )
    };
    assert_eq!(
        ours(WorkloadKind::Validator, Outcome::Completed),
        Outcome::Completed
    );
    assert_eq!(
        ours(WorkloadKind::Validator, Outcome::NoProgress),
        Outcome::NoProgress
    );
    assert!(!ours(WorkloadKind::Replay, Outcome::Completed).is_result());
}

#[test]
fn a_process_ended_by_systemd_is_not_a_result() {
    let after = CgroupState {
        result: Some("timeout".to_owned()),
        ..cgroup_state(Some(End::Signal(15)), 0)
    };
    assert!(!of(WorkloadKind::Validator, None, CgroupState::default(), after).is_result());
}

#[test]
fn a_shell_exit_code_above_128_is_explained_as_a_signal() {
    let exited = |code| {
        let facts = EndFacts {
            final_state: cgroup_state(Some(End::Code(code)), 0),
            ..EndFacts::default()
        };
        let (outcome, notes) = outcome(WorkloadKind::Validator, &stop(), &facts);
        assert_eq!(outcome, Outcome::Exited { code });
        notes.join("; ")
    };
    assert!(exited(139).contains("signal 11"));
    assert!(exited(192).contains("signal 64"));
    for code in [1, 128, 193, 255] {
        assert_eq!(exited(code), "", "{code}");
    }
}

#[test]
fn a_script_exiting_before_its_validator_gives_no_valid_outcome() {
    let left = |kind, code| {
        let after = cgroup_state(Some(End::Code(code)), 0);
        outcome(
            kind,
            &stop(),
            &EndFacts {
                final_state: after,
                has_survivors: true,
                ..EndFacts::default()
            },
        )
    };
    assert!(
        matches!(left(WorkloadKind::Validator, 0), (Outcome::Failed { why }, _) if why.contains("exec"))
    );
    assert!(
        matches!(left(WorkloadKind::Validator, 3), (Outcome::Exited { code: 3 }, notes) if notes.len() == 1)
    );
    assert!(
        matches!(left(WorkloadKind::Replay, 0), (Outcome::Completed, notes) if notes.len() == 1)
    );
}
